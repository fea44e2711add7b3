"""The page for people and its sample photos, from the files beside this one."""

from html import escape
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from meantime.images import EXTENSIONS
from meantime.serve.errors import ApiError
from meantime.serve.openapi import refusals
from meantime.serve.schemas import Samples
from meantime.serve.service import Service

FRESH = {"Cache-Control": "no-cache"}  # ask whether it has changed


def router(service: Service) -> APIRouter:
    """Return the page, its files and the list of samples."""
    api = APIRouter()
    static = service.settings.static
    photos = static / "samples"

    @api.head("/", include_in_schema=False)
    @api.get("/", include_in_schema=False)
    async def page() -> Response:
        if (static / "index.html").is_file():
            return FileResponse(static / "index.html", headers=FRESH)
        text = f"Meantime serves {service.model}. Its API is described at /openapi.json; it has no page here."
        return HTMLResponse(f"<!doctype html><title>Meantime</title><p>{escape(text)}</p>")

    @api.get(
        "/v1/samples",
        responses={200: {"model": Samples}, **refusals(401)},
        summary="Photos to try",
        operation_id="samples",
    )
    async def samples() -> JSONResponse:
        found = [{"name": path.stem, "url": f"/samples/{path.name}"} for path in _photos(photos)]
        return JSONResponse({"samples": found})

    @api.get("/samples/{name}", include_in_schema=False)
    async def sample(name: str) -> Response:
        # Looked up among those there are: a name never becomes a path
        for path in _photos(photos):
            if path.name == name:
                return FileResponse(path)
        raise ApiError(404, "there is no such sample")

    return api


def _photos(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix in EXTENSIONS) if folder.is_dir() else []


def files(service: Service) -> StaticFiles | None:
    """Return the page's files, if there are any."""
    static = service.settings.static
    return StaticFiles(directory=static) if static.is_dir() else None

"""The service as an ASGI application."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

import meantime
from meantime.encoders import Encoder, load_encoder
from meantime.serve import api_about, api_classes, api_classify, api_embed, api_mta, errors, openapi, pages
from meantime.serve.security import Guard
from meantime.serve.service import Service
from meantime.serve.settings import Settings


def create_app(settings: Settings | None = None, encoder: Encoder | None = None) -> FastAPI:
    """Return the application; the encoder is the one that the settings name, unless it is given."""
    settings = settings or Settings()
    if encoder is None:
        encoder = load_encoder(settings.model, device=settings.device, precision=settings.precision)
    service = Service(encoder, settings)

    async def warm_up() -> None:
        try:
            await service.warm_up()
        except Exception:
            errors.log.exception("the model cannot be loaded")
            app.state.broken = True

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.ensure_future(warm_up())
        try:
            yield
        finally:
            warming.cancel()
            await asyncio.to_thread(service.close)

    app = FastAPI(
        title="Meantime",
        version=meantime.__version__,
        summary="Zero-shot image classification that is better than plain CLIP, with no training.",
        lifespan=lifespan,
        docs_url=None,  # these pages would load from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    app.state.broken = False  # whether loading the model has failed
    for part in (api_classify, api_mta, api_classes, api_embed, api_about, pages):
        app.include_router(part.router(service))
    if (files := pages.files(service)) is not None:
        app.mount("/static", files)
    errors.install(app)
    openapi.describe(app)
    app.add_middleware(Guard, token=settings.token, metrics=service.metrics)
    if (
        settings.origins
    ):  # outside the guard: a page must be able to read refusals too, and asks leave without the token
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["Retry-After"],
        )
    return app

"""`POST /v1/classes`: class embeddings that are sent once, for many requests to `/v1/mta`."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from meantime.errors import MeantimeError
from meantime.meanshift import TextHead
from meantime.serve.arrays import unpack
from meantime.serve.body import read_json
from meantime.serve.errors import invalid
from meantime.serve.kept import Classes, Kept
from meantime.serve.limits import check_names, check_range
from meantime.serve.openapi import json_body, refusals
from meantime.serve.schemas import ClassesAnswer, ClassesRequest
from meantime.serve.service import Service, unless_gone
from meantime.serve.settings import Settings


def router(service: Service) -> APIRouter:
    """Return the endpoint."""
    api = APIRouter()

    @api.post(
        "/v1/classes",
        summary="Keep class embeddings for a while",
        operation_id="classes",
        responses={200: {"model": ClassesAnswer}, **refusals(400, 401, 408, 413, 415, 422, 503)},
        openapi_extra={"requestBody": json_body(ClassesRequest)},
    )
    async def keep(request: Request) -> JSONResponse:
        with service.gate.enter() as ticket:
            asked = await read_json(request, ticket, service, ClassesRequest)
            work = service.light(_keep, asked, service.settings, service.kept)
            return JSONResponse(await unless_gone(request, work))

    return api


def _keep(asked: ClassesRequest, settings: Settings, kept: Kept) -> dict[str, Any]:
    rows = unpack(asked.classes, "classes", "(K, d)")
    check_range("the number of classes", len(rows), 1, settings.max_classes)
    check_range("the dimension", rows.shape[1], 1, settings.max_dim)
    names = None if asked.names is None else check_names(asked.names, len(rows), settings)
    try:
        unit = TextHead(rows).classes
    except MeantimeError as error:
        raise invalid(str(error)) from None
    return {"id": kept.keep(Classes(unit, names)), "classes": len(rows), "dim": rows.shape[1]}

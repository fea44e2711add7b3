"""`POST /v1/mta`: embeddings from anywhere in, the mode out; no model of ours is asked."""

from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from meantime.errors import MeantimeError
from meantime.meanshift import mta
from meantime.serve.arrays import pack, unpack
from meantime.serve.body import media_type, parse_json, whole
from meantime.serve.errors import ApiError, invalid
from meantime.serve.limits import check_range
from meantime.serve.openapi import json_body, refusals
from meantime.serve.schemas import MtaAnswer, MtaRequest
from meantime.serve.service import Service, unless_gone
from meantime.serve.settings import Settings
from meantime.serve.writing import to_json


def router(service: Service) -> APIRouter:
    """Return the endpoint."""
    api = APIRouter()

    @api.post(
        "/v1/mta",
        summary="The mode of view embeddings",
        operation_id="mta",
        responses={200: {"model": MtaAnswer}, **refusals(400, 401, 408, 413, 415, 422, 503)},
        openapi_extra={"requestBody": json_body(MtaRequest)},
    )
    async def solve(request: Request) -> Response:
        if media_type(request) != "application/json":
            raise ApiError(415, "send the request as application/json")
        with service.gate.enter() as ticket:
            data = await whole(request, ticket, service.settings)
            # Parsed, solved and written in one turn of a thread: the turns cost more than the work.
            answer = await unless_gone(request, service.light(_answer, data, service.settings))
        return Response(answer, media_type="application/json")

    return api


def _answer(data: bytes, settings: Settings) -> bytes:
    asked = parse_json(data, MtaRequest)
    views, classes = unpack(asked.views, "views"), unpack(asked.classes, "classes")
    check_range("the number of views", len(views), 1, settings.max_views)
    check_range("the number of classes", len(classes), 1, settings.max_classes)
    check_range("the dimension", views.shape[1], 1, settings.max_dim)
    try:
        r = mta(
            views,
            classes,
            logit_scale=asked.logit_scale,
            lambda_=asked.lambda_,
            lambda_y=asked.lambda_y,
            rho=asked.rho,
            variant=asked.variant,
        )
    except MeantimeError as error:
        raise invalid(str(error)) from None
    arrays = {"probabilities": r.probabilities, "inlierness": r.inlierness, "mode": r.mode}
    answer: dict[str, Any] = {name: pack(x, asked.encoding_format) for name, x in arrays.items()}
    answer |= {"label": int(r.labels), "n_iter": int(r.n_iter), "converged": bool(np.asarray(r.converged))}
    return to_json(answer)

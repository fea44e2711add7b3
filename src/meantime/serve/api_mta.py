"""`POST /v1/mta`: embeddings from anywhere in, of one image or of many, the mode out; no model of ours is asked."""

from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from meantime.errors import MeantimeError
from meantime.meanshift import mta
from meantime.meanshift.threads import on_one_core
from meantime.serve.arrays import Floats, pack, unpack
from meantime.serve.body import media_type, parse_json, whole
from meantime.serve.errors import ApiError, invalid
from meantime.serve.kept import Classes, Kept
from meantime.serve.limits import check_batch, check_names
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
        responses={200: {"model": MtaAnswer}, **refusals(400, 401, 404, 408, 413, 415, 422, 503)},
        openapi_extra={"requestBody": json_body(MtaRequest)},
    )
    async def solve(request: Request) -> Response:
        if media_type(request) != "application/json":
            raise ApiError(415, "send the request as application/json")
        with service.gate.enter() as ticket:
            data = await whole(request, ticket, service.settings)
            # Parsed, solved and written in one turn of a thread: the turns cost more than the work.
            answer = await unless_gone(request, service.light(_answer, data, service.settings, service.kept))
        return Response(answer, media_type="application/json")

    return api


def _answer(data: bytes, settings: Settings, kept: Kept) -> bytes:
    asked = parse_json(data, MtaRequest)
    views, classes = unpack(asked.views, "views", "(N, d) or (B, N, d)", axes=(2, 3)), _classes(asked, settings, kept)
    check_batch(views.shape, len(classes.rows), settings)
    try:
        with on_one_core():  # an encoder, and other requests, have work for the rest
            r = mta(
                views,
                classes.rows,
                logit_scale=asked.logit_scale,
                lambda_=asked.lambda_,
                lambda_y=asked.lambda_y,
                rho=asked.rho,
                variant=asked.variant,
                affinity=asked.affinity,
            )
    except MeantimeError as error:
        raise invalid(str(error)) from None
    arrays = {"probabilities": r.probabilities, "inlierness": r.inlierness, "mode": r.mode}
    answer: dict[str, Any] = {name: pack(x, asked.encoding_format) for name, x in arrays.items()}
    numbers = {"label": r.labels, "n_iter": r.n_iter, "converged": r.converged}
    answer |= {name: np.asarray(x).tolist() for name, x in numbers.items()}
    if classes.names is not None:
        answer["scores"] = _scores(np.asarray(arrays["probabilities"]), classes.names, asked.top)
    return to_json(answer)


def _classes(asked: MtaRequest, settings: Settings, kept: Kept) -> Classes:
    """Return the classes that were sent or, by their id, kept; names that are sent with either count."""
    if isinstance(asked.classes, str):
        classes = kept.find(asked.classes)
    else:
        classes = Classes(unpack(asked.classes, "classes", "(K, d)"), None)
    if asked.names is None:
        return classes
    return Classes(classes.rows, check_names(asked.names, len(classes.rows), settings))


def _scores(probabilities: Floats, names: tuple[str, ...], top: int) -> list[Any]:
    """Return the best names of an image, best first, or of each of several."""
    if probabilities.ndim > 1:
        return [_scores(row, names, top) for row in probabilities]
    order = np.argsort(-probabilities, kind="stable")[:top]
    return [{"label": names[i], "score": float(probabilities[i])} for i in order]

"""`POST /v1/classify`: an image and names in, the best names out."""

import time
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from meantime.answers import Answer, answers
from meantime.anytime import groups
from meantime.pipeline import Flight
from meantime.prediction import Floats
from meantime.serve.body import read_classify
from meantime.serve.detail import details
from meantime.serve.errors import invalid
from meantime.serve.limits import check_range, decode_image
from meantime.serve.openapi import CLASSIFY_BODY, OPTION_PARAMETERS, refusals
from meantime.serve.schemas import ClassifyAnswer, Options
from meantime.serve.service import Service, unless_gone
from meantime.serve.texts import served_methods
from meantime.views import ViewSpec

AUTO = 64  # views at most, where as many are taken as an image needs


def router(service: Service) -> APIRouter:
    """Return the endpoint."""
    api = APIRouter()

    @api.post(
        "/v1/classify",
        summary="Classify an image by names",
        operation_id="classify",
        responses={200: {"model": ClassifyAnswer}, **refusals(400, 401, 408, 413, 415, 422, 503)},
        openapi_extra={"requestBody": CLASSIFY_BODY, "parameters": OPTION_PARAMETERS},
    )
    async def classify(request: Request) -> JSONResponse:
        started = time.perf_counter()
        with service.gate.enter() as ticket:
            image, options = await read_classify(request, ticket, service)
            answer = await unless_gone(request, _classify(service, image, options))
        answer["milliseconds"] = round(1e3 * (time.perf_counter() - started), 1)
        return JSONResponse(answer)

    return api


async def _classify(service: Service, image: bytes, options: Options) -> dict[str, Any]:
    method = served_methods().get(options.method)
    if method is None:
        raise invalid(f"there is no method of that name here; there are {', '.join(served_methods())}")
    names = service.texts.names(options.labels)
    most = min(AUTO, service.settings.max_views) if options.views == "auto" else options.views
    check_range("views", most, 1, service.settings.max_views)
    most = 1 if method.first_only else most
    heads = await service.texts.heads(names, method, options.template)
    load = partial(decode_image, settings=service.settings)
    flight = Flight(image, service.encoder, ViewSpec(n=most), options.seed, load)
    for stop in groups(most) if options.views == "auto" else (most,):
        await _encode(service, flight, stop)
        x = flight.embeddings
        (answer,) = await service.light(answers, x[None], method, heads)
        if answer.enough:
            break
    shown = _shown(answer, names, options.top)
    if options.detail:
        places = flight.places
        shown |= await service.light(details, x, method, heads, answer)
        shown |= {"boxes": places.boxes.tolist(), "flips": places.flips.tolist(), "size": list(flight.size)}
    return shown | {"method": options.method, "views": flight.n, "seed": options.seed, "model": service.model}


async def _encode(service: Service, flight: Flight, stop: int) -> None:
    """Take an image from the views that it has to the first ``stop``."""
    async with service.room(stop - flight.n):
        views = await service.crop(flight.crop, stop)
        flight.add(await service.encode.images(views.pixels), views.places)


def _shown(answer: Answer, names: tuple[str, ...], top: int) -> dict[str, Any]:
    scores, plain = _best(answer.probabilities, names, top), _best(answer.plain, names, top)
    return scores[0] | {"scores": scores, "plain": plain[0] | {"scores": plain}, "settled": answer.settled}


def _best(probabilities: Floats, names: tuple[str, ...], top: int) -> list[dict[str, Any]]:
    order = np.argsort(-probabilities, kind="stable")[:top]
    return [{"label": names[i], "score": float(probabilities[i])} for i in order]

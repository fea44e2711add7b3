"""`POST /v1/classify`: an image and names in, the best names out."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from meantime.anytime import LEVEL, groups, settled
from meantime.encoders.base import Floats, Pixels
from meantime.growing import KEPT
from meantime.heads import Head
from meantime.meanshift import softmax
from meantime.registry import Method
from meantime.serve.body import read_classify
from meantime.serve.detail import details
from meantime.serve.errors import invalid
from meantime.serve.limits import check_range, decode_image
from meantime.serve.openapi import CLASSIFY_BODY, OPTION_PARAMETERS, refusals
from meantime.serve.schemas import ClassifyAnswer, Options
from meantime.serve.service import Service, unless_gone
from meantime.serve.texts import served_methods
from meantime.views import Views, ViewSpec, make_views

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
    heads = await service.texts.heads(names, method, options.template)
    photo = Photo(image, service, ViewSpec(n=most), options.seed)
    for stop in groups(most) if options.views == "auto" else (most,):
        x = await photo.embeddings(stop)
        answer = await service.light(_solve, x, method, heads, names, options)
        if answer["settled"] >= LEVEL:
            break
    if options.detail:
        answer |= photo.places()
    return answer | {"method": options.method, "views": len(x), "seed": options.seed, "model": service.model}


class Photo:
    """An image on its way: its views, cropped and encoded as far as they are asked for."""

    def __init__(self, data: bytes, service: Service, spec: ViewSpec, seed: int) -> None:
        self.data = data
        self.service = service
        self.spec = spec
        self.seed = seed
        self.size = (0, 0)
        self._pixels: Pixels | None = None
        self._parts: list[tuple[Floats, Views]] = []

    async def embeddings(self, stop: int) -> Floats:
        """Return the first views as embeddings (stop, d), unit length."""
        start = sum(len(views.boxes) for _, views in self._parts)
        async with self.service.room(stop - start):
            views = await self.service.heavy(self._crop, start, stop)
            x = await self.service.batcher.images(views.pixels)
        x = x / np.linalg.norm(x, axis=-1, keepdims=True)
        self._parts.append((x, replace(views, pixels=views.pixels[:0])))  # the pixels' room is given back
        return np.concatenate([x for x, _ in self._parts])

    def _crop(self, start: int, stop: int) -> Views:
        pixels = decode_image(self.data, self.service.settings) if self._pixels is None else self._pixels
        self.size = (pixels.shape[1], pixels.shape[0])
        # A large one is decoded again for its next group: many of them must not wait in memory.
        self._pixels = pixels if pixels.nbytes <= KEPT and stop < self.spec.n else None
        return make_views(pixels, self.spec, self.service.encoder.preprocess, self.seed, start=start, stop=stop)

    def places(self) -> dict[str, Any]:
        """Return where the views lie."""
        return {
            "boxes": np.concatenate([views.boxes for _, views in self._parts]).tolist(),
            "flips": np.concatenate([views.flips for _, views in self._parts]).tolist(),
            "size": list(self.size),
        }


def _solve(
    x: Floats, method: Method, heads: Mapping[Any, Head], names: tuple[str, ...], options: Options
) -> dict[str, Any]:
    """Return the answer for unit views (N, d)."""
    aggregate = method(x[None], heads)
    scores = _best(softmax(aggregate.logits)[0], names, options.top)
    plain = _best(softmax(heads["text"](x[:1]))[0], names, options.top)
    sure = settled(np.asarray(aggregate.logits), np.asarray(heads[method.reader](x[None])))
    answer: dict[str, Any] = scores[0] | {
        "scores": scores,
        "plain": plain[0] | {"scores": plain},
        "settled": float(sure[0]),
    }
    return answer | details(x, method, heads, aggregate) if options.detail else answer


def _best(probabilities: Floats, names: tuple[str, ...], top: int) -> list[dict[str, Any]]:
    order = np.argsort(-probabilities, kind="stable")[:top]
    return [{"label": names[i], "score": float(probabilities[i])} for i in order]

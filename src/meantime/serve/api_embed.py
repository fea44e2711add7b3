"""`POST /v1/embed`, also `/v1/embeddings`: texts and images in, embeddings out, as embedding APIs commonly have it."""

from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from meantime.encoders.base import Floats, Pixels
from meantime.serve.arrays import base64_floats
from meantime.serve.body import read_json
from meantime.serve.errors import ApiError, invalid
from meantime.serve.limits import check_text, decode_base64, decode_image
from meantime.serve.openapi import json_body, refusals
from meantime.serve.schemas import EmbedAnswer, EmbedRequest
from meantime.serve.service import Service, unless_gone
from meantime.serve.writing import to_json
from meantime.views import ViewSpec, make_views


def router(service: Service) -> APIRouter:
    """Return the endpoint."""
    api = APIRouter()

    about: dict[str, Any] = {
        "summary": "Embeddings of texts and images",
        "responses": {200: {"model": EmbedAnswer}, **refusals(400, 401, 404, 408, 413, 415, 422, 503)},
        "openapi_extra": {"requestBody": json_body(EmbedRequest)},
    }

    @api.post("/v1/embed", operation_id="embed", **about)
    @api.post("/v1/embeddings", operation_id="embeddings", **about)  # where common clients look for it
    async def embed(request: Request) -> Response:
        with service.gate.enter() as ticket:
            asked = await read_json(request, ticket, service, EmbedRequest)
            if asked.model not in (None, service.model):
                raise ApiError(404, f"there is no model of that name here; {service.model} is served")
            if asked.dimensions not in (None, service.encoder.dim):
                raise invalid(
                    f"dimensions is {asked.dimensions}; embeddings of {service.model} have {service.encoder.dim}"
                )
            rows = await unless_gone(request, _embed(service, asked))
        return Response(
            await service.light(_write, rows, service.model, asked.encoding_format), media_type="application/json"
        )

    return api


async def _embed(service: Service, asked: EmbedRequest) -> Floats:
    settings = service.settings
    inputs = asked.input if isinstance(asked.input, list) else [asked.input]
    if len(inputs) > settings.max_inputs:
        raise invalid(f"there are {len(inputs)} inputs; at most {settings.max_inputs} are taken: send several requests")
    texts = [check_text(item, "a text", settings.max_text_length) for item in inputs if isinstance(item, str)]
    images = [item.image for item in inputs if not isinstance(item, str)]
    rows = np.empty((len(inputs), service.encoder.dim), np.float32)
    is_text = np.array([isinstance(item, str) for item in inputs])
    if texts:
        rows[is_text] = await service.texts.embed(texts)
    if images:
        async with service.room(len(images)):
            pixels = await service.crop(_look, images, service)
            rows[~is_text] = await service.encode.images(pixels)
    return rows


def _look(images: list[str], service: Service) -> Pixels:
    """Return view 0 of each image; one of exactly the encoder's size is a crop already, and taken as it is."""
    preprocess = service.encoder.preprocess
    pixels = np.empty((len(images), preprocess.size, preprocess.size, 3), np.uint8)
    for i, text in enumerate(images):
        image = decode_image(decode_base64(text, "image"), service.settings)
        as_it_is = image.shape[:2] == (preprocess.size, preprocess.size)
        pixels[i] = image if as_it_is else make_views(image, ViewSpec(n=1), preprocess).pixels[0]
    return pixels


def _write(rows: Floats, model: str, encoding: str) -> bytes:
    values = rows.tolist() if encoding == "float" else [base64_floats(row) for row in rows]
    data = [{"object": "embedding", "index": i, "embedding": value} for i, value in enumerate(values)]
    return to_json({"object": "list", "data": data, "model": model, "usage": {"prompt_tokens": 0, "total_tokens": 0}})

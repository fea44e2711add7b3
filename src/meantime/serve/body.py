"""Bodies: read piece by piece within their limit and time, then parsed."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from meantime.serve.errors import ApiError, first_problem, invalid
from meantime.serve.gate import Ticket
from meantime.serve.limits import decode_base64
from meantime.serve.schemas import ClassifyRequest, Options
from meantime.serve.service import Service
from meantime.serve.settings import MIB, Settings

logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns of every broken form; the client is told
M = TypeVar("M", bound=BaseModel)
FIELDS = 1100  # of a form: a thousand labels one by one, and the options


async def stream(request: Request, ticket: Ticket, settings: Settings) -> AsyncGenerator[bytes, None]:
    """Yield the body as it comes; raise once it is too large or too slow."""
    too_large = ApiError(413, f"the body is larger than the {settings.max_body / MIB:g} MiB that are taken")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > settings.max_body:
        raise too_large
    total = 0
    end = asyncio.get_running_loop().time() + settings.body_seconds
    pieces = request.stream()
    while True:
        try:
            async with asyncio.timeout_at(end):
                piece = await anext(pieces, None)
        except TimeoutError:
            sentence = f"the body did not arrive within {settings.body_seconds:g} seconds"
            raise ApiError(408, sentence, {"Connection": "close"}) from None
        if piece is None:
            return
        total += len(piece)
        if total > settings.max_body:
            raise too_large
        ticket.hold(len(piece))
        yield piece


async def whole(request: Request, ticket: Ticket, settings: Settings) -> bytes:
    """Return the body."""
    return b"".join([piece async for piece in stream(request, ticket, settings)])


async def read_json(request: Request, ticket: Ticket, service: Service, model: type[M]) -> M:
    """Return a JSON body as a model of ours."""
    if media_type(request) != "application/json":
        raise ApiError(415, "send the request as application/json")
    data = await whole(request, ticket, service.settings)
    return await service.light(parse_json, data, model)


def parse_json(data: bytes, model: type[M]) -> M:
    """Return a model from JSON; what is not JSON, or nested too deeply, is malformed, the rest invalid."""
    try:
        return model.model_validate_json(data, strict=True)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False, include_context=False)[0]["type"] == "json_invalid":
            raise ApiError(400, f"the body is not JSON that can be read: {first_problem(error)}") from None
        raise invalid(first_problem(error)) from None


def media_type(request: Request) -> str:
    """Return the media type of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_classify(request: Request, ticket: Ticket, service: Service) -> tuple[bytes, Options]:
    """Return the image and what is asked of it, from any of the three forms."""
    settings = service.settings
    kind = media_type(request)
    in_address = from_texts(gather(request.query_params.multi_items()))
    if kind == "application/json":
        asked = await read_json(request, ticket, service, ClassifyRequest)
        image = await service.light(decode_base64, asked.image, "image")
        return image, _over(in_address, asked)
    if kind == "multipart/form-data":
        image, fields = await _read_form(request, ticket, settings)
        return image, _over(in_address, from_texts(fields))
    if kind.startswith("image/") or kind == "application/octet-stream":
        return await whole(request, ticket, settings), in_address
    raise ApiError(415, "send an image as multipart/form-data, as base64 in application/json, or by itself as image/*")


def _over(below: Options, above: Options) -> Options:
    """Return the options of the body, and those of the address that the body leaves open."""
    values = {name: getattr(above, name) for name in above.model_fields_set if name in Options.model_fields}
    return below.model_copy(update=values)


def gather(items: list[tuple[str, str]]) -> dict[str, Any]:
    """Return named texts as options: labels several times, as a JSON list, or a text as it is."""
    fields: dict[str, Any] = {name: text for name, text in items if name != "labels"}
    labels = [text for name, text in items if name == "labels"]
    if len(labels) > 1:
        fields["labels"] = labels
    elif labels:
        (text,) = labels
        if text.lstrip().startswith("["):
            try:
                fields["labels"] = json.loads(text)
            except (ValueError, RecursionError):
                raise invalid("labels begins like a JSON list but is none") from None
        else:
            fields["labels"] = text
    return fields


def from_texts(fields: dict[str, Any]) -> Options:
    """Return options whose values came as texts, where "64" is a number and "true" a truth."""
    try:
        return Options.model_validate(fields)
    except ValidationError as error:
        raise invalid(first_problem(error)) from None


class _InMemory(MultiPartParser):
    spool_max_size = 2**62  # the body's own limit holds; nothing is written to disk


async def _read_form(request: Request, ticket: Ticket, settings: Settings) -> tuple[bytes, dict[str, Any]]:
    pieces = stream(request, ticket, settings)
    size = (settings.max_label_length + 4) * settings.max_labels
    parser = _InMemory(request.headers, pieces, max_files=1, max_fields=FIELDS, max_part_size=size)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise ApiError(400, f"the multipart body cannot be read: {error.message}") from None
    except (FormParserError, KeyError, ValueError, AttributeError):  # of bytes that are no form at all
        raise ApiError(400, "the multipart body cannot be read: it is malformed") from None
    image: bytes | None = None
    texts: list[tuple[str, str]] = []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if name != "image":
                raise invalid("the file of the form must be named image")
            image = await value.read()
        elif name == "image":
            raise invalid("image must be a file of the form: give it a filename")
        else:
            texts.append((name, value))
    await form.close()
    if image is None:
        raise invalid("the form has no file named image")
    return image, gather(texts)

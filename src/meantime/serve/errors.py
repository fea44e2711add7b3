"""Refusals: a status and one sentence, in one shape; nothing of the server's inside ever leaves it."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

log = logging.getLogger("meantime.serve")

TYPES = {
    400: "malformed_request",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
    500: "internal_error",
    503: "overloaded",
}


class ApiError(Exception):
    """A refusal that the client reads."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})


def invalid(message: str) -> ApiError:
    """Return the refusal of something that is well formed but cannot be used."""
    return ApiError(422, message)


def overloaded(seconds: int) -> ApiError:
    """Return the refusal of a full queue, with the time after which to ask again."""
    sentence = f"the service is busy; ask again in {seconds} second{'s' if seconds > 1 else ''}"
    return ApiError(503, sentence, {"Retry-After": str(seconds)})


def body(status: int, message: str) -> dict[str, Any]:
    """Return the shape of every refusal."""
    return {"error": {"type": TYPES.get(status, "error"), "message": message}}


def answer(error: ApiError) -> JSONResponse:
    """Return a refusal as an answer."""
    return JSONResponse(body(error.status, error.message), error.status, error.headers)


def first_problem(error: ValidationError) -> str:
    """Return where and what the first of pydantic's problems is, without repeating what was sent."""
    problems = error.errors(include_url=False)
    # Of a field that may have several forms, the form that fits furthest is the one that was meant.
    same = [p for p in problems if p["loc"][:1] == problems[0]["loc"][:1]]
    problem = max(same, key=lambda p: len(p["loc"]))
    place = ".".join(str(part) for part in problem["loc"] if not _is_form(part))
    nested = problem["type"] == "float_type" and isinstance(problem["input"], list)
    what = "a list stands where a number should: an axis too many" if nested else problem["msg"]
    return f"{place[:100]}: {what}" if place else what


def _is_form(part: int | str) -> bool:
    return isinstance(part, str) and (part in ("str", "constrained-int", "Packed", "ImageInput") or "[" in part)


def install(app: FastAPI) -> None:
    """Make every refusal, also of unknown addresses, an answer of this shape; failures of our own are the guard's."""

    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ApiError)
        return answer(error)

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        sentence = {404: "there is nothing at this address", 405: "this address does not take this method"}.get(
            error.status_code, HTTPStatus(error.status_code).phrase.lower()
        )
        return answer(ApiError(error.status_code, sentence, error.headers))

    async def gone(_: Request, __: Exception) -> JSONResponse:
        return answer(ApiError(400, "the client closed the connection"))

    app.add_exception_handler(ApiError, refused)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(ClientDisconnect, gone)

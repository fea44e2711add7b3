"""`meantime serve`: the HTTP API and the page."""

import math
import os
from typing import Annotated

import typer

from meantime.cli import options as o
from meantime.errors import MeantimeError
from meantime.extras import optional

LOG_LEVELS = ("debug", "info", "warning", "error")


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is every one")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is any that is free")] = 8000,
    model: o.ModelOption = "embedded",
    device: o.DeviceOption = "auto",
    precision: o.PrecisionOption = "fp32",
    token_env: Annotated[
        str | None, typer.Option(help="Environment variable with the token that clients must send")
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="Another site whose pages may ask, as https://example.org; repeatable")
    ] = None,
    threads: o.ThreadsOption = None,
    queue: Annotated[
        int, typer.Option(min=1, help="Requests in work and waiting, before others are told to wait")
    ] = 128,
    max_body: Annotated[float, typer.Option(help="MiB of one request")] = 16,
    max_pixels: Annotated[int, typer.Option(min=1, help="Pixels of one image")] = 40_000_000,
    max_views: Annotated[int, typer.Option(min=1, help="Views of one image")] = 256,
    max_labels: Annotated[int, typer.Option(min=1, help="Labels of one request")] = 1000,
    max_prompts: Annotated[int, typer.Option(min=1, help="New texts that one request may have encoded")] = 4000,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error")] = "info",
) -> None:
    """Serve the API and the page, on this machine alone unless told otherwise."""
    if log_level not in LOG_LEVELS:
        raise MeantimeError(f"--log-level is {log_level!r}; expected {', '.join(LOG_LEVELS)}")
    if not 0 < max_body < math.inf:
        raise MeantimeError(f"--max-body is {max_body:g} MiB; expected more than 0")
    for package in ("fastapi", "uvicorn", "python_multipart"):
        optional(package, "meantime serve", "serve")
    from meantime.serve.server import run
    from meantime.serve.settings import MIB, Settings

    settings = Settings(
        model=model,
        device=device,
        precision=precision,
        token=_token(token_env),
        origins=tuple(origin or ()),
        threads=threads,
        queue=queue,
        max_body=int(max_body * MIB),
        max_pixels=max_pixels,
        max_views=max_views,
        max_labels=max_labels,
        max_prompts=max_prompts,
    )
    run(settings, host, port, log_level)


def _token(variable: str | None) -> str | None:
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if not token:
        raise MeantimeError(f"the environment variable {variable} is empty or not set: put the token there")
    return token

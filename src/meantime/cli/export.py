"""`meantime export`: any encoder as a directory that needs no PyTorch."""

from pathlib import Path
from typing import Annotated

import typer

from meantime.encoders import load_encoder
from meantime.export import export as run


def export(
    directory: Annotated[Path, typer.Argument(help="Where to; it must not exist, or be empty")],
    model: Annotated[str, typer.Option("--model", help="hf:NAME, ViT-B-16:openai, a directory")],
    weights: Annotated[str, typer.Option(help="How weights are stored: float32, float16, int8")] = "float32",
) -> None:
    """Write an encoder as ONNX and compare it with the original on sample inputs."""
    check = run(load_encoder(model, device="cpu"), directory, weights=weights)  # type: ignore[arg-type]
    print(check)
    print(f"use it with --model onnx:{directory}")

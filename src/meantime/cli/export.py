"""`meantime export`: any encoder as a directory that needs no PyTorch."""

from pathlib import Path
from typing import Annotated

import typer

from meantime.encoders import export_folder, load_encoder
from meantime.errors import MeantimeError
from meantime.export import export as run


def export(
    model: Annotated[str, typer.Option("--model", help="hf:NAME, ViT-B-16:openai, a directory")],
    directory: Annotated[
        Path | None, typer.Argument(help="Where to, a new folder; by default the cache, where --model MODEL finds it")
    ] = None,
    weights: Annotated[str, typer.Option(help="How weights are stored: float32, float16, int8")] = "float32",
) -> None:
    """Write an encoder as ONNX and compare it with the original on sample inputs."""
    if directory is None and weights != "float32":
        raise MeantimeError(f"only float32 stands in for the model itself; say where its {weights} export is to go")
    check = run(load_encoder(model, device="cpu"), directory or export_folder(model), weights=weights)  # type: ignore[arg-type]
    print(check)
    print(f"use it with --model onnx:{directory}" if directory else f"--model {model} takes it where there is no GPU")

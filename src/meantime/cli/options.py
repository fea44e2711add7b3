"""Options that several commands share, said once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from meantime.errors import MeantimeError

LabelsOption = Annotated[str, typer.Option("--labels", help="cat,dog | names.txt | prompts.json | imagenet")]
ModelOption = Annotated[str, typer.Option("--model", help="As in `meantime models`: hf:NAME, ViT-B-16:openai")]
MethodOption = Annotated[str, typer.Option("--method", help="One of `meantime methods`")]
ViewsOption = Annotated[int, typer.Option("--views", help="Views of each image; 1 is plain zero-shot")]
AnyViewsOption = Annotated[
    str, typer.Option("--views", help="Views of each image; 1 is plain zero-shot, auto as many as its answer needs")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Of the random crops")]
TemplateOption = Annotated[str, typer.Option("--template", help="Prompt, with {} or {c} for the name")]
BatchOption = Annotated[
    int | None, typer.Option("--batch", min=1, help="Views encoded in one call; chosen by the encoder's device")
]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="Threads that decode and crop")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps; of PyTorch's encoders")]
PrecisionOption = Annotated[str, typer.Option("--precision", help="fp32, fp16, bf16 or amp; of PyTorch's encoders")]
PluginsOption = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="A Python file that adds methods or datasets; may be repeated", metavar="FILE"),
]


def any_views(text: str) -> int | Literal["auto"]:
    """Return what --views says."""
    if text == "auto":
        return "auto"
    if not text.strip().isdecimal():
        raise MeantimeError(f"--views is {text!r}; expected a number or auto")
    return int(text)

"""`meantime views`: pictures made of images, as further views."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from meantime.cli import options as o

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()  # without it Typer would make the one command the whole
def views() -> None:
    """Make further views of images."""


@app.command("diffuse")
def diffuse(
    dataset: Annotated[str, typer.Argument(help="A name of `meantime datasets list`, a folder or a table")],
    model: Annotated[str, typer.Option(help="An image-variation pipeline of diffusers: a hub name, or a folder")],
    out: Annotated[Path, typer.Option(help="Where the pictures go: a folder for each image")],
    root: Annotated[Path | None, typer.Option(help="Where a named dataset lies")] = None,
    split: Annotated[str, typer.Option(help="test, train or val")] = "test",
    subset: Annotated[int | None, typer.Option(help="Only so many images, drawn as `meantime encode --subset`")] = None,
    count: Annotated[int, typer.Option(help="Pictures of each image")] = 63,
    guidance: Annotated[float, typer.Option(help="How closely they follow the image")] = 3.0,
    steps: Annotated[int, typer.Option(help="Steps of the diffusion")] = 50,
    batch: Annotated[int, typer.Option(help="Pictures made at once")] = 8,
    seed: Annotated[int, typer.Option(help="Of the pictures")] = 0,
    device: o.DeviceOption = "auto",
    precision: o.PrecisionOption = "fp32",
) -> None:
    """Make pictures of every image by diffusion; the same command goes on where it was stopped."""
    from meantime.datasets import load_dataset
    from meantime.datasets.part import subset as take
    from meantime.views.diffuse import Settings, load_variations
    from meantime.views.diffuse import diffuse as make

    data = load_dataset(dataset, root, split)
    if subset is not None:
        data = take(data, subset)
    pipe = load_variations(model, device=device, precision=precision)
    settings = Settings(model, guidance=guidance, steps=steps, seed=seed)
    done = 0
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("diffusion", total=len(data.samples))

        def progress(images: int, total: int) -> None:
            nonlocal done
            done = images
            bar.update(task, completed=images, total=total)

        try:
            made = make(data, out, pipe, settings, count=count, batch=batch, progress=progress)
        except KeyboardInterrupt:
            print(f"meantime: stopped after {done} images; the same command goes on", file=sys.stderr)
            raise typer.Exit(130) from None
    for error in made.errors:
        print(f"meantime: {error}", file=sys.stderr)
    kept = f", {made.kept} were there" if made.kept else ""
    failed = f", {len(made.errors)} images without" if made.errors else ""
    print(f"{made.pictures} pictures made in {out}{kept}{failed}")

"""`meantime bench figure2`: what CLIP, TPT and MTA cost on this machine."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def figure2(
    images: Annotated[int, typer.Option(help="How many are timed; a few suffice")] = 2,
    data: Annotated[Path | None, typer.Option(help="Photos to time on; by default generated pictures")] = None,
    backbone: Annotated[list[str] | None, typer.Option(help="RN50, ViT-B/16, …; may be repeated")] = None,
    large: Annotated[bool, typer.Option("--large", help="ViT-L/14 too: minutes an image on a small machine")] = False,
    classes: Annotated[str, typer.Option(help="Numbers of classes")] = "1000,100",
    views: Annotated[int, typer.Option(help="Views of each image")] = 64,
    out: Annotated[Path, typer.Option(help="Where the table and the figure go")] = Path("bench"),
) -> None:
    """Seconds and peak memory an image on the paper's backbones, stage by stage: a table and a figure."""
    from meantime.bench.backbones import DEFAULT, backbones_named
    from meantime.bench.figure2 import draw, for_terminal, measure, pictures, remarks, write
    from meantime.errors import MeantimeError, MissingExtraError
    from meantime.images import find_images

    if not all(part.strip().isdecimal() for part in classes.split(",")) or images < 1 or views < 2:
        raise MeantimeError(
            f"classes {classes!r}, {images} images, {views} views; expected numbers as in 1000,100, at least 1 image "
            "and 2 views"
        )
    chosen = backbones_named([*(backbone or DEFAULT), *(["ViT-L/14"] if large else [])])
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as made, console.status("figure2") as status:
        paths = pictures(Path(made), images) if data is None else [str(p) for p in find_images([data])][:images]
        rows = measure(chosen, [int(part) for part in classes.split(",")], paths, views=views, heard=status.update)
    Console(width=max(Console().width, 130)).print(for_terminal(rows))
    print("\n".join(remarks(rows)))
    written = write(rows, out)
    try:
        written.append(draw(rows, out / "figure2.png"))
    except MissingExtraError as error:
        print(f"meantime: {error}", file=sys.stderr)
    print(f"figure2 in {out}: {', '.join(path.name for path in written)}")

"""`meantime datasets`: which there are, and whether one on disk is what the paper measured on."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from meantime.datasets import check_dataset, list_datasets

app = typer.Typer(
    help="List the datasets of the paper; check one on disk.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_() -> None:
    """List the datasets that have a name, with their published sizes."""
    table = Table(box=None)
    for column in ("name", "classes", "test images", "folder", "what it is"):
        numbers = column in ("classes", "test images")
        table.add_column(column, justify="right" if numbers else "left", no_wrap=column == "name", overflow="fold")
    for d in list_datasets().values():
        table.add_row(d.name, str(d.classes), f"{d.test:,}", d.folders[0], d.title)
    Console().print(table)


@app.command("check")
def check(
    name: Annotated[str, typer.Argument(help="One of `meantime datasets list`, or the path of your own data")],
    root: Annotated[str | None, typer.Argument(help="Its folder, or the one that holds many datasets")] = None,
    split: Annotated[str, typer.Option(help="test, train or val; or the release's own: release, all")] = "test",
) -> None:
    """Count images and classes against the published sizes, and look for the classic mistakes."""
    report = check_dataset(name, root, split)
    published = "" if report.expected_images is None else f" of {report.expected_images}"
    of = "" if report.expected_classes is None else f" of {report.expected_classes}"
    print(f"{report.name} ({report.split}): {report.images}{published} images, {report.classes}{of} classes")
    for problem in report.problems:
        print(f"problem: {problem}")
    if not report.ok:
        raise typer.Exit(1)
    print("ok")

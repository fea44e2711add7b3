"""`meantime evaluate`: every training-free method side by side on one's own labelled photos."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from meantime.classifier import Classifier
from meantime.cli import options as o
from meantime.encoders import load_encoder
from meantime.evaluation import Evaluation, class_names, labelled_images
from meantime.evaluation import evaluate as run
from meantime.labels import TEMPLATE
from meantime.registry import training_free


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A folder with a sub-folder for each class, or with a labels.csv")],
    labels: Annotated[str | None, typer.Option(help="All candidate names; by default those of the folder")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only these methods; may be repeated", metavar="NAME")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs, each with crops of its own")] = 3,
    model: o.ModelOption = "embedded",
    views: o.AnyViewsOption = "64",
    seed: o.SeedOption = 0,
    template: o.TemplateOption = TEMPLATE,
    device: o.DeviceOption = "auto",
    precision: o.PrecisionOption = "fp32",
    batch: o.BatchOption = None,
    threads: o.ThreadsOption = None,
) -> None:
    """Measure accuracy, mean ± std over seeds, and the gain over plain zero-shot with its interval."""
    names = labels or class_names(labelled_images(folder))
    encoder = load_encoder(model, device=device, precision=precision)
    classifier = Classifier(
        names, encoder, "clip", views=o.any_views(views), seed=seed, template=template, batch=batch, threads=threads
    )
    # Plain zero-shot is always there: the others are compared with it.
    chosen = dict.fromkeys(["clip", *(method or training_free())])
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("encoding", total=None)
        result = run(
            classifier,
            folder,
            {name: name for name in chosen},
            seeds=seeds,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    Console().print(_table(result, seeds, views, len(classifier.labels.names)))
    if result.left_out:
        print(f"{result.left_out} photos that heads were fitted on are left out")
    for error in result.errors:
        print(f"unreadable: {error}")


def _table(result: Evaluation, seeds: int, views: str, classes: int) -> Table:
    table = Table(
        title=f"{result.n_images} images, {classes} names, {views} views, {seeds} seeds",
        title_justify="left",
        box=None,
    )
    auto = ["views"] if views == "auto" else []
    for column in ("method", *auto, "top-1", "top-5", "calibration error", "top-1 minus clip, 95 % interval"):
        table.add_column(column, justify="left" if column == "method" else "right")
    plain = result.scores["clip"]
    for name, score in result.scores.items():
        (mean1, std1), (mean5, std5) = score.top1, score.top5
        gain, low, high = score.minus(plain)
        difference = "" if name == "clip" else f"{gain:+.2f} ({low:+.2f} to {high:+.2f})"
        error = f"{score.calibration_error:.1f}"
        used = [f"{score.n_views.mean():.1f}"] if auto and score.n_views is not None else []
        table.add_row(name, *used, f"{mean1:.2f} ± {std1:.2f}", f"{mean5:.2f} ± {std5:.2f}", error, difference)
    return table

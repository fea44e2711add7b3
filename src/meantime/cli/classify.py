"""`meantime classify`: photos and names in; a table, a file and a report out."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from meantime.classifier import Classifier
from meantime.cli import engine as e
from meantime.cli import options as o
from meantime.encoders import load_encoder
from meantime.errors import MeantimeError
from meantime.images import find_images
from meantime.labels import TEMPLATE
from meantime.output import Output
from meantime.prediction import Prediction
from meantime.remote import as_path
from meantime.report import ReportWriter

MOST_ROWS = 200  # of the terminal table; a file holds all


def classify(
    paths: Annotated[list[str], typer.Argument(help="Images, folders, globs; - reads a list from standard input")],
    labels: o.LabelsOption,
    model: o.ModelOption = "embedded",
    method: o.MethodOption = "mta",
    views: o.AnyViewsOption = "64",
    seed: o.SeedOption = 0,
    template: o.TemplateOption = TEMPLATE,
    device: o.DeviceOption = "auto",
    precision: o.PrecisionOption = "fp32",
    top: Annotated[int, typer.Option(min=1, help="Names for each image in the output")] = 5,
    abstain: Annotated[float, typer.Option(help="No answer where the best probability is below this")] = 0.0,
    out: Annotated[Path | None, typer.Option(help="Write all results: x.json, x.csv or x.parquet")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page to look at: x.html")] = None,
    batch: o.BatchOption = None,
    threads: o.ThreadsOption = None,
    engine: e.EngineOption = "local",
    address: e.AddressOption = None,
    workers: e.WorkersOption = None,
    store: e.StoreOption = None,
) -> None:
    """Classify images by names, with no training."""
    sources = list(_sources(paths))
    encoder, chosen = e.choose_engine(
        engine, partial(load_encoder, model, precision=precision), device, address, workers
    )
    classifier = Classifier(
        labels,
        encoder,
        method,
        views=o.any_views(views),
        seed=seed,
        template=template,
        abstain=abstain,
        batch=batch,
        threads=threads,
    )
    if classifier.auto and not (engine == "local" and store is None):
        raise MeantimeError("a store and other engines keep the same number of views of each image; give --views N")
    rows: list[Prediction] = []
    answered = failed = encoded = 0
    piped = not sys.stdout.isatty()
    try:
        with ExitStack() as stack:
            page = stack.enter_context(ReportWriter(report, method=method, encoder=model)) if report else None
            file = stack.enter_context(Output(out, top)) if out else None
            if engine == "local" and store is None:
                predictions = classifier.stream(sources)
            else:
                predictions = stack.enter_context(e.through_store(classifier, sources, chosen, store))
            for prediction in _with_progress(predictions, len(sources)):
                if prediction.error is None:
                    answered += 1
                    encoded += prediction.n_views
                else:
                    failed += 1
                    print(f"meantime: {prediction.error}", file=sys.stderr)
                if piped:
                    print(_line(prediction))
                elif len(rows) < MOST_ROWS:
                    rows.append(prediction)
                if file is not None:
                    file.add(prediction)
                if page is not None:
                    page.add(prediction)
    except KeyboardInterrupt:  # here, where files and report have been closed
        print(f"meantime: stopped after {answered + failed} of {len(sources)} images", file=sys.stderr)
        for made in (out, report):
            if made and answered + failed:
                print(f"wrote {made} (incomplete)", file=sys.stderr)
        raise typer.Exit(130) from None
    if not piped:
        Console().print(_table(rows, top=min(top, 3), plain=method != "clip"))
    hidden = 0 if piped else answered + failed - len(rows)
    summary = f"{answered} classified" + (f", {failed} unreadable" if failed else "")
    if classifier.auto and answered:
        summary += f" by {encoded / answered:.1f} views on average"
    print(summary + (f"; {hidden} more are not shown" if hidden else ""), file=sys.stderr)
    for made in (out, report):
        if made:
            print(f"wrote {made}", file=sys.stderr)
    if not answered:
        raise typer.Exit(1)


def _sources(paths: list[str]) -> Iterator[Path | str]:
    """Every image that the arguments name; a file that does not exist is reported like an unreadable one."""
    for path in paths:
        if path == "-":
            yield from (line.rstrip("\r\n") for line in sys.stdin if line.strip())
        elif not any(mark in path for mark in "*?[") and not as_path(path).exists():
            yield path
        else:
            yield from find_images([path])
    if not paths:
        raise MeantimeError("no images were given")


def _line(p: Prediction) -> str:
    """For other programs: path, label, score and plain label between tabs, cut to the width of no terminal."""
    score = f"{p.score:.4f}" if p.error is None else ""
    return "\t".join((p.path or "", p.label or "", score, p.plain_label or ""))


def _with_progress(predictions: Iterator[Prediction], total: int) -> Iterable[Prediction]:
    console = Console(stderr=True)
    return track(predictions, "classifying", total=total, console=console, transient=True)


def _table(predictions: list[Prediction], top: int, plain: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("image", overflow="fold")
    table.add_column("label", style="bold", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("next", style="dim", overflow="fold")
    if plain:
        table.add_column("plain zero-shot", overflow="fold")
    folder = _shared_folder([p.path or "" for p in predictions])
    for p in predictions:
        name = escape(os.path.relpath(p.path, folder) if p.path and folder else p.path or "")
        if p.error is not None:
            table.add_row(name, "unreadable", style="red")
            continue
        following = escape(", ".join(f"{n} {s:.2f}" for n, s in p.top(top)[1:]))
        cells = [name, escape(p.label or "(no answer)"), f"{p.score:.2f}", following]
        if plain:
            cells.append(f"[yellow]{escape(p.plain_label or '')}[/]" if p.changed else "same")
        table.add_row(*cells)
    return table


def _shared_folder(paths: list[str]) -> str:
    """The folder that all paths lie in, which the table need not repeat."""
    try:
        return os.path.commonpath([os.path.dirname(path.rstrip("/")) for path in paths])
    except ValueError:  # absolute and relative paths together
        return ""

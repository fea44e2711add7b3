"""`meantime classify`: photos and names in; a table, a file and a report out."""

import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from meantime.classifier import Classifier
from meantime.cli import engine as e
from meantime.cli import options as o
from meantime.cli.progress import progress
from meantime.cli.shown import MOST_ROWS, Shown, say
from meantime.encoders import Encoder, cached_texts, load_encoder
from meantime.errors import MeantimeError
from meantime.images import find_images
from meantime.labels import TEMPLATE, Labels, fill, templates80, typed_labels
from meantime.output import Output, beside
from meantime.prediction import Prediction
from meantime.registry import method_named
from meantime.remote import as_path
from meantime.report import ReportWriter
from meantime.sorting import Sorted

TEXTS = 256  # prompts embedded between two looks at the clock


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
    out: Annotated[Path | None, typer.Option(help="Write all results: x.json, x.jsonl, x.csv or x.parquet")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page to look at: x.html")] = None,
    sort_into: Annotated[
        Path | None, typer.Option(help="Link each photo into DIR/LABEL, DIR/_unsure or DIR/_unreadable", metavar="DIR")
    ] = None,
    batch: o.BatchOption = None,
    threads: o.ThreadsOption = None,
    engine: e.EngineOption = "local",
    address: e.AddressOption = None,
    workers: e.WorkersOption = None,
    store: e.StoreOption = None,
) -> None:
    """Classify images by names, with no training."""
    if out and report and out.resolve() == report.resolve():
        raise MeantimeError(f"--out and --report are both {str(out)!r}; give each a file of its own")
    sources: list[Path | str] = []
    encoded = 0
    shown = Shown(top, plain=method != "clip")
    file: Output | None = None
    page: ReportWriter | None = None
    folders: Sorted | None = None
    try:
        with ExitStack() as stack:
            if out:  # first of all: whether files can be written is known before the run
                file = stack.enter_context(Output(out, top))
            if report:
                page = stack.enter_context(ReportWriter(report, method=method, encoder=model))
                stack.push(partial(_apart, page))
            names = typed_labels(labels, template)
            sources += _sources(paths)
            folders = Sorted(sort_into, sources) if sort_into else None
            if not shown.piped and out is None and len(sources) > MOST_ROWS:
                say(f"of {len(sources)} images {MOST_ROWS} will be shown; --out x.csv keeps all")
            encoder, chosen = e.choose_engine(
                engine, partial(load_encoder, model, precision=precision), device, address, workers
            )
            _embed(encoder, names, method)
            classifier = Classifier(
                names,
                encoder,
                method,
                views=o.any_views(views),
                seed=seed,
                template=template,
                abstain=abstain,
                batch=batch,
                threads=threads,
            )
            if engine == "local" and store is None:
                predictions = classifier.stream(sources)
            elif not classifier.auto:
                predictions = stack.enter_context(e.through_store(classifier, sources, chosen, store))
            else:
                raise MeantimeError("a store and other engines keep as many views of every image; give --views N")
            kept = [place for place in (file, page, folders) if place is not None]
            for prediction in stack.enter_context(closing(_with_progress(predictions, len(sources)))):
                encoded += prediction.n_views
                for place in (shown, *kept):
                    place.add(prediction)
                if shown.closed and not kept:  # nobody is left to hear of the others
                    return
    except KeyboardInterrupt:  # here, where files and report have been closed
        shown.end()
        say(_stopped(shown.told.total(), sources, store, views))
        _tell_incomplete(file, page)
        raise typer.Exit(130) from None
    except (MeantimeError, OSError):
        shown.end()
        _tell_incomplete(file, page)
        raise
    shown.end()
    summary = shown.summary
    if classifier.auto and shown.answered:
        summary += f" by {encoded / shown.answered:.1f} views on average"
    print(summary + (f"; {shown.hidden} more are not shown" if shown.hidden else ""), file=sys.stderr)
    for made in (out, report):
        if made:
            print(f"wrote {made}", file=sys.stderr)
    if folders is not None:
        print(folders, file=sys.stderr)
    if not shown.answered:
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


def _embed(encoder: Encoder, names: Labels, method: str) -> None:
    """Embed the prompts, which the cache then holds: of many names this takes a while, and it shows how long."""
    prompts = [prompt for prompts in names.prompts for prompt in prompts]
    if "ensemble" in method_named(method).heads:
        prompts += [fill(one, name) for one in templates80() for name in names.names]
    with progress("embedding names") as tell:
        for start in range(0, len(prompts), TEXTS):
            tell(start, len(prompts))
            cached_texts(encoder, prompts[start : start + TEXTS])


def _with_progress(predictions: Iterator[Prediction], total: int) -> Generator[Prediction, None, None]:
    with progress("classifying") as tell:
        tell(0, total)
        for done, prediction in enumerate(predictions, 1):
            tell(done, total)
            yield prediction


def _stopped(done: int, sources: list[Path | str], store: str | None, views: str) -> str:
    """What a run that was stopped leaves for the next one."""
    if store is None:
        options = "--store DIR" if views != "auto" else "--store DIR and --views N"
        return f"stopped after {done} of {len(sources)} images; with {options}, the next run goes on from there"
    from meantime.engines.images import count_encoded

    there = count_encoded(sources, store)
    return f"stopped; {there} of {len(sources)} images are encoded in {store}: the same command goes on from there"


def _apart(page: ReportWriter, kind: type[BaseException] | None, *_: object) -> None:
    """A report that is incomplete does not take the place of another."""
    if kind is not None:
        page.path = beside(page.path)


def _tell_incomplete(file: Output | None, page: ReportWriter | None) -> None:
    for made in (file and file.written, page and page.path):
        if made and made.exists():
            print(f"wrote {made} (incomplete)", file=sys.stderr)

"""`meantime bench`: the tables and figures of the paper, by its own numbering, from stores or from images."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as RichTable

from meantime.bench import Bench, Shelf, compare, load_plugin
from meantime.bench import write as w
from meantime.bench.experiments import EXPERIMENTS, Experiment, Options, Outcome
from meantime.bench.fill import Filler
from meantime.bench.heads import Heads
from meantime.bench.predictions import method_in
from meantime.bench.todo import todo
from meantime.cli import options as o
from meantime.cli.figure2 import figure2
from meantime.datasets import list_datasets
from meantime.encoders import load_encoder
from meantime.errors import MeantimeError
from meantime.labels import as_labels

app = typer.Typer(
    help="The paper's tables and figures: mean ± std over seeds, beside the published numbers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
OUT = Path("bench")


StoresOption = Annotated[
    list[Path] | None, typer.Option(help="A store or a folder of stores; may be repeated", metavar="DIR")
]
DatasetsOption = Annotated[
    list[str] | None, typer.Option(help="Instead of the paper's; may be repeated", metavar="NAME")
]
RowsOption = Annotated[
    list[str] | None,
    typer.Option(help="Only these rows: any of `meantime methods`, A@H; may be repeated", metavar="NAME"),
]


def _command(experiment: Experiment) -> Callable[..., None]:
    def run(
        context: typer.Context,
        store: StoresOption = None,
        data: Annotated[Path | None, typer.Option(help="A folder of datasets; what no store has is encoded")] = None,
        out: Annotated[Path, typer.Option(help="Where tables, figures and predictions go")] = OUT,
        dataset: DatasetsOption = None,
        method: RowsOption = None,
        model: Annotated[str | None, typer.Option(help="The encoder; by default the stores'")] = None,
        seeds: Annotated[int, typer.Option(help="So many: 0, 1, …")] = 3,
        views: Annotated[int | None, typer.Option(help="Instead of the paper's number")] = None,
        heads: Annotated[Path | None, typer.Option(help="Where `meantime fit` has put learned heads")] = None,
        plugin: o.PluginsOption = None,
        metric: Annotated[str, typer.Option(help="top1, top5, mean_per_class or ece")] = "top1",
        labels: Annotated[str | None, typer.Option(help="Of your own data (rows --data): names, a file")] = None,
        image: Annotated[int | None, typer.Option(help="Of figure1: which image")] = None,
        unchecked: Annotated[bool, typer.Option("--unchecked", help="Encode data that fails its check")] = False,
    ) -> None:
        if seeds < 1:
            raise MeantimeError(f"{seeds} seeds were asked for; expected at least 1")
        added = (*(context.obj or ()), *(name for file in plugin or [] for name in load_plugin(file)))
        with Progress(console=Console(stderr=True), transient=True) as bar:
            heard = _progress(bar)
            shelf = Shelf.at(store or [], to_fill=data is not None)
            bench = Bench(shelf, out, model, seeds, views, Heads(heads), metric, heard)
            options = Options(tuple(dataset or ()), added, tuple(method or ()), image)
            problems = []
            if data is not None:
                folder = (store or [out / "stores"])[0]
                filler = Filler(bench.shelf, data, folder, seeds, unchecked, load_encoder, heard)
                encoder = model or (bench.encoder if bench.shelf.stores else "embedded")
                if experiment.specs:
                    problems = filler.fill(experiment.asked(options), encoder, views)
                    bench.heads.data |= dict.fromkeys(list_datasets(), data)
                else:
                    names = None if labels is None else as_labels(labels).names
                    own = filler.own(encoder, views or 64, names)
                    options = replace(options, datasets=(own,))
                    bench.heads.data[own] = data
                bench.model = filler.loaded[encoder].name if encoder in filler.loaded else encoder
            if not bench.shelf.stores:
                why = f" ({problems[0]})" if problems else ""
                raise MeantimeError(f"there is nothing to measure{why}: give --store DIR, or --data DIR to encode from")
            outcome = experiment.run(bench, options)
        _show(outcome, bench, problems)

    run.__doc__ = f"{experiment.summary[0].upper()}{experiment.summary[1:]}."
    return run


for _experiment in EXPERIMENTS.values():
    _function = _command(_experiment)
    app.command(_experiment.name)(_function)
    for _alias in _experiment.aliases:
        app.command(_alias, hidden=True)(_function)

app.command("figure2")(figure2)  # of the machine, not of stores


@app.command("todo")
def todo_(
    tables: Annotated[list[str] | None, typer.Argument(help="table1 …; by default all")] = None,
    store: StoresOption = None,
    data: Annotated[Path | None, typer.Option(help="A folder of datasets, for the commands")] = None,
    dataset: DatasetsOption = None,
    method: RowsOption = None,
    model: Annotated[str | None, typer.Option(help="The encoder; by default the stores', or the paper's")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="So many: 0, 1, …")] = 3,
    views: Annotated[int | None, typer.Option(help="Instead of the paper's number")] = None,
    heads: Annotated[Path | None, typer.Option(help="Where `meantime fit` has put learned heads")] = None,
) -> None:
    """The encode and fit commands that tables still need, one a line."""
    options = Options(tuple(dataset or ()), (), tuple(method or ()))
    specs = [spec for name in tables or ["all"] for spec in _named(name).asked(options)]
    bench = Bench(Shelf.at(store or [], to_fill=True), OUT, model, seeds, views, Heads(heads))
    bench.heads.data |= dict.fromkeys(list_datasets(), data) if data is not None else {}
    commands = todo(bench, specs, (store or [Path("STORES")])[0])
    print("\n".join(commands) or "nothing: all stores and heads are there")


def _named(name: str) -> Experiment:
    by_name = {alias: e for e in EXPERIMENTS.values() if e.specs for alias in (e.name, *e.aliases)}
    if name not in by_name:
        known = ", ".join(e.name for e in EXPERIMENTS.values() if e.specs)
        raise MeantimeError(f"there is no table {name!r} that stores are needed for; there are {known}")
    return by_name[name]


@app.command("compare")
def compare_(
    a: Annotated[str, typer.Argument(help="A method")],
    b: Annotated[str, typer.Argument(help="Another")],
    predictions: Annotated[
        Path, typer.Option(help="A .parquet of a table, or the folder that it was written to")
    ] = OUT,
) -> None:
    """Two methods on the same images: McNemar's exact test for each seed, a paired bootstrap over images."""
    file = predictions
    if file.is_dir():
        files = sorted(file.glob("*.parquet"))
        if len(files) != 1:
            names = ", ".join(f.name for f in files) or "none"
            raise MeantimeError(f"{str(file)!r} has {names}: say which predictions by --predictions FILE")
        file = files[0]
    title = " minus ".join(method_in(file, name) for name in (a, b))
    table = RichTable(title=f"{title}, top-1 in points", title_justify="left", box=None)
    for column in ("dataset", "images", "seeds", a, b, "difference", "95 % interval", f"only {a}", f"only {b}", "p"):
        table.add_column(column, justify="left" if column == "dataset" else "right")
    found = compare(file, a, b)
    for c in found:
        table.add_row(
            c.dataset,
            str(c.images),
            str(len(c.seeds)),
            f"{c.a:.2f}",
            f"{c.b:.2f}",
            f"{c.difference:+.2f}",
            f"{c.low:+.2f} to {c.high:+.2f}",
            *(", ".join(map(str, counts)) for counts in (c.only_a, c.only_b)),
            ", ".join(f"{p:.3g}" for p in c.p),
        )
    Console(width=max(Console().width, 110)).print(table)  # numbers cut short would be no numbers
    for c in found:
        if c.images < max(c.of):
            said = f"{a} has {c.of[0]} images of {c.dataset}, {b} {c.of[1]}: compared on the {c.images} that both have"
            print(f"meantime: {said}", file=sys.stderr)
    print("only: images that one has right and the other wrong, for each seed; p: McNemar's exact test, for each seed")


def _progress(bar: Progress) -> Callable[[str, int, int], None]:
    tasks: dict[str, Any] = {}

    def heard(name: str, done: int, total: int) -> None:
        if name not in tasks:
            tasks[name] = bar.add_task(name, total=total)
        bar.update(tasks[name], completed=done, total=total)

    return heard


def _show(outcome: Outcome, bench: Bench, problems: list[str]) -> None:
    console, out = Console(), bench.out
    for table in outcome.tables:
        for part in w.for_terminal(table, console.width):
            Console(width=max(console.width, w.LEAST)).print(part)
        print("\n".join(w.legend(table)) + "\n")
        w.write_all(table, out)
        if (old := out / f"{table.name}.parquet") not in bench.written:
            old.unlink(missing_ok=True)  # answers of an earlier run are not those of this table
    for problem in problems:
        print(f"meantime: not encoded: {problem}", file=sys.stderr)
    for note in outcome.notes:
        print(f"meantime: {note}", file=sys.stderr)
    if outcome.tables:
        print(f"{', '.join(table.name for table in outcome.tables)} as .md, .csv, .tex and .json in {out}")
    if bench.written:
        print(f"each image's answers: {', '.join(map(str, bench.written))}")
    for picture in outcome.pictures:
        print(f"{picture}")
    empty = [table.name for table in outcome.tables if not table.filled]
    if empty:
        print(
            f"meantime: {', '.join(empty)}: no cell could be filled; the reasons stand below the table", file=sys.stderr
        )
    if len(empty) == len(outcome.tables) and not outcome.pictures:
        raise typer.Exit(1)

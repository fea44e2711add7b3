"""What `meantime bench` can run, by the paper's numbering and by readable names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from meantime.bench import fewshot, figure1, plots
from meantime.bench.cells import Table
from meantime.bench.declare import TABLES, Row, TableSpec
from meantime.bench.grid import table7
from meantime.bench.own import rows
from meantime.bench.run import Bench
from meantime.errors import MeantimeError, MissingExtraError


@dataclass(frozen=True)
class Options:
    """What else than the stores a run depends on."""

    datasets: tuple[str, ...] = ()  # instead of the paper's
    added: tuple[str, ...] = ()  # methods of one's own, as further rows
    methods: tuple[str, ...] = ()  # only these rows

    image: int | None = None  # of figure 1

    def choose(self, spec: TableSpec) -> TableSpec:
        """A table on the datasets and with the rows that are asked for, of which it may have none."""
        return spec.on(self.datasets or spec.datasets).with_rows(self.added).only(self.methods)

    def apply(self, spec: TableSpec) -> TableSpec:
        """The same, for a table that was asked for by itself: it must have some of the rows."""
        chosen = self.choose(spec)
        if not chosen.rows:
            self.refuse(spec.name, [row.key for row in spec.rows])
        return chosen

    def some(self, name: str, rows: Sequence[str]) -> list[str]:
        """Those of a table's methods that are asked for."""
        chosen = [row for row in rows if not self.methods or row in self.methods]
        if not chosen:
            self.refuse(name, rows)
        return chosen

    def refuse(self, name: str, rows: Sequence[str]) -> NoReturn:
        """Tell which rows there are."""
        raise MeantimeError(
            f"{name} has no row {', '.join(self.methods)}; it has {', '.join(map(repr, dict.fromkeys(rows)))}"
        )


@dataclass
class Outcome:
    """Tables to show and write, pictures that are written already."""

    tables: list[Table] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def draw(self, picture: Callable[[], Path]) -> None:
        """Draw a picture that goes with a table; without matplotlib the table stands alone."""
        try:
            self.pictures.append(picture())
        except MissingExtraError as error:
            self.notes.append(str(error))


@dataclass(frozen=True)
class Experiment:
    """One thing to run."""

    name: str
    aliases: tuple[str, ...]
    summary: str
    run: Callable[[Bench, Options], Outcome]
    specs: tuple[TableSpec, ...] = ()  # which stores it asks for

    def asked(self, options: Options) -> list[TableSpec]:
        """Its tables on the datasets and with the rows of these options; those without such a row are left out."""
        one = _ONE.on(options.datasets or _ONE.datasets)  # what is read from it has no rows to choose
        chosen = [one if spec is _ONE else options.choose(spec) for spec in self.specs]
        return [spec for spec in chosen if spec.rows]


_ONE = TableSpec("imagenet", "", (Row("mta", "MTA"),), ("imagenet",), "ImageNet")  # what table 7 and figure 1 read


def _tables(specs: Sequence[TableSpec], name: str = "predictions") -> Callable[[Bench, Options], Outcome]:
    def run(bench: Bench, options: Options) -> Outcome:
        asked = [options.apply(spec) for spec in specs]
        outcome = Outcome(bench.tables(asked, name))
        for i, table in enumerate(outcome.tables):
            if table.name == "figure4" and table.filled:
                told = plots.gains(table) if bench.metric == "top1" and not options.datasets else []
                outcome.tables[i] = replace(table, notes=[*table.notes, *told])
                outcome.draw(lambda table=table: plots.views_curve(table, bench.out / "figure4.png"))  # type: ignore[misc]
        return outcome

    return run


def _grid(bench: Bench, options: Options) -> Outcome:
    outcome = Outcome()
    for dataset in options.datasets or ("imagenet",):
        table = table7(bench, dataset)
        if len(options.datasets) > 1:
            table = replace(table, name=f"table7-{dataset}")
        outcome.tables.append(table)
        if table.filled:
            outcome.draw(lambda table=table: plots.heat_map(table, bench.out / f"{table.name}.png"))  # type: ignore[misc]
    return outcome


def _figure1(bench: Bench, options: Options) -> Outcome:
    outcome = Outcome()
    for dataset in options.datasets or ("imagenet",):
        if not bench.shelf.find(dataset, bench.encoder, "crop", range(bench.seeds)):
            raise MeantimeError(
                f"figure1 shows an image of {dataset}, but no store has it with {bench.encoder}; there are "
                f"{', '.join(bench.shelf.datasets)}: choose one by --dataset"
            )
        stores = bench.stores(dataset, bench.encoder)
        shown = figure1.spreading(next(iter(stores.values())), options.image)
        outcome.pictures.append(figure1.draw(shown, bench.out / f"figure1-{dataset}.png"))
    return outcome


def _rows(bench: Bench, options: Options) -> Outcome:
    outcome = Outcome()
    for measured in rows(bench, options.datasets, options.methods):
        outcome.tables.append(measured.table)
        path = bench.out / f"{measured.table.name.replace('rows', 'reliability', 1)}.png"
        outcome.draw(lambda m=measured, p=path: plots.reliability_diagrams(m.predictions, m.table.title, p))  # type: ignore[misc]
    return outcome


def _table5(bench: Bench, options: Options) -> Outcome:
    methods = options.some("table5", fewshot.TABLE5)
    tables = [fewshot.table5(bench, dataset, methods) for dataset in options.datasets or ("imagenet",)]
    if len(tables) > 1:
        tables = [replace(t, name=f"table5-{dataset}") for t, dataset in zip(tables, options.datasets, strict=True)]
    return Outcome(tables)


def _shots(name: str, tokens: int) -> Callable[[Bench, Options], Outcome]:
    def run(bench: Bench, options: Options) -> Outcome:
        methods = options.some(name, list(fewshot.ON_COOP))
        outcome = Outcome([fewshot.figure(bench, name, tokens, options.datasets, methods)])
        if outcome.tables[0].filled:
            outcome.draw(lambda: fewshot.draw(outcome.tables[0], bench.out / f"{name}.png"))
        return outcome

    return run


_FEWSHOT = (
    Experiment("table5", ("few-shot",), "few-shot methods, MTA on top", _table5, tuple(fewshot.table5_specs())),
    *(
        Experiment(
            name, (), f"CoOp of {m} tokens, TPT and MTA on top", _shots(name, m), (*fewshot.figure_specs(name, m),)
        )
        for name, m in (("figure3", 4), ("figure5", 16))
    ),
)


def _all(bench: Bench, options: Options) -> Outcome:
    specs = [spec for spec in TABLES.values() if options.choose(spec).rows]
    outcome = _tables(specs)(bench, options) if specs else Outcome()
    of_mta = [_grid, _figure1] if not options.methods or "mta" in options.methods else []
    runs = [*of_mta[:1], *(e.run for e in _FEWSHOT if e.asked(options)), *of_mta[1:]]
    if not specs and not runs:
        options.refuse("all", [row.key for spec in TABLES.values() for row in spec.rows])
    for run in runs:
        try:
            part = run(bench, options)
        except MeantimeError as error:  # a figure that cannot be drawn does not take the tables with it
            outcome.notes.append(str(error))
            continue
        outcome.tables += part.tables
        outcome.pictures += part.pictures
        outcome.notes += part.notes
    return outcome


EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        *(Experiment(s.name, s.aliases, f"{s.title}: {s.where}", _tables([s], s.name), (s,)) for s in TABLES.values()),
        Experiment("table7", ("lambda-grid",), "every lambda and lambda_y, a table and a heat map", _grid, (_ONE,)),
        *_FEWSHOT,
        Experiment("figure1", ("interpretation",), "how inlierness spreads, where the mode goes", _figure1, (_ONE,)),
        Experiment("rows", ("methods",), "every training-free method on any store, all metrics", _rows),
        Experiment("all", ("everything",), "all of these but rows and figure2", _all, (*TABLES.values(), _ONE)),
    )
}

"""What `meantime bench` can run, by the paper's numbering and by readable names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from meantime.bench import fewshot, figure1, plots
from meantime.bench.cells import Table
from meantime.bench.declare import TABLES, Row, TableSpec
from meantime.bench.grid import table7
from meantime.bench.own import rows
from meantime.bench.run import Bench
from meantime.errors import MeantimeError, MissingExtraError
from meantime.registry import method_named


@dataclass(frozen=True)
class Options:
    """What else than the stores a run depends on."""

    datasets: tuple[str, ...] = ()  # instead of the paper's
    added: tuple[str, ...] = ()  # methods of one's own, as further rows
    methods: tuple[str, ...] = ()  # only these rows; those that a table has not are added to it
    image: int | None = None  # of figure 1

    def choose(self, spec: TableSpec) -> TableSpec:
        """A table on the datasets and with those of its rows that are asked for, of which it may have none."""
        return spec.on(self.datasets or spec.datasets).with_rows(self.added).only(self.methods)

    def apply(self, spec: TableSpec) -> TableSpec:
        """The same, for a table that was asked for by itself: each method asked for is a row of it."""
        return self.choose(spec).with_rows(self.others(spec.name.partition("/")[0], spec.asked_by()))

    def among(self, specs: Sequence[TableSpec]) -> "Options":
        """For many tables at once: each has its own rows, and what none of them has is a row of all."""
        rows = list(dict.fromkeys(name for spec in specs for name in spec.asked_by()))
        return replace(self, added=(*self.added, *self.others("all", rows)))

    def some(self, name: str, rows: Sequence[str]) -> list[str]:
        """Those of a table's methods that are asked for, and any others that are."""
        return [row for row in rows if not self.methods or row in self.methods] + self.others(name, rows)

    def others(self, name: str, rows: Sequence[str]) -> list[str]:
        """What is asked for and is no row of a table: each must be a method."""
        others = [method for method in dict.fromkeys(self.methods) if method not in rows]
        for method in others:
            try:
                method_named(method)
            except MeantimeError as error:
                there = ", ".join(map(repr, dict.fromkeys(rows)))
                raise MeantimeError(f"{name} has no row {method}; it has {there}, and {error}") from error
        return others

    def only_mta(self, name: str) -> None:
        """Refuse other methods where there is only one to show."""
        others = [method for method in self.methods if method != "mta"]
        if others:
            raise MeantimeError(f"{name} is of mta alone; {', '.join(others)} cannot be shown in it")


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
        choose = options.among(self.specs).choose if self.name == "all" else options.apply
        chosen = [one if spec is _ONE else choose(spec) for spec in self.specs]
        return [spec for spec in chosen if spec.rows]


_ONE = TableSpec("imagenet", "", (Row("mta", "MTA"),), ("imagenet",), "ImageNet")  # what table 7 and figure 1 read


def _table(spec: TableSpec) -> Callable[[Bench, Options], Outcome]:
    return lambda bench, options: _tables(bench, options, [options.apply(spec)], spec.name)


def _tables(bench: Bench, options: Options, specs: Sequence[TableSpec], name: str) -> Outcome:
    outcome = Outcome(bench.tables(specs, name))
    for i, table in enumerate(outcome.tables):
        if table.name == "figure4" and table.filled:
            told = plots.gains(table) if bench.metric == "top1" and not options.datasets else []
            outcome.tables[i] = replace(table, notes=[*table.notes, *told])
            outcome.draw(lambda table=table: plots.views_curve(table, bench.out / "figure4.png"))  # type: ignore[misc]
    return outcome


def _grid(bench: Bench, options: Options) -> Outcome:
    options.only_mta("table7")
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
    options.only_mta("figure1")
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
        if not measured.predictions:
            continue
        path = bench.out / f"{measured.table.name.replace('rows', 'reliability', 1)}.png"
        outcome.draw(lambda m=measured, p=path: plots.reliability_diagrams(m.predictions, m.table.title, p))  # type: ignore[misc]
    return outcome


def _table5(bench: Bench, options: Options) -> Outcome:
    methods = options.some("table5", fewshot.TABLE5)
    datasets = options.datasets or ("imagenet",)
    names = ["table5"] if len(datasets) == 1 else [f"table5-{dataset}" for dataset in datasets]
    pairs = zip(names, datasets, strict=True)
    return Outcome([replace(fewshot.table5(bench, d, methods, name), name=name) for name, d in pairs])


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


_EVERY = (*TABLES.values(), *(spec for experiment in _FEWSHOT for spec in experiment.specs))


def _all(bench: Bench, options: Options) -> Outcome:
    own = options.among(_EVERY)
    specs = [spec for spec in map(own.choose, TABLES.values()) if spec.rows]
    outcome = _tables(bench, own, specs, "predictions")
    further: list[tuple[Callable[[Bench, Options], Outcome], Sequence[str]]] = [
        (_grid, ["mta"]),
        *((experiment.run, experiment.specs[0].asked_by()) for experiment in _FEWSHOT),
        (_figure1, ["mta"]),
    ]
    for run, names in further:
        methods = tuple(method for method in options.methods if method in names)
        if options.methods and not methods:
            continue
        try:
            part = run(bench, replace(options, methods=methods))
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
        *(Experiment(s.name, s.aliases, f"{s.title}: {s.where}", _table(s), (s,)) for s in TABLES.values()),
        Experiment("table7", ("lambda-grid",), "every lambda and lambda_y, a table and a heat map", _grid, (_ONE,)),
        *_FEWSHOT,
        Experiment("figure1", ("interpretation",), "how inlierness spreads, where the mode goes", _figure1, (_ONE,)),
        Experiment("rows", ("methods",), "every training-free method on any store, all metrics", _rows),
        Experiment("all", ("everything",), "all of these but rows and figure2", _all, (*_EVERY, _ONE)),
    )
}

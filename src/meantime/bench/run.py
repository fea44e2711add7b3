"""Tables from stores: what each cell needs is looked up, each store is read once, the cells are put together."""

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.bench.agree import as_the_papers, sampling_error
from meantime.bench.cells import Cell, Table
from meantime.bench.declare import BACKBONES, PAPERS_BACKBONE, Column, Row, TableSpec, Views
from meantime.bench.fitted import FittedOn, none_left, told
from meantime.bench.heads import Heads, UnavailableError
from meantime.bench.metrics import METRICS
from meantime.bench.paper import Published, numbers, published
from meantime.bench.passes import Indices, Job, Search, run_pass
from meantime.bench.records import Recorder, recorder
from meantime.bench.remarks import named, remarks
from meantime.bench.shelf import Shelf, backbone_of, made_by
from meantime.datasets import draw
from meantime.errors import MeantimeError
from meantime.store import Store

# The paper searched lambda from 0.1 to 10 and lambda_y from 0.1 to 0.5, without saying at which steps.
VISION_SEARCH = tuple((a, b) for a in (0.1, 0.2, 0.5, 1, 2, 4, 10) for b in (0.1, 0.2, 0.3, 0.4, 0.5))
Wanted = dict[Path, tuple[Store, dict[Hashable, Job | Search]]]  # by store: what to ask it
Places = list[dict[int, tuple[Path, Hashable]]]  # of a cell: for each dataset, by seed, the store and the task


@dataclass
class Bench:
    """What tables are made from, and what a run keeps: predictions go to ``out``, metrics stay here."""

    shelf: Shelf
    out: Path
    model: str | None = None  # an encoder among the stores; by default the paper's, or the only one
    seeds: int = 3
    n_views: int | None = None  # instead of the paper's number
    heads: Heads = field(default_factory=Heads)
    metric: str = "top1"
    progress: Callable[[str, int, int], None] | None = None  # (dataset, images done, of how many)
    metrics: dict[tuple[Path, Hashable], dict[str, float]] = field(default_factory=dict)  # of each task on each store
    searched: dict[tuple[Path, Hashable], NDArray[np.float64]] = field(default_factory=dict)  # accuracy by setting
    images: dict[tuple[Path, Hashable], int] = field(default_factory=dict)  # how many were asked about
    written: list[Path] = field(default_factory=list)  # files of predictions

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise MeantimeError(f"metric is {self.metric!r}; expected one of {', '.join(METRICS)}")
        if self.n_views is not None and self.n_views < 1:
            raise MeantimeError(f"{self.n_views} views were asked for; expected at least 1")
        self._subsets: dict[tuple[str, int], Indices] = {}

    @property
    def encoder(self) -> str:
        """The encoder of the tables that have only one."""
        if self.model is not None:
            return self.model
        there = self.shelf.encoders
        if any(made_by(store.plan, PAPERS_BACKBONE) for store in self.shelf.stores) or not there:
            return PAPERS_BACKBONE
        if len(there) > 1:
            raise MeantimeError(f"the stores were made by {', '.join(there)}: choose one by --model")
        return there[0]

    def tables(self, specs: Sequence[TableSpec], predictions: str = "predictions") -> list[Table]:
        """Measure tables; every store is read once for all of them, its predictions go to one Parquet file."""
        wanted: Wanted = {}
        places: dict[tuple[str, str, str], Places | str] = {}
        notes: dict[str, list[str]] = {spec.name: [] for spec in specs}
        fitted = FittedOn()
        for spec in specs:
            for row in spec.rows:
                for column in spec.columns():
                    found = self._plan(spec, row, column, wanted, fitted, notes[spec.name])
                    places[spec.name, row.key, column.key] = found
        without = {path: fitted.within(store) for path, (store, _) in wanted.items()}
        reasons = {path: none_left(store, without[path]) for path, (store, _) in wanted.items()}
        spent = {path: reason for path, reason in reasons.items() if reason is not None}
        for spec in specs:
            read = [path for key, where in places.items() if key[0] == spec.name for path, _ in _tasks(where)]
            notes[spec.name] += told((wanted[path][0], without[path]) for path in dict.fromkeys(read))
        for key, where in places.items():
            places[key] = next((spent[path] for path, _ in _tasks(where) if path in spent), where)
        self._measure({path: tasks for path, tasks in wanted.items() if path not in spent}, without, predictions)
        return [self._table(spec, places, notes[spec.name]) for spec in specs]

    def _plan(
        self, spec: TableSpec, row: Row, column: Column, wanted: Wanted, fitted: FittedOn, notes: list[str]
    ) -> Places | str:
        """Where the results of a cell will be, for each dataset by seed; or the reason why there are none."""
        places: Places = []
        reasons: list[str] = []
        for dataset in column.datasets:
            try:
                by_seed: dict[int, tuple[Path, Hashable]] = {}
                n = column.n_views or self.n_views or spec.n_views
                encoder = column.backbone or self.encoder
                for seed, store in self.stores(dataset, encoder, row.views, n, spec.subset).items():
                    key, task = self._task(spec, row, column, store)
                    wanted.setdefault(store.path, (store, {}))[1].setdefault(key, task)
                    by_seed[seed] = (store.path, key)
                    fitted.add(store, self.heads.photos(store, row))
                    notes += [*remarks(store, spec.subset), *self.heads.remarks(store, row)]
                places.append(by_seed)
            except UnavailableError as error:
                reasons.append(str(error))
        if reasons:
            if spec.layout == "datasets" and len(column.datasets) > 1:
                return "an average needs every column"
            return reasons[0] + (f" (and {len(reasons) - 1} more like this)" if len(reasons) > 1 else "")
        if not set.intersection(*map(set, places)):
            return f"the stores of {', '.join(column.datasets)} have no seed in common"
        return places

    def stores(
        self, dataset: str, encoder: str, views: Views = "crop", n_views: int = 1, images: int | None = None
    ) -> dict[int, Store]:
        """The stores to ask, by seed: all of them complete."""
        stores = self.shelf.find(dataset, encoder, views, range(self.seeds), n_views=n_views, images=images)
        if not stores:
            kind = "" if views == "crop" else f", {views} views"
            raise UnavailableError(f"no store of {dataset} with {encoder}{kind}")
        for store in stores.values():
            if not store.complete:
                raise UnavailableError(f"the store {str(store.path)!r} is not complete: meantime encode --resume")
        return stores

    def _task(self, spec: TableSpec, row: Row, column: Column, store: Store) -> tuple[Hashable, Job | Search]:
        n = column.n_views or self.n_views or spec.n_views
        if n > store.n_views:
            raise UnavailableError(
                f"the store of {store.name} has {store.n_views} views, not {n}"
                + ("" if column.n_views else f": --views {store.n_views} takes what it has")
            )
        subset = None if spec.subset is None else self._subset(store, spec.subset)
        heads = self.heads.of(store, row)
        limit = None if subset is None else len(subset)
        if row.search:
            key: Hashable = ("search", row.name, n, limit)
            return key, Search(VISION_SEARCH, "vision", n, heads["text"], subset)
        key = (row.name, row.trained_on, row.shots, row.tokens, n, limit)
        return key, Job(row.name, row.resolve(), n, heads, subset)

    def _subset(self, store: Store, count: int) -> Indices | None:
        """The numbers of ``count`` images, drawn once for a dataset and kept in a file for every later run."""
        if store.plan.images <= count:
            return None
        key = (store.plan.fingerprint, count)
        if key not in self._subsets:
            file = self.out / "subsets" / f"{store.name}-{count}.json"
            if not file.is_file():
                drawn = draw(store.plan.images, count)  # as `meantime encode --subset`
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps({"fingerprint": store.plan.fingerprint, "index": drawn}))
            saved: dict[str, Any] = json.loads(file.read_text())
            if saved["fingerprint"] != store.plan.fingerprint:
                raise UnavailableError(f"{str(file)!r} was drawn from other images of {store.name}: move it away")
            self._subsets[key] = np.array(saved["index"], np.int64)
        return self._subsets[key]

    def _measure(self, wanted: Wanted, without: dict[Path, Indices], name: str) -> None:
        with self.recording(name) as record:
            for path, (store, tasks) in wanted.items():
                jobs = {key: task for key, task in tasks.items() if isinstance(task, Job)}
                searches = {key: task for key, task in tasks.items() if isinstance(task, Search)}
                leave = without[path] if len(without[path]) else None
                predictions, found = run_pass(store, jobs, searches, self.hearing(store), leave)
                self.searched |= {(path, key): value for key, value in found.items()}
                for key, p in predictions.items():
                    self.images[path, key] = len(p)
                    self.metrics[path, key] = record.add(named(p, jobs[key], store), store)

    @contextmanager
    def recording(self, name: str) -> Iterator[Recorder]:
        """What takes the predictions of this run; where there are none, those of an earlier run do not stay either."""
        with recorder(self.out, name) as record:
            yield record
        if (file := self.out / f"{name}.parquet").is_file():
            self.written.append(file)

    def hearing(self, store: Store) -> Callable[[int], None]:
        """What tells ``progress`` of the images of one store."""
        done = 0

        def heard(images: int) -> None:
            nonlocal done
            done += images
            if self.progress is not None:
                self.progress(store.name, done, len(store))

        return heard

    def published_otherwise(self, n_views: int, *, any_backbone: bool = False) -> list[str]:
        """A note on how the published numbers were measured, where this run measures otherwise."""
        same = any_backbone or all(
            backbone_of(store.plan.encoder_name) == PAPERS_BACKBONE
            for store in self.shelf.stores
            if made_by(store.plan, self.encoder)
        )
        if same and self.n_views in (None, n_views):
            return []
        backbone = "" if any_backbone else f"{BACKBONES[PAPERS_BACKBONE]}, "
        return [f"published: {backbone}{n_views} views"]

    def _table(self, spec: TableSpec, places: dict[tuple[str, str, str], Any], notes: list[str]) -> Table:
        cells = {}
        for row in spec.rows:
            for column in spec.columns():
                where = places[spec.name, row.key, column.key]
                cells[row.key, column.key] = self._cell(spec, row, column, where, notes)
        if spec.layout != "views" and any(cell.paper and cell.values for cell in cells.values()):
            notes += self.published_otherwise(spec.n_views, any_backbone=spec.layout == "backbones")
        return Table(
            spec.name,
            self._title(spec, [task for key, where in places.items() if key[0] == spec.name for task in _tasks(where)]),
            {row.key: row.label for row in spec.rows},
            {column.key: column.label for column in spec.columns()},
            cells,
            notes=list(dict.fromkeys(notes)),
            unit=f"{METRICS[self.metric]} in per cent",
        )

    def _title(self, spec: TableSpec, tasks: Sequence[tuple[Path, Hashable]]) -> str:
        """What was measured: with which encoder, of how many views, and of how many images where they are a part."""
        encoder = f" ({self.encoder})" if spec.layout != "backbones" else ""
        views = f", {self.n_views or spec.n_views} views" if spec.layout != "views" else ""
        counts = sorted({self.images[task] for task in tasks if task in self.images}, reverse=True)
        part = " or ".join(map(str, counts)) or str(spec.subset)
        return f"{spec.title}: {spec.where}{encoder}{views}" + (f", {part} images of each set" if spec.subset else "")

    def _cell(self, spec: TableSpec, row: Row, column: Column, where: Any, notes: list[str]) -> Cell:
        comparable = self.metric == "top1" and (spec.as_published or column.key in spec.datasets)
        paper = paper_value(spec.name, row, column) if comparable else None
        if isinstance(where, str):
            return Cell(paper=paper, reason=where)
        if row.search and self.metric != "top1":
            return Cell(reason="searched for top-1 only")
        seeds = sorted(set.intersection(*map(set, where)))
        if len(seeds) < self.seeds:
            notes.append(f"{', '.join(column.datasets)}: seed {', '.join(map(str, seeds))} only")
        if row.search:
            found = [[self.searched[by[seed]] for by in where] for seed in seeds]
            return Cell(self._best(row, found, notes), paper, seeds=tuple(seeds))
        measured = [[self.metrics[by[seed]] for by in where] for seed in seeds]  # seeds x datasets
        means = {name: [float(np.mean([m[name] for m in per_seed])) for per_seed in measured] for name in METRICS}
        others = {name: float(np.mean(x)) for name, x in means.items()}
        error = None
        if self.metric == "top1" and row.key not in numbers()["zero"]["rows"]:  # whose 7 templates are not our 80
            accuracies = [float(np.mean([m["top1"] for m in of_dataset])) for of_dataset in zip(*measured, strict=True)]
            error = self._sampling(spec, column, where, accuracies)
        return Cell(tuple(means[self.metric]), paper, others=others, seeds=tuple(seeds), sampling=error)

    def _sampling(self, spec: TableSpec, column: Column, where: Places, accuracies: Sequence[float]) -> float | None:
        """The error of a cell by the size of its tests, if it was measured as in the paper."""
        stores = {store.path: store for store in self.shelf.stores}
        tasks = [task for by_seed in where for task in by_seed.values()]
        same = self.n_views in (None, spec.n_views) and all(
            as_the_papers(stores[task[0]], self.images[task], spec.subset, column.backbone) for task in tasks
        )
        images = [self.images[next(iter(by_seed.values()))] for by_seed in where]
        return sampling_error(accuracies, images) if same else None

    @staticmethod
    def _best(row: Row, found: list[list[NDArray[np.float64]]], notes: list[str]) -> tuple[float, ...]:
        """The accuracies (one for each seed) of the setting that is best on average, with a note that says so."""
        accuracies = np.mean(np.array(found), axis=1)  # (seeds, settings)
        best = int(accuracies.mean(axis=0).argmax())
        lambda_, lambda_y = VISION_SEARCH[best]
        notes.append(
            f"{row.label}: of {len(VISION_SEARCH)} settings lambda {lambda_:g}, lambda_y {lambda_y:g} did best on "
            "these very labels; it is not a result that one can expect"
        )
        return tuple(accuracies[:, best].tolist())


def _tasks(where: Places | str) -> list[tuple[Path, Hashable]]:
    """What a cell is made of: stores, and what each is asked."""
    return [] if isinstance(where, str) else [task for by_seed in where for task in by_seed.values()]


def paper_value(table: str, row: Row, column: Column) -> Published | None:
    """What was published for a cell; ZERO's numbers are its own authors'."""
    found = published(table, row.paper or row.key, column.key)
    if found is None and table in ("table1", "table2"):
        theirs = "fine-grained average" if (table, column.key) == ("table2", "average") else column.key
        found = published("zero", row.key, theirs)
    return found

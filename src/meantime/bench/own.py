"""Any store, of the paper's datasets or not: every training-free method, all metrics, the gain over plain zero-shot."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meantime.bench.cells import Cell, Table
from meantime.bench.compare import paired_bootstrap
from meantime.bench.declare import Row
from meantime.bench.fitted import FittedOn, none_left, told
from meantime.bench.heads import UnavailableError
from meantime.bench.metrics import METRICS, measure
from meantime.bench.passes import Indices, Job, run_pass
from meantime.bench.predictions import Predictions
from meantime.bench.remarks import kind_marks, marked, remarks
from meantime.bench.run import Bench
from meantime.bench.shelf import kind_of, made_by
from meantime.errors import MeantimeError
from meantime.registry import method_named, training_free
from meantime.store import Store

GAIN = "gain"


@dataclass(frozen=True)
class Measured:
    """A table, and the predictions behind it: by method, one for each seed."""

    table: Table
    predictions: dict[str, list[Predictions]]


def rows(bench: Bench, datasets: Sequence[str] = (), only: Sequence[str] = ()) -> list[Measured]:
    """One table for each dataset, encoder and kind of views; of all training-free methods, or of those asked for."""
    names = [name for name in training_free() if not only or name in only]
    names += [name for name in dict.fromkeys(only) if name not in names and method_named(name)]
    stores = [s for s in bench.shelf.stores if s.seed < bench.seeds and (not datasets or s.name in datasets)]
    if bench.model is not None:
        stores = [s for s in stores if made_by(s.plan, bench.model)]
    if not stores:
        raise MeantimeError(
            f"no store fits; there are {', '.join(bench.shelf.datasets) or 'none'} "
            f"with {', '.join(bench.shelf.encoders) or 'no encoder'}"
        )
    groups = {(s.name, s.plan.encoder_name, kind_of(s.plan)): s for s in stores}
    with bench.recording("rows") as record:
        measured = []
        for (dataset, encoder, kind), one in groups.items():
            by_method: dict[str, list[Predictions]] = {}
            reasons: dict[str, str] = {}
            try:
                group = list(bench.stores(dataset, encoder, kind, bench.n_views or 1).values())
            except UnavailableError as error:
                group, reasons = [one], dict.fromkeys(names, str(error))
            n = min(bench.n_views or one.n_views, *(s.n_views for s in group))
            notes: list[str] = []
            left_out = []
            for store in group if not reasons else ():
                without, predictions = _ask(bench, store, names, n, reasons, notes)
                left_out.append((store, without))
                for name, p in predictions.items():
                    record.add(marked(p, kind_marks(store)), store)
                    by_method.setdefault(name, []).append(p)
            notes += told(left_out)
            measured.append(Measured(_table(group, n, names, by_method, reasons, notes), by_method))
        return measured


def _ask(
    bench: Bench, store: Store, names: list[str], n: int, reasons: dict[str, str], notes: list[str]
) -> tuple[Indices, dict[str, Predictions]]:
    """Every method on a store, and the images that were left out."""
    jobs = {}
    fitted = FittedOn()
    for name in names:
        row = Row(name, name)
        try:
            jobs[name] = Job(name, row.resolve(), n, bench.heads.of(store, row))
            fitted.add(store, bench.heads.photos(store, row))
            notes += bench.heads.remarks(store, row)
        except UnavailableError as error:
            reasons[name] = str(error)
    without = fitted.within(store)
    if (reason := none_left(store, without)) is not None:
        reasons |= dict.fromkeys(jobs, reason)
        jobs = {}
    if not jobs:
        return without, {}
    predictions, _ = run_pass(store, jobs, None, bench.hearing(store), without if len(without) else None)
    return without, {str(name): p for name, p in predictions.items()}


def _table(
    stores: list[Store],
    n: int,
    names: list[str],
    by_method: dict[str, list[Predictions]],
    reasons: dict[str, str],
    further: list[str],
) -> Table:
    columns = METRICS | {GAIN: "top-1 minus clip"}
    cells: dict[tuple[str, str], Cell] = {}
    notes = ["below top-1 minus clip: the 95 % interval of a paired bootstrap over images"]
    for name in names:
        for column in columns:
            cells[name, column] = Cell(reason=reasons.get(name))
        if name not in by_method:
            continue
        found = [measure(p) for p in by_method[name]]
        for metric in METRICS:
            cells[name, metric] = Cell(tuple(f[metric] for f in found))
        if name != "clip" and "clip" in by_method:
            cells[name, GAIN] = _gain(by_method[name], by_method["clip"])
        if name in reasons:
            seeds = ", ".join(str(p.seed) for p in by_method[name])
            notes.append(f"{name}: seed {seeds} only ({reasons[name]})")
    plan, kind = stores[0].plan, kind_marks(stores[0])
    seeds = ", ".join(str(s.seed) for s in stores)
    counts = [len(p) for predictions in by_method.values() for p in predictions] or [len(s) for s in stores]
    images = " or ".join(str(count) for count in dict.fromkeys(counts))
    name = "-".join(["rows", plan.dataset, plan.encoder_name, *kind])
    return Table(
        "".join(c if c.isalnum() else "-" for c in name).lower(),
        f"{plan.dataset}: {images} images, {len(plan.classes)} names, {' '.join([str(n), *kind])} views, seed {seeds}, "
        f"{plan.encoder_name}",
        {name: name for name in names},
        columns,
        cells,
        notes=list(dict.fromkeys([*notes, *further, *(said for store in stores for said in remarks(store))])),
        unit="per cent; the calibration error in points",
    )


def _gain(ours: list[Predictions], plain: list[Predictions]) -> Cell:
    """For each seed that both have; the interval is over the images that all of these seeds have."""
    clip = {p.seed: p for p in plain}
    pairs = [(p, clip[p.seed]) for p in ours if p.seed in clip]
    if not pairs:
        return Cell(reason="no seed in common with clip")
    values = tuple(float(100 * (a.hits.mean() - b.hits.mean())) for a, b in pairs)
    shared = sorted(set.intersection(*(set(p.keys) for pair in pairs for p in pair)))
    if not shared:
        return Cell(values)

    def hits(p: Predictions) -> list[bool]:
        right = dict(zip(p.keys, p.hits.tolist(), strict=True))
        return [right[key] for key in shared]

    ours_, plain_ = (np.array([hits(pair[side]) for pair in pairs]) for side in (0, 1))
    return Cell(values, interval=paired_bootstrap(ours_, plain_))

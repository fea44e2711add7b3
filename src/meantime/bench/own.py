"""Any store, of the paper's datasets or not: every training-free method, all metrics, the gain over plain zero-shot."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meantime.bench.cells import Cell, Table
from meantime.bench.compare import paired_bootstrap
from meantime.bench.declare import Row
from meantime.bench.heads import UnavailableError
from meantime.bench.metrics import METRICS, measure
from meantime.bench.passes import Job, run_pass
from meantime.bench.predictions import Predictions
from meantime.bench.records import recorder
from meantime.bench.run import Bench
from meantime.errors import MeantimeError
from meantime.registry import training_free
from meantime.store import Store

GAIN = "gain"


@dataclass(frozen=True)
class Measured:
    """A table, and the predictions behind it: by method, one for each seed."""

    table: Table
    predictions: dict[str, list[Predictions]]


def rows(bench: Bench, datasets: Sequence[str] = (), only: Sequence[str] = ()) -> list[Measured]:
    """One table for each dataset and encoder among the stores; of all training-free methods, or of some."""
    names = [name for name in training_free() if not only or name in only]
    if not names:
        raise MeantimeError(
            f"none of {', '.join(only)} is a training-free method; there are {', '.join(training_free())}"
        )
    stores = [s for s in bench.shelf.stores if s.seed < bench.seeds and (not datasets or s.name in datasets)]
    if bench.model is not None:
        stores = [s for s in stores if bench.model in (s.plan.encoder_name, s.plan.encoder)]
    if not stores:
        raise MeantimeError(
            f"no store fits; there are {', '.join(bench.shelf.datasets) or 'none'} "
            f"with {', '.join(bench.shelf.encoders) or 'no encoder'}"
        )
    groups: dict[tuple[str, str, str], list[Store]] = {}
    for store in stores:
        groups.setdefault((store.name, store.plan.encoder_name, store.plan.views), []).append(store)
    with recorder(bench.out, "rows") as record:
        measured = []
        for group in groups.values():
            by_method: dict[str, list[Predictions]] = {}
            reasons: dict[str, str] = {}
            for store in sorted(group, key=lambda s: s.seed):
                for name, p in _ask(bench, store, names, reasons).items():
                    record.add(p, store)
                    by_method.setdefault(name, []).append(p)
            measured.append(Measured(_table(bench, group, names, by_method, reasons), by_method))
        return measured


def _ask(bench: Bench, store: Store, names: list[str], reasons: dict[str, str]) -> dict[str, Predictions]:
    jobs = {}
    for name in names:
        row = Row(name, name)
        try:
            n = min(bench.n_views or store.n_views, store.n_views)
            jobs[name] = Job(name, row.resolve(), n, bench.heads.of(store, row))
        except UnavailableError as error:
            reasons[name] = str(error)
    predictions, _ = run_pass(store, jobs, progress=bench.hearing(store))
    return {str(name): p for name, p in predictions.items()}


def _table(
    bench: Bench,
    stores: list[Store],
    names: list[str],
    by_method: dict[str, list[Predictions]],
    reasons: dict[str, str],
) -> Table:
    columns = METRICS | {GAIN: "top-1 minus clip"}
    cells: dict[tuple[str, str], Cell] = {}
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
    plan = stores[0].plan
    n = min(bench.n_views or plan.n_views, plan.n_views)
    seeds = ", ".join(str(s.seed) for s in sorted(stores, key=lambda s: s.seed))
    return Table(
        "rows-" + "".join(c if c.isalnum() else "-" for c in f"{plan.dataset}-{plan.encoder_name}").lower(),
        f"{plan.dataset}: {len(stores[0])} images, {len(plan.classes)} names, {n} views, seed {seeds}, "
        f"{plan.encoder_name}",
        {name: name for name in names},
        columns,
        cells,
        notes=["below top-1 minus clip: the 95 % interval of a paired bootstrap over images"],
        unit="per cent; the calibration error in points",
    )


def _gain(ours: list[Predictions], plain: list[Predictions]) -> Cell:
    def hits(parts: list[Predictions]) -> NDArray[np.bool_]:
        return np.stack([p.hits for p in parts])

    a, b = hits(ours), hits(plain)
    values = 100 * (a.mean(axis=1) - b.mean(axis=1))
    return Cell(tuple(float(x) for x in values), interval=paired_bootstrap(a, b))

"""How fast tables come out of a store: every training-free method in one pass, and the lambda grid.

    python benchmarks/tables.py [IMAGES]

All ratios come from this one run; absolute times depend on the machine.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from solver import embeddings
from timing import race

import meantime as mt
from meantime.bench.declare import Row
from meantime.bench.grid import SETTINGS
from meantime.bench.heads import Heads
from meantime.bench.passes import BATCH, Job, Search, run_pass
from meantime.registry import training_free
from meantime.store import Store, import_arrays

console = Console()
GRID = tuple((float(a), float(b)) for a, b in SETTINGS)


def make_store(images: int, folder: Path) -> Store:
    """Generated embeddings, like CLIP's, of 64 views and 1000 classes."""
    views, classes = embeddings(images)
    np.savez(
        folder / "x.npz",
        views=views.astype(np.float16),
        labels=np.arange(images) % len(classes),
        names=np.array([f"class {k}" for k in range(len(classes))]),
        text_single=classes,
        text_ensemble=classes + 0.01 * np.random.default_rng(1).standard_normal(classes.shape, np.float32),
    )
    return import_arrays(folder / "x.npz", folder / "store")


def main(images: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(images, Path(folder))
        heads = Heads()
        jobs = {name: Job(name, m, 64, heads.of(store, Row(name, name))) for name, m in training_free().items()}
        head = mt.TextHead(store.texts.single)
        t = race(
            {
                "read": lambda: [len(batch) for batch in store.batches(BATCH)],
                "rows": lambda: run_pass(store, jobs),
                "mta": lambda: run_pass(store, {"mta": jobs["mta"]}),
                "one cell": lambda: run_pass(store, {}, {"one": Search(((4.0, 0.2),), "head", 64, head)}),
                "grid": lambda: run_pass(store, {}, {"grid": Search(GRID, "head", 64, head)}),
            },
            rounds=1,
        )
    console.print(f"{images} stored images, 64 views, d = 512, K = 1000")
    console.print(f"reading alone: {images / t['read']:.0f} images a second")
    console.print(
        f"all {len(jobs)} training-free rows in one pass: {images / t['rows']:.1f} images a second, "
        f"{t['rows'] / t['read']:.1f} times reading alone, {t['rows'] / t['mta']:.1f} times MTA alone"
    )
    console.print(f"the {len(GRID)} settings of Table 7: {t['grid'] / t['one cell']:.1f} times one setting")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

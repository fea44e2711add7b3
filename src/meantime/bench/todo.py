"""What tables still need: the commands that encode and fit it, in the order in which they can be run."""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from meantime.bench.declare import BACKBONES, Column, Row, TableSpec, Views
from meantime.bench.run import Bench
from meantime.datasets import list_datasets
from meantime.heads.saved import KINDS
from meantime.store import Store

Place = tuple[str, str, Views, int]  # dataset, encoder, kind of views and seed: one store


@dataclass(frozen=True)
class Need:
    """What the rows of all tables together ask of one store."""

    n_views: int
    ensemble: bool
    subset: int | None  # of the images; None: all

    def joined(self, other: "Need") -> "Need":
        """What both ask for."""
        subset = None if self.subset is None or other.subset is None else max(self.subset, other.subset)
        return Need(max(self.n_views, other.n_views), self.ensemble or other.ensemble, subset)


def todo(bench: Bench, specs: Iterable[TableSpec], folder: Path) -> list[str]:
    """The commands that tables still need; new stores go to ``folder``."""
    needs: dict[Place, Need] = {}
    fits: dict[str, None] = {}
    for spec, row, column, dataset in _cells(specs):
        heads = row.resolve().heads
        encoder = column.backbone or bench.encoder
        n = column.n_views or bench.n_views or spec.n_views
        need = Need(n, any(head.startswith("ensemble") for head in heads), spec.subset)
        for seed in range(bench.seeds):
            place = (dataset, encoder, row.views, seed)
            needs[place] = needs[place].joined(need) if place in needs else need
            for kind in sorted({part for head in heads for part in head.split("@")} & set(KINDS)):
                command = bench.heads.missing(kind, row.trained_on or dataset, _model(encoder), seed, row)
                fits |= {} if command is None else {command: None}
    encodes = [_encode(bench, place, need, folder) for place, need in needs.items()]
    return [*dict.fromkeys(command for command in encodes if command is not None), *fits]


def _cells(specs: Iterable[TableSpec]) -> Iterator[tuple[TableSpec, Row, Column, str]]:
    for spec in specs:
        for row in spec.rows:
            yield from ((spec, row, column, dataset) for column in spec.columns() for dataset in column.datasets)


def _encode(bench: Bench, place: Place, need: Need, folder: Path) -> str | None:
    """The command that makes a store, or adds to it what it lacks; None where it has all."""
    dataset, encoder, kind, seed = place
    find = {"n_views": need.n_views, "images": need.subset}
    store = bench.shelf.find(dataset, encoder, kind, [seed], **find).get(seed)  # type: ignore[arg-type]
    if store is not None and store.n_views >= need.n_views:
        if store.complete and (store.has_ensemble or not need.ensemble):
            return None
        need = replace(need, n_views=store.n_views)
    else:
        store = None
    known = dataset in list_datasets()
    where = shlex.quote(str(bench.heads.data.get(dataset, "DATA" if known else "FOLDER")))
    words = [
        "meantime encode",
        f"{dataset} --root {where}" if known else where,
        "--model",
        shlex.quote(_model(encoder)),
    ]
    words += ["--views 65 --diffusion MADE"] if kind == "diffusion" else [f"--views {need.n_views}"]
    words += ["--augment augmix"] if kind == "augmix" else []
    words += [f"--subset {need.subset}"] if need.subset and (store is None or len(store) == need.subset) else []
    words += [f"--seed {seed} --out {shlex.quote(str(_out(store, place, need, folder)))}"]
    words += ["--ensemble"] if need.ensemble else []
    return " ".join(words + ([] if store is None else ["--resume"]))


def _out(store: Store | None, place: Place, need: Need, folder: Path) -> Path:
    if store is not None:
        return store.path
    dataset, encoder, kind, seed = place
    return folder / re.sub(r"[^A-Za-z0-9.]+", "-", f"{dataset}-{_model(encoder)}-{kind}{need.n_views}-seed{seed}")


def _model(encoder: str) -> str:
    """How an encoder is called where it is loaded: a backbone of the paper has OpenAI's weights."""
    return f"{encoder}:openai" if encoder in BACKBONES else encoder

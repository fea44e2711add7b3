"""Reading a store: facts from the manifest, class embeddings, and the views in batches of bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.errors import MeantimeError
from meantime.remote import as_path
from meantime.store.files import sizes
from meantime.store.manifest import Manifest, Plan, load_manifest
from meantime.store.shards import read_groups
from meantime.store.texts import Texts, read_texts

PLAIN = ("index", "key", "label", "views")
EXTRAS = ("pixels", "norms", "boxes", "flips")


@dataclass(frozen=True)
class Batch:
    """Some images of a store, in order. The extras are there where they were asked for."""

    views: NDArray[np.float32]  # (b, N, d), unit length up to the rounding of float16
    labels: NDArray[np.int64]  # (b,); -1 in a store without labels
    index: NDArray[np.int64]  # (b,) in the dataset
    keys: tuple[str, ...]
    pixels: tuple[str, ...] | None = None  # hash of the decoded pixels of each image
    norms: NDArray[np.float32] | None = None  # (b, N)
    boxes: NDArray[np.float32] | None = None  # (b, N, 4)
    flips: NDArray[np.bool_] | None = None  # (b, N)

    def __len__(self) -> int:
        return len(self.index)


class Store:
    """The encoded views of a dataset on disk. Made by :func:`open_store`; nothing is read before it is asked for."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    def __len__(self) -> int:
        """Images that could be read."""
        return sum(shard.rows for shard in self.manifest.shards)

    def __repr__(self) -> str:
        plan = self.plan
        return f"Store({str(self.path)!r}: {len(self)} images of {plan.dataset} x {plan.n_views} views x {plan.dim})"

    @property
    def plan(self) -> Plan:
        """What it is made of: dataset, encoder, views, seed."""
        return self.manifest.plan

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.plan.dataset

    @property
    def class_names(self) -> tuple[str, ...]:
        """The K names, by label."""
        return self.plan.classes

    @property
    def logit_scale(self) -> float:
        """tau of the encoder."""
        return self.plan.logit_scale

    @property
    def seed(self) -> int:
        """Of the random crops."""
        return self.plan.seed

    @property
    def n_views(self) -> int:
        """N."""
        return self.plan.n_views

    @property
    def dim(self) -> int:
        """d."""
        return self.plan.dim

    @property
    def complete(self) -> bool:
        """Whether every image of the dataset is in, or listed among the errors."""
        return self.manifest.complete

    @property
    def errors(self) -> list[dict[str, Any]]:
        """Index, key and error of every image that could not be read."""
        return self.manifest.errors

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The labels of all images, (M,), in the order of the batches."""
        if not self.plan.labelled:
            raise MeantimeError(unlabelled(self.path))
        parts = [g["label"] for s in self.manifest.shards for g in read_groups(self.path / s.file, ["label"])]
        return np.concatenate([np.empty(0, np.int64), *parts])

    @cached_property
    def texts(self) -> Texts:
        """Class embeddings: ``texts.single`` (K, d) and, where they were kept, ``texts.ensemble`` (K, d)."""
        return Texts(self._texts("single")[0], self._texts("ensemble")[0] if self.has_ensemble else None)

    @property
    def has_ensemble(self) -> bool:
        """Whether the 80 prompts were kept."""
        return "ensemble" in self.manifest.texts

    def templates(self) -> NDArray[np.float16]:
        """(P, K, d): the class embeddings of each of the 80 prompts, read from disk at each call."""
        return self._texts("templates")

    def _texts(self, kind: str) -> NDArray[Any]:
        if kind not in self.manifest.texts:
            raise MeantimeError(
                f"the store {str(self.path)!r} has no text embeddings of the kind {kind!r}; "
                "add them by `meantime encode --resume --ensemble`"
            )
        return read_texts(self.path / self.manifest.texts[kind].file, len(self.class_names))

    def batches(self, size: int = 64, *, views: int | None = None, extras: bool = False) -> Iterator[Batch]:
        """Yield all images in order, ``size`` at a time (the last batch may be smaller).

        Only one row group and one batch are in memory, whatever the size of the store.

        Parameters
        ----------
        views
            Only the first so many views: the same that a run with fewer views makes.
        extras
            Also read norms, boxes, flips and pixel hashes.
        """
        if size < 1:
            raise MeantimeError(f"batches of {size} images were asked for; expected at least 1")
        n = self.n_views if views is None else views
        if not 1 <= n <= self.n_views:
            raise MeantimeError(f"{n} views were asked for; the store {str(self.path)!r} has 1 to {self.n_views}")
        columns = PLAIN + EXTRAS if extras else PLAIN
        waiting: list[dict[str, Any]] = []
        rows = 0
        for shard in self.manifest.shards:
            for group in read_groups(self.path / shard.file, columns):
                waiting.append(group)
                rows += len(group["index"])
                while rows >= size:
                    taken, waiting = _take(waiting, size)
                    rows -= size
                    yield self._batch(taken, n)
        if rows:
            yield self._batch(_take(waiting, rows)[0], n)

    def _batch(self, parts: list[dict[str, Any]], n: int) -> Batch:
        count = sum(len(part["index"]) for part in parts)

        def joined(name: str, *shape: int) -> Any:
            if name not in parts[0]:
                return None
            return np.concatenate([p[name].reshape(-1, self.n_views, *shape)[:, :n] for p in parts])

        # Widened straight into its place: one copy fewer of the largest array.
        views = np.empty((count, n, self.dim), np.float32)
        start = 0
        for part in parts:
            stop = start + len(part["index"])
            views[start:stop] = part["views"].reshape(-1, self.n_views, self.dim)[:, :n]
            start = stop
        return Batch(
            views,
            np.concatenate([p["label"] for p in parts]).astype(np.int64),
            np.concatenate([p["index"] for p in parts]),
            tuple(key for p in parts for key in p["key"]),
            tuple(h for p in parts for h in p["pixels"]) if "pixels" in parts[0] else None,
            joined("norms"),
            joined("boxes", 4),
            joined("flips"),
        )


def _take(groups: list[dict[str, Any]], size: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split row groups into the first ``size`` rows and the rest; arrays are views, not copies."""
    taken, rest = [], []
    for group in groups:
        rows = len(group["index"])
        here = min(size, rows)
        size -= here
        if here:
            taken.append({name: values[:here] for name, values in group.items()})
        if here < rows:
            rest.append({name: values[here:] for name, values in group.items()})
    return taken, rest


def unlabelled(path: Path) -> str:
    """What to say where labels of a store without any are asked for."""
    return (
        f"the store {str(path)!r} has no labels, so nothing can be measured on it; it gives answers by "
        f"`meantime predict {path}`. To measure, import it again with an array 'labels'"
    )


def open_store(path: str | Path) -> Store:
    """Open a store, complete or not; a file that is missing or truncated is found at once."""
    folder = as_path(path)
    if not folder.is_dir():
        raise MeantimeError(f"there is no store {str(folder)!r}: it is not a folder")
    manifest = load_manifest(folder)
    there = sizes(folder)
    for entry in manifest.files:
        size = there.get(entry.file)
        if size != entry.bytes:
            problem = "is missing" if size is None else f"is truncated or changed: {size} bytes, not {entry.bytes}"
            raise MeantimeError(
                f"{str(folder / entry.file)!r} {problem}; copy it again, or delete it and run "
                "`meantime encode --resume`"
            )
    return Store(folder, manifest)

"""Views of the training photos as features: encoded once into a store, from which every epoch samples.

All fits share a folder of such stores. What one of them holds is never encoded again, whichever fit made it.
"""

import hashlib
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime import pipeline
from meantime.datasets import Dataset
from meantime.datasets.base import Samples
from meantime.encoders import Encoder
from meantime.errors import MeantimeError
from meantime.images import load_image
from meantime.store import Store, open_store
from meantime.store.encode import encode_dataset
from meantime.store.manifest import NAME
from meantime.views import ViewSpec
from meantime.views.boxes import pixel_hash

Floats = NDArray[np.float32]
Progress = Callable[[int, int], None]
COMPARED = 16  # photos whose pixels are compared with a store's: another folder may have the same names
BLOCK = 8  # epochs that `fresh` crops at a time, so that view 0 is encoded only once for all of them


class TrainingViews:
    """Features (n, views, d) of n drawn photos; photos drawn twice are kept once. View 0 is the original."""

    def __init__(self, views: NDArray[np.float16], norms: Floats, rows: NDArray[np.int64]) -> None:
        self.views = views  # (photos, views, d), unit length
        self.norms = norms  # (photos, views)
        self.rows = rows  # (n,)

    def __call__(self, epoch: int, seed: int) -> Floats:
        """Return a crop of each photo for an epoch, (n, d) of unit length: chosen at random."""
        chosen = np.random.default_rng([seed, epoch]).integers(1, self.views.shape[1], size=len(self.rows))
        return _unit(self.views[self.rows, chosen])

    def in_turn(self, start: int) -> Callable[[int, int], Floats]:
        """Return features that give view ``start`` + epoch instead: a crop that no other epoch sees."""

        def features(epoch: int, seed: int) -> Floats:
            return _unit(self.views[self.rows, start + epoch % (self.views.shape[1] - start)])

        return features

    @property
    def originals(self) -> Floats:
        """View 0 of each photo, (n, d), unit length."""
        return _unit(self.views[self.rows, 0])

    def keys(self, passes: int = 10) -> Floats:
        """Return Tip-Adapter's keys (n, d): the mean over crops of features as the encoder gave them, unit length."""
        raw = self.views[:, 1 : 1 + passes].astype(np.float32) * self.norms[:, 1 : 1 + passes, None]
        return _unit(raw.mean(axis=1))[self.rows]


def _unit(x: NDArray[np.floating[Any]]) -> Floats:
    x = np.asarray(x, np.float32)
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True), np.float32)


def training_views(
    dataset: Dataset,
    numbers: Sequence[int],
    encoder: Encoder,
    spec: ViewSpec,
    folder: str | Path,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrainingViews:
    """Return the views of the photos with these numbers; those in no store of ``folder`` yet are encoded into one."""
    folder = Path(folder)
    keys = {dataset.samples.keys[i]: i for i in numbers}
    found: dict[str, tuple[NDArray[np.float16], Floats]] = {}
    for store in _stores(folder):
        if _fits(store, dataset, encoder, spec, seed):
            rows = _read(store, keys.keys() - found.keys(), spec.n)
            _compare_pixels(store, rows, dataset, keys)
            found |= {key: (views, norms) for key, (views, norms, _) in rows.items()}
    missing = {key: i for key, i in keys.items() if key not in found}
    if missing:
        part = _part(dataset, list(missing.values()))
        mark = hashlib.sha256(f"{part.fingerprint} {encoder.identity} {spec.identity} {spec.n} {seed}".encode())
        store = encode_dataset(
            part,
            folder / f"{dataset.name}-{dataset.split}-{mark.hexdigest()[:10]}",
            encoder,
            spec,
            seed=seed,
            prompt=dataset.prompt,
            resume=True,
            progress=progress,
        )
        if store.errors:
            raise MeantimeError(
                f"a photo that was drawn cannot be read: {store.errors[0]['error']}. Repair it, or remove it and "
                "the draw, then fit again"
            )
        found |= {key: (views, norms) for key, (views, norms, _) in _read(store, missing.keys(), spec.n).items()}
    places = {key: row for row, key in enumerate(keys)}
    rows_ = np.array([places[dataset.samples.keys[i]] for i in numbers], np.int64)
    return TrainingViews(np.stack([found[k][0] for k in keys]), np.stack([found[k][1] for k in keys]), rows_)


def _stores(folder: Path) -> list[Store]:
    if (folder / NAME).is_file():
        return [open_store(folder)]
    return [open_store(path.parent) for path in sorted(folder.glob(f"*/{NAME}"))]


def _fits(store: Store, dataset: Dataset, encoder: Encoder, spec: ViewSpec, seed: int) -> bool:
    plan = store.plan
    same = (plan.dataset, plan.split, plan.encoder, plan.views, plan.seed)
    asked = (dataset.name, dataset.split, encoder.identity, spec.identity, seed)
    return same == asked and plan.n_views >= spec.n


def _read(store: Store, keys: Container[str], n: int) -> dict[str, tuple[NDArray[np.float16], Floats, str]]:
    """The views, norms and pixel hashes of some photos."""
    found: dict[str, tuple[NDArray[np.float16], Floats, str]] = {}
    for batch in store.batches(views=n, extras=True):
        assert batch.norms is not None
        assert batch.pixels is not None
        for i, key in enumerate(batch.keys):
            if key in keys:
                found[key] = (batch.views[i].astype(np.float16), batch.norms[i], batch.pixels[i])
    return found


def _compare_pixels(
    store: Store, rows: dict[str, tuple[NDArray[np.float16], Floats, str]], dataset: Dataset, keys: dict[str, int]
) -> None:
    """Refuse a store in which photos of these names are other photos, by a sample of them."""
    known = [(key, digest) for key, (_, _, digest) in rows.items() if digest]
    for key, digest in known[:: max(1, len(known) // COMPARED)]:
        if f"{pixel_hash(load_image(dataset.samples.sources[keys[key]])):032x}" != digest:
            raise MeantimeError(
                f"the store {str(store.path)!r} has {key!r} with other pixels than it has now: the photos have "
                "changed, or belong to another folder of this name; give another place for training views (--store)"
            )


def _part(dataset: Dataset, numbers: Sequence[int]) -> Dataset:
    s = dataset.samples
    some = Samples([s.sources[i] for i in numbers], [s.labels[i] for i in numbers], [s.keys[i] for i in numbers])
    return Dataset(dataset.name, dataset.class_names, some, dataset.split, dataset.prompt)


class FreshViews:
    """Features cropped anew in every epoch, through the pipeline, instead of sampled from a store."""

    def __init__(self, dataset: Dataset, numbers: Sequence[int], encoder: Encoder, spec: ViewSpec, seed: int) -> None:
        self.sources = [dataset.samples.sources[i] for i in numbers]
        # Photos drawn twice have the same crops: each time they take another of them.
        self.again = np.array([list(numbers[:i]).count(number) for i, number in enumerate(numbers)])
        self.encoder = encoder
        self.spec = replace(spec, n=1 + BLOCK)
        self.seed = seed
        self._block: tuple[int, Floats] | None = None

    def __call__(self, epoch: int, seed: int) -> Floats:
        """Return a crop of each photo, (n, d) of unit length, that no other epoch sees."""
        block, place = divmod(epoch, BLOCK)
        if self._block is None or self._block[0] != block:
            self._block = block, self._crops(int(np.random.default_rng([self.seed, block]).integers(2**31)))
        chosen: Floats = self._block[1][np.arange(len(self.sources)), (place + self.again) % BLOCK]
        return chosen

    def _crops(self, seed: int) -> Floats:
        """(n, BLOCK, d)."""
        crops = []
        for encoded in pipeline.encode(self.sources, self.encoder, self.spec, seed=seed):
            if encoded.embeddings is None:
                raise encoded.error or MeantimeError("a photo that was drawn cannot be read")
            crops.append(encoded.embeddings[1:])
        return _unit(np.stack(crops))

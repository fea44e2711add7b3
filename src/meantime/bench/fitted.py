"""Photos that learned heads were fitted on: where data has no splits they are among those that a table measures.

They are left out of every row, of those without such a head too: rows of one table are about the same images.
"""

from collections.abc import Iterable

import numpy as np

from meantime.bench.passes import Indices
from meantime.store import Store
from meantime.store.shards import read_groups


class FittedOn:
    """The photos to leave out, for each dataset and seed: a seed has draws of its own."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, int], set[str]] = {}

    def add(self, store: Store, keys: Iterable[str]) -> None:
        """Photos of a store's dataset that a head was fitted on."""
        self._keys.setdefault((store.name, store.seed), set()).update(keys)

    def within(self, store: Store) -> Indices:
        """The numbers of those that a store holds."""
        keys = self._keys.get((store.name, store.seed))
        if not keys:
            return np.empty(0, np.int64)
        groups = (g for s in store.manifest.shards for g in read_groups(store.path / s.file, ["index", "key"]))
        pairs = ((i, key) for g in groups for i, key in zip(g["index"], g["key"], strict=True))
        return np.array([i for i, key in pairs if key in keys], np.int64)


def none_left(store: Store, without: Indices) -> str | None:
    """Why a store has no numbers, if nothing of it is left."""
    if not len(without) or len(without) < len(store):
        return None
    return f"heads were fitted on every image of {store.name}, seed {store.seed}: none is left to measure on"


def told(left_out: Iterable[tuple[Store, Indices]]) -> list[str]:
    """What to say of the images that were left out, dataset by dataset."""
    counts: dict[str, list[str]] = {}
    for store, without in left_out:
        if len(without):
            counts.setdefault(store.name, []).append(f"{len(without)} of {len(store)}")
    return [
        f"{name}: {' or '.join(dict.fromkeys(found))} images are left out of every row: heads were fitted on them"
        for name, found in counts.items()
    ]

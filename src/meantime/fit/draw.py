"""Few-shot draws: which photos train a head, and which validate it. A draw is made once, saved, and used again."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meantime.datasets import Dataset
from meantime.datasets.base import Samples
from meantime.errors import MeantimeError
from meantime.fit.pools import Pools

MOST_VALIDATION = 4


@dataclass(frozen=True)
class Draw:
    """Numbers of the drawn photos in the two pools, class by class. A photo may occur twice in ``train``."""

    pools: Pools
    shots: int
    seed: int
    train: tuple[int, ...]
    val: tuple[int, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)  # what the user should know

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each training photo, (n,)."""
        return np.array([self.pools.train.samples.labels[i] for i in self.train], np.int64)

    @property
    def val_labels(self) -> NDArray[np.int64]:
        """The class of each validation photo, (v,)."""
        return np.array([self.pools.val.samples.labels[i] for i in self.val], np.int64)

    def keys(self) -> dict[str, list[str]]:
        """The keys of the photos, for files."""
        train, val = self.pools.train.samples.keys, self.pools.val.samples.keys
        return {"train": [train[i] for i in self.train], "val": [val[i] for i in self.val]}


def draw_shots(pools: Pools, shots: int, seed: int, *, partial: bool = False) -> Draw:
    """Draw ``shots`` photos of each class to train, and min(shots, 4) of each from the validation split to validate.

    The photos of a class are shuffled by the seed and the first are taken, so that a draw of more shots holds that of
    fewer. Only where a class has too few are some taken again. Without a validation split the photos that validate are
    training photos that do not train: min(shots, 4) where there is a training split; where there is no split at all,
    half of that (1 below 4 shots, 2 from there on), because what is left must do for a test. Where a class has too few
    for both, training goes first, and one validates if there are two.

    ``partial`` lets classes without any photo pass: their texts alone speak for them.
    """
    if isinstance(shots, bool) or shots < 1:
        raise MeantimeError(f"{shots!r} shots were asked for; expected at least 1 photo of each class")
    names = pools.train.class_names
    train: list[int] = []
    val: list[int] = []
    repeated: list[str] = []
    untested: list[str] = []
    unvalidated: list[str] = []
    most = min(shots, MOST_VALIDATION)
    own = _by_class(pools.train)
    _refuse_empty(pools.train, own, partial)
    apart = None if pools.val is pools.train else _by_class(pools.val)
    for label, photos in enumerate(own):
        if not photos:
            continue
        order = _shuffled(photos, seed, label, 0)
        if apart is not None:
            checks = _shuffled(apart[label], seed, label, 1)[:most]
        else:
            wanted = max(1, most // 2) if pools.whole else most
            count = min(wanted, max(1, len(order) - shots), len(order) - 1)  # training first, but not all
            order, checks = order[: len(order) - count], order[len(order) - count :]
            if pools.whole and len(order) <= shots:
                untested.append(names[label])
        if not checks:
            unvalidated.append(names[label])
        val += checks
        train += order[:shots]
        if len(order) < shots:
            repeated.append(names[label])
            again = np.random.default_rng([seed, label, 2]).integers(len(order), size=shots - len(order))
            train += [order[i] for i in again]
    if not val:
        raise MeantimeError(
            f"no class of {pools.train.name!r} has a second photo to validate with; expected at least two of some"
        )
    notes = [
        *_note(repeated, f"fewer than {shots} photos to train: some are used again"),
        *_note(unvalidated, "no photo to validate"),
        *_note(untested, "no photo left for a test"),
    ]
    return Draw(pools, shots, seed, tuple(train), tuple(val), tuple(notes))


def _by_class(dataset: Dataset) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in dataset.class_names]
    for i, label in enumerate(dataset.samples.labels):
        found[label].append(i)
    return found


def _shuffled(photos: list[int], seed: int, label: int, stream: int) -> list[int]:
    return [photos[i] for i in np.random.default_rng([seed, label, stream]).permutation(len(photos))]


def _refuse_empty(dataset: Dataset, photos: list[list[int]], partial: bool) -> None:
    empty = [name for name, own in zip(dataset.class_names, photos, strict=True) if not own]
    if empty and not partial:
        raise MeantimeError(
            f"{len(empty)} of the {len(photos)} classes of {dataset.name!r} have no training photo: "
            f"{_some(empty)}. Add photos, leave these classes out, or let their texts speak for them (partial)"
        )
    if len(empty) == len(photos):
        raise MeantimeError(f"{dataset.name!r} has no training photo at all")


def _note(names: list[str], what: str) -> list[str]:
    return [f"{len(names)} {'class has' if len(names) == 1 else 'classes have'} {what} ({_some(names)})"] * bool(names)


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")


def kept_draw(file: Path, pools: Pools, shots: int, seed: int, *, partial: bool = False) -> Draw:
    """Return the draw that a file holds; or make it and write the file, for every later fit."""
    fresh = draw_shots(pools, shots, seed, partial=partial)
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        value = {"dataset": pools.train.name, "shots": shots, "seed": seed, **fresh.keys()}
        part = file.with_name(file.name + ".part")
        part.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        os.replace(part, file)
        return fresh
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
        train, val = _numbers(pools.train.samples, value["train"]), _numbers(pools.val.samples, value["val"])
    except (ValueError, KeyError, TypeError) as error:
        raise MeantimeError(
            f"the draw {str(file)!r} does not fit {pools.train.name!r} ({error}): delete it to draw anew"
        ) from error
    return Draw(pools, shots, seed, train, val, fresh.notes)


def _numbers(samples: Samples, keys: list[str]) -> tuple[int, ...]:
    numbers = {key: i for i, key in enumerate(samples.keys)}
    unknown = [key for key in keys if key not in numbers]
    if unknown:
        raise ValueError(f"there is no photo {unknown[0]!r}")
    return tuple(numbers[key] for key in keys)

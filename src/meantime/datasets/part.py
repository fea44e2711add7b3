"""A part of a dataset that is the same wherever it is drawn: the paper's 1000 images of each set with diffusion views.

The draw depends on the number of images alone, so it needs no file, and a draw of fewer is a part of a draw of more.
"""

from dataclasses import replace

import numpy as np

from meantime.datasets.base import Dataset, Samples
from meantime.datasets.webdataset import Members
from meantime.errors import MeantimeError


def draw(images: int, count: int, seed: int = 0) -> list[int]:
    """``count`` of the numbers 0 to ``images`` - 1 (all, if there are fewer), in order.

    >>> draw(10, 3)
    [0, 8, 9]
    """
    if count < 1:
        raise MeantimeError(f"a subset of {count} images was asked for; expected at least 1")
    # Philox's raw words, whose sequence NumPy guarantees, unlike that of Generator's methods.
    ranks = np.random.Philox(seed).random_raw(images)
    return sorted(np.argsort(ranks, kind="stable")[:count].tolist())


def subset(dataset: Dataset, count: int, seed: int = 0) -> Dataset:
    """The dataset with ``count`` of its images, and all of its classes."""
    every, chosen = dataset.samples, draw(len(dataset.samples), count, seed)
    sources = every.sources
    # Those of archives are only read when they are asked for.
    sources = sources.take(chosen) if isinstance(sources, Members) else [sources[i] for i in chosen]
    labels, keys = [every.labels[i] for i in chosen], [every.keys[i] for i in chosen]
    return replace(dataset, samples=Samples(sources, labels, keys))

"""How many views are enough: encode them in growing groups, and stop where the answer is settled.

The rule. Views are random draws, so the gap between the answer's logit and another class's, view by view, is a
sample, and Student's t-test says how sure it is that its mean lies above zero. An answer is as settled as the least
sure of these gaps, over all other classes. Every view counts alike here, whatever the method makes of it: a few views
with large weights always agree among themselves, and their agreement would be mistaken for certainty. So an answer
that the plain majority of the views does not carry is never settled early.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.heads import Head, HeadName
from meantime.registry import Method

Floats = NDArray[np.floating[Any]]

FIRST = 8  # views of the first group; every further one doubles them
LEVEL = 0.99  # of the test: the usual one in a hundred


def groups(n: int) -> tuple[int, ...]:
    """Return after how many of n views to ask whether the answer is settled.

    >>> groups(64)
    (8, 16, 32, 64)
    """
    sizes = []
    size = FIRST
    while size < n:
        sizes.append(size)
        size *= 2
    return (*sizes, n)


def settled(answer: Floats, views: Floats) -> NDArray[np.float64]:
    """Return how sure it is, in 0..1, that more views would leave the best class where it is.

    ``answer`` (…, K) are the logits of the answer, ``views`` (…, N, K) those of the single views. One view tells
    nothing: 0. A single class has no rival: 1.
    """
    n, k = views.shape[-2:]
    if k == 1:
        return np.ones(answer.shape[:-1])
    if n == 1:
        return np.zeros(answer.shape[:-1])
    best = answer.argmax(axis=-1)[..., None]  # (…, 1)
    own = np.take_along_axis(views, best[..., None, :], axis=-1)  # (…, N, 1)
    gaps = own - views
    mean, spread = gaps.mean(axis=-2, dtype=np.float64), gaps.std(axis=-2, ddof=1, dtype=np.float64)  # (…, K)
    t = mean * math.sqrt(n) / np.maximum(spread, 1e-12)
    np.put_along_axis(t, best, np.inf, axis=-1)
    return student(t.min(axis=-1), n - 1)


def student(t: Floats, freedom: int) -> NDArray[np.float64]:
    """Return P(T <= t) of Student's distribution, by its finite series for whole degrees of freedom."""
    angle = np.arctan(np.asarray(t, np.float64) / math.sqrt(freedom))
    cos2 = np.cos(angle) ** 2
    odd = freedom % 2
    term = np.cos(angle) if odd else np.ones_like(angle)
    total = np.zeros_like(angle)
    for j in range(1 + odd, freedom, 2):  # cos, 2/3 cos^3, … or 1, 1/2 cos^2, …
        total += term
        term = term * cos2 * j / (j + 1)
    within = (angle + np.sin(angle) * total) * 2 / math.pi if odd else np.sin(angle) * total
    return (1 + within) / 2


@dataclass(frozen=True)
class Anytime:
    """The answers of M images, each by as many views as it needed."""

    logits: Floats  # (M, K)
    n_views: NDArray[np.int64]  # (M,)
    settled: NDArray[np.float64]  # (M,)


def anytime(views: Floats, method: Method, heads: Mapping[HeadName, Head], *, level: float = LEVEL) -> Anytime:
    """Answer for images whose views (M, N, d) are all there, as if they had come in groups: for measuring the rule."""
    m, n = views.shape[:2]
    reader = heads[method.reader]
    logits = np.empty((m, reader.n_classes), views.dtype)
    counts, sure = np.full(m, n), np.zeros(m)
    open_ = np.arange(m)
    for size in groups(n):
        if not open_.size:
            break
        seen = views[open_, :size]
        logits[open_] = np.asarray(method(seen, heads).logits)
        sure[open_] = settled(logits[open_], np.asarray(reader(seen)))
        counts[open_] = size
        open_ = open_[sure[open_] < level]
    return Anytime(logits, counts, sure)

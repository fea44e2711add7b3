"""What an aggregator is, and what those that filter views by confidence share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from meantime.meanshift.arrays import Array, array_namespace, log_and_softmax
from meantime.meanshift.head import Head, Reading
from meantime.meanshift.mode import check_share


@dataclass(frozen=True)
class Aggregate(Reading):
    """The answer for each image, and how much each of its views had to do with it."""

    logits: Array  # (…, K)
    weights: Array  # (…, N), on the simplex
    mode: Array | None  # (…, d), unit length; None where an answer is not the reading of an embedding


def joined(answers: Sequence[Aggregate]) -> Aggregate:
    """Return the answers of several images as one, along a new first axis."""
    xp = array_namespace(answers[0].logits)
    modes = [a.mode for a in answers]
    return Aggregate(
        xp.stack([a.logits for a in answers]),
        xp.stack([a.weights for a in answers]),
        None if modes[0] is None else xp.stack(modes),
    )


class Aggregator(Protocol):
    """Views (…, N, d), unit length, seen through a head and read by a reader (by default the head)."""

    def __call__(self, views: Array, head: Head, reader: Head | None = None) -> Aggregate:
        """Return the answer for each image."""


def by_confidence(logits: Array) -> Array:
    """Return the views (…, N) of logits (…, N, K) in order of confidence: lowest entropy first."""
    xp = array_namespace(logits)
    log_p, p = log_and_softmax(logits)
    entropy = -xp.sum(p * log_p, axis=-1)
    return xp.argsort(entropy, axis=-1, stable=True)


def kept_count(n: int, share: float) -> int:
    """Return how many of n views a share keeps: max(1, int(share n))."""
    check_share("share", share)
    return max(1, int(share * n))


def select(x: Array, order: Array) -> Array:
    """Return the rows of x (…, N, c) that order (…, k) names, (…, k, c)."""
    xp = array_namespace(x)
    *leading, n, c = x.shape
    k = order.shape[-1]
    rows = xp.reshape(order, (-1, k))
    start = xp.arange(rows.shape[0], device=x.device)[:, None] * n
    flat = xp.take(xp.reshape(x, (-1, c)), xp.reshape(rows + start, (-1,)), axis=0)
    return xp.reshape(flat, (*leading, k, c))


def uniform_over(order: Array, n: int, dtype: object) -> Array:
    """Return weights (…, n) that are uniform over the views in order (…, k) and zero elsewhere."""
    xp = array_namespace(order)
    chosen = xp.any(order[..., :, None] == xp.arange(n, device=order.device), axis=-2)
    return xp.astype(chosen, dtype) / order.shape[-1]

"""A new aggregator in one file: the geometric median of the views, which a few stray views cannot pull away.

    meantime bench rows --store STORES --plugin examples/new_aggregator.py

The two methods below then stand in every table, with predictions, metrics and paired intervals like the others.
"""

import numpy as np

import meantime as mt
from meantime.aggregators import Aggregate


def geometric_median(views, head, reader=None, *, steps=30):
    """The point with the least sum of distances to the views (…, N, d), by Weiszfeld's iteration on the sphere."""
    median = views[..., 0, :]
    for _ in range(steps):
        distance = np.linalg.norm(views - median[..., None, :], axis=-1)  # (…, N)
        weights = 1 / np.maximum(distance, 1e-6)
        weights = weights / weights.sum(axis=-1, keepdims=True)
        median = np.einsum("...n,...nd->...d", weights, views)
        median = median / np.linalg.norm(median, axis=-1, keepdims=True)
    return Aggregate(logits=(reader or head)(median), weights=weights, mode=median)


mt.add_method("median", mt.Method(geometric_median, "geometric median of the views"))
mt.add_method("median+e", mt.Method(geometric_median, "the same, read by the 80 prompts", "text", "ensemble"))

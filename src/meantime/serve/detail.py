"""Why an answer is as it is: how far each view is trusted, and the mode's path in the plane of the views."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime import aggregators
from meantime.aggregators import Aggregate
from meantime.encoders.base import Floats
from meantime.heads import Head
from meantime.meanshift import mean_shift, mta
from meantime.registry import Method


def details(x: Floats, method: Method, heads: Mapping[Any, Head], aggregate: Aggregate) -> dict[str, Any]:
    """Return what a picture of the answer for unit views (N, d) needs, in plain numbers."""
    centre, axes = _plane(x)
    path = _path(x, method, heads, aggregate)
    return {
        "inlierness": np.asarray(aggregate.weights[0], float).tolist(),
        "points": ((x - centre) @ axes).tolist(),
        "path": ((path - centre) @ axes).tolist(),
    }


def _path(x: Floats, method: Method, heads: Mapping[Any, Head], aggregate: Aggregate) -> NDArray[Any]:
    """Return the modes (L, d) that a method passed through; none if it has no mode."""
    aggregator = getattr(method.aggregator, "func", method.aggregator)
    chosen = getattr(method.aggregator, "keywords", {})
    if aggregator is aggregators.mta:
        return np.asarray(mta(x, heads[method.head], trace=True, **chosen).path)
    if aggregator is aggregators.meanshift:
        return np.asarray(mean_shift(x, trace=True, **chosen).path)
    return x[:0] if aggregate.mode is None else np.asarray(aggregate.mode)


def _plane(x: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the centre (d,) of views (N, d) and the two axes (d, 2) along which they differ most."""
    centre = x.mean(axis=0, dtype=np.float64)
    axes = np.zeros((x.shape[1], 2))
    found = np.linalg.svd(x - centre, full_matrices=False)[2][:2].T
    # A singular vector's sign is the library's whim; this one is the same everywhere.
    signs = np.where(found[np.abs(found).argmax(axis=0), range(found.shape[1])] < 0, -1.0, 1.0)
    axes[:, : found.shape[1]] = found * signs
    return centre, axes

"""Why an answer is as it is: how far each view is trusted, and the mode's path in the plane of the views."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime import aggregators
from meantime.answers import Answer
from meantime.encoders.base import Floats
from meantime.heads import Head
from meantime.meanshift import mean_shift, mta
from meantime.plane import Plane
from meantime.registry import Method


def details(x: Floats, method: Method, heads: Mapping[Any, Head], answer: Answer) -> dict[str, Any]:
    """Return what a picture of the answer for unit views (N, d) needs, in plain numbers."""
    plane = Plane(x)
    return {
        "inlierness": np.asarray(answer.weights, float).tolist(),
        "points": plane.points.tolist(),
        "path": plane(_path(x, method, heads, answer)).tolist(),
    }


def _path(x: Floats, method: Method, heads: Mapping[Any, Head], answer: Answer) -> NDArray[Any]:
    """Return the modes (L, d) that a method passed through; none if it has no mode."""
    aggregator = getattr(method.aggregator, "func", method.aggregator)
    chosen = getattr(method.aggregator, "keywords", {})
    if aggregator is aggregators.mta:
        return np.asarray(mta(x, heads[method.head], trace=True, **chosen).path)
    if aggregator is aggregators.meanshift:
        return np.asarray(mean_shift(x, trace=True, **chosen).path)
    return x[:0] if answer.mode is None else np.asarray(answer.mode)[None]

"""The metrics of one method on one store, in per cent."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.bench.predictions import Predictions

METRICS = {"top1": "top-1", "top5": "top-5", "mean_per_class": "mean per class", "ece": "calibration error"}


def measure(p: Predictions) -> dict[str, float]:
    """Every metric of `METRICS`; the calibration error is in points."""
    return {
        "top1": float(100 * p.hits.mean()),
        "top5": float(100 * p.hits5.mean()),
        "mean_per_class": mean_per_class(p.hits, p.labels),
        "ece": calibration_error(p.confidence, p.hits),
    }


def mean_per_class(hits: NDArray[np.bool_], labels: NDArray[np.integer[Any]]) -> float:
    """The mean over the classes that occur of the accuracy on each, in per cent."""
    classes, place = np.unique(labels, return_inverse=True)
    return float(100 * np.mean(np.bincount(place, hits, len(classes)) / np.bincount(place, minlength=len(classes))))


def reliability(
    confidence: NDArray[np.floating[Any]], hits: NDArray[np.bool_], bins: int = 10
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """For each bin of confidence: its share of the images, its mean confidence, its accuracy (NaN where empty)."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins).astype(np.float64)
    with np.errstate(invalid="ignore"):
        sure = np.bincount(place, confidence, bins) / count
        right = np.bincount(place, hits, bins) / count
    return count / len(hits), sure, right


def calibration_error(confidence: NDArray[np.floating[Any]], hits: NDArray[np.bool_]) -> float:
    """Expected calibration error in points: how far accuracy is from confidence, over ten bins of confidence."""
    share, sure, right = reliability(confidence, hits)
    return float(100 * np.nansum(share * np.abs(right - sure)))

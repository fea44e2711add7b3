"""Which views an answer rests on: the order, the extremes and the shades that page and picture share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.prediction import Floats, Prediction


def ranked(inlierness: Floats) -> NDArray[np.intp]:
    """Indices of the views, the most trusted first."""
    return np.argsort(-inlierness, kind="stable")


def most_trusted(inlierness: Floats, count: int) -> list[int]:
    """Up to ``count`` views that count for more than an equal share: none where all count alike."""
    return [int(i) for i in ranked(inlierness)[:count] if inlierness[i] * len(inlierness) > 1.01]


def least_trusted(inlierness: Floats, count: int) -> list[int]:
    """Up to ``count`` views that count for less than half an equal share, the least first."""
    return [int(i) for i in ranked(inlierness)[::-1][:count] if inlierness[i] * len(inlierness) < 0.5]


def shades(inlierness: Floats) -> NDArray[np.floating[Any]]:
    """Each view's inlierness as 0..1 of the greatest.

    Inlierness falls off by orders of magnitude, so in proportion all but a few views would look alike;
    the root keeps the middle apart from the bottom.
    """
    greatest = float(inlierness.max(initial=0.0))
    return np.sqrt(inlierness / greatest) if greatest > 0 else np.zeros_like(inlierness)


def percent(share: float) -> str:
    """A share in words short enough for a label; what is not quite nothing is not called zero."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %"


def compared(prediction: Prediction, count: int = 5) -> list[tuple[str, float, float]]:
    """The best names with their probabilities, by plain zero-shot and by the method.

    What plain zero-shot would have said is always among them, in the last place if need be.
    """
    best = [int(i) for i in np.argsort(-prediction.probabilities, kind="stable")[:count]]
    plain = int(np.argmax(prediction.plain))
    if plain not in best:
        best[-1] = plain
    return [(prediction.names[i], float(prediction.plain[i]), float(prediction.probabilities[i])) for i in best]

"""The plane in which the views of one image differ most: every picture of them is drawn there."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


class Plane:
    """The two main axes of views (N, d), and the views' places along them."""

    def __init__(self, views: NDArray[np.floating[Any]]) -> None:
        x = np.asarray(views, np.float64)
        self._centre = x.mean(axis=0)
        found = np.linalg.svd(x - self._centre, full_matrices=False)[2][:2].T
        # A singular vector's sign is the library's whim; this one is the same everywhere.
        found *= np.where(found[np.abs(found).argmax(axis=0), range(found.shape[1])] < 0, -1.0, 1.0)
        self._axes = np.pad(found, ((0, 0), (0, 2 - found.shape[1])))  # a single view, or d = 1, spans fewer
        self.points: Points = self(x)
        spread = float(((x - self._centre) ** 2).sum())
        self.seen = float((self.points**2).sum()) / spread if spread > 0 else 1.0  # share of the variance it shows

    def __call__(self, x: NDArray[np.floating[Any]]) -> Points:
        """Where embeddings (…, d) lie in it, (…, 2)."""
        places: Points = (np.asarray(x, np.float64) - self._centre) @ self._axes
        return places

"""The answer for one image: what it shows, how sure that is, and which views it rests on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Prediction:
    """One image's answer. ``label`` is None where the image could not be read or the method abstained."""

    path: str | None  # where the image came from, if it has a name
    names: tuple[str, ...]  # K
    probabilities: Floats  # (K,), by the chosen method; empty if the image could not be read
    plain: Floats  # (K,), by plain zero-shot: view 0 alone
    inlierness: Floats  # (N,), how much each view counts, on the simplex
    boxes: Floats  # (N, 4) left, top, right, bottom of each view in 0..1 of the image
    flips: NDArray[np.bool_]  # (N,)
    embedding: Floats | None = None  # (d,), unit length: the mode, where the method has one
    threshold: float = 0.0  # below this score there is no answer
    error: str | None = None  # why the image could not be read
    settled: float = 0.0  # in 0..1: how sure it is that more views would not change the answer

    @property
    def label(self) -> str | None:
        """The best name."""
        return None if self.error is not None or self.abstained else self.names[self._best]

    @property
    def score(self) -> float:
        """Probability of the best name; 0 if the image could not be read."""
        return float(self.probabilities[self._best]) if self.error is None else 0.0

    @property
    def abstained(self) -> bool:
        """Whether the best score stayed below the threshold."""
        return self.error is None and self.score < self.threshold

    @property
    def n_views(self) -> int:
        """How many views the answer rests on: with ``views="auto"`` as many as it took."""
        return len(self.inlierness)

    @property
    def scores(self) -> list[tuple[str, float]]:
        """Every name with its probability, best first."""
        return self.top(len(self.names))

    @property
    def plain_label(self) -> str | None:
        """What plain zero-shot would have said."""
        return None if self.error is not None else self.names[int(np.argmax(self.plain))]

    @property
    def changed(self) -> bool:
        """Whether the method and plain zero-shot disagree."""
        return self.error is None and self.names[self._best] != self.plain_label

    @property
    def _best(self) -> int:
        return int(np.argmax(self.probabilities))

    def top(self, count: int) -> list[tuple[str, float]]:
        """Return the best names with their probabilities."""
        if self.error is not None:
            return []
        order = np.argsort(-self.probabilities, kind="stable")[:count]
        return [(self.names[i], float(self.probabilities[i])) for i in order]

    def to_dict(self, top: int = 5) -> dict[str, Any]:
        """Return the shape that people know from zero-shot pipelines, plain numbers and texts, and a little more.

        ``plain_label`` is what plain zero-shot says, ``n_views`` how many views the answer rests on.
        """
        if self.error is not None:
            return {"path": self.path, "label": None, "score": None, "scores": [], "error": self.error}
        answer: dict[str, Any] = {
            "path": self.path,
            "label": self.label,
            "score": self.score,
            "scores": [{"label": name, "score": score} for name, score in self.top(top)],
            "plain_label": self.plain_label,
            "n_views": self.n_views,
        }
        if self.abstained:
            answer["abstained"] = True
        return answer


def failure(path: str | None, names: tuple[str, ...], error: str) -> Prediction:
    """Return the entry of an image that could not be read."""
    nothing = np.zeros(0, np.float32)
    return Prediction(
        path,
        names,
        nothing,
        nothing,
        nothing,
        np.zeros((0, 4), np.float32),
        np.zeros(0, np.bool_),
        error=error,
    )

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from meantime.classifier import Classifier
from meantime.prediction import Prediction

NAMES = ("cat", "dog", "pizza", "rocket", "shark", "teapot")
Make = Callable[..., Prediction]


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A picture with something in it: a red disc on a gradient."""
    y, x = np.mgrid[0:150, 0:200]
    pixels = np.stack([x, y, 255 - x], axis=2).astype(np.uint8)
    pixels[(x - 80) ** 2 + (y - 70) ** 2 < 1600] = (220, 30, 30)
    path = tmp_path / "photo.png"
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def make(photo: Path) -> Make:
    """Predictions without a model: the best name of the method and that of plain zero-shot."""

    def prediction(best: str = "cat", plain: str = "cat", path: str | None = "", **fields: object) -> Prediction:
        names: tuple[str, ...] = tuple(fields.pop("names", NAMES))  # type: ignore[arg-type]
        n = 20
        rng = np.random.default_rng(0)
        low = rng.uniform(0, 0.5, (n, 2))
        weights = np.exp(-np.arange(n, dtype=np.float32))
        return Prediction(
            path=str(photo) if path == "" else path,
            names=names,
            probabilities=_peak(names, best),
            plain=_peak(names, plain),
            inlierness=weights / weights.sum(),
            boxes=np.concatenate([low, low + 0.4], axis=1).astype(np.float32),
            flips=np.arange(n) % 2 == 1,
            **fields,  # type: ignore[arg-type]
        )

    return prediction


def _peak(names: tuple[str, ...], best: str) -> np.ndarray:
    shares = np.full(len(names), 0.2 / (len(names) - 1), np.float32)
    shares[names.index(best)] = 0.8
    return shares


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    return Classifier(NAMES, views=8)

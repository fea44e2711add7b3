"""An image on its way: decoded once, cropped group by group, encoded as far as it has got."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.encoders import Encoder
from meantime.errors import ImageError
from meantime.images import ImageSource, Pixels, load_image
from meantime.views import Places, Views, ViewSpec, views_of

# An image of up to so many bytes waits decoded for its next group; a larger one is decoded again.
KEPT = 6_000_000


@dataclass(frozen=True)
class Encoded:
    """The views of one image as embeddings; or why there are none."""

    source: ImageSource
    embeddings: NDArray[np.float32] | None  # (N, d), unit length
    norms: NDArray[np.float32] | None  # (N,), as the encoder gave them
    places: Places | None  # where in the image they lie
    error: ImageError | None = None


class Flight:
    """One image: its next views as pixels, and what is encoded of it so far."""

    def __init__(
        self,
        source: ImageSource,
        encoder: Encoder,
        spec: ViewSpec,
        seed: int = 0,
        load: Callable[[ImageSource], Pixels] = load_image,
    ) -> None:
        self.source = source
        self.error: ImageError | None = None
        self.n = 0  # views encoded so far
        self.size = (0, 0)  # width and height, once it is decoded
        self._encoder, self._spec, self._seed, self._load = encoder, spec, seed, load
        self._pixels: Pixels | None = None
        self._parts: list[tuple[NDArray[np.float32], Places]] = []

    def crop(self, stop: int) -> Views:
        """Return the views from the first that is not encoded up to ``stop``; the work of a thread."""
        pixels = self._load(self.source) if self._pixels is None else self._pixels
        self.size = (pixels.shape[1], pixels.shape[0])
        self._pixels = pixels if stop < self._spec.total and pixels.nbytes <= KEPT else None
        return views_of(
            self.source,
            self._spec,
            self._encoder.preprocess,
            self._seed,
            self.n,
            stop,
            image=pixels,
            cut=getattr(self._encoder, "cut", None),
        )

    def add(self, rows: NDArray[np.float32], places: Places) -> None:
        """Take what the encoder made of the last crops, (n, d); the pixels are no longer needed."""
        self._parts.append((rows, places))
        self.n += len(rows)

    def land(self) -> None:
        """Let go of the decoded image: no more views are wanted."""
        self._pixels = None

    @property
    def embeddings(self) -> NDArray[np.float32]:
        """What is encoded so far, (n, d), unit length."""
        rows = self._rows
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
        return unit

    @property
    def places(self) -> Places:
        """Where these views lie in the image."""
        return Places.join([places for _, places in self._parts])

    def encoded(self) -> Encoded:
        """All of it, or its error."""
        if self.error is not None:
            return Encoded(self.source, None, None, None, self.error)
        return Encoded(self.source, self.embeddings, np.linalg.norm(self._rows, axis=-1), self.places)

    @property
    def _rows(self) -> NDArray[np.float32]:
        return self._parts[0][0] if len(self._parts) == 1 else np.concatenate([rows for rows, _ in self._parts])


def source_name(source: Any) -> str | None:
    """Return the path of an image that has one."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None

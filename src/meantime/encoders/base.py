"""What every encoder offers, whatever runs it: pixels and texts in, embeddings of one space out.

The checks that all of them share live here too.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from meantime.errors import MeantimeError
from meantime.preprocess import Preprocess

Floats = NDArray[np.float32]
Pixels = NDArray[np.uint8]


class Encoder(Protocol):
    """A pair of towers. Embeddings come as the model gives them: not all models give unit length."""

    @property
    def name(self) -> str:
        """What the user asked for: ``"embedded"``, ``"onnx:DIR"``, …"""

    @property
    def identity(self) -> str:
        """A short string for caches and stores; it changes whenever embeddings would."""

    @property
    def dim(self) -> int:
        """d, the length of an embedding."""

    @property
    def logit_scale(self) -> float:
        """tau: the cosine of image and text times this is a logit."""

    @property
    def preprocess(self) -> Preprocess:
        """What the encoder expects of its pixels."""

    def encode_images(self, pixels: Pixels) -> Floats:
        """(n, S, S, 3) uint8 RGB in 0..255, S = ``preprocess.size`` -> (n, d).

        Called from a thread of its own, and by several pipelines at once if they share the encoder.
        """

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """K whole prompts -> (K, d)."""


def check_pixels(pixels: Any, size: int, tensor: type | None = None) -> Any:
    """The array itself if it is (n, size, size, 3) uint8; so too one of the type ``tensor``, which stays as it is."""
    pixels = pixels if tensor is not None and isinstance(pixels, tensor) else np.asarray(pixels)
    shape, dtype = tuple(pixels.shape), str(pixels.dtype).removeprefix("torch.")
    if len(shape) != 4 or shape[1:] != (size, size, 3) or dtype != "uint8":
        raise MeantimeError(
            f"pixels of shape {shape} and type {dtype} given; "
            f"this encoder expects (n, {size}, {size}, 3) of type uint8, RGB in 0..255"
        )
    return pixels


def check_texts(texts: Sequence[str]) -> list[str]:
    """The texts as a list; a bare string is a mistake that would be read letter by letter."""
    if isinstance(texts, str):
        raise MeantimeError(f"one string given ({texts!r}); expected a list of texts: [{texts!r}]")
    texts = list(texts)
    for text in texts:
        if not isinstance(text, str):
            raise MeantimeError(f"texts must be strings; {text!r} of type {type(text).__name__} given")
        if any("\ud800" <= letter <= "\udfff" for letter in text):  # bytes that Python could not decode
            raise MeantimeError(f"the text {text!r} holds bytes that are not UTF-8; save where it comes from as UTF-8")
    return texts

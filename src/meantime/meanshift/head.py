"""Heads: what turns an embedding into logits. Here the one of Eq. 2, made of class embeddings."""

import math
from typing import Protocol, Self

from meantime.errors import MeantimeError
from meantime.meanshift.arrays import Array, array_namespace, as_floats, is_unit, number, softmax, unit

FEW = 256  # embeddings


class Head(Protocol):
    """Scores embeddings; softmax of its logits is its probability."""

    @property
    def n_classes(self) -> int:
        """K."""

    def __call__(self, x: Array) -> Array:
        """Return logits (…, K) of unit embeddings (…, d)."""

    def adapt(self, views: Array) -> "Head":
        """Return the head for one image's views (…, N, d): itself, unless it is tuned on each image."""


class Reading:
    """What a head says of images: logits (…, K), and what follows from them."""

    logits: Array

    @property
    def probabilities(self) -> Array:
        """Softmax of the logits, (…, K)."""
        return softmax(self.logits)

    @property
    def labels(self) -> Array:
        """Index of the best class, (…)."""
        return array_namespace(self.logits).argmax(self.logits, axis=-1)


class TextHead:
    """Cosine with class embeddings (K, d), times the encoder's temperature tau (Eq. 2)."""

    thread_safe = True  # a head that says so may be asked by several threads at once

    def __init__(self, classes: Array, logit_scale: float = 100.0, *, name: str = "classes") -> None:
        classes = as_floats(name, classes, 2, "(K, d)")
        if classes.ndim != 2:
            raise MeantimeError(f"{name} must have shape (K, d), but its shape is {tuple(classes.shape)}")
        logit_scale = number("logit_scale", logit_scale)
        if not (logit_scale > 0 and math.isfinite(logit_scale)):
            raise MeantimeError(f"logit_scale must be positive and finite, but it is {logit_scale}")
        self.logit_scale = logit_scale
        self.classes = classes if is_unit(classes) else unit(name, classes)  # (K, d)

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.classes.shape[0])

    @property
    def dim(self) -> int:
        """Dimension d of the embeddings that it scores."""
        return int(self.classes.shape[1])

    def __call__(self, x: Array) -> Array:
        """Return l_k = tau x' t_k, (…, K), of unit embeddings (…, d)."""
        xp = array_namespace(x)
        classes = self.classes if self.classes.dtype == x.dtype else xp.astype(self.classes, x.dtype)
        # One flat product is faster than a small one for each image; and tau x has fewer numbers than tau t or l.
        flat = xp.reshape(self.logit_scale * x, (-1, x.shape[-1]))
        # The longer factor goes first: OpenBLAS takes a quarter less time for the views of one image, and for those of
        # many nearly the same; rows of logits are then as good to have
        flip = flat.shape[0] < min(self.n_classes, FEW)
        logits = xp.matmul(classes, flat.T).T if flip else xp.matmul(flat, classes.T)
        return xp.reshape(logits, (*x.shape[:-1], self.n_classes))

    def adapt(self, views: Array) -> Self:
        """Return itself: texts do not depend on the image."""
        return self

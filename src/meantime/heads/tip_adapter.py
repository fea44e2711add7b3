"""Tip-Adapter (Zhang et al., 2022): a cache of few photos beside the texts; Tip-Adapter-F also trains its keys.

logits = tau f.W + alpha exp(-beta (1 - f.K)) onehot: keys K are the photos' embeddings, W the class embeddings.
alpha and beta are searched on validation shots; the original searches on the test set, which nothing here can reach.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.meanshift.arrays import Array, array_namespace, as_floats
from meantime.meanshift.head import TextHead

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
STEPS = (200, 20)  # of beta and of alpha
LOWEST = 0.1
SCALE = (7.0, 3.0)  # beta and alpha go up to this; ImageNet's, and that of datasets not named here
SCALES = {
    "caltech101": (12.0, 5.0),
    "dtd": (13.0, 13.0),
    "eurosat": (12.0, 10.0),
    "aircraft": (30.0, 30.0),
    "food101": (10.0, 10.0),
    "flowers102": (50.0, 50.0),
    "cars": (20.0, 10.0),
    "sun397": (12.0, 10.0),
}


class TipAdapterHead:
    """Keys (n, d) with labels (n,) in 0..K-1, beside class embeddings (K, d). A class may have no key at all."""

    thread_safe = True

    def __init__(
        self,
        keys: Array,
        labels: Any,
        classes: Array,
        logit_scale: float = 100.0,
        alpha: float = 1.0,
        beta: float = 1.0,
    ) -> None:
        self.text = TextHead(classes, logit_scale)
        self.keys = as_floats("keys", keys, 2, "(n, d)")
        self.labels = np.asarray(labels, np.int64)
        self.alpha, self.beta = float(alpha), float(beta)
        n, d = self.keys.shape[0], self.keys.shape[-1]
        if self.keys.ndim != 2 or d != self.text.dim:
            raise MeantimeError(f"keys must have shape (n, {self.text.dim}), but it is {tuple(self.keys.shape)}")
        if self.labels.shape != (n,) or self.labels.min() < 0 or self.labels.max() >= self.n_classes:
            raise MeantimeError(
                f"{n} keys need as many labels in 0..{self.n_classes - 1}, but labels has shape {self.labels.shape} "
                f"and lies in {self.labels.min()}..{self.labels.max()}"
            )
        if not (0 <= self.alpha < math.inf and 0 <= self.beta < math.inf):
            raise MeantimeError(f"alpha and beta must be finite and not negative, but they are {alpha} and {beta}")
        self._keys, self._there = _by_class(self.keys, self.labels, self.n_classes)

    @property
    def n_classes(self) -> int:
        """K."""
        return self.text.n_classes

    @property
    def classes(self) -> Array:
        """The class embeddings W (K, d), unit length."""
        return self.text.classes

    @property
    def logit_scale(self) -> float:
        """tau."""
        return self.text.logit_scale

    def __call__(self, x: Array) -> Array:
        """Return the logits (…, K) of unit embeddings (…, d)."""
        logits = self.text(x)
        if self.alpha == 0:
            return logits
        xp = array_namespace(x)
        flat = xp.reshape(x, (-1, x.shape[-1]))
        cosines = xp.matmul(flat, xp.astype(self._keys, x.dtype, copy=False).T)  # (m, K s)
        near = xp.exp(-self.beta * (1 - cosines)) * xp.astype(self._there, x.dtype, copy=False)
        cache = xp.sum(xp.reshape(near, (flat.shape[0], self.n_classes, -1)), axis=-1)
        return logits + self.alpha * xp.reshape(cache, logits.shape)

    def adapt(self, views: Array) -> Self:
        """Return itself: the cache does not depend on the image."""
        return self


def _by_class(keys: Array, labels: Labels, n_classes: int) -> tuple[Array, Array]:
    """Keys (K s, d) in equal runs of s for each class, and which of them are there (K s,).

    The product with a one-hot matrix is then the sum of a run: at 16 shots of 1000 classes a thousandth of the work.
    """
    xp = array_namespace(keys)
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=n_classes)
    size = int(counts.max())
    place = np.arange(size) < counts[:, None]  # (K, s)
    source = np.zeros((n_classes, size), np.int64)
    source[place] = order
    there = place.reshape(-1).astype(np.float32)
    rows = xp.take(keys, xp.asarray(source.reshape(-1), device=keys.device), axis=0)
    return rows, xp.asarray(there, device=keys.device)


@dataclass(frozen=True)
class Found:
    """The best of the grid: its accuracy on the validation shots, and plain zero-shot's there."""

    alpha: float
    beta: float
    accuracy: float
    zero_shot: float


def search(head: TipAdapterHead, features: Floats, labels: Labels, scale: tuple[float, float] = SCALE) -> Found:
    """Search beta (200 steps) and alpha (20) on validation shots; of equals the first, smallest beta then alpha.

    ``features`` (v, d) and ``labels`` (v,) are those of the validation shots: nothing else is read.
    """
    betas, alphas = (LOWEST + np.arange(n) * (high - LOWEST) / n for n, high in zip(STEPS, scale, strict=True))
    text = np.asarray(head.text(features))
    hits = np.zeros((len(betas), len(alphas)), np.int64)
    keys, there = np.asarray(head._keys), np.asarray(head._there)
    for start in range(0, len(features), 512):  # 512 x 16,000 cosines of ImageNet at 16 shots: 32 MB
        part = slice(start, start + 512)
        gap = 1 - features[part] @ keys.T
        for i, beta in enumerate(betas):
            cache = (np.exp(-beta * gap) * there).reshape(len(gap), head.n_classes, -1).sum(axis=-1)
            for j, alpha in enumerate(alphas):
                hits[i, j] += ((text[part] + alpha * cache).argmax(axis=-1) == labels[part]).sum()
    b, a = divmod(int(hits.argmax()), len(alphas))
    plain = (text.argmax(axis=-1) == labels).mean()
    return Found(float(alphas[a]), float(betas[b]), float(hits[b, a] / len(labels)), float(plain))


def train_keys(
    head: TipAdapterHead,
    features: Callable[[int, int], Floats],
    labels: Labels,
    *,
    epochs: int = 20,
    batch: int = 256,
    lr: float = 1e-3,
    eps: float = 1e-4,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> TipAdapterHead:
    """Tip-Adapter-F: train the keys by cross-entropy, from those of ``head``; the last step is kept.

    ``features(epoch, seed)`` gives a fresh crop (n, d) of each of the n training photos, ``labels`` (n,) its class.
    """
    torch = optional("torch", "Tip-Adapter-F", "torch")
    keys = torch.tensor(np.asarray(head.keys), dtype=torch.float32, requires_grad=True)
    onehot = torch.nn.functional.one_hot(torch.from_numpy(head.labels), head.n_classes).float()
    classes = head.logit_scale * torch.from_numpy(np.asarray(head.classes, np.float32))
    truth = torch.from_numpy(np.asarray(labels, np.int64))
    steps = -(-len(truth) // batch)
    optimizer = torch.optim.AdamW([keys], lr=lr, eps=eps)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * steps)
    shuffle = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        views = torch.from_numpy(features(epoch, seed))
        for rows in torch.randperm(len(truth), generator=shuffle).split(batch):
            f = views[rows]
            cache = torch.exp(-head.beta * (1 - f @ keys.T)) @ onehot
            loss = torch.nn.functional.cross_entropy(f @ classes.T + head.alpha * cache, truth[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if progress is not None:
            progress(epoch + 1, epochs)
    return TipAdapterHead(keys.detach().numpy(), head.labels, head.classes, head.logit_scale, head.alpha, head.beta)

"""TPT (Shu et al. 2022): for each image, one step that makes the prompt agree on the image's confident views.

The prompt moves down the entropy of the mean prediction of the 10 % most confident views, and is reset for the next
image. Features do not depend on the prompt, so an image costs one backward and one forward of the text tower; the
forward before them is the same for every image.
"""

import math
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from meantime.aggregators.base import by_confidence, kept_count, select
from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.meanshift.arrays import Array, array_namespace, as_floats, unit
from meantime.meanshift.head import Head, TextHead
from meantime.meanshift.mode import check_share

if TYPE_CHECKING:
    from meantime.prompting.prompts import Prompter

torch = optional("torch", "TPT", "torch")

Tensor = Any
# Images are tuned together as far as their class embeddings, and the gradients at these, take no more than this.
TOGETHER = 16 * 2**20


class TPTHead:
    """A head whose prompt is tuned on the views of each image, from ``context`` or the prompter's words."""

    def __init__(
        self,
        prompter: "Prompter",
        logit_scale: float = 100.0,
        *,
        context: Any = None,
        steps: int = 1,
        lr: float = 5e-3,
        keep: float = 0.1,
    ) -> None:
        if steps < 1 or not lr > 0:
            raise MeantimeError(f"steps must be at least 1 and lr positive, but they are {steps} and {lr}")
        check_share("keep", keep)
        self.prompter, self.steps, self.lr, self.keep = prompter, steps, lr, keep
        with torch.no_grad():
            self.context = prompter.check(prompter.initial if context is None else context)
            self._classes = prompter(self.context)  # of every image's first forward
        self._plain = TextHead(self._classes, logit_scale)
        self.logit_scale = self._plain.logit_scale

    @property
    def n_classes(self) -> int:
        """K."""
        return self._plain.n_classes

    def __call__(self, x: Array) -> Array:
        """Return the logits (…, K) of the prompt before any tuning."""
        return _like(self._plain(_tensor(x, self._classes)), x)

    def kept(self, logits: Tensor) -> Tensor:
        """Return the views (B, k) that count, of first logits (B, N, K)."""
        return by_confidence(logits)[..., : kept_count(logits.shape[-2], self.keep)]

    def adapt(self, views: Array) -> Head:
        """Return the head of the prompts tuned on unit views (…, N, d), class embeddings (…, K, d)."""
        views = as_floats("views", views, 2, "(…, N, d)")
        if views.shape[-1] != self._plain.dim:
            raise MeantimeError(f"views of {views.shape[-1]} dimensions given; the encoder has {self._plain.dim}")
        *leading, n, d = views.shape
        flat = _tensor(views, self._classes).reshape(-1, n, d)
        few = max(1, TOGETHER // (self._classes.numel() * 4))
        classes = torch.cat([self._tuned(flat[i : i + few]) for i in range(0, len(flat), few)])
        return TunedHead(_like(classes.reshape(*leading, *self._classes.shape), views), self.logit_scale)

    def _tuned(self, views: Tensor) -> Tensor:
        """Class embeddings (B, K, d) after the steps; AdamW works on each element alone, so images stay apart."""
        with torch.no_grad():
            kept = select(views, self.kept(self._plain(views)))
        context = self.context.expand(len(views), *self.context.shape).clone().requires_grad_()
        optimizer = torch.optim.AdamW([context], lr=self.lr)
        few = max(1, self.prompter.piece // self.n_classes)
        for step in range(self.steps):
            if step == 0:  # where all contexts are still the same
                classes = self._classes.expand(len(views), *self._classes.shape)
                context.grad = self.prompter.pull(self.context, self._downhill(kept, classes, lambda x: x))
            else:  # a few at a time, so that their graphs do not add up
                parts = [slice(i, i + few) for i in range(0, len(views), few)]
                context.grad = torch.cat([self._downhill(kept[i], context[i], self.prompter) for i in parts])
            optimizer.step()
        with torch.no_grad():
            return self.prompter(context)

    def _downhill(self, kept: Tensor, x: Tensor, classes: Callable[[Tensor], Tensor]) -> Tensor:
        """The gradient at x of the entropy that class embeddings (B, K, d) made from it leave on the kept views."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            loss = mean_entropy(scores(kept, classes(x), self.logit_scale)).sum()
        return torch.autograd.grad(loss, x)[0]


class TunedHead:
    """The class embeddings (…, K, d) that the prompts of some images give, each image read by its own."""

    def __init__(self, classes: Array, logit_scale: float) -> None:
        self.classes, self.logit_scale = unit("classes", classes), logit_scale

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.classes.shape[-2])

    def __getitem__(self, image: int) -> "TunedHead":
        """Return the head of one image (along the first axis)."""
        head = copy(self)
        head.classes = self.classes[image]
        return head

    def __call__(self, x: Array) -> Array:
        """Return the logits of each image's views (…, N, d), (…, N, K), or of one embedding each, (…, d).

        The head of a single image reads any number of embeddings.
        """
        xp = array_namespace(x)
        images = tuple(self.classes.shape[:-2])
        classes = xp.astype(self.classes, x.dtype, copy=False)
        if not images or tuple(x.shape[:-2]) == images:
            return self.logit_scale * xp.matmul(x, xp.matrix_transpose(classes))
        if tuple(x.shape[:-1]) != images:
            raise MeantimeError(
                f"a prompt was tuned for each of {images} images, but embeddings of shape {tuple(x.shape)} were given; "
                f"expected {(*images, 'N', x.shape[-1])} or {(*images, x.shape[-1])}, of the same images; "
                "head[i] is that of image i"
            )
        return self.logit_scale * xp.matmul(classes, x[..., None])[..., 0]

    def adapt(self, views: Array) -> Self:
        """Return itself: it is tuned already."""
        return self


def scores(views: Tensor, classes: Tensor, logit_scale: float) -> Tensor:
    """Logits (B, n, K) of unit views (B, n, d) with the class embeddings (B, K, d) of each image."""
    return logit_scale * views @ torch.nn.functional.normalize(classes, dim=-1).mT


def mean_entropy(logits: Tensor) -> Tensor:
    """Entropy (…) of the mean over views of predictions (…, n, K), in log space."""
    mean = logits.log_softmax(-1).logsumexp(-2) - math.log(logits.shape[-2])
    mean = mean.clamp(min=torch.finfo(mean.dtype).min)  # a probability of zero adds nothing
    return -(mean * mean.exp()).sum(-1)


def _tensor(x: Array, like: Tensor) -> Tensor:
    return torch.as_tensor(x).to(like.device, like.dtype)


def _like(x: Tensor, other: Array) -> Array:
    """The tensor as an array of the other's library, device and type."""
    if isinstance(other, torch.Tensor):
        return x.to(other.device, other.dtype)
    return np.asarray(x.cpu().numpy(), other.dtype) if isinstance(other, np.ndarray) else x

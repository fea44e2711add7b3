"""CLIP + Ensemble: many prompts for each class, reduced to one score.

The paper calls it a majority vote and its program has none, so three reductions are here: the mean of the
embeddings, as CLIP's authors do it; the mean of the predictions; and the vote.
"""

from typing import Literal, Self

from meantime.errors import MeantimeError
from meantime.meanshift.arrays import Array, array_namespace, as_floats, softmax, unit
from meantime.meanshift.head import Head, TextHead

Reduction = Literal["embedding", "probability", "vote"]


def ensemble_head(classes: Array, logit_scale: float = 100.0, reduction: Reduction = "embedding") -> Head:
    """Return the head of P prompts for each of K classes, embeddings (P, K, d)."""
    classes = as_floats("classes", classes, 3, "(P, K, d)")
    if classes.ndim != 3:
        raise MeantimeError(f"classes must have shape (P, K, d), but its shape is {tuple(classes.shape)}")
    if reduction == "embedding":
        xp = array_namespace(classes)
        return TextHead(xp.mean(unit("classes", classes), axis=0), logit_scale)
    heads = [TextHead(classes[p, ...], logit_scale) for p in range(classes.shape[0])]
    if reduction == "probability":
        return ProbabilityMean(heads)
    if reduction == "vote":
        return Vote(heads)
    raise MeantimeError(f"reduction must be 'embedding', 'probability' or 'vote', not {reduction!r}")


class _Prompts:
    """P heads, asked one after the other so that memory does not grow with P."""

    thread_safe = True

    def __init__(self, heads: list[TextHead]) -> None:
        self.heads = heads

    @property
    def n_classes(self) -> int:
        """K."""
        return self.heads[0].n_classes

    def adapt(self, views: Array) -> Self:
        """Return itself: prompts do not depend on the image."""
        return self


class ProbabilityMean(_Prompts):
    """The mean over the prompts of their softmax predictions."""

    def __call__(self, x: Array) -> Array:
        """Return the logarithm of the mean probability, (…, K)."""
        total = sum(softmax(head(x)) for head in self.heads)
        return log_of_share(total / len(self.heads))


class Vote(_Prompts):
    """The share of the prompts whose best class it is."""

    def __call__(self, x: Array) -> Array:
        """Return the logarithm of the share of votes, (…, K); among equals the first class wins."""
        xp = array_namespace(x)
        names = xp.arange(self.n_classes, device=x.device)
        votes = sum(xp.astype(xp.argmax(head(x), axis=-1)[..., None] == names, x.dtype) for head in self.heads)
        return log_of_share(votes / len(self.heads))


def log_of_share(share: Array) -> Array:
    """Return ln share, finite also where the share is zero."""
    xp = array_namespace(share)
    return xp.log(xp.maximum(share, xp.full_like(share, xp.finfo(share.dtype).smallest_normal)))

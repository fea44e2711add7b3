"""CLIP: the original view alone, plain zero-shot."""

from meantime.aggregators.base import Aggregate, uniform_over
from meantime.meanshift.arrays import Array, array_namespace
from meantime.meanshift.head import Head


def first(views: Array, head: Head, reader: Head | None = None) -> Aggregate:
    """Read view 0 and nothing else."""
    xp = array_namespace(views)
    original = views[..., 0, :]
    only = xp.zeros((*views.shape[:-2], 1), dtype=xp.int64, device=views.device)
    return Aggregate((reader or head)(original), uniform_over(only, views.shape[-2], views.dtype), original)

"""The plain mean of all views: what MeanShift becomes with an infinite bandwidth."""

from meantime.aggregators.base import Aggregate
from meantime.meanshift.arrays import Array, array_namespace, unit
from meantime.meanshift.head import Head


def mean(views: Array, head: Head, reader: Head | None = None) -> Aggregate:
    """Read the mean direction of the views."""
    xp = array_namespace(views)
    m = unit("the mean of the views", xp.mean(views, axis=-2))
    n = views.shape[-2]
    return Aggregate((reader or head)(m), xp.full(views.shape[:-1], 1 / n, dtype=views.dtype, device=views.device), m)

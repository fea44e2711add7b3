"""MeanShift (Algorithm 1): the mode of the views' density, every view counting alike (y_p = 1)."""

from meantime.aggregators.base import Aggregate
from meantime.meanshift.arrays import Array, array_namespace
from meantime.meanshift.head import Head
from meantime.meanshift.mode import mean_shift


def meanshift(views: Array, head: Head, reader: Head | None = None, *, rho: float = 0.3) -> Aggregate:
    """Climb from view 0 to the nearest mode and read that."""
    xp = array_namespace(views)
    m = mean_shift(views, rho=rho).mode
    n = views.shape[-2]
    return Aggregate((reader or head)(m), xp.full(views.shape[:-1], 1 / n, dtype=views.dtype, device=views.device), m)

"""Confidence threshold, as TPT filters: only the views whose prediction has the lowest entropy count."""

from typing import Literal

from meantime.aggregators.base import Aggregate, by_confidence, kept_count, select, uniform_over
from meantime.meanshift.arrays import Array, array_namespace, unit
from meantime.meanshift.head import Head
from meantime.meanshift.mode import mean_shift


def confidence(
    views: Array,
    head: Head,
    reader: Head | None = None,
    *,
    share: float = 0.1,
    centre: Literal["mean", "mode"] = "mean",
) -> Aggregate:
    """Keep the most confident ``share`` of the views and read their mean, or the mode that view 0 leads to."""
    xp = array_namespace(views)
    n = views.shape[-2]
    order = by_confidence(head(views))[..., : kept_count(n, share)]
    kept = select(views, order)
    if centre == "mean":
        m = unit("the mean of the kept views", xp.mean(kept, axis=-2))
    else:
        m = mean_shift(kept, views[..., 0, :]).mode
    return Aggregate((reader or head)(m), uniform_over(order, n, views.dtype), m)

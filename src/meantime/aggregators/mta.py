"""MTA (Algorithm 2): the mode, and how far to trust each view, found together."""

from typing import Literal

from meantime.aggregators.base import Aggregate
from meantime.meanshift import mta as solve
from meantime.meanshift.arrays import Array
from meantime.meanshift.head import Head


def mta(
    views: Array,
    head: Head,
    reader: Head | None = None,
    *,
    lambda_: float = 4.0,
    lambda_y: float = 0.2,
    rho: float = 0.3,
    variant: str = "official",
    affinity: Literal["head", "vision"] = "head",
) -> Aggregate:
    """Read the mode; weights are the inlierness."""
    r = solve(
        views,
        head,
        reader=reader,
        lambda_=lambda_,
        lambda_y=lambda_y,
        rho=rho,
        variant=variant,
        affinity=affinity,
    )
    return Aggregate(r.logits, r.inlierness, r.mode)

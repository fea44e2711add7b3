"""Methods by name: each an aggregator, the head through which it sees the views, and the head that reads.

Every row of the paper's tables is such a combination; so is a row of one's own (:func:`add_method`).
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from meantime import aggregators
from meantime.aggregators import Aggregate, Aggregator
from meantime.errors import MeantimeError
from meantime.heads import HeadName
from meantime.meanshift.arrays import Array
from meantime.meanshift.head import Head


@dataclass(frozen=True)
class Method:
    """One system: ``aggregator(views, head, reader)`` with the heads named by their role."""

    aggregator: Aggregator
    summary: str
    head: HeadName = "text"
    reader: HeadName = "text"

    @property
    def heads(self) -> set[HeadName]:
        """The heads it needs."""
        return {self.head, self.reader}

    def __call__(self, views: Array, heads: Mapping[HeadName, Head]) -> Aggregate:
        """Answer for images with unit views (…, N, d)."""
        head = heads[self.head].adapt(views)
        return self.aggregator(views, head, head if self.reader == self.head else heads[self.reader])


_confidence_mode = functools.partial(aggregators.confidence, centre="mode")
_mta_vision = functools.partial(aggregators.mta, affinity="vision")

_METHODS: dict[str, Method] = {
    "clip": Method(aggregators.first, "the original view alone: plain zero-shot"),
    "clip+e": Method(aggregators.first, "plain zero-shot, read by the 80-prompt ensemble", "ensemble", "ensemble"),
    "mean": Method(aggregators.mean, "mean of all views"),
    "meanshift": Method(aggregators.meanshift, "mode of all views, each counting alike (Algorithm 1)"),
    "confidence": Method(aggregators.confidence, "mean of the 10 % most confident views"),
    "confidence-mode": Method(_confidence_mode, "mode of the 10 % most confident views"),
    "mta": Method(aggregators.mta, "mode and inlierness together (Algorithm 2)"),
    "mta+e": Method(aggregators.mta, "MTA, its mode read by the 80-prompt ensemble", "text", "ensemble"),
    "mta-ensemble": Method(aggregators.mta, "MTA with the ensemble in its affinity too", "ensemble", "ensemble"),
    "mta-vision": Method(_mta_vision, "MTA with affinities from the embeddings alone"),
    "zero": Method(aggregators.zero, "vote of the 30 % most confident views"),
    "zero+e": Method(aggregators.zero, "the same vote, with the 80-prompt ensemble", "ensemble", "ensemble"),
}


def methods() -> dict[str, Method]:
    """Return every named method."""
    return dict(_METHODS)


def add_method(name: str, method: Method) -> None:
    """Give a method of one's own a name, for Python, the command line and every table."""
    if name in _METHODS:
        raise MeantimeError(f"there is a method {name!r} already ({_METHODS[name].summary}): choose another name")
    _METHODS[name] = method


def method_named(name: str | Method) -> Method:
    """Return the method of that name; a method passes."""
    if isinstance(name, Method):
        return name
    if name not in _METHODS:
        raise MeantimeError(f"there is no method {name!r}; there are {', '.join(_METHODS)}")
    return _METHODS[name]

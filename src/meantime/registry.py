"""Methods by name: each an aggregator, the head through which it sees the views, and the head that reads.

Every row of the paper's tables is such a combination; so is a row of one's own (:func:`add_method`), and so is
``A@H``, any training-free method on top of a learned head, whether anybody has published it or not.
"""

import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meantime import aggregators
from meantime.aggregators import Aggregate, Aggregator, joined
from meantime.errors import MeantimeError
from meantime.heads import HeadName
from meantime.heads.named import TUNED
from meantime.heads.saved import KINDS, PROMPTS, head_info, is_head
from meantime.meanshift.arrays import Array, as_floats, is_unit, unit
from meantime.meanshift.head import Head

_TEXTS = ("text", "ensemble")


@dataclass(frozen=True)
class Method:
    """One system: ``aggregator(views, head, reader)`` with the heads named by their role."""

    aggregator: Aggregator
    summary: str
    head: HeadName = "text"
    reader: HeadName = ""  # by default the head itself

    def __post_init__(self) -> None:
        object.__setattr__(self, "reader", self.reader or self.head)

    @property
    def heads(self) -> set[HeadName]:
        """The heads it needs."""
        return {self.head, self.reader}

    @property
    def training_free(self) -> bool:
        """Whether texts are all it needs: nothing is fitted before, nothing tuned on an image."""
        return self.heads <= set(_TEXTS)

    @property
    def first_only(self) -> bool:
        """Whether the original view is all that it looks at."""
        tuned = any(head.partition("@")[0] in TUNED for head in self.heads)
        return self.aggregator is aggregators.first and not tuned

    @property
    def needs(self) -> str:
        """What must be there first, in words; empty where nothing."""
        parts = [part for part in self.head.split("@") if part not in _TEXTS]
        fitted = [f"meantime fit {part}" for part in parts if part in KINDS]
        return ", ".join([*fitted, *(["the extra torch"] if parts and parts[0] in TUNED else [])])

    def __call__(self, views: Array, heads: Mapping[HeadName, Head]) -> Aggregate:
        """Answer for images with views (…, N, d), given the heads by name: {"text": TextHead(classes)}."""
        views = as_floats("views", views, 2, "(…, N, d)")
        views = views if is_unit(views) else unit("views", views)
        self._check(views, heads)
        head = heads[self.head].adapt(views)
        return self.answer(views, head, head if self.reader == self.head else heads[self.reader])

    def _check(self, views: Array, heads: Mapping[HeadName, Head]) -> None:
        there = heads if isinstance(heads, Mapping) else {}
        lacking = sorted(self.heads - there.keys())
        if lacking:
            raise MeantimeError(
                f"this method needs the head {', '.join(map(repr, lacking))}, given by name as in "
                f"{{{lacking[0]!r}: TextHead(…)}}; it was given {', '.join(map(repr, there)) or type(heads).__name__}"
            )
        for name in self.heads:
            d = getattr(heads[name], "dim", views.shape[-1])
            if d != views.shape[-1]:
                raise MeantimeError(
                    f"the head {name!r} reads embeddings of {d} dimensions, but views has shape {tuple(views.shape)}"
                )

    def answer(self, views: Array, head: Head, reader: Head) -> Aggregate:
        """Answer with heads that are adapted to the views already."""
        if hasattr(head, "__getitem__") and views.ndim > 2:  # tuned on each image: each is solved by its own
            own = [head[i] for i in range(len(views))]
            readers = own if reader is head else [reader] * len(own)
            return joined([self.answer(*each) for each in zip(views, own, readers, strict=True)])
        return self.aggregator(views, head, reader)


_confidence_mode = functools.partial(aggregators.confidence, centre="mode")
_mta_vision = functools.partial(aggregators.mta, affinity="vision")
_mta_exact = functools.partial(aggregators.mta, variant="exact")


def _learned(head: HeadName, summary: str) -> Method:
    return Method(aggregators.first, summary, head, head)


def _on(above: str, head: HeadName) -> Method:
    return replace(_METHODS[above], summary=f"{above} on top of {head}", head=head, reader=head)


_METHODS: dict[str, Method] = {
    "clip": Method(aggregators.first, "the original view alone: plain zero-shot"),
    "clip+e": Method(aggregators.first, "plain zero-shot, read by the 80-prompt ensemble", "ensemble", "ensemble"),
    "mean": Method(aggregators.mean, "mean of all views"),
    "meanshift": Method(aggregators.meanshift, "mode of all views, each counting alike (Algorithm 1)"),
    "confidence": Method(aggregators.confidence, "mean of the 10 % most confident views"),
    "confidence-mode": Method(_confidence_mode, "mode of the 10 % most confident views"),
    "mta": Method(aggregators.mta, "mode and inlierness together (Algorithm 2)"),
    "mta-exact": Method(_mta_exact, "MTA to a true minimum of its objective, where the released program counts steps"),
    "mta+e": Method(aggregators.mta, "MTA, its mode read by the 80-prompt ensemble", "text", "ensemble"),
    "mta-ensemble": Method(aggregators.mta, "MTA with the ensemble in its affinity too", "ensemble", "ensemble"),
    "mta-vision": Method(_mta_vision, "MTA with affinities from the embeddings alone"),
    "zero": Method(aggregators.zero, "vote of the 30 % most confident views"),
    "zero+e": Method(aggregators.zero, "the same vote, with the 80-prompt ensemble", "ensemble", "ensemble"),
    "tpt": _learned("tpt", "the prompt tuned on each image's most confident views"),
    "difftpt": _learned("difftpt", "the same with the filters and steps of DiffTPT, for diffusion views"),
    "coop": _learned("coop", "a prompt learned from a few photos of each class"),
    "prograd": _learned("prograd", "the same, never against the zero-shot prompt"),
    "tip-adapter": _learned("tip-adapter", "a cache of a few photos of each class beside the texts"),
    "tip-adapter-f": _learned("tip-adapter-f", "the same with trained keys"),
}
_METHODS |= {f"mta@{kind}": _on("mta", kind) for kind in KINDS}
_METHODS["tpt@coop"] = _learned("tpt@coop", "the learned prompt of coop, tuned on each image")


def methods() -> dict[str, Method]:
    """Return every named method; ``A@H`` gives many more (:func:`method_named`)."""
    return dict(_METHODS)


def training_free() -> dict[str, Method]:
    """Return the named methods for which texts are enough."""
    return {name: method for name, method in _METHODS.items() if method.training_free}


def add_method(name: str, method: Method) -> None:
    """Give a method of one's own a name, for Python, the command line and every table."""
    if name in _METHODS:
        raise MeantimeError(f"there is a method {name!r} already ({_METHODS[name].summary}): choose another name")
    _METHODS[name] = method


def method_named(name: str | Method) -> Method:
    """Return the method of that name; a method passes.

    ``A@H`` is A on top of the learned head H: a kind ("mta@coop"), the folder of a saved head ("mta@heads/mine"), or
    a head tuned on each image ("mta@tpt"). ``tpt@H`` tunes the prompt of H on each image. A folder alone is its head
    on the original view.

    >>> method_named("zero@coop").head
    'coop'
    """
    if isinstance(name, Method):
        return name
    if name in _METHODS:
        return _METHODS[name]
    if is_head(name):
        return _learned(name, f"the head in {name}")
    above, at, head = name.partition("@")
    if not at:
        raise MeantimeError(f"there is no method {name!r}; there are {', '.join(_METHODS)}{_hint(name, _METHODS)}")
    if above in TUNED:
        _check_head(head, PROMPTS)
        return _learned(name, f"the learned prompt of {head}, tuned on each image")
    bases = [key for key, method in _METHODS.items() if method.heads == {"text"}]
    if above not in bases:
        raise MeantimeError(
            f"{above!r} cannot stand on top of a learned head in {name!r}; "
            f"{', '.join([*bases, *TUNED])} can{_hint(above, bases)}"
        )
    tuned, _, start = head.partition("@")
    if tuned in TUNED:
        if start:
            _check_head(start, PROMPTS)
    else:
        _check_head(head, KINDS)
    return _on(above, head)


def _check_head(head: str, kinds: tuple[str, ...]) -> None:
    """Refuse what is neither a kind of learned head nor the folder of one."""
    if head in kinds:
        return
    if is_head(head):
        kind = head_info(head).kind
        if kind not in kinds:
            raise MeantimeError(f"{head!r} is a {kind} head; expected {' or '.join(kinds)}, whose prompt can be tuned")
        return
    choices = (*kinds, *(TUNED if kinds == KINDS else ()))
    raise MeantimeError(
        f"there is no learned head {head!r}: expected {', '.join(choices)}, or a folder that `meantime fit` wrote"
        + _hint(head, choices)
    )


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f". Did you mean {near[0]!r}?" if near else ""

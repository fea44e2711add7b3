"""One pass over a store answers every question: each batch is read once, what methods share is computed once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.aggregators import Aggregate, Aggregator
from meantime.bench.predictions import Predictions, plain_names
from meantime.datasets import list_datasets
from meantime.errors import MeantimeError
from meantime.meanshift import mta, softmax
from meantime.meanshift.arrays import Array, unit
from meantime.meanshift.head import Head
from meantime.registry import Method
from meantime.store import Store

BATCH = 64
Indices = NDArray[np.int64]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Job:
    """A method on the first ``n_views`` views, of all images or of some."""

    name: str  # of the method, in predictions
    method: Method
    n_views: int
    heads: Mapping[str, Head]
    subset: Indices | None = None  # numbers of images in the dataset


@dataclass(frozen=True)
class Search:
    """MTA with many settings side by side; only the accuracy of each is kept."""

    settings: tuple[tuple[float, float], ...]  # (lambda, lambda_y)
    affinity: str
    n_views: int
    head: Head
    subset: Indices | None = None


class Remembering:
    """A head that computes the logits of one array of views once, however many methods ask for them.

    MTA asks for those of a few images at a time, from several threads: it is given what is there already.
    """

    def __init__(self, head: Head, views: NDArray[Any]) -> None:
        self.head, self.views = head, views
        self.thread_safe = getattr(head, "thread_safe", False)
        self._logits: Array | None = None

    @property
    def n_classes(self) -> int:
        """K."""
        return self.head.n_classes

    def __call__(self, x: Array) -> Array:
        """Return logits; those of the views are kept."""
        if x is self.views:
            self._logits = self.head(x) if self._logits is None else self._logits
            return self._logits
        rows = None if self._logits is None else self._rows(x)
        return self.head(x) if rows is None or self._logits is None else self._logits[rows]

    def _rows(self, x: Array) -> slice | None:
        """Which of the images an array is the views of, seen by where it lies in memory."""
        image = self.views.strides[0]
        start, odd = divmod(x.__array_interface__["data"][0] - self.views.__array_interface__["data"][0], image)
        alike = x.strides == self.views.strides and x.shape[1:] == self.views.shape[1:]
        inside = not odd and start >= 0 and start + len(x) <= len(self.views)
        return slice(start, start + len(x)) if alike and inside else None

    def adapt(self, views: Array) -> "Remembering":
        """Return itself: it was adapted before it was wrapped."""
        return self


def run_pass(
    store: Store,
    jobs: Mapping[Any, Job],
    searches: Mapping[Any, Search] | None = None,
    progress: Progress | None = None,
    without: Indices | None = None,
) -> tuple[dict[Any, Predictions], dict[Any, NDArray[np.float64]]]:
    """Read a store once and return each job's predictions, and each search's accuracies (S,) in per cent.

    ``progress(images)`` hears of every batch; images ``without`` are left out of everything.
    """
    searches = searches or {}
    same = _same(store)
    gathered: dict[Any, list[_Answers]] = {key: [] for key in jobs}
    right = {key: np.zeros(len(search.settings)) for key, search in searches.items()}
    asked = dict.fromkeys(searches, 0)
    groups = _groups(jobs, searches)
    for batch in store.batches(BATCH, views=max(n for (n, _), _ in groups)):
        for (n, subset), group in groups:
            chosen = _chosen(batch.index, subset, without)
            views = batch.views[chosen, :n]
            if not len(views):
                continue
            views = unit("views", np.ascontiguousarray(views))  # a store holds them in halves, a little off
            labels = batch.labels[chosen]
            keys = np.array(batch.keys, object)[chosen]
            logits = _answers(views, {key: jobs[key] for key in group if key in jobs})
            for key, answer in logits.items():
                gathered[key].append(_Answers.of(answer, same, labels, batch.index[chosen], keys))
            for key in group:
                if key in searches:
                    right[key] += _hits(searches[key], views, same, labels).sum(axis=1)
                    asked[key] += len(views)
        if progress is not None:
            progress(len(batch))
    predictions = {key: _join(store, jobs[key].name, parts) for key, parts in gathered.items()}
    return predictions, {key: 100 * right[key] / max(asked[key], 1) for key in searches}


def twin_names(store: Store) -> list[str]:
    """Names that stand for several classes of a dataset in which only the class of the label is right."""
    if store.name not in list_datasets():
        return []
    names, counts = np.unique(plain_names(store.class_names), return_counts=True)
    return [str(name) for name in names[counts > 1]]


def _same(store: Store) -> Indices:
    """A number for each class; classes that count as the same share it.

    The paper's datasets are scored by the number of the class, as its program does, though ImageNet has two pairs of
    classes with one name: numbers stand beside the published ones. In one's own data a name is all that a label says.
    """
    if store.name in list_datasets():
        return np.arange(len(store.class_names))
    numbers: Indices = np.unique(plain_names(store.class_names), return_inverse=True)[1]
    return numbers


def _groups(
    jobs: Mapping[Any, Job], searches: Mapping[Any, Search]
) -> list[tuple[tuple[int, Indices | None], list[Any]]]:
    """Keys that see the same views of the same images."""
    groups: dict[tuple[int, int], list[Any]] = {}
    subsets: dict[int, Indices | None] = {}
    items: list[tuple[Any, Job | Search]] = [*jobs.items(), *searches.items()]
    for key, item in items:
        subsets[id(item.subset)] = item.subset
        groups.setdefault((item.n_views, id(item.subset)), []).append(key)
    return [((n, subsets[place]), keys) for (n, place), keys in groups.items()]


def _chosen(index: Indices, subset: Indices | None, without: Indices | None) -> slice | NDArray[np.bool_]:
    """Which images of a batch are asked about; all of them without a copy."""
    if subset is None and without is None:
        return slice(None)
    chosen = np.ones(len(index), bool) if subset is None else np.isin(index, subset)
    return chosen if without is None else chosen & ~np.isin(index, without)


def _answers(views: NDArray[Any], jobs: Mapping[Any, Job]) -> dict[Any, Array]:
    """Logits (b, K) of every job on one array of views."""
    adapted: dict[int, Head] = {}
    solved: dict[tuple[Aggregator, int], Aggregate] = {}
    found: dict[Any, Array] = {}

    def remembering(head: Head) -> Head:
        if id(head) not in adapted:
            own = head.adapt(views)  # one tuned on each image has nothing to share
            adapted[id(head)] = own if hasattr(own, "__getitem__") else Remembering(own, views)
        return adapted[id(head)]

    def ask(job: Job) -> Array:
        head, reader = (remembering(job.heads[name]) for name in (job.method.head, job.method.reader))
        place = (job.method.aggregator, id(head))
        mode = solved[place].mode if place in solved else None
        if mode is not None:  # the same mode, read by another head: MTA + E after MTA
            return reader(mode)
        answer = job.method.answer(views, head, reader)
        _check(answer, views, reader)
        solved[place] = answer
        return answer.logits

    for key, job in jobs.items():
        try:
            found[key] = ask(job)
        except Exception as error:  # anybody's code may run here: say whose it was
            what = str(error) if isinstance(error, MeantimeError) else f"{type(error).__name__}: {error}"
            raise MeantimeError(f"the method {job.name!r} failed: {what}") from error
    return found


def _check(answer: Aggregate, views: NDArray[Any], reader: Head) -> None:
    """Refuse an answer that is none: a wrong shape would be counted as something else, and NaN as the first class."""
    if not isinstance(answer, Aggregate):
        raise MeantimeError(
            f"its aggregator returned {type(answer).__name__}; expected Aggregate(logits, weights, mode)"
        )
    images, _, d = views.shape
    parts = [("logits", answer.logits, (images, reader.n_classes))]
    parts += [("mode", answer.mode, (images, d))] if answer.mode is not None else []
    for name, array, shape in parts:
        if np.shape(array) != shape:
            raise MeantimeError(f"its aggregator returned {name} of shape {np.shape(array)}; expected {shape}")
    if np.isnan(np.asarray(answer.logits)).any():
        raise MeantimeError("its aggregator returned logits that are not numbers (NaN)")


def _hits(search: Search, views: Array, same: Indices, labels: Indices) -> NDArray[np.bool_]:
    """(S, b): whether each setting is right about each image."""
    lambdas, lambda_ys = zip(*search.settings, strict=True)
    affinity = "vision" if search.affinity == "vision" else "head"
    result = mta(views, search.head, lambda_=lambdas, lambda_y=lambda_ys, affinity=affinity)  # type: ignore[arg-type]
    hits: NDArray[np.bool_] = same[np.asarray(result.labels)] == same[labels]
    return hits


@dataclass(frozen=True)
class _Answers:
    """Part of a method's predictions: those of one batch."""

    index: Indices
    keys: NDArray[np.object_]
    labels: Indices
    best: NDArray[np.int32]
    confidence: NDArray[np.float32]
    hits: NDArray[np.bool_]
    hits5: NDArray[np.bool_]

    @classmethod
    def of(cls, logits: Array, same: Indices, labels: Indices, index: Indices, keys: NDArray[np.object_]) -> "_Answers":
        logits = np.asarray(logits)
        best = np.argsort(-logits, axis=-1, kind="stable")[:, :5].astype(np.int32)
        confidence = softmax(logits).max(axis=-1).astype(np.float32)
        right = same[best] == same[labels][:, None]
        return cls(index, keys, labels, best, confidence, right[:, 0], right.any(axis=1))


def _join(store: Store, method: str, parts: Sequence[_Answers]) -> Predictions:
    if not parts:
        raise MeantimeError(f"no image of {store.name!r} is left to ask {method!r} about")

    def joined(name: str) -> NDArray[np.generic]:
        return np.concatenate([getattr(part, name) for part in parts])

    return Predictions(
        store.name,
        store.plan.encoder_name,
        store.seed,
        method,
        joined("index"),  # type: ignore[arg-type]
        tuple(joined("keys").tolist()),
        *(joined(name) for name in ("labels", "best", "confidence", "hits", "hits5")),  # type: ignore[arg-type]
    )

"""What is said beside numbers: of the images that a store has, and in the names of methods."""

from collections.abc import Sequence
from dataclasses import replace

from meantime.bench.passes import Job, twin_names
from meantime.bench.predictions import Predictions
from meantime.bench.shelf import kind_of
from meantime.datasets import list_datasets
from meantime.store import Store


def remarks(store: Store, images: int | None = None) -> list[str]:
    """What must be said beside numbers of a store: images that are missing, names that stand for several classes."""
    known = list_datasets().get(store.name)
    said = []
    if known is not None and len(store) < min(known.test, images or known.test):
        said.append(f"{store.name}: {len(store)} of the {known.test} test images")
    twins = twin_names(store)
    if twins:
        said.append(
            f"{store.name}: {' and '.join(map(repr, twins))} stand for more than one class; "
            "only the one of the label is right, as in the paper's program"
        )
    return said


def named(p: Predictions, job: Job, store: Store) -> Predictions:
    """Predictions under a name that says what else than the method differs within a file."""
    views = [f"{job.n_views} views"] if job.n_views != 64 else []
    images = [] if job.subset is None else [f"{len(job.subset)} images"]
    return marked(p, [*views, *images, *kind_marks(store)])


def kind_marks(store: Store) -> list[str]:
    """How the views of a store are called, where they are not crops."""
    kind = kind_of(store.plan)
    return [] if kind == "crop" else [kind]


def marked(p: Predictions, marks: Sequence[str]) -> Predictions:
    """Predictions whose method is called by what else there is to say of it."""
    return replace(p, method=f"{p.method} ({', '.join(marks)})") if marks else p

"""Whether a measured number is the published one, as far as chance could tell them apart."""

import math
from collections.abc import Sequence

from meantime.bench.cells import Table
from meantime.bench.declare import PAPERS_BACKBONE
from meantime.bench.shelf import backbone_of
from meantime.datasets import list_datasets
from meantime.store import Store


def as_the_papers(store: Store, images: int, of: int | None = None, backbone: str | None = None) -> bool:
    """Whether so many images of a store are the paper's test (or ``of`` of it), encoded by its backbone."""
    known = list_datasets().get(store.name)
    same = backbone_of(store.plan.encoder_name) == (backbone or PAPERS_BACKBONE)
    return known is not None and same and images == min(known.test, of or known.test)


def sampling_error(accuracies: Sequence[float], images: Sequence[int]) -> float:
    """The std, in points, that the size of the tests gives to the mean of their accuracies (per cent).

    >>> sampling_error([50.0], [2500])
    1.0
    >>> sampling_error([50.0] * 4, [2500] * 4)
    0.5
    """
    variances = [a * (100 - a) / n for a, n in zip(accuracies, images, strict=True)]
    return math.sqrt(sum(variances)) / len(variances)


def verdict(table: Table) -> list[str]:
    """How many cells agree with what was published, and which do not; nothing where none can be compared."""
    compared = {place: cell for place, cell in table.cells.items() if cell.agrees is not None}
    if not compared:
        return []
    outside = [
        f"{table.rows[row]}, {table.columns[column]} ({cell.difference:+.2f})"
        for (row, column), cell in compared.items()
        if not cell.agrees
    ]
    within = "twice the joint error of both stds and of the test's size"
    said = f"{len(compared) - len(outside)} of {len(compared)} cells agree with the published value within {within}"
    return [said + (f"; outside, marked *: {'; '.join(outside)}" if outside else "")]

"""Two methods on the same images: who is right where the other is wrong, and can that be chance?"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meantime.bench.predictions import method_in, read_hits
from meantime.errors import MeantimeError

RESAMPLES = 10_000


@dataclass(frozen=True)
class Comparison:
    """Method A against method B on one dataset; accuracies and differences in points."""

    dataset: str
    encoder: str
    images: int  # that both were asked about
    of: tuple[int, int]  # the images of either
    seeds: tuple[int, ...]
    a: float
    b: float
    low: float  # of the paired bootstrap's 95 % interval of a - b
    high: float
    only_a: tuple[int, ...]  # images that only A has right, for each seed
    only_b: tuple[int, ...]
    p: tuple[float, ...]  # McNemar's exact test, for each seed

    @property
    def difference(self) -> float:
        """a - b."""
        return self.a - self.b


def compare(predictions: str | Path, a: str, b: str) -> list[Comparison]:
    """Compare two methods on every dataset for which the file has both; "mta" may stand for "mta (8 views)"."""
    file = Path(predictions)
    first, second = (read_hits(file, method_in(file, name)) for name in (a, b))
    both = [key for key in first if key in second]
    if not both:
        raise MeantimeError(f"{a!r} and {b!r} were not run on the same dataset with the same encoder")
    return [_compare(*key, first[key], second[key]) for key in both]


def _compare(dataset: str, encoder: str, a: dict[int, dict[str, bool]], b: dict[int, dict[str, bool]]) -> Comparison:
    seeds = tuple(sorted(a.keys() & b.keys()))
    images = sorted(set.intersection(*(set(x[s]) for s in seeds for x in (a, b)))) if seeds else []
    if not images:
        raise MeantimeError(f"the two methods share no seed or no image of {dataset!r}")
    hits_a, hits_b = (np.array([[x[s][i] for i in images] for s in seeds]) for x in (a, b))
    low, high = paired_bootstrap(hits_a, hits_b)
    only_a, only_b = (hits_a & ~hits_b).sum(axis=1), (hits_b & ~hits_a).sum(axis=1)
    return Comparison(
        dataset,
        encoder,
        len(images),
        (max(len(a[s]) for s in seeds), max(len(b[s]) for s in seeds)),
        seeds,
        float(100 * hits_a.mean()),
        float(100 * hits_b.mean()),
        low,
        high,
        tuple(map(int, only_a)),
        tuple(map(int, only_b)),
        tuple(mcnemar(int(x), int(y)) for x, y in zip(only_a, only_b, strict=True)),
    )


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p: the disagreements fall to either side like a fair coin if the methods are equally good."""
    n = only_a + only_b
    if n == 0:
        return 1.0
    log_half = n * math.log(2)
    tail = sum(
        math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) - log_half)
        for i in range(min(only_a, only_b) + 1)
    )
    return min(1.0, 2 * tail)


def paired_bootstrap(
    hits_a: NDArray[np.bool_], hits_b: NDArray[np.bool_], resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """The 95 % interval of the difference in points: images (seeds, M) are drawn again, all seeds of one together."""
    per_image = 100 * (hits_a.mean(axis=0) - hits_b.mean(axis=0))
    rng = np.random.default_rng(seed)
    # The mean depends only on how often each value is drawn, and there are few: counts instead of M draws
    values, counts = np.unique(per_image.round(9), return_counts=True)
    means = rng.multinomial(len(per_image), counts / counts.sum(), resamples) @ values / len(per_image)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)

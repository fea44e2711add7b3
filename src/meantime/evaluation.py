"""How good is it on one's own photos: every method on the same views, over seeds, compared image by image."""

import csv
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from meantime import pipeline
from meantime.anytime import anytime
from meantime.errors import MeantimeError
from meantime.heads import HeadName, make_heads
from meantime.heads.named import photos_used
from meantime.images import find_images
from meantime.meanshift import softmax
from meantime.registry import Method, method_named

if TYPE_CHECKING:
    from meantime.classifier import Classifier

Bools = NDArray[np.bool_]
RESAMPLES = 10_000


@dataclass(frozen=True)
class Score:
    """One method on M images over some seeds."""

    method: str
    hits: Bools  # (seeds, M): the best name is right
    hits5: Bools  # (seeds, M): the right name is among the best five
    confidence: NDArray[np.floating[Any]]  # (seeds, M): probability of the best name
    n_views: NDArray[np.int64] | None = None  # (seeds, M): on how many views the answer rests

    @property
    def top1(self) -> tuple[float, float]:
        """Accuracy in per cent, mean and (population) standard deviation over seeds."""
        return _mean_std(self.hits)

    @property
    def top5(self) -> tuple[float, float]:
        """The same for the best five."""
        return _mean_std(self.hits5)

    @property
    def calibration_error(self) -> float:
        """Expected calibration error in points: how far confidence is from accuracy, over ten bins of confidence."""
        bins = np.minimum((self.confidence * 10).astype(int), 9)
        shares = [(bins == i) for i in range(10)]
        gaps = [abs(self.hits[b].mean() - self.confidence[b].mean()) * b.mean() for b in shares if b.any()]
        return float(100 * sum(gaps))

    def minus(self, other: "Score") -> tuple[float, float, float]:
        """Difference of top-1 to another method in points, with a paired bootstrap 95 % interval over images."""
        per_image = 100 * (self.hits.mean(axis=0) - other.hits.mean(axis=0))
        rng = np.random.default_rng(0)
        means = [rng.choice(per_image, per_image.size).mean() for _ in range(RESAMPLES)]
        low, high = np.percentile(means, [2.5, 97.5])
        return float(per_image.mean()), float(low), float(high)


@dataclass(frozen=True)
class Evaluation:
    """Scores of all methods, and what could not be read."""

    scores: dict[str, Score]
    n_images: int
    errors: list[str]
    left_out: int = 0  # images that learned heads were fitted on


def _mean_std(hits: Bools) -> tuple[float, float]:
    per_seed = 100 * hits.mean(axis=1)
    return float(per_seed.mean()), float(per_seed.std())


def labelled_images(folder: str | Path) -> list[tuple[Path, str]]:
    """Return (image, class name) of a folder.

    Either a folder with a sub-folder for each class, or one with a ``labels.csv`` that has columns
    ``file`` and ``name``.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MeantimeError(f"there is no folder {str(folder)!r}")
    table = folder / "labels.csv"
    if table.is_file():
        return _listed(folder, table)
    pairs = [(path, path.relative_to(folder).parts[0]) for path in find_images([folder]) if path.parent != folder]
    if not pairs:
        raise MeantimeError(
            f"{str(folder)!r} holds no labelled images: expected a sub-folder for each class, named after it, "
            "or a labels.csv with columns file and name"
        )
    return pairs


def _listed(folder: Path, table: Path) -> list[tuple[Path, str]]:
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except UnicodeDecodeError as error:
        raise MeantimeError(f"{table} is not UTF-8; save it as UTF-8") from error
    if not rows or not {"file", "name"} <= rows[0].keys():
        raise MeantimeError(f"{table} must have a header with the columns file and name, and at least one row")
    for number, row in enumerate(rows, start=2):  # the header is row 1
        if not (row["file"] or "").strip() or not (row["name"] or "").strip():
            raise MeantimeError(f"row {number} of {table} lacks a file or a name: {row['file']!r}, {row['name']!r}")
    return [(folder / row["file"], row["name"]) for row in rows]


def class_names(pairs: list[tuple[Path, str]]) -> list[str]:
    """Return the distinct names of labelled images, sorted."""
    return sorted({name for _, name in pairs})


def evaluate(
    classifier: "Classifier",
    folder: str | Path,
    methods: Mapping[str, str | Method],
    *,
    seeds: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Run methods on the labelled images of a folder. Each image is encoded once for each seed.

    Where the classifier's views are ``"auto"``, all 64 are encoded, since methods need different numbers of them, and
    each method answers by as many as it would have asked for. ``progress(done, total)`` hears of every image.
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int | np.integer) or seeds < 1:
        raise MeantimeError(f"seeds is {seeds!r}; expected a number of them, at least one")
    if not methods:
        raise MeantimeError("no methods were given; name at least one, as in {'mta': 'mta'}")
    chosen = {name: method_named(method) for name, method in methods.items()}
    pairs = labelled_images(folder)
    names = np.array(classifier.labels.names)
    for name in class_names(pairs):
        if _plain(name) not in {_plain(n) for n in classifier.labels.names}:
            raise MeantimeError(f"class {name!r} of {str(folder)!r} is not among the {len(names)} labels")
    wanted: set[HeadName] = {"text"}
    wanted = wanted.union(*(method.heads for method in chosen.values()))
    heads = make_heads(classifier.encoder, classifier.labels, wanted)
    fitted_on = photos_used(wanted, classifier.encoder, classifier.labels, Path(folder).resolve().name)
    left = [(path, name) for path, name in pairs if _relative(path, folder) not in fitted_on]
    if not left:
        raise MeantimeError(f"the heads were fitted on every image of {str(folder)!r}: none is left to measure on")
    pairs, left_out = left, len(pairs) - len(left)
    plain_names = np.array([_plain(n) for n in names])
    # For each method and seed: right, right among five, confidence, views used; (4, images) in parts
    answers: dict[str, list[list[NDArray[Any]]]] = {name: [[] for _ in range(seeds)] for name in chosen}
    errors: dict[str, str] = {}
    for seed in range(classifier.seed, classifier.seed + seeds):
        encoded = pipeline.encode(
            [path for path, _ in pairs],
            classifier.encoder,
            classifier.spec,
            seed=seed,
            batch=classifier.batch,
            threads=classifier.threads,
        )
        done = (seed - classifier.seed) * len(pairs)
        for chunk in pipeline.chunks(zip(encoded, (name for _, name in pairs), strict=True), 16):
            errors |= {str(e.source): str(e.error) for e, _ in chunk if e.embeddings is None}
            readable = [(e.embeddings, name) for e, name in chunk if e.embeddings is not None]
            done += len(chunk)
            if progress is not None:
                progress(done, seeds * len(pairs))
            if not readable:
                continue
            views = np.stack([x for x, _ in readable])
            truth = np.array([_plain(name) for _, name in readable])[:, None]
            for name, method in chosen.items():
                if classifier.auto:
                    grown = anytime(views, method, heads)
                    logits, used = grown.logits, grown.n_views
                else:
                    logits, used = method(views, heads).logits, np.full(len(views), views.shape[1])
                # Names, not indices, decide: ImageNet has two pairs of classes with one name
                probabilities = softmax(logits)
                best = plain_names[np.argsort(-probabilities, axis=-1, kind="stable")[:, :5]]
                right = best == truth
                answer = (right[:, 0], right.any(axis=1), probabilities.max(axis=-1), used)
                answers[name][seed - classifier.seed].append(np.array(answer, np.float64))
    if not answers[next(iter(answers))][0]:
        raise MeantimeError(
            f"none of the {len(pairs)} images could be read; the first says: {next(iter(errors.values()))}"
        )
    scores = {}
    for name, by_seed in answers.items():
        hits, hits5, confidence, used = np.stack([np.concatenate(parts, axis=1) for parts in by_seed], axis=1)
        scores[name] = Score(name, hits.astype(bool), hits5.astype(bool), confidence, used.astype(np.int64))
    return Evaluation(scores, hits.shape[1], list(errors.values()), left_out)


def _relative(path: Path, folder: str | Path) -> str:
    """Where an image lies from the folder; a table may name it by its whole path, and from elsewhere."""
    return Path(os.path.relpath(path, folder)).as_posix()


def _plain(name: str) -> str:
    return name.replace("_", " ")

"""The tables of the paper as declarations: which rows, on which datasets, with how many views."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from meantime import aggregators
from meantime.aggregators import Aggregator
from meantime.datasets import list_datasets
from meantime.registry import Method, method_named

Views = Literal["crop", "augmix", "diffusion"]
Layout = Literal["datasets", "average", "backbones", "views"]

IMAGENETS = ("imagenet", "imagenet-a", "imagenet-v2", "imagenet-r", "imagenet-sketch")
FINE_GRAINED = (
    "sun397",
    "aircraft",
    "eurosat",
    "cars",
    "food101",
    "pets",
    "flowers102",
    "caltech101",
    "dtd",
    "ucf101",
)
BACKBONES = {"RN50": "ResNet-50", "RN101": "ResNet-101"} | {
    f"ViT-{x}": f"ViT-{x[0]}/{x[2:]}" for x in ("B-32", "B-16", "L-14")
}
PAPERS_BACKBONE = "ViT-B-16"
VIEW_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Row:
    """One row: a method, and which views it is given."""

    key: str  # unique within its table
    label: str  # as the paper prints it
    method: str = ""  # by name; the key where it is empty
    views: Views = "crop"
    paper: str | None = None  # the key of its numbers in paper.json; its own by default
    made: Method | None = None  # for a setting that has no name
    search: bool = False  # the best setting of a search that sees the labels
    trained_on: str | None = None  # the dataset of its learned head; by default the one that is measured
    shots: int | None = None  # of its learned head; None: the one that there is
    tokens: int | None = None

    @property
    def name(self) -> str:
        """The method as predictions and files call it."""
        return self.method or self.key

    def resolve(self) -> Method:
        """The method itself."""
        return self.made or method_named(self.name)


@dataclass(frozen=True)
class Column:
    """The mean over some datasets, for one encoder and number of views."""

    key: str
    label: str
    datasets: tuple[str, ...]
    backbone: str | None = None  # None: the encoder of the run
    n_views: int | None = None  # None: the table's


@dataclass(frozen=True)
class TableSpec:
    """A table of the paper."""

    name: str
    title: str
    rows: tuple[Row, ...]
    datasets: tuple[str, ...]
    where: str  # the datasets in words
    layout: Layout = "datasets"
    aliases: tuple[str, ...] = ()
    n_views: int = 64
    subset: int | None = None  # so many images of each dataset, drawn once and saved
    as_published: bool = True  # on the paper's datasets: averages can be put beside the paper's

    def columns(self) -> list[Column]:
        """Its columns, in order."""
        if self.layout == "backbones":
            return [Column(key, label, self.datasets, backbone=key) for key, label in BACKBONES.items()]
        if self.layout == "views":
            return [Column(str(n), str(n), self.datasets, n_views=n) for n in VIEW_COUNTS]
        average = Column("average", "Average", self.datasets)
        if self.layout == "average":
            return [average]
        single = [Column(name, title_of(name), (name,)) for name in self.datasets]
        return [*single, average] if len(single) > 1 else single

    def asked_by(self) -> list[str]:
        """The names by which its rows can be asked for."""
        return list(dict.fromkeys(name for row in self.rows for name in (row.key, row.name)))

    def with_rows(self, names: Sequence[str]) -> "TableSpec":
        """The same with further methods as rows."""
        there = {row.key for row in self.rows}
        return replace(self, rows=self.rows + tuple(Row(name, name) for name in names if name not in there))

    def only(self, names: Sequence[str]) -> "TableSpec":
        """The same with those rows only that are of these methods; all where none is named."""
        return replace(self, rows=tuple(row for row in self.rows if not names or {row.key, row.name} & set(names)))

    def on(self, datasets: Sequence[str]) -> "TableSpec":
        """The same on other datasets."""
        if tuple(datasets) == self.datasets:
            return self
        return replace(self, datasets=tuple(datasets), where=", ".join(map(title_of, datasets)), as_published=False)


def title_of(dataset: str) -> str:
    """A dataset's name in full, where it has one."""
    known = list_datasets()
    return known[dataset].title if dataset in known else dataset


_WIDE = Method(functools.partial(aggregators.mta, rho=0.5), "MTA with wider kernels, for diffusion views")


def _by(key: str, aggregator: Aggregator, head: str | None, reduction: str, label: str) -> Row:
    """A row with another reduction of the 80 prompts: the paper says vote, its program has none."""
    reader = f"ensemble-{reduction}"
    method = Method(aggregator, f"{label}, {reduction}", head or reader, reader)
    how = {"vote": "by vote", "probability": "mean of predictions"}[reduction]
    return Row(f"{key}, {reduction}", f"{label}, {how}", paper=key, made=method)


_CLIP = Row("clip", "CLIP")
_CLIP_E = Row("clip+e", "CLIP + Ensemble")
_CLIP_BY = tuple(_by("clip+e", aggregators.first, None, r, "CLIP + Ensemble") for r in ("probability", "vote"))
_MTA = Row("mta", "MTA")
_MTA_E = Row("mta+e", "MTA + Ensemble")
_MTA_BY = tuple(_by("mta+e", aggregators.mta, "text", r, "MTA + Ensemble") for r in ("probability", "vote"))
_ZERO = (Row("zero", "ZERO"), Row("zero+e", "ZERO + Ensemble"))
_MEANSHIFT = Row("meanshift", "MeanShift (no inlierness)")
_CONFIDENCE = Row("confidence", "Confidence threshold (10 %)")


def _coop(key: str, label: str) -> Row:
    return Row(key, label, trained_on="imagenet", shots=16, tokens=4)


_ALL = (
    TableSpec(
        "table1",
        "Zero-shot",
        (
            _CLIP,
            _CLIP_E,
            *_CLIP_BY,
            Row("tpt", "TPT"),
            _MTA,
            _MTA_E,
            *_MTA_BY,
            *_ZERO,
            _coop("coop", "CoOp"),
            _coop("tpt@coop", "TPT + CoOp"),
            _coop("mta@coop", "MTA + CoOp"),
        ),
        IMAGENETS,
        "ImageNet and its variants",
        aliases=("imagenet",),
    ),
    TableSpec(
        "table2",
        "Zero-shot",
        (_CLIP, _CLIP_E, *_CLIP_BY, Row("tpt", "TPT", views="augmix"), _MTA, _MTA_E, *_MTA_BY, *_ZERO),
        FINE_GRAINED,
        "ten fine-grained datasets",
        aliases=("fine-grained",),
    ),
    TableSpec(
        "table3",
        "Crops against diffusion",
        (
            Row("tpt, crops", "TPT, crops", "tpt"),
            Row("mta, crops", "MTA, crops, rho 0.3", "mta"),
            Row("mta, crops, rho 0.5", "MTA, crops, rho 0.5", "mta, rho 0.5", paper="mta, crops", made=_WIDE),
            Row("difftpt, diffusion", "DiffTPT, diffusion", "difftpt", "diffusion"),
            Row("mta, diffusion", "MTA, diffusion, rho 0.5", "mta, rho 0.5", "diffusion", made=_WIDE),
        ),
        IMAGENETS,
        "ImageNet and its variants",
        aliases=("diffusion",),
        n_views=128,
        subset=1000,
    ),
    TableSpec(
        "table4",
        "Backbones",
        (_CLIP, _CLIP_E, Row("tpt", "TPT"), _MTA, _MTA_E),
        IMAGENETS,
        "ImageNet and its variants",
        "backbones",
        aliases=("backbones",),
    ),
    TableSpec(
        "table6",
        "Ablations, filtering and affinity",
        (
            _CLIP,
            _MEANSHIFT,
            _CONFIDENCE,
            Row("confidence-mode", "Confidence threshold, then the mode"),
            Row("mta", "MTA: inlierness, text affinity"),
            Row("mta-vision", "MTA, vision affinity"),
            Row("mta-vision, best", "MTA, vision affinity, best of a search", "mta-vision", search=True),
        ),
        IMAGENETS + FINE_GRAINED,
        "the 15 datasets",
        "average",
        aliases=("ablations",),
    ),
    TableSpec(
        "table11",
        "Filtering",
        (_MEANSHIFT, _CONFIDENCE, Row("mta", "MTA: inlierness")),
        IMAGENETS + FINE_GRAINED,
        "the 15 datasets",
        aliases=("filtering",),
    ),
    TableSpec(
        "figure4",
        "Accuracy and the number of views",
        (_MTA, _MTA_E),
        IMAGENETS,
        "ImageNet and its variants",
        "views",
        aliases=("views",),
    ),
)
TABLES: dict[str, TableSpec] = {spec.name: spec for spec in _ALL}

"""Where the shots of a dataset come from: its training and validation splits, or one folder that is all there is."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meantime.datasets import Dataset, list_datasets, load_dataset
from meantime.datasets.webdataset import named_splits
from meantime.errors import MeantimeError


@dataclass(frozen=True)
class Pools:
    """Photos to train with and to validate with; the same dataset where it has no validation split."""

    train: Dataset
    val: Dataset
    whole: bool = False  # no splits at all: what is not drawn is the test

    @property
    def told(self) -> str:
        """Where photos come from, in words."""
        if self.whole:
            return "no splits: training, validation and test photos are drawn apart from all photos"
        if self.val is self.train:
            return "no validation split: validation shots are training photos that are not trained on"
        return "training and validation splits as published"


def find_pools(dataset: str, root: str | Path | None = None, *, class_names: Sequence[str] | None = None) -> Pools:
    """Load the splits of a dataset, by name or path, that shots are drawn from."""
    if dataset in list_datasets() or not Path(dataset).exists():
        train = load_dataset(dataset, root, "train", class_names=class_names)
        try:
            return Pools(train, load_dataset(dataset, root, "val"))
        except MeantimeError:  # ImageNet, for one, is published without it
            return Pools(train, train)
    if not _has_split(Path(dataset), "train"):
        every = load_dataset(dataset, class_names=class_names)
        whole = Dataset(every.name, every.class_names, every.samples, "train", every.prompt)
        _refuse_repeated(whole)
        return Pools(whole, whole, whole=True)
    train = load_dataset(dataset, split="train", class_names=class_names)
    _refuse_repeated(train)
    if not _has_split(Path(dataset), "val"):
        return Pools(train, train)
    return Pools(train, load_dataset(dataset, split="val", class_names=train.class_names))


def _has_split(path: Path, split: str) -> bool:
    """Whether one's own data has that split: as a folder, in the names of tars, or in its table's column ``split``."""
    if path.is_dir() and not (path / "labels.csv").is_file():
        return (path / split).is_dir() or split in named_splits(path.glob("*.tar"))
    try:
        rows = {name: load_dataset(str(path), split=name).samples.keys for name in (split, "no such split")}
    except MeantimeError as error:
        return "no such split" in str(error)
    return rows[split] != rows["no such split"]


def _refuse_repeated(dataset: Dataset) -> None:
    """One's own class names must differ: a head could not tell the photos of two classes with one name apart."""
    counts = Counter(name.replace("_", " ").strip() for name in dataset.class_names)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise MeantimeError(
            f"the label {repeated[0]!r} occurs {counts[repeated[0]]} times among the classes of {dataset.name!r}: "
            "give every class a name of its own"
        )

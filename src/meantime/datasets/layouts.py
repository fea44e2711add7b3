"""The ways in which datasets lie on disk. Each layout knows whether it is here, and how to read itself.

Keys of images are relative to the folder of images, so that two layouts of one release agree on them.
"""

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from meantime.datasets.base import Samples, storable
from meantime.datasets.wnids import wnid_names
from meantime.errors import MeantimeError
from meantime.images import EXTENSIONS

Names = tuple[str, ...]


class Layout(Protocol):
    """One way in which a dataset is published."""

    def images_in(self, base: Path, split: str) -> Path | None:
        """The folder of the images, if it is there."""

    def missing(self, base: Path) -> str | None:
        """The file that is missing for the images to be usable."""

    def read(self, base: Path, split: str) -> tuple[Names, Samples]:
        """Class names and samples; ``images_in`` has found something and nothing is ``missing``."""


def first_folder(base: Path, places: Sequence[str]) -> Path | None:
    """The first of the places below ``base`` that is a folder."""
    return next((base / place for place in places if (base / place).is_dir()), None)


def samples_below(folder: Path, rows: Sequence[tuple[str, int]]) -> Samples:
    """Samples of (path relative to ``folder``, label)."""
    return Samples(
        [folder / path for path, _ in rows], [label for _, label in rows], [storable(path) for path, _ in rows]
    )


def image_names(folder: Path) -> list[str]:
    """The images directly in a folder, in the order of their names."""
    return sorted(p.name for p in folder.iterdir() if p.suffix.lower() in EXTENSIONS and not p.name.startswith("."))


@dataclass(frozen=True)
class ClassFolders:
    """A folder for each class, named by its wnid or by its number.

    Numbers are read as integers: sorted as texts ("0", "1", "10", …), as ImageNet-V2's folders are by common
    loaders, nearly every label would be wrong.
    """

    places: Mapping[str, tuple[str, ...]]  # split -> where its class folders may be
    by: str = "wnid"  # or "number"
    subset: str | tuple[str, ...] = ""  # of ImageNet's classes: "A", "R", wnids in the order of their labels, or all

    def images_in(self, base: Path, split: str) -> Path | None:
        """The first place that holds at least one class folder."""
        for place in self.places.get(split, ()):
            folder = base / place
            if folder.is_dir() and any(self._label(path) is not None for path in folder.iterdir() if path.is_dir()):
                return folder
        return None

    def missing(self, base: Path) -> str | None:
        """Nothing: the folders say all."""
        return None

    def read(self, base: Path, split: str) -> tuple[Names, Samples]:
        """By label, then by file name."""
        folder = self.images_in(base, split) or base
        found = [(label, path) for path in folder.iterdir() if (label := self._label(path)) is not None]
        rows = [(f"{path.name}/{name}", label) for label, path in sorted(found) for name in image_names(path)]
        return tuple(wnid_names(self.subset).values()), samples_below(folder, rows)

    def _label(self, path: Path) -> int | None:
        wnids = wnid_names(self.subset)
        if self.by == "number":
            return int(path.name) if path.name.isdecimal() and int(path.name) < len(wnids) else None
        return list(wnids).index(path.name) if path.name in wnids else None


@dataclass(frozen=True)
class CoopSplit:
    """CoOp's ``split_zhou_<Dataset>.json``: for each split, entries of [relative path, label, class name]."""

    file: str
    images: str  # the folder to which the paths are relative
    shown_by: str = "."  # a folder below it without which the images are not there

    def images_in(self, base: Path, split: str) -> Path | None:
        """The folder to which the paths are relative; other splits than its own are left to the release."""
        there = split in ("train", "val", "test") and (base / self.images / self.shown_by).is_dir()
        return base / self.images if there else None

    def missing(self, base: Path) -> str | None:
        """The split file, if it is not there."""
        return None if (base / self.file).is_file() else self.file

    def read(self, base: Path, split: str) -> tuple[Names, Samples]:
        """In the order of the file; the names come from all splits."""
        path = base / self.file
        try:
            splits = json.loads(path.read_text(encoding="utf-8"))
            every = [(str(key), int(label), str(name)) for rows in splits.values() for key, label, name in rows]
            wanted = [(str(key), int(label)) for key, label, _ in splits[split]]
        except KeyError as error:
            raise MeantimeError(f"{str(path)!r} has no split {split!r}; it has {', '.join(splits)}") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise MeantimeError(
                f"{str(path)!r} is damaged: expected splits of [path, label, name] entries ({error})"
            ) from error
        names: dict[int, str] = {}
        for key, label, name in every:
            if names.setdefault(label, name) != name:
                raise MeantimeError(f"{str(path)!r} names class {label} {names[label]!r} and, at {key!r}, {name!r}")
        absent = sorted(set(range(max(names, default=-1) + 1)) - names.keys())
        if absent:
            raise MeantimeError(f"{str(path)!r} has no image of class {absent[0]}, so its name is unknown")
        folder = self.images_in(base, split) or base
        return tuple(names[label] for label in sorted(names)), samples_below(folder, wanted)


@dataclass(frozen=True)
class ListFile:
    """The release's own list of images for each split, and its own list of classes."""

    lists: Mapping[str, str]  # split -> file
    images: tuple[str, ...]
    entry: Callable[[str], tuple[str, str]]  # a line -> path below the images, class as the release writes it
    classes: Callable[[Path], list[str]]  # base -> classes as the release writes them, in order
    name: Callable[[str], str] = str  # class as the release writes it -> its name

    def images_in(self, base: Path, split: str) -> Path | None:
        """The folder of images, if the release's list of this split lies there too."""
        listed = split in self.lists and (base / self.lists[split]).is_file()
        return first_folder(base, self.images) if listed else None

    def missing(self, base: Path) -> str | None:
        """Nothing more: the list was found."""
        return None

    def read(self, base: Path, split: str) -> tuple[Names, Samples]:
        """In the order of the list."""
        classes = {text: label for label, text in enumerate(self.classes(base))}
        rows = []
        for line in lines(base / self.lists[split]):
            key, text = self.entry(line)
            if text not in classes:
                raise MeantimeError(f"{self.lists[split]} names the class {text!r}, which is not there; line {line!r}")
            rows.append((key, classes[text]))
        folder = self.images_in(base, split) or base
        return tuple(self.name(text) for text in classes), samples_below(folder, rows)


@dataclass(frozen=True)
class NamedFolders:
    """A folder for each class, named after it, and no division: the one split is "all"."""

    images: tuple[str, ...]
    renamed: Mapping[str, str]  # folder -> class name, where they differ
    ignored: frozenset[str] = frozenset()

    def images_in(self, base: Path, split: str) -> Path | None:
        """The folder of class folders."""
        return first_folder(base, self.images) if split == "all" else None

    def missing(self, base: Path) -> str | None:
        """Nothing: the folders say all."""
        return None

    def read(self, base: Path, split: str) -> tuple[Names, Samples]:
        """By class, then by file name."""
        folder = self.images_in(base, split) or base
        classes = sorted(
            path.name
            for path in folder.iterdir()
            if path.is_dir() and path.name not in self.ignored and not path.name.startswith(".")
        )
        rows = [(f"{c}/{name}", label) for label, c in enumerate(classes) for name in image_names(folder / c)]
        return tuple(self.renamed.get(c, c) for c in classes), samples_below(folder, rows)


@dataclass(frozen=True)
class SolutionFile:
    """ImageNet's validation images in one folder, with ``LOC_val_solution.csv`` (ImageId, "wnid box wnid box …")."""

    file: str
    images: tuple[str, ...]

    def images_in(self, base: Path, split: str) -> Path | None:
        """The flat folder, if the solution lies there too."""
        return first_folder(base, self.images) if split == "test" and (base / self.file).is_file() else None

    def missing(self, base: Path) -> str | None:
        """Nothing more."""
        return None

    def read(self, base: Path, split: str) -> tuple[Names, Samples]:
        """By the name of the file."""
        names = wnid_names()
        labels = {wnid: label for label, wnid in enumerate(names)}
        with (base / self.file).open(newline="", encoding="utf-8") as file:
            solution = {row["ImageId"]: row["PredictionString"].split()[0] for row in csv.DictReader(file)}
        rows = [(f"{image}.JPEG", labels[wnid]) for image, wnid in sorted(solution.items())]
        return tuple(names.values()), samples_below(self.images_in(base, split) or base, rows)


def lines(path: Path) -> list[str]:
    """The lines of a text file that say something."""
    if not path.is_file():
        raise MeantimeError(f"{str(path)!r} is missing; it belongs to the release")
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors of Windows put a mark before the first line
    except UnicodeDecodeError as error:
        raise MeantimeError(f"{str(path)!r} is not text in UTF-8 ({error}); save it as such") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def words_of(camel: str) -> str:
    """The words of a name written together, joined as CoOp does.

    >>> words_of("ApplyEyeMakeup")
    'Apply_Eye_Makeup'
    """
    return "_".join(re.findall("[A-Z][^A-Z]*", camel))

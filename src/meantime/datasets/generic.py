"""Anybody's own data: a folder for each class, or a CSV or Parquet table of files and labels."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from meantime.datasets.base import Dataset, Samples, storable
from meantime.datasets.layouts import lines, samples_below
from meantime.errors import MeantimeError
from meantime.images import find_images
from meantime.parquet import pa, pq
from meantime.remote import as_path, is_url

FILE_COLUMNS = ("file", "path", "filepath", "image")
INDEX_COLUMNS = ("label", "index", "imagenet_index")
NAME_COLUMNS = ("name", "class", "label")
SPLITS = ("train", "val", "test")


def plain(name: str) -> str:
    """A class name as it is compared: an underscore is a space."""
    return name.replace("_", " ").strip()


def sorted_classes(names: set[str]) -> list[str]:
    """Class names in order; numbers as integers, since sorted as texts 10 would stand before 2."""
    numbers = all(name.isdecimal() for name in names)
    return sorted(names, key=lambda name: (int(name), name) if numbers else (0, name))


def number_of(names: Sequence[str], where: str) -> dict[str, int]:
    """Labels by plain name; names that occur twice are left out, so that nobody is given the wrong one silently."""
    found: dict[str, int] = {}
    twice: set[str] = set()
    for label, name in enumerate(names):
        if found.setdefault(plain(name), label) != label:
            twice.add(plain(name))
    if not found:
        raise MeantimeError(f"no classes were found in {where}")
    return {name: label for name, label in found.items() if name not in twice}


def label_of(name: str, numbers: dict[str, int], names: Sequence[str], what: str) -> int:
    """The label of a class name that ``what`` has."""
    label = numbers.get(plain(name))
    if label is None:
        problem = "stands for several classes" if plain(name) in map(plain, names) else "is not there"
        raise MeantimeError(
            f"{what} has the class {name!r}, which {problem} among the {len(names)} classes "
            f"({', '.join(names[:3])}, …); correct it, or give the label as a number"
        )
    return label


def class_file(folder: Path) -> tuple[str, ...] | None:
    """The names in a ``classnames.txt`` beside the data, one a line, in the order of the labels."""
    path = folder / "classnames.txt"
    return tuple(lines(path)) if path.is_file() else None


def split_folder(root: Path, split: str) -> Path:
    """The folder of a split, where there is one for each; else the root itself, which is not divided."""
    there = [s for s in SPLITS if (root / s).is_dir()]
    if there and (root / split).is_dir():
        return root / split
    # A class may be called "train" too, but then others lie beside it that are no splits.
    if there and not any(p.name not in SPLITS and not p.name.startswith(".") and p.is_dir() for p in root.iterdir()):
        raise MeantimeError(f"{no_split(root, there, split)}, or give the folder {str(root / there[0])!r}")
    return root


def no_split(root: Path, there: Sequence[str], split: str) -> str:
    """What to say where a split is not there, but others are."""
    return f"{str(root)!r} has {', '.join(there)} but no {split!r}; ask for one of these, as in --split {there[0]}"


def from_folder(root: Path, split: str = "test", class_names: Sequence[str] | None = None) -> Dataset:
    """A folder with a sub-folder for each class; or with train, val and test, and the classes in these."""
    base = split_folder(root, split)
    found = [path for path in find_images([base]) if path.parent != base]
    if not found:
        raise MeantimeError(f"{str(base)!r} has no images in sub-folders; expected one for each class, named after it")
    relative = [(storable(path.relative_to(base).parts[0]), path.relative_to(base).as_posix()) for path in found]
    folders = {folder for folder, _ in relative}
    names = tuple(class_names or class_file(root) or sorted_classes(folders))
    if all(folder.isdecimal() for folder in folders) and not folders <= set(names):
        labels = {folder: int(folder) for folder in folders}  # numbers of given names
    else:
        numbers = number_of(names, str(base))
        labels = {folder: label_of(folder, numbers, names, f"the folder {str(base)!r}") for folder in folders}
    rows = sorted((labels[folder], path) for folder, path in relative)
    samples = samples_below(base, [(path, label) for label, path in rows])
    return Dataset(storable(root.resolve().name), names, samples, split)


def from_table(path: Path, split: str = "test", class_names: Sequence[str] | None = None) -> Dataset:
    """A table with a column of files (``file`` or ``path``) and one of labels.

    Labels are numbers (``label``, ``index``) or names (``name``, ``class``, ``label``). The classes are those given,
    else those of a ``classnames.txt`` beside the table, else those that occur. Where there is a column ``split``,
    only rows of that split are taken.
    """
    numbered = [(number, row) for number, row in enumerate(_rows(path), 1) if row.get("split", split) == split]
    rows = [row for _, row in numbered]
    if not rows:
        raise MeantimeError(f"{str(path)!r} has no rows for the split {split!r}")
    file_column = next((column for column in FILE_COLUMNS if column in rows[0]), None)
    number_column = next((c for c in INDEX_COLUMNS if c in rows[0] and all(_is_number(row[c]) for row in rows)), None)
    name_column = next((c for c in NAME_COLUMNS if c in rows[0] and c != number_column), None)
    if file_column is None or (number_column is None and name_column is None):
        raise MeantimeError(
            f"{str(path)!r} has the columns {', '.join(rows[0])}; expected one of {', '.join(FILE_COLUMNS)}, and "
            f"numbers in {' or '.join(INDEX_COLUMNS)} or names in {' or '.join(NAME_COLUMNS)}"
        )
    for number, row in numbered:
        for what, column in (("file", file_column), ("label", name_column)):  # numbers are there in all rows
            if column is not None and (row[column] is None or not str(row[column]).strip()):
                raise MeantimeError(f"row {number} of {str(path)!r} has no {what}: its {column!r} is empty; fill it in")
    names = tuple(class_names or class_file(path.parent) or ())
    if not names and name_column is not None:
        names = tuple(sorted_classes({str(row[name_column]) for row in rows}))
        number_column = None  # numbers of another list of classes than the one that occurs
    if not names:
        raise MeantimeError(
            f"{str(path)!r} has numbers as labels; give the class names, or put classnames.txt beside it"
        )
    if number_column is not None:
        labels = [int(row[number_column]) for row in rows]
    elif name_column is not None:
        numbers = number_of(names, str(path))
        labels = [label_of(str(row[name_column]), numbers, names, repr(str(path))) for row in rows]
    keys = [as_path(str(row[file_column])).as_posix() for row in rows]
    name = storable(path.resolve().parent.name if path.name == "labels.csv" else path.stem)
    dataset = Dataset(name, names, Samples([_beside(path, key) for key in keys], labels, keys), split)
    if number_column is not None and name_column is not None:
        _check_names(path, rows, name_column, dataset)
    return dataset


def _beside(table: Path, key: str) -> Path:
    """The file that a row names: beside the table, or anywhere by its URL."""
    return as_path(key) if is_url(key) else table.parent / key


def _check_names(path: Path, rows: list[dict[str, Any]], column: str, dataset: Dataset) -> None:
    """Numbers and names of one table must agree: a sign of labels in another order."""
    for row, sample_label in zip(rows, dataset.samples.labels, strict=True):
        if plain(str(row[column])) != plain(dataset.class_names[sample_label]):
            raise MeantimeError(
                f"{str(path)!r} calls class {sample_label} {row[column]!r}, but class {sample_label} is "
                f"{dataset.class_names[sample_label]!r}; the numbers follow another order of classes"
            )


def _rows(path: Path) -> list[dict[str, Any]]:
    broken: tuple[type[Exception], ...] = (OSError, UnicodeDecodeError, csv.Error)
    try:
        if path.suffix == ".parquet":
            broken = (OSError, pa.ArrowException)
            with path.open("rb") as raw:
                rows: list[dict[str, Any]] = pq.read_table(raw).to_pylist()
            return rows
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(csv.DictReader(file))
    except broken as error:
        raise MeantimeError(f"the table {str(path)!r} cannot be read ({' '.join(str(error).split())})") from error


def _is_number(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and value.strip().isdecimal())

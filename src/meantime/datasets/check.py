"""Looking at a dataset before hours are spent on it: counts against the published sizes, and the classic mistakes."""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from meantime.datasets.base import Dataset
from meantime.datasets.declarations import list_datasets
from meantime.datasets.load import load_dataset
from meantime.datasets.locate import another_dataset
from meantime.errors import MeantimeError
from meantime.remote import is_url

WNID = re.compile(r"n\d{8}")
SHOWN = 3  # names in a message


@dataclass(frozen=True)
class Report:
    """What was found. Without problems the dataset is what the paper measured on, as far as counts can tell."""

    name: str
    root: str
    split: str
    images: int = 0
    classes: int = 0  # with at least one image
    expected_images: int | None = None
    expected_classes: int | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def check_dataset(
    name: str,
    root: str | Path | None = None,
    split: str = "test",
    *,
    images: int | None = None,
    classes: int | None = None,
) -> Report:
    """Count images and classes, and look for the mistakes that make accuracy fall to nothing.

    ``images`` and ``classes`` replace the published sizes. Anybody's own data has none, and is checked without.
    """
    published = published_sizes(name, split)
    images = published[0] if images is None else images
    classes = published[1] if classes is None else classes
    where = str(name if root is None else root)
    try:
        dataset = load_dataset(name, root, split)
    except MeantimeError as error:
        return Report(name, where, split, 0, 0, images, classes, [str(error)])
    found = problems(dataset, images, classes)
    occurring = len(set(dataset.samples.labels))
    return Report(name, where, split, len(dataset.samples), occurring, images, classes, found)


def published_sizes(name: str, split: str) -> tuple[int | None, int | None]:
    """Images and classes of a dataset of the paper; of anybody's own data nobody knows."""
    declaration = list_datasets().get(name)
    if declaration is None:
        return None, None
    return {"test": declaration.test, **declaration.others}.get(split), declaration.classes


def problems(dataset: Dataset, images: int | None, classes: int | None) -> list[str]:
    """What is wrong with a dataset that was read, each in a sentence."""
    return [
        *missing_files(dataset),
        *_string_sorted(dataset),
        *_strangers(dataset),
        *_counts(dataset, images, classes),
    ]


def missing_files(dataset: Dataset, *, remote: bool = True) -> list[str]:
    """Files that a list names and that are not there. Samples of archives were found as they were indexed.

    Without ``remote`` only local files are looked for: each of the others would be a request.
    """
    sources = dataset.samples.sources
    if not isinstance(sources, list):
        return []
    asked = [(key, path) for key, path in zip(dataset.samples.keys, sources, strict=True) if remote or not is_url(path)]
    missing = [key for key, path in asked if not path.is_file()]
    if not missing:
        return []
    hint = "; all of them, so the images are probably a folder off" if len(missing) == len(sources) else ""
    return [f"{len(missing)} of {len(sources)} listed images are missing ({_first(missing)}){hint}"]


def _string_sorted(dataset: Dataset) -> list[str]:
    """Labels that count folders in the order "0", "1", "10", … although the folders are numbers."""
    pairs = {
        (PurePosixPath(key).parent.name, label)
        for key, label in zip(dataset.samples.keys, dataset.samples.labels, strict=True)
    }
    folders = sorted({folder for folder, _ in pairs})
    if not all(folder.isdecimal() for folder in folders) or all(int(folder) == label for folder, label in pairs):
        return []
    if pairs == set(zip(folders, range(len(folders)), strict=True)) and folders != sorted(folders, key=int):
        return [
            "labels count the numbered folders in the order of texts (0, 1, 10, 100, …), not of integers (0, 1, 2, …): "
            "nearly every label is wrong, as with ImageNet-V2 in common loaders; use the folder's number as the label"
        ]
    return []


def _strangers(dataset: Dataset) -> list[str]:
    """Folders beside those of the classes: another dataset, as ImageNet given for ImageNet-A, or images astray."""
    sources = dataset.samples.sources
    if dataset.name not in list_datasets() or not isinstance(sources, list):
        return []
    keys = dataset.samples.keys
    folders = {PurePosixPath(key).parts[0] for key in keys if "/" in key}
    top = Path(sources[0]).parents[len(PurePosixPath(keys[0]).parts) - 1]
    declaration = list_datasets()[dataset.name]
    other = next(filter(None, (another_dataset(declaration, layout, top) for layout in declaration.layouts)), None)
    if other is not None:
        return [other]
    wnids = {path.name for path in top.iterdir() if WNID.fullmatch(path.name) and path.is_dir()}
    strange = sorted(wnids - folders)
    if not strange:
        return []
    return [
        f"{len(strange)} folders in {str(top)!r} hold no image of a class of {dataset.name} "
        f"({_first(strange)}): they are empty, nested one folder too deep, or of another dataset"
    ]


def _counts(dataset: Dataset, images: int | None, classes: int | None) -> list[str]:
    found = []
    occurring, names = set(dataset.samples.labels), len(dataset.class_names)
    declared = list_datasets().get(dataset.name)
    if classes is not None and (names < classes or (declared is not None and names != classes == declared.classes)):
        found.append(f"{names} classes, published are {classes}")
    elif classes is not None and len(occurring) != classes:
        empty = [name for label, name in enumerate(dataset.class_names) if label not in occurring]
        which = f"; none of {_first(empty)}" if empty else ""
        found.append(f"{len(occurring)} classes have images, published are {classes}{which}")
    count = len(dataset.samples)
    if images is not None and count != images:
        found.append(f"{count} images, published are {images} ({count - images:+d})")
    twice = [key for key, times in Counter(dataset.samples.keys).items() if times > 1]
    if twice:
        found.append(f"{len(twice)} images are listed more than once ({_first(twice)})")
    return found


def _first(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")

"""WebDataset shards: tar files in which the image and the label of a sample share a name (x.jpg, x.cls).

The tars are indexed once and images are read from their place when they are asked for; nothing is unpacked.
"""

import json
import re
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from meantime.datasets.base import Dataset, Samples, storable
from meantime.datasets.generic import (
    SPLITS,
    class_file,
    label_of,
    no_split,
    number_of,
    sorted_classes,
    split_folder,
)
from meantime.errors import MeantimeError
from meantime.images import EXTENSIONS


@dataclass(frozen=True)
class Members(Sequence[bytes]):
    """Images by number, each read from its tar when asked for."""

    places: list[tuple[Path, int, int]]  # tar, offset, size

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, i: int) -> bytes: ...
    @overload
    def __getitem__(self, i: slice) -> "Members": ...
    def __getitem__(self, i: int | slice) -> "bytes | Members":
        if isinstance(i, slice):
            return Members(self.places[i])
        path, offset, size = self.places[i]
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(size)
        except OSError as error:
            reason = " ".join(str(error).split())
            raise MeantimeError(f"{str(path)!r} cannot be read ({reason}); what was finished is kept") from error

    def take(self, chosen: Sequence[int]) -> "Members":
        """Those of the numbers given; nothing is read."""
        return Members([self.places[i] for i in chosen])


def from_tars(root: Path, split: str = "test", class_names: Sequence[str] | None = None) -> Dataset:
    """One tar, or a folder of them (or of a folder for each split). Labels are numbers or class names.

    The label of x.jpg is the text of x.cls, or ``label`` (or ``cls``) in x.json. Class names come from
    ``classnames.txt`` beside the tars or above them.
    """
    tars, folder = tar_files(root, split)
    if not tars:
        raise MeantimeError(f"there are no .tar files in {str(root)!r} for the split {split!r}")
    places: list[tuple[Path, int, int]] = []
    labels: list[str] = []
    keys: list[str] = []
    for tar in tars:
        for key, (offset, size, label) in _index(tar).items():
            places.append((tar, offset, size))
            labels.append(label)
            keys.append(storable(f"{tar.stem}/{key}"))
    if not keys:
        raise MeantimeError(f"the tar files of {str(root)!r} hold no images; known are {', '.join(EXTENSIONS)}")
    names = tuple(class_names or class_file(folder) or class_file(folder.parent) or ())
    numbered = all(label.isdecimal() for label in labels)
    if not names and numbered:
        raise MeantimeError(f"the labels in {str(root)!r} are numbers; put classnames.txt beside the tar files")
    names = names or tuple(sorted_classes(set(labels)))
    if numbered and not set(labels) <= set(names):
        values = [int(label) for label in labels]
    else:
        numbers = number_of(names, str(root))
        values = [label_of(label, numbers, names, repr(str(root))) for label in labels]
    name = storable(root.resolve().name.removesuffix(".tar"))
    return Dataset(name, names, Samples(Members(places), values, keys), split)


def tar_files(root: Path, split: str) -> tuple[list[Path], Path]:
    """The tar files of a split in order, and the folder in which they lie."""
    if root.is_file():
        return [root], root.parent
    if (root / split).is_dir():
        return sorted((root / split).glob("*.tar")), root / split
    tars = sorted(split_folder(root, split).glob("*.tar"))
    there = named_splits(tars)
    if there and split not in there:
        raise MeantimeError(no_split(root, there, split))
    return [tar for tar in tars if not there or _named(tar) == split], root


def named_splits(tars: Iterable[Path]) -> list[str]:
    """The splits that tars are named after (train-0.tar, val-0.tar); none where one of them is named otherwise."""
    names = {_named(tar) for tar in tars}
    return [] if None in names else sorted(name for name in names if name)


def _named(tar: Path) -> str | None:
    return next((split for split in SPLITS if re.match(f"{split}(?![a-z])", tar.name, re.IGNORECASE)), None)


def _index(tar: Path) -> dict[str, tuple[int, int, str]]:
    """Offset, size and label of each sample of a tar."""
    images: dict[str, tuple[int, int]] = {}
    labels: dict[str, str] = {}
    try:
        # Compressed tars cannot be read in the middle.
        with tar.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:") as file:
            for member in file:
                folder, _, name = member.name.rpartition("/")
                stem, _, extension = name.partition(".")  # a sample's name ends at its first dot
                key = f"{folder}/{stem}" if folder else stem
                if not member.isfile() or not stem:
                    continue
                if f".{extension.lower()}" in EXTENSIONS:
                    images[key] = (member.offset_data, member.size)
                elif extension in ("cls", "json"):
                    content = file.extractfile(member)
                    text = "" if content is None else content.read().decode()
                    label = _label(text) if extension == "json" else text.strip()
                    if label is not None:
                        labels[key] = label
    except MeantimeError:  # the object store does not answer
        raise
    except (tarfile.TarError, OSError, ValueError) as error:
        raise MeantimeError(f"{str(tar)!r} is not a whole, uncompressed tar file ({error}); copy it again") from error
    end = tar.stat().st_size
    for key, (offset, size) in images.items():
        if key not in labels:
            raise MeantimeError(f"{key!r} in {str(tar)!r} has no label; expected {key}.cls, or 'label' in {key}.json")
        if offset + size > end:
            raise MeantimeError(f"{str(tar)!r} is truncated: {key!r} ends after the file; copy it again")
    return {key: (*place, labels[key]) for key, place in images.items()}


def _label(text: str) -> str | None:
    value = json.loads(text)
    label = value.get("label", value.get("cls")) if isinstance(value, dict) else None
    return None if label is None else str(label)

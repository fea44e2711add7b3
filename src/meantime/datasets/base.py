"""What a dataset is: class names, and images with their label and a key that names them."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, overload

from meantime.errors import MeantimeError
from meantime.images import ImageSource
from meantime.labels import TEMPLATE


def storable(name: str) -> str:
    """A name of a file as a text that can be stored: bytes that are no UTF-8 become \\xe9 and the like.

    >>> storable("caf\\udce9.jpg")
    'caf\\\\xe9.jpg'
    """
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


class Sample(NamedTuple):
    """One image: where its pixels come from, the number of its class, and its name within the dataset."""

    source: ImageSource
    label: int
    key: str


@dataclass(frozen=True)
class Samples(Sequence[Sample]):
    """Samples by number. A source is looked up when its sample is asked for, so it may read from an archive then."""

    sources: Sequence[ImageSource]
    labels: Sequence[int]
    keys: Sequence[str]

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, i: int) -> Sample: ...
    @overload
    def __getitem__(self, i: slice) -> list[Sample]: ...
    def __getitem__(self, i: int | slice) -> Sample | list[Sample]:
        if isinstance(i, slice):
            return [self[j] for j in range(len(self))[i]]
        return Sample(self.sources[i], self.labels[i], self.keys[i])

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True)
class Dataset:
    """Labelled images. The order of the samples is the same wherever the files lie."""

    name: str
    class_names: tuple[str, ...]
    samples: Samples
    split: str = "test"
    prompt: str = TEMPLATE

    def __post_init__(self) -> None:
        if not self.class_names:
            raise MeantimeError(f"the dataset {self.name!r} has no classes")
        for label, key in zip(self.samples.labels, self.samples.keys, strict=True):
            if not 0 <= label < len(self.class_names):
                raise MeantimeError(
                    f"image {key!r} of {self.name!r} has the label {label}, but there are {len(self.class_names)} "
                    f"classes (0 to {len(self.class_names) - 1}); correct the label file"
                )

    @cached_property
    def fingerprint(self) -> str:
        """Changes with any name, key, label or their order; pixels are not read for it."""
        digest = hashlib.sha256()
        for text in (self.split, str(len(self.class_names)), *self.class_names):
            digest.update(text.encode() + b"\0")
        for key, label in zip(self.samples.keys, self.samples.labels, strict=True):
            digest.update(f"{key}\0{label}\0".encode())
        return digest.hexdigest()

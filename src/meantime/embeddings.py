"""Embeddings that something else made, read in batches of bounded memory: arrays, Parquet tables, stores.

Whatever the file, a batch is keys and views (b, N, d), view 0 the original; what a file also says of the classes is
kept beside.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from meantime.errors import MeantimeError
from meantime.npz import Arrays, as_texts, check_floats
from meantime.parquet import pa, pq
from meantime.remote import as_path
from meantime.store.arrays import class_texts
from meantime.store.reader import Store, open_store
from meantime.store.texts import Texts

Floats = NDArray[np.floating[Any]]
TEXTS = ("text_single", "classes")  # one of them: the class embeddings
KEYS = ("key", "path", "image", "id")  # a column that names the image, the first that is there
VIEWS = ("views", "embedding")  # a column of embeddings, where several hold lists of numbers
PAGE = 1 << 20  # bytes of a Parquet column read ahead: else all of a row group, which may be all of the file


@dataclass(frozen=True)
class Classes:
    """What a file says of the classes; any of it may be missing."""

    texts: Texts | None = None
    names: tuple[str, ...] | None = None
    logit_scale: float | None = None


class Batch(NamedTuple):
    """Some images, in order."""

    keys: tuple[str, ...]
    views: Floats  # (b, N, d), of any length


class Embeddings(Protocol):
    """Views of images in a file or a store."""

    @property
    def images(self) -> int | None:
        """How many; None where only the end tells."""

    @property
    def classes(self) -> Classes:
        """What it says of the classes."""

    @property
    def unreadable(self) -> Sequence[tuple[str, str]]:
        """Key and error of the images that could not be encoded."""

    def batches(self, dim: int, views: int) -> Iterator[Batch]:
        """Yield all images of ``dim`` dimensions, about so many ``views`` at a time."""


def open_embeddings(path: str | Path) -> Embeddings:
    """Open an .npy, .npz or .parquet file, or a store."""
    place = as_path(path)
    if place.is_dir():
        return _Stored(open_store(path))
    if not place.exists():
        raise MeantimeError(
            f"there are no embeddings {str(path)!r}: expected an .npy, .npz or .parquet file, or a store"
        )
    return _Table(place) if place.suffix == ".parquet" else _Arrays(place)


def read_classes(path: str | Path) -> Classes:
    """Read class embeddings: (K, d) of an .npy, or `text_single` (or `classes`) of an .npz and what stands beside it.

    Beside it may stand `names` (K,), `text_ensemble` (K, d) or `text_templates` (P, K, d), and `logit_scale`.
    """
    with Arrays(path) as arrays:
        found = _classes(arrays)
        if found.texts is None:
            raise MeantimeError(
                f"{str(path)!r} has no array {' or '.join(TEXTS)}, the class embeddings; it has "
                f"{', '.join(arrays.names)}"
            )
        return found


def _classes(arrays: Arrays) -> Classes:
    name = next((name for name in ("", *TEXTS) if name in arrays), None)
    if name is None:
        return Classes(logit_scale=arrays.number("logit_scale"))
    names = arrays.texts("names") if "names" in arrays else None
    texts = class_texts(arrays, name)
    if names is not None and len(names) != len(texts.single):
        raise MeantimeError(
            f"{str(arrays.path)!r} has {len(names)} names for {len(texts.single)} class embeddings; each needs one"
        )
    return Classes(texts, names, arrays.number("logit_scale"))


class _Arrays:
    """Views (M, N, d), or (M, d) of one view each: an .npy, or `views` of an .npz, maybe with `keys` (M,)."""

    unreadable = ()

    def __init__(self, path: Path) -> None:
        self.path = path
        with Arrays(path) as arrays:
            self.name = "" if "" in arrays else "views"
            if self.name not in arrays:
                raise MeantimeError(f"{str(path)!r} has no array 'views'; it has {', '.join(arrays.names)}")
            views = arrays.rows(self.name)
            check_floats(views.name, views.dtype)
            if len(views.shape) not in (2, 3) or 0 in views.shape:
                raise MeantimeError(
                    f"{views.name} has the shape {views.shape}; expected (M, N, d), N views of each of M images, or "
                    "(M, d), one of each"
                )
            self.images, self.dim = len(views), views.shape[-1]
            self.n_views = 1 if len(views.shape) == 2 else views.shape[1]
            self.has_keys = "keys" in arrays
            if self.has_keys:
                keys = arrays.rows("keys")
                if keys.shape != (self.images,):
                    raise MeantimeError(f"{keys.name} has the shape {keys.shape}; expected {(self.images,)}")
            self.classes = _classes(arrays) if self.name else Classes()

    def batches(self, dim: int, views: int) -> Iterator[Batch]:
        if dim != self.dim:
            raise _differ(self.path, self.dim, dim)
        size = max(1, views // self.n_views)
        with Arrays(self.path) as arrays:
            rows = arrays.rows(self.name)
            keys = arrays.rows("keys") if self.has_keys else None
            for start in range(0, self.images, size):
                part = rows.take(size).reshape(-1, self.n_views, dim)
                yield Batch(_numbered(start, len(part)) if keys is None else as_texts(keys.take(size)), part)


class _Stored:
    """A store of Meantime: it has classes, names and logit scale."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.images = len(store)
        self.classes = Classes(store.texts, store.class_names, store.logit_scale)
        self.unreadable = [(error["key"], error["error"]) for error in store.errors]
        if not store.complete:
            warnings.warn(f"the store {str(store.path)!r} is not complete: answers for what is there", stacklevel=2)

    def batches(self, dim: int, views: int) -> Iterator[Batch]:
        if dim != self.store.dim:
            raise _differ(self.store.path, self.store.dim, dim)
        for batch in self.store.batches(max(1, views // self.store.n_views)):
            yield Batch(batch.keys, batch.views)


class _Table:
    """A Parquet table: a column of lists of floats and, where there is one, a column that names the image.

    A row holds d numbers, one view, or N·d, all views of an image. Neighbouring rows of one key are the views of one
    image, in their order; without keys every row is an image.
    """

    classes = Classes()
    unreadable = ()

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as file:
            schema = file.schema_arrow
            self.rows = file.metadata.num_rows
        lists = [field.name for field in schema if _is_floats(field.type)]
        chosen = lists if len(lists) == 1 else [name for name in VIEWS if name in lists]
        if not chosen:
            raise MeantimeError(
                f"{str(path)!r} has {f'{len(lists)} columns' if lists else 'no column'} of lists of floats; expected "
                f"one, or one called {' or '.join(VIEWS)}. Its columns: {', '.join(schema.names)}"
            )
        self.column = chosen[0]
        self.key = next((name for name in KEYS if name in schema.names), None)
        self.images = None if self.key else self.rows

    def batches(self, dim: int, views: int) -> Iterator[Batch]:
        n, first = 0, ""  # views of the first image, and its key
        keys: list[str] = []  # of the next batch
        waiting: list[Floats] = []
        for key, own in self._images(dim):
            if not n:
                n, first = len(own), key
            elif self.key and key == first:
                raise MeantimeError(f"the rows of image {key!r} do not stand together; {self._sort}")
            if len(own) != n:
                raise MeantimeError(
                    f"image {key!r} has {len(own)} views, but {first!r} has {n}; give all images equally many"
                    + (f", and {self._sort}" if self.key else "")
                )
            keys.append(key)
            waiting.append(own)
            if len(keys) * n >= views:
                yield Batch(tuple(keys), np.stack(waiting))
                keys, waiting = [], []
        if keys:
            yield Batch(tuple(keys), np.stack(waiting))

    @property
    def _sort(self) -> str:
        return f"sort the table by {self.key!r}, the views of each image in their order"

    def _images(self, dim: int) -> Iterator[tuple[str, Floats]]:
        """Every image: its key and its views (N, d)."""
        for key, rows in groupby(self._rows(dim), key=itemgetter(0)):
            yield key, np.concatenate([views for _, views in rows])

    def _rows(self, dim: int) -> Iterator[tuple[str, Floats]]:
        """Every row: its key and its views, one or several."""
        columns = [self.column, *([self.key] if self.key else [])]
        at, width = 0, 0
        with self._open() as file:
            for part in file.iter_batches(64, columns=columns):
                lists = part.column(self.column)
                lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
                width = width or int(next(iter(lengths[lengths > 0]), 0))
                if width and width % dim:
                    raise _differ(self.path, width, dim)
                wrong = np.flatnonzero((lengths != width) & (lengths != 0))
                if wrong.size:
                    raise MeantimeError(
                        f"row {at + wrong[0]} of {str(self.path)!r} has {lengths[wrong[0]]} numbers, but rows "
                        f"before it {width}; all must have equally many"
                    )
                # A row without numbers (null) is an image without a direction, and is told as one
                values = np.full((len(part), width or dim), np.nan, np.float32)
                values[lengths > 0] = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, width or dim)
                keys = self._keys(part, at)
                at += len(part)
                yield from zip(keys, values.reshape(len(part), -1, dim), strict=True)

    def _keys(self, part: Any, at: int) -> Sequence[str]:
        if self.key is None:
            return _numbered(at, len(part))
        keys = part.column(self.key).to_pylist()
        if None in keys:
            raise MeantimeError(
                f"row {at + keys.index(None)} of {str(self.path)!r} has no {self.key!r}; each needs one"
            )
        return [str(key) for key in keys]

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            with (
                self.path.open("rb") as raw,
                pq.ParquetFile(raw, buffer_size=PAGE, pre_buffer=False, page_checksum_verification=True) as file,
            ):
                yield file
        except (pa.ArrowException, OSError) as error:
            raise MeantimeError(
                f"{str(self.path)!r} cannot be read as Parquet ({' '.join(str(error).split())})"
            ) from error


def _is_floats(kind: Any) -> bool:
    types = pa.types
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    return bool(types.is_floating(kind.value_type))


def _numbered(start: int, count: int) -> tuple[str, ...]:
    """Keys of images that have none: their numbers."""
    return tuple(f"{i:06d}" for i in range(start, start + count))


def _differ(path: Path, views: int, classes: int) -> MeantimeError:
    return MeantimeError(
        f"the embeddings in {str(path)!r} have {views} dimensions, the classes {classes}; both must come from one "
        "model, images and texts in the same space"
    )

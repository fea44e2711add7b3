"""Arrays in .npy and .npz files, with errors that name the array; large ones row by row, as they lie in the file."""

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from meantime.errors import MeantimeError
from meantime.remote import as_path

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class Rows:
    """One array of a file, read from its first row to its last; only what is asked for is in memory."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file, self.name = file, name
        with _reading(name):
            version = npy.read_magic(file)
            if version not in _HEADERS:
                raise MeantimeError(f"{name} is not an array of plain numbers or texts")
            self.shape, fortran, self.dtype = _HEADERS[version](file)
        if self.dtype.hasobject:
            raise MeantimeError(
                f"{name} is an array of Python objects, as pandas keeps texts; save texts by .astype(str), numbers by "
                ".astype('float32')"
            )
        self.at = 0  # the next row
        # By columns it cannot be read in parts
        self._whole = self._bytes(math.prod(self.shape)).reshape(self.shape[::-1]).T if fortran else None

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 1

    def take(self, count: int) -> NDArray[Any]:
        """Return the next so many rows; fewer at the end."""
        start, stop = self.at, min(self.at + count, len(self))
        self.at = stop
        if self._whole is not None:
            return self._whole[start:stop]
        own = self.shape[1:]
        return self._bytes((stop - start) * math.prod(own)).reshape(stop - start, *own)

    def read(self) -> NDArray[Any]:
        """Return all of it."""
        return self.take(len(self)).reshape(self.shape)

    def _bytes(self, numbers: int) -> NDArray[Any]:
        size = numbers * self.dtype.itemsize
        with _reading(self.name):
            data = self.file.read(size)
        if len(data) < size:
            raise MeantimeError(f"{self.name} ends too early, it is truncated; copy or save it again")
        return np.frombuffer(data, self.dtype, numbers) if size else np.empty(numbers, self.dtype)


class Arrays:
    """The arrays of an .npz file by name, or the one array of an .npy file, whose name is empty."""

    def __init__(self, path: str | Path) -> None:
        self.path = as_path(path)
        try:
            self.file: IO[bytes] = self.path.open("rb")
        except OSError as error:
            raise MeantimeError(f"{str(self.path)!r} cannot be read ({error.strerror or error})") from error
        with _reading(repr(str(self.path))):
            start = self.file.read(6)
            self.file.seek(0)
            self.zip = zipfile.ZipFile(self.file) if start.startswith(b"PK") else None
        if self.zip is None and start != npy.MAGIC_PREFIX:
            self.file.close()
            raise MeantimeError(f"{str(self.path)!r} is neither an .npy nor an .npz file, by what it begins with")
        members = [".npy"] if self.zip is None else self.zip.namelist()
        self.names = [member.removesuffix(".npy") for member in members if member.endswith(".npy")]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.zip is not None:
            self.zip.close()
        self.file.close()

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def rows(self, name: str) -> Rows:
        """Begin to read an array."""
        if self.zip is None:
            return Rows(self.file, repr(str(self.path)))
        called = f"{name!r} in {str(self.path)!r}"
        with _reading(called):
            file = self.zip.open(f"{name}.npy")
        return Rows(file, called)

    def read(self, name: str) -> NDArray[Any]:
        """Return an array."""
        return self.rows(name).read()

    def texts(self, name: str) -> tuple[str, ...]:
        """Return an array of texts: names or keys."""
        array = self.read(name)
        if array.ndim != 1:
            raise MeantimeError(f"{name!r} in {str(self.path)!r} has the shape {array.shape}; expected a list of texts")
        return as_texts(array)

    def number(self, name: str) -> float | None:
        """Return a single number, where it is there."""
        if name not in self:
            return None
        array = self.read(name)
        if array.size != 1 or array.dtype.kind not in "fiu":
            raise MeantimeError(
                f"{name!r} in {str(self.path)!r} is {array.dtype} of shape {array.shape}; expected one number"
            )
        return float(array.reshape(-1)[0])


def as_texts(array: NDArray[Any]) -> tuple[str, ...]:
    """Return the items of an array as texts; bytes are UTF-8."""
    return tuple(item.decode(errors="replace") if isinstance(item, bytes) else str(item) for item in array.tolist())


def check_floats(name: str, dtype: np.dtype[Any]) -> None:
    """Refuse an array of anything else than floats."""
    if dtype.kind != "f":
        raise MeantimeError(
            f"{name} holds {dtype}; expected floating-point numbers: save embeddings by .astype('float32')"
        )


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Errors of the file as one sentence."""
    try:
        yield
    except MeantimeError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise MeantimeError(f"{name} cannot be read, it is truncated or damaged ({error}); save it again") from error

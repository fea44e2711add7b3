"""Places in object stores, by their URL: s3://, gs://, abfs://, hdfs:// and file:// through pyarrow, and any other
scheme that fsspec knows.
"""

import fnmatch
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast

from meantime.errors import MeantimeError
from meantime.extras import optional


def is_url(place: object) -> bool:
    """Whether it names a place in an object store rather than a local file."""
    return isinstance(place, RemotePath) or (isinstance(place, str) and "://" in place)


def as_path(place: str | os.PathLike[str]) -> Path:
    """A path to work with: of a URL a :class:`RemotePath`, which has those methods of a Path that are used here."""
    if isinstance(place, RemotePath):
        return cast(Path, place)
    if isinstance(place, str) and is_url(place):
        scheme, _, key = place.partition("://")
        return cast(Path, RemotePath(scheme, PurePosixPath(key)))
    return Path(place)


@contextmanager
def _answering(place: object) -> Iterator[None]:
    """A store that does not answer, or refuses, is one sentence; that a file is not there is left to the caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = " ".join(str(error).split())
        raise MeantimeError(
            f"{str(place)!r} cannot be reached ({reason}); check the address, the network and your rights"
        ) from error


class Size(NamedTuple):
    """What ``stat`` says of a remote file."""

    st_size: int


@dataclass(frozen=True, order=True)
class RemotePath(os.PathLike[str]):
    """A file or folder in an object store, in the manner of a Path. It is small, so it can be sent to a worker."""

    scheme: str
    key: PurePosixPath  # the bucket included

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key}"

    __fspath__ = __str__
    as_posix = __str__

    def __truediv__(self, name: str | PurePosixPath) -> "RemotePath":
        return RemotePath(self.scheme, self.key / name)

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.name

    @property
    def stem(self) -> str:
        """The last part without its ending."""
        return self.key.stem

    @property
    def suffix(self) -> str:
        """The ending, with its dot."""
        return self.key.suffix

    @property
    def parent(self) -> "RemotePath":
        """The folder in which it lies."""
        return RemotePath(self.scheme, self.key.parent)

    def with_name(self, name: str) -> "RemotePath":
        """The file of that name beside it."""
        return RemotePath(self.scheme, self.key.with_name(name))

    def resolve(self) -> "RemotePath":
        """Itself: there are no links to follow."""
        return self

    def relative_to(self, other: "RemotePath") -> PurePosixPath:
        """The way from a folder above."""
        return self.key.relative_to(other.key)

    def _place(self) -> tuple[Any, str]:
        """The file system and the path in it."""
        bucket, _, rest = str(self.key).partition("/")  # of file:///tmp/x the bucket is empty
        with _answering(self):
            system, base = _filesystem(self.scheme, bucket)
        return system, f"{base.rstrip('/')}/{rest}" if rest else base

    def _info(self) -> Any:
        system, path = self._place()
        with _answering(self):
            return system.get_file_info(path)

    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether it is a file."""
        return bool(self._info().is_file)

    def is_dir(self) -> bool:
        """Whether it is a folder, or what files have in front of their names."""
        return str(self._info().type.name) == "Directory"

    def stat(self) -> Size:
        """Its size."""
        info = self._info()
        if not info.is_file:
            raise FileNotFoundError(2, "No such file", str(self))
        return Size(int(info.size))

    def iterdir(self) -> Iterator["RemotePath"]:
        """What lies in the folder."""
        return (path for path, _ in self._list(recursive=False))

    def sizes(self) -> dict[str, int]:
        """Bytes of each file in the folder, by name."""
        return {path.name: size for path, size in self._list(recursive=False) if size is not None}

    def walk_files(self) -> Iterator["RemotePath"]:
        """Every file below the folder, by name."""
        return iter(sorted(path for path, size in self._list(recursive=True) if size is not None))

    def glob(self, pattern: str) -> Iterator["RemotePath"]:
        """What lies in the folder and has such a name."""
        return (path for path in self.iterdir() if fnmatch.fnmatchcase(path.name, pattern))

    def _list(self, *, recursive: bool) -> Iterator[tuple["RemotePath", int | None]]:
        """What is there; of files, their size."""
        system, path = self._place()
        selector = optional("pyarrow.fs", "a place in an object store", "parquet").FileSelector
        top = PurePosixPath(path)
        with _answering(self):
            found = system.get_file_info(selector(path, recursive=recursive))
        for info in found:
            yield self / PurePosixPath(info.path).relative_to(top), int(info.size) if info.is_file else None

    def open(self, mode: str = "r", *, encoding: str | None = None, newline: str | None = None) -> IO[Any]:
        """Open it for reading, from any position."""
        if mode not in ("r", "rb"):
            raise MeantimeError(f"{str(self)!r} can be opened to be read, not by the mode {mode!r}")
        system, path = self._place()
        with _answering(self):
            file = system.open_input_file(path)
        return cast(IO[Any], file if mode == "rb" else io.TextIOWrapper(file, encoding=encoding, newline=newline))

    def read_bytes(self) -> bytes:
        """All of it."""
        with _answering(self), self.open("rb") as file:
            return bytes(file.read())

    def read_text(self, encoding: str = "utf-8") -> str:
        """All of it as text."""
        return self.read_bytes().decode(encoding)

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make the folder, where the store knows folders."""
        system, path = self._place()
        system.create_dir(path, recursive=parents)

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the file."""
        system, path = self._place()
        try:
            with _answering(self):
                system.delete_file(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def put(self, source: Path) -> None:
        """Fill it with a local file."""
        system, path = self._place()
        with source.open("rb") as file, system.open_output_stream(path) as out:
            while block := file.read(1 << 22):
                out.write(block)

    def replace(self, target: "RemotePath") -> None:
        """Give it another name, within the store."""
        system, path = self._place()
        system.move(path, target._place()[1])


@lru_cache
def _filesystem(scheme: str, bucket: str) -> tuple[Any, str]:
    """The file system of a bucket, found once, and its path there."""
    feature = f"{scheme}:// (object stores)"
    pa, fs = optional("pyarrow", feature, "parquet"), optional("pyarrow.fs", feature, "parquet")
    url = f"{scheme}://{bucket or '/'}"
    try:
        return cast(tuple[Any, str], fs.FileSystem.from_uri(url))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a scheme that pyarrow does not know
        pass
    try:
        system, path = optional("fsspec", feature, "ray").core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise MeantimeError(
            f"the file system of {url!r} is not known here ({error}); pyarrow reads s3, gs, abfs, hdfs and file, "
            "fsspec those whose package is installed"
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), str(path)

"""Files that appear whole or not at all, their checksums, and the lock that keeps two writers apart."""

import errno
import hashlib
import os
import re
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from meantime.errors import MeantimeError
from meantime.remote import RemotePath

PART = ".part"  # the ending of a file that is still being written
OURS = re.compile(r"(manifest\.json|(shard|text)-\w+\.parquet)\.[0-9a-f]{12}" + re.escape(PART))
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what file systems say that have none, as some of clusters


@dataclass(frozen=True)
class Staged:
    """A file that is whole and safely stored, but does not have its name yet."""

    part: str  # its name until then, like no other: two workers on one file do not meet
    bytes: int
    sha256: str


def write_whole(path: Path, write: Callable[[Path], None]) -> Staged:
    """Let ``write`` fill a file beside ``path``, bring it safely to disk and only then give it its name."""
    staged = stage(path, write)
    publish(path, staged)
    return staged


def stage(path: Path, write: Callable[[Path], None]) -> Staged:
    """Let ``write`` fill a file beside ``path`` and bring it safely to disk."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}{PART}")
    with _kept(path, part):
        if isinstance(part, RemotePath):
            with tempfile.TemporaryDirectory() as folder:
                local = Path(folder) / path.name
                write(local)
                part.put(local)
                return Staged(part.name, local.stat().st_size, sha256(local))
        write(part)
        _sync(part)
        return Staged(part.name, part.stat().st_size, sha256(part))


def publish(path: Path, staged: Staged) -> None:
    """Give a staged file its name; one that had it before gives way."""
    part = path.with_name(staged.part)
    with _kept(path, part):
        part.replace(path)
        if not isinstance(path, RemotePath):
            _sync(path.parent)  # the new name must survive a power cut too


@contextmanager
def _kept(path: Path, part: Path) -> Iterator[None]:
    """What goes wrong with one file is one sentence, and leaves nothing of it behind."""
    try:
        yield
    except OSError as error:
        with suppress(OSError, MeantimeError):
            part.unlink(missing_ok=True)  # on a full disk these bytes are wanted back
        raise MeantimeError(
            f"cannot write {str(path)!r}: {error.strerror or error}; what was finished is kept: make room or "
            "repair the place, then run again (`meantime encode` with --resume)"
        ) from error
    except BaseException:
        with suppress(OSError, MeantimeError):
            part.unlink(missing_ok=True)
        raise


def is_remains(name: str) -> bool:
    """Whether a run that was cut short leaves files of that name; whatever else ends in .part is the user's."""
    return OURS.fullmatch(name) is not None


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():  # only POSIX opens folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of the files in a folder, by name: one listing, since an object store takes long to be asked for each."""
    if isinstance(folder, RemotePath):
        return folder.sizes()
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}


def sha256(path: Path) -> str:
    """The checksum of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it even after kill -9. Object stores have no locks."""
    if isinstance(folder, RemotePath):
        yield
        return
    try:
        import fcntl
    except ImportError:  # not a POSIX system: nothing to hold it with
        yield
        return
    try:
        held = (folder / ".lock").open("w")
    except OSError as error:
        raise MeantimeError(f"cannot write to {str(folder)!r}: {error.strerror}; check its rights") from error
    with held as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise MeantimeError(
                    f"another process is writing to {str(folder)!r}; wait for it, or stop it"
                ) from error
            warnings.warn(
                f"the file system of {str(folder)!r} has no locks: let no other run write to it meanwhile", stacklevel=2
            )
        yield

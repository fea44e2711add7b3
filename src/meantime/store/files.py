"""Files that appear whole or not at all, their checksums, and the lock that keeps two writers apart."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from meantime.errors import MeantimeError

PART = ".part"  # the ending of a file that is still being written


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a file beside ``path``, bring it safely to disk and only then give it its name."""
    part = path.with_name(path.name + PART)
    try:
        write(part)
        _sync(part)
        os.replace(part, path)
        _sync(path.parent)  # the new name must survive a power cut too
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)  # on a full disk these bytes are wanted back
        raise MeantimeError(
            f"cannot write {str(path)!r}: {error.strerror or error}; what was finished is kept: make room or "
            "repair the place, then run again with --resume"
        ) from error
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():  # only POSIX opens folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    """The checksum of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it even after kill -9."""
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
            raise MeantimeError(f"another process is writing to {str(folder)!r}; wait for it, or stop it") from error
        yield

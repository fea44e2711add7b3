"""Photos into folders by their label: hard links, which take no room; copies where links cannot be made."""

import filecmp
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from meantime.errors import MeantimeError
from meantime.output import unused
from meantime.prediction import Prediction
from meantime.remote import is_url

UNSURE, UNREADABLE = "_unsure", "_unreadable"
LONGEST = 100  # characters of a folder's name


class Sorted:
    """Sorts photos into ``folder``: a folder for each label, and one each without an answer and unreadable.

    Nothing is overwritten: a photo that is there already is left, and another of its name gets a number.
    """

    def __init__(self, folder: Path, sources: Iterable[str | os.PathLike[str]]) -> None:
        if folder.exists() and not folder.is_dir():
            raise MeantimeError(f"cannot sort into {str(folder)!r}: it is a file; give a folder")
        inside = os.path.join(os.path.realpath(folder), "")
        for source in sources:
            if is_url(source):
                raise MeantimeError(f"{os.fspath(source)!r} is not on this machine, and only files here can be sorted")
            if os.path.realpath(source).startswith(inside):
                raise MeantimeError(f"{os.fspath(source)!r} lies in {str(folder)!r} already; sort into another folder")
        self.folder = folder
        self.told: Counter[str] = Counter()  # what became of the photos

    def add(self, prediction: Prediction) -> None:
        """Put one photo into its folder."""
        source = Path(os.path.realpath(prediction.path or ""))  # of a symbolic link its file
        if not source.is_file():
            return
        place = self.folder / folder_name(prediction) / Path(prediction.path or "").name
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists() and filecmp.cmp(source, place):
                self.told["there already"] += 1
            else:
                self.told[_put(source, unused(place))] += 1
        except OSError as error:
            raise MeantimeError(f"cannot sort {str(source)!r} to {str(place)!r}: {error.strerror or error}") from error

    def __str__(self) -> str:
        return f"sorted into {self.folder}: " + (", ".join(f"{n} {what}" for what, n in self.told.items()) or "nothing")


def folder_name(prediction: Prediction) -> str:
    """The name of the folder for a prediction, safe on every system.

    >>> from meantime.prediction import failure
    >>> folder_name(failure("x.jpg", ("cat",), "is empty"))
    '_unreadable'
    """
    if prediction.error is not None:
        return UNREADABLE
    if prediction.label is None:
        return UNSURE
    safe = re.sub(r'[\x00-\x1f\x7f/\\<>:"|?*]', "_", prediction.label)[:LONGEST].strip(" .") or "_"
    return f"{safe}_" if safe in (UNSURE, UNREADABLE) else safe


def _put(source: Path, place: Path) -> str:
    try:
        os.link(source, place)
    except FileExistsError:
        raise
    except OSError:  # another disk, or a file system without links
        shutil.copy2(source, place)
        return "copied"
    return "linked"

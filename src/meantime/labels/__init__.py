"""Names of classes, and the prompts that speak of them."""

import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike, fspath
from os.path import isdir, isfile, splitext
from pathlib import Path
from typing import Any

from meantime.errors import MeantimeError

TEMPLATE = "a photo of a {}."  # the paper's one prompt, for all datasets
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Labels:
    """K class names and, for each, the prompts of the base head (one, unless the user gave several)."""

    names: tuple[str, ...]
    prompts: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if not self.names:
            raise MeantimeError("no labels were given: name at least one class, as in --labels cat,dog")
        for name, prompts in zip(self.names, self.prompts, strict=True):
            if not name.strip() or not prompts:
                raise MeantimeError(f"label {name!r} is empty or has no prompt: give it a name and a text")


@cache
def imagenet_names() -> tuple[str, ...]:
    """The 1000 names that CLIP's authors curated for ImageNet (998 are distinct), in index order."""
    return tuple((_HERE / "imagenet.txt").read_text(encoding="utf-8").splitlines())


@cache
def templates80() -> tuple[str, ...]:
    """The 80 prompts of the paper's last table, with ``{}`` for the name."""
    return tuple((_HERE / "templates80.txt").read_text(encoding="utf-8").splitlines())


LABEL_SETS = {"imagenet": imagenet_names}


def fill(template: str, name: str) -> str:
    """Put a name into a template's ``{}`` or ``{c}``; underscores become spaces."""
    return place(template, name.replace("_", " "))


def place(template: str, text: str) -> str:
    """Put a text as it is into a template's ``{}`` or ``{c}``."""
    if "{}" not in template and "{c}" not in template:
        raise MeantimeError(f"template {template!r} has no place for the name: write {{}} or {{c}} where it goes")
    return template.replace("{}", "{c}").replace("{c}", text)


def as_labels(
    labels: "str | PathLike[str] | Sequence[str] | Mapping[str, str | Sequence[str]] | Labels",
    template: str = TEMPLATE,
    *,
    distinct: bool = False,
) -> Labels:
    """Read labels from a list of names, a comma list, a text or JSON file, a mapping, or the name of a label set.

    A text file holds one name a line; lines that begin with # are comments. A JSON file holds a list of names, or an
    object of name -> prompts (a text or a list of texts, whole prompts: the template is not applied to them), and so
    does a mapping.
    ``distinct``: a name that is given twice counts once, with a warning; where the place of a name in the list means
    something, as a class of a dataset, it must stay. Label sets stay as they are.
    """
    if isinstance(labels, Labels):
        return labels
    found: list[str] | dict[str, str | list[str]]
    if isinstance(labels, Mapping):
        found = _checked(dict(labels), "the mapping of labels")
    elif isinstance(labels, str | PathLike):
        found = _read(labels)
    elif isinstance(labels, Iterable):
        found = list(labels)
    else:
        raise MeantimeError(
            f"labels of type {type(labels).__name__} given; expected a list of names, as ['cat', 'dog'], 'cat,dog', "
            "a .txt or .json file, or a mapping of names to prompts"
        )
    for name in found:
        if not isinstance(name, str):
            raise MeantimeError(f"labels must be texts, but one is {name!r} ({type(name).__name__})")
    if isinstance(found, dict):
        several = {name: (texts,) if isinstance(texts, str) else tuple(texts) for name, texts in found.items()}
        read = Labels(tuple(several), tuple(several.values()))
    else:
        repeated = [name for name, n in Counter(found).items() if n > 1]
        if distinct and repeated and not (isinstance(labels, str) and labels in LABEL_SETS):
            warnings.warn(f"given more than once, counted once: {', '.join(repeated[:5])}", stacklevel=2)
            found = list(dict.fromkeys(found))
        read = Labels(tuple(found), tuple((fill(template, name),) for name in found))
    if len(read.names) == 1:
        warnings.warn(f"only one label was given, {read.names[0]!r}: every image will get it", stacklevel=2)
    return read


def typed_labels(labels: str, template: str = TEMPLATE) -> Labels:
    """Read labels that were typed: a single one that looks like a file or folder is a slip, not a name."""
    name = labels.strip()
    if "," not in name and name not in LABEL_SETS and not isfile(name):
        if isdir(name):
            raise MeantimeError(f"{name!r} is a folder; labels are a .txt or .json file, or names as cat,dog")
        if "/" in name or "\\" in name or re.fullmatch(r".*\.\w{2,5}", name):
            raise MeantimeError(
                f"there is no label file {name!r}: check the path of the .txt (a name a line) or .json, or give names "
                "as cat,dog"
            )
    return as_labels(labels, template, distinct=True)


def _read(labels: str | PathLike[str]) -> "list[str] | dict[str, str | list[str]]":
    name = fspath(labels)
    if isinstance(labels, str) and labels in LABEL_SETS:
        return list(LABEL_SETS[labels]())
    suffix = splitext(name)[1].lower()
    there = isfile(name)  # unlike Path.is_file, it is not upset by a long comma list
    if suffix in (".txt", ".json"):
        if not there:
            raise MeantimeError(f"there is no label file {name!r}: check the path, or give names as cat,dog")
        text = _text_of(name)
        if suffix == ".txt":
            lines = (line.strip() for line in text.splitlines())
            return [line for line in lines if line and not line.startswith("#")]
        return _from_json(name, text)
    if there or not isinstance(labels, str):
        raise MeantimeError(
            f"{name!r} is {'a file' if there else 'a path'}, but label files are .txt (a name a line) or .json: rename "
            "it, or give names as a list"
        )
    return [part.strip() for part in name.split(",") if part.strip()]


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise MeantimeError(f"{path} is not UTF-8; save it as UTF-8") from error
    except OSError as error:
        raise MeantimeError(f"the label file {path!r} cannot be read ({error.strerror}); check its rights") from error


def _from_json(path: str, text: str) -> "list[str] | dict[str, str | list[str]]":
    try:
        value = json.loads(text)
    except ValueError as error:
        raise MeantimeError(f"{path} is not valid JSON: {error}") from error
    return value if isinstance(value, list) else _checked(value, path)


def _checked(value: Any, where: str) -> "dict[str, str | list[str]]":
    """The value itself if it is an object of name -> prompt or prompts."""
    fits = isinstance(value, dict) and all(
        isinstance(name, str)
        and (isinstance(v, str) or (isinstance(v, list | tuple) and all(isinstance(x, str) for x in v)))
        for name, v in value.items()
    )
    if not fits:
        raise MeantimeError(f"{where} must hold a list of names, or an object of name -> prompt or list of prompts")
    return value  # type: ignore[no-any-return]

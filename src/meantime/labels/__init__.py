"""Names of classes, and the prompts that speak of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
    if "{}" not in template and "{c}" not in template:
        raise MeantimeError(f"template {template!r} has no place for the name: write {{}} or {{c}} where it goes")
    return template.replace("{}", "{c}").replace("{c}", name.replace("_", " "))


def as_labels(labels: "str | Path | Sequence[str] | Labels", template: str = TEMPLATE) -> Labels:
    """Read labels from a list of names, a comma list, a text or JSON file, or the name of a label set.

    A text file holds one name a line. A JSON file holds a list of names, or an object of name -> prompts
    (a text or a list of texts, whole prompts: the template is not applied to them).
    """
    if isinstance(labels, Labels):
        return labels
    found = _read(str(labels)) if isinstance(labels, str | Path) else list(labels)
    if isinstance(found, dict):
        several = {name: (texts,) if isinstance(texts, str) else tuple(texts) for name, texts in found.items()}
        return Labels(tuple(several), tuple(several.values()))
    for name in found:
        if not isinstance(name, str):
            raise MeantimeError(f"labels must be texts, but one is {name!r} ({type(name).__name__})")
    return Labels(tuple(found), tuple((fill(template, name),) for name in found))


def _read(labels: str) -> "list[str] | dict[str, str | list[str]]":
    if labels in LABEL_SETS:
        return list(LABEL_SETS[labels]())
    path = Path(labels)
    if path.suffix in (".txt", ".json"):
        if not path.is_file():
            raise MeantimeError(f"there is no label file {labels!r}: check the path, or give names as cat,dog")
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".txt":
            return [line.strip() for line in text.splitlines() if line.strip()]
        return _from_json(labels, text)
    return [name.strip() for name in labels.split(",") if name.strip()]


def _from_json(path: str, text: str) -> "list[str] | dict[str, str | list[str]]":
    try:
        value = json.loads(text)
    except ValueError as error:
        raise MeantimeError(f"{path} is not valid JSON: {error}") from error
    if isinstance(value, list):
        return value
    fits = isinstance(value, dict) and all(
        isinstance(v, str) or (isinstance(v, list) and all(isinstance(x, str) for x in v)) for v in value.values()
    )
    if not fits:
        raise MeantimeError(f"{path} must hold a list of names, or an object of name -> prompt or list of prompts")
    return value  # type: ignore[no-any-return]

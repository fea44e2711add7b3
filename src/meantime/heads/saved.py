"""Learned heads on disk: a folder with ``head.safetensors`` and ``head.json``, which says what the head is for.

A prompt is saved with the class embeddings that it gives, so that using it needs neither PyTorch nor a text tower.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy as safetensors
from safetensors import SafetensorError

from meantime.errors import MeantimeError
from meantime.heads.tip_adapter import TipAdapterHead
from meantime.meanshift.arrays import Array
from meantime.meanshift.head import TextHead

JSON, TENSORS = "head.json", "head.safetensors"
FORMAT, VERSION = "meantime-head", 1
PROMPTS = ("coop", "prograd")
CACHES = ("tip-adapter", "tip-adapter-f")
KINDS = (*PROMPTS, *CACHES)


class PromptHead(TextHead):
    """The class embeddings of a learned prompt, with its context (M, width): TPT can start from it."""

    def __init__(self, context: Array, classes: Array, logit_scale: float = 100.0) -> None:
        super().__init__(classes, logit_scale)
        self.context = context


LearnedHead = PromptHead | TipAdapterHead


@dataclass(frozen=True)
class HeadInfo:
    """What a saved head is for, and how it was made."""

    kind: str
    dataset: str
    classes: tuple[str, ...]
    encoder: str  # identity
    encoder_name: str
    shots: int | None  # None where it is not known, as for a published prompt
    seed: int | None
    m: int | None = None  # tokens of a prompt
    settings: dict[str, Any] = field(default_factory=dict)
    draw: dict[str, Any] = field(default_factory=dict)  # keys of the photos that trained and validated it
    drawn_from: str | None = None  # the dataset of these photos, where a prompt was carried to another one

    @property
    def title(self) -> str:
        """A name for tables and messages."""
        shots = "" if self.shots is None else f", {self.shots} shot{'s' * (self.shots != 1)}"
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.kind}{f' of {self.m} tokens' if self.m else ''} on {self.dataset}{shots}{seed}"


def is_head(path: str | Path) -> bool:
    """Whether a folder holds a saved head."""
    return (Path(path) / JSON).is_file()


def heads_folder() -> Path:
    """Where heads are looked for by name: ``MEANTIME_HEADS``, or ``heads`` here."""
    return Path(os.environ.get("MEANTIME_HEADS") or "heads")


def save_head(folder: str | Path, head: LearnedHead, info: HeadInfo) -> Path:
    """Write a head; one that lies there already makes way for it."""
    if info.kind not in KINDS:
        raise MeantimeError(f"a head of kind {info.kind!r} cannot be saved; there are {', '.join(KINDS)}")
    tensors: dict[str, Array] = {"classes": head.classes}
    scalars: dict[str, Any] = {"logit_scale": head.logit_scale}
    if isinstance(head, PromptHead):
        tensors["ctx"] = head.context
    else:
        tensors |= {"keys": head.keys, "labels": head.labels}
        scalars |= {"alpha": head.alpha, "beta": head.beta}
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    value = {"format": FORMAT, "version": VERSION, **asdict(info), "scalars": scalars}
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The description goes first and comes last, each file in one stroke: a folder with it is whole.
        (folder / JSON).unlink(missing_ok=True)
        _replace(folder / TENSORS, safetensors.save(arrays))
        _replace(folder / JSON, (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode())
    except OSError as error:
        raise MeantimeError(f"cannot write the head to {str(folder)!r}: {error.strerror or error}") from error
    return folder


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.replace(part, path)


def head_info(folder: str | Path) -> HeadInfo:
    """Read what a saved head is for."""
    return _read(Path(folder))[0]


def _read(folder: Path) -> tuple[HeadInfo, dict[str, Any]]:
    path = folder / JSON
    if not path.is_file():
        raise MeantimeError(f"{str(folder)!r} holds no saved head: it has no {JSON}; make one with `meantime fit`")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value.pop("format") != FORMAT or value.pop("version") != VERSION:
            raise MeantimeError(f"{str(path)!r} is not a head that this version of Meantime reads: fit it again")
        scalars = value.pop("scalars")
        value["classes"] = tuple(value["classes"])
        return HeadInfo(**value), scalars
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, MeantimeError):
            raise
        raise MeantimeError(f"{str(path)!r} is damaged ({error}): fit the head again") from error


def load_head(
    folder: str | Path, *, encoder_identity: str | None = None, classes: Sequence[str] | None = None
) -> LearnedHead:
    """Read a head, for this encoder and these classes: those of the fit, in any order, or some of them."""
    folder = Path(folder)
    info, scalars = _read(folder)
    if encoder_identity is not None and info.encoder != encoder_identity:
        raise MeantimeError(
            f"the head {str(folder)!r} ({info.title}) was fitted for the encoder {info.encoder_name!r} "
            f"({info.encoder}), not for {encoder_identity}; use that encoder, or fit a head for this one"
        )
    try:
        tensors = safetensors.load((folder / TENSORS).read_bytes())
    except (OSError, ValueError, SafetensorError) as error:
        raise MeantimeError(f"{str(folder / TENSORS)!r} cannot be read ({error}): fit the head again") from error
    rows = np.arange(len(info.classes)) if classes is None else _rows(folder, info, classes)
    lacking = {"classes", *(("ctx",) if info.kind in PROMPTS else ("keys", "labels"))} - tensors.keys()
    if lacking:
        raise MeantimeError(f"{str(folder / TENSORS)!r} lacks {', '.join(sorted(lacking))}: fit the head again")
    if info.kind in PROMPTS:
        return PromptHead(tensors["ctx"], tensors["classes"][rows], scalars["logit_scale"])
    labels = np.full(len(info.classes), -1)
    labels[rows] = np.arange(len(rows))
    labels = labels[tensors["labels"]]
    kept = labels >= 0
    if not kept.any():
        raise MeantimeError(f"none of the classes asked for has a photo in the head {str(folder)!r} ({info.title})")
    return TipAdapterHead(tensors["keys"][kept], labels[kept], tensors["classes"][rows], **scalars)


def _rows(folder: Path, info: HeadInfo, classes: Sequence[str]) -> Any:
    """The head's row of each class."""
    asked, have = ([name.replace("_", " ") for name in names] for names in (classes, info.classes))
    if asked == have:  # also where a name stands for two classes, as in ImageNet
        return np.arange(len(have))
    numbers = {name: i for i, name in enumerate(have)}
    unknown = [name for name in asked if name not in numbers]
    if unknown:
        raise MeantimeError(
            f"the head {str(folder)!r} ({info.title}) was fitted for other classes: it does not know "
            f"{', '.join(map(repr, unknown[:3]))}{', …' if len(unknown) > 3 else ''} "
            f"({len(unknown)} of the {len(asked)} asked for). Give labels among its {len(have)}, or fit another head"
        )
    if info.kind in CACHES and (len(set(asked)) < len(asked) or len(numbers) < len(have)):
        raise MeantimeError(
            f"a name stands for several classes, so the photos of {str(folder)!r} cannot be told apart in another "
            "order of classes: give the labels in the order of the fit"
        )
    return np.array([numbers[name] for name in asked])


def saved_heads(folder: str | Path) -> dict[Path, HeadInfo]:
    """Every head below a folder, by its path."""
    return {path.parent: head_info(path.parent) for path in sorted(Path(folder).glob(f"**/{JSON}"))}


def heads_for(heads: Mapping[Path, HeadInfo], kind: str, **wanted: Any) -> dict[Path, HeadInfo]:
    """Return those of some heads that are all of this, or may be; those that are known to be come first."""
    known = {name: value for name, value in (wanted | {"kind": kind}).items() if value is not None}
    fits = {}
    for path, info in heads.items():
        wrong = {name for name, value in known.items() if getattr(info, name) != value}
        unknown = {name for name in ("shots", "seed") if getattr(info, name) is None}
        if wrong <= unknown:
            fits[path] = (info, len(wrong))
    return {path: info for path, (info, guessed) in sorted(fits.items(), key=lambda item: item[1][1])}

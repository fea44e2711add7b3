"""The manifest of a store: what was encoded, by what, how, and which files hold it. One JSON file.

Nothing in it depends on when or in how many runs the store was written.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from meantime.errors import MeantimeError
from meantime.store.files import write_whole

NAME = "manifest.json"
FORMAT = "meantime-store"
VERSION = 1
UNLABELLED = "unlabelled"  # the split of images of which no label is known


@dataclass(frozen=True)
class Plan:
    """What a store holds when it is complete. Two stores of one plan have the same content."""

    dataset: str
    split: str
    fingerprint: str  # of the dataset: names, keys and labels of all images
    images: int
    classes: tuple[str, ...]
    encoder: str  # identity: it changes whenever embeddings would
    encoder_name: str
    dim: int
    logit_scale: float
    views: str  # identity of the view specification
    n_views: int
    seed: int
    prompt: str
    shard_size: int = 256
    part: int = 1  # of `parts`: this store is to hold every parts-th shard
    parts: int = 1

    def __post_init__(self) -> None:
        if self.shard_size < 1:
            raise MeantimeError(f"a shard of {self.shard_size} images was asked for; expected at least 1")
        if not 1 <= self.part <= self.parts:
            n = max(1, self.parts)
            raise MeantimeError(f"part {self.part} of {self.parts} was asked for; expected 1/{n} to {n}/{n}")
        if not (self.logit_scale > 0 and math.isfinite(self.logit_scale)):
            raise MeantimeError(
                f"the logit scale is {self.logit_scale}; expected a positive number, 100 for most models of CLIP's kind"
            )

    @property
    def labelled(self) -> bool:
        """Whether the images have labels; where they have none, each is -1."""
        return self.split != UNLABELLED

    @property
    def labels(self) -> range:
        """The labels that an image can have."""
        return range(len(self.classes)) if self.labelled else range(-1, 0)

    @property
    def shard_count(self) -> int:
        """Shards of the whole dataset, the last one possibly short."""
        return -(-self.images // self.shard_size)

    def shards(self) -> Iterator[int]:
        """Numbers of the shards that this store is to hold."""
        return iter(range(self.part - 1, self.shard_count, self.parts))

    def bounds(self, shard: int) -> tuple[int, int]:
        """First image of a shard, and the one after its last: fixed, wherever a run was interrupted."""
        start = shard * self.shard_size
        return start, min(start + self.shard_size, self.images)

    def differences(self, asked: "Plan", ignore: tuple[str, ...] = ("encoder_name",)) -> list[str]:
        """Every field in which what is there differs from what is asked, with both values.

        An encoder may be asked for by several names; its identity decides.
        """
        mine, theirs = asdict(self), asdict(asked)
        return [
            _difference(name, mine[name], theirs[name])
            for name in mine
            if name not in ignore and mine[name] != theirs[name]
        ]


@dataclass(frozen=True)
class Shard:
    """One Parquet file: the readable ones of images ``start`` .. ``stop`` - 1."""

    number: int
    file: str
    start: int
    stop: int
    rows: int
    bytes: int
    sha256: str
    errors: tuple[dict[str, Any], ...] = ()  # index, key and error of each unreadable image


@dataclass(frozen=True)
class StoredFile:
    """One file of a store."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The plan, and what of it is there."""

    plan: Plan
    shards: tuple[Shard, ...] = ()  # by number
    texts: dict[str, StoredFile] = field(default_factory=dict)  # by kind: single, ensemble, templates
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every image of the dataset was encoded or found unreadable."""
        return len(self.shards) == self.plan.shard_count

    @property
    def files(self) -> list[StoredFile]:
        """Every file but the manifest."""
        return [StoredFile(s.file, s.bytes, s.sha256) for s in self.shards] + list(self.texts.values())

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The unreadable images."""
        return [error for shard in self.shards for error in shard.errors]

    def with_shard(self, shard: Shard) -> "Manifest":
        """The same with one shard more; one of the same number gives way."""
        others = {s.number: s for s in self.shards} | {shard.number: shard}
        return replace(self, shards=tuple(others[number] for number in sorted(others)))

    def save(self, folder: Path) -> None:
        """Write it, in one stroke."""
        value = {"format": FORMAT, "version": VERSION, **asdict(self)}
        text = json.dumps(value, ensure_ascii=False, indent=1)
        write_whole(folder / NAME, lambda part: _write_text(part, text + "\n"))


def load_manifest(folder: Path) -> Manifest:
    """Read the manifest of a store, refusing what this version of Meantime cannot read."""
    path = folder / NAME
    if not path.is_file():
        raise MeantimeError(f"{str(folder)!r} is not a store: it has no {NAME}; make one with `meantime encode`")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except MeantimeError:
        raise
    except ValueError as error:
        raise MeantimeError(f"{str(path)!r} is damaged, it is not valid JSON ({error}); restore it") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise MeantimeError(f"{str(path)!r} is not the manifest of a store of Meantime")
    if value.get("version") != VERSION:
        maker = (value.get("versions") or {}).get("meantime", "unknown")
        raise MeantimeError(
            f"{str(folder)!r} has version {value.get('version')!r} of the store format, written by meantime {maker}; "
            f"this one reads version {VERSION}: use that meantime, or encode again"
        )
    try:
        plan = value["plan"]
        return Manifest(
            Plan(**{**plan, "classes": tuple(plan["classes"])}),
            tuple(Shard(**{**shard, "errors": tuple(shard["errors"])}) for shard in value["shards"]),
            {kind: StoredFile(**text) for kind, text in value["texts"].items()},
            dict(value["versions"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise MeantimeError(f"{str(path)!r} is damaged, a field is missing or wrong ({error}); restore it") from error


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _difference(name: str, mine: Any, theirs: Any) -> str:
    """Both values; of two lists of one length the first pair that differs."""
    if isinstance(mine, tuple | list) and len(mine) == len(theirs):
        i = next(i for i, (one, other) in enumerate(zip(mine, theirs, strict=True)) if one != other)
        return f"{name}[{i}] is {mine[i]!r}, asked {theirs[i]!r}"
    return f"{name} is {_short(mine)}, asked {_short(theirs)}"


def _short(value: Any) -> str:
    """A value for a message; of class names their number and the first few say enough."""
    if isinstance(value, tuple | list) and len(value) > 4:
        return f"{len(value)} names ({', '.join(map(repr, value[:3]))}, …)"
    return repr(value)

"""Writing a store shard by shard. Whatever stops a run, the shards that are finished stay and the rest can follow."""

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.remote import as_path
from meantime.store.files import PART, Staged, is_remains, locked, publish, sizes, stage
from meantime.store.manifest import NAME, Manifest, Plan, Shard, load_manifest
from meantime.store.shards import Row, write_shard
from meantime.store.texts import Texts, write_texts

PACKAGES = ("numpy", "pillow", "pyarrow", "onnxruntime")


class StoreWriter:
    """Adds shards and texts to a store; the manifest follows each of them. Made by :func:`open_writer`."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @property
    def plan(self) -> Plan:
        """What the store is to hold."""
        return self.manifest.plan

    def pending(self, *, retry: bool = False) -> list[int]:
        """Numbers of the shards that are still to be written; with ``retry`` also of those with unreadable images."""
        there = {shard.number for shard in self.manifest.shards if not (retry and shard.errors)}
        return [number for number in self.plan.shards() if number not in there]

    def add_shard(self, number: int, rows: Sequence[Row], errors: Sequence[dict[str, Any]] = ()) -> None:
        """Write one shard: the rows of its readable images, and what was wrong with the others."""
        self.commit(*stage_shard(self.folder, self.plan, number, rows, errors))

    def commit(self, shard: Shard, staged: Staged) -> None:
        """Take in a shard that was staged, here or on another machine."""
        others = tuple(there for there in self.manifest.shards if there.number != shard.number)
        if len(others) < len(self.manifest.shards):  # tried again: an end in between leaves it to be written, not wrong
            self.manifest = replace(self.manifest, shards=others)
            self.manifest.save(self.folder)
        publish(self.folder / shard.file, staged)
        self.manifest = self.manifest.with_shard(shard)
        self.manifest.save(self.folder)

    def add_texts(self, texts: Texts) -> None:
        """Write the class embeddings that are not there yet."""
        if texts.single.shape != (len(self.plan.classes), self.plan.dim):
            raise MeantimeError(
                f"text embeddings have the shape {texts.single.shape}; expected ({len(self.plan.classes)} classes, "
                f"{self.plan.dim} dimensions)"
            )
        there = self.manifest.texts
        self.manifest = replace(self.manifest, texts=there | write_texts(self.folder, texts, there))
        self.manifest.save(self.folder)


def stage_shard(
    folder: Path, plan: Plan, number: int, rows: Sequence[Row], errors: Sequence[dict[str, Any]] = ()
) -> tuple[Shard, Staged]:
    """Write the file of a shard, which belongs to the store only once its writer commits it."""
    start, stop = plan.bounds(number)
    known = sorted([row.index for row in rows] + [error["index"] for error in errors])
    if known != list(range(start, stop)):
        raise MeantimeError(f"shard {number} must hold images {start} to {stop - 1}, each once; {len(known)} given")
    for row in rows:
        if row.label not in plan.labels:
            raise MeantimeError(
                f"image {row.key!r} has the label {row.label}, but there are {len(plan.classes)} classes "
                f"(0 to {len(plan.classes) - 1}); correct the label file"
            )
    path = folder / shard_file(number)
    staged = stage(path, lambda part: write_shard(part, rows, plan.n_views, plan.dim))
    errors = tuple(dict(error) for error in errors)
    return Shard(number, path.name, start, stop, len(rows), staged.bytes, staged.sha256, errors), staged


def shard_file(number: int) -> str:
    """The name of a shard's file, in an order that `ls` keeps."""
    return f"shard-{number:05d}.parquet"


@contextmanager
def open_writer(
    folder: str | Path,
    plan: Plan,
    *,
    resume: bool = False,
    otherwise: str = "go on with it by `meantime encode --resume`",
) -> Iterator[StoreWriter]:
    """Begin a store in a new or empty folder, or go on with one of the same plan, alone in writing to it.

    ``otherwise`` is what else can be done with a folder that is not empty.
    """
    folder = as_path(folder)
    optional("pyarrow.parquet", "a store", "parquet")  # before anything of it is there
    try:
        there = [p.name for p in folder.iterdir()] if folder.exists() else []
        full = any(name != ".lock" and not is_remains(name) for name in there)
        if full and not resume:
            raise MeantimeError(f"{str(folder)!r} exists and is not empty; choose another place, or {otherwise}")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MeantimeError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from error
    with locked(folder):
        if (folder / NAME).exists() or full:
            manifest = load_manifest(folder)
            check_same(folder, manifest.plan, plan)
            manifest = _what_is_there(folder, manifest)
        else:
            manifest = Manifest(plan, versions=_versions())
        manifest.save(folder)
        _sweep(folder)
        try:
            yield StoreWriter(folder, manifest)
        finally:
            with suppress(OSError, MeantimeError):
                _sweep(folder)


def _sweep(folder: Path) -> None:
    """Delete what was cut short, or written twice because a worker was thought dead."""
    for path in list(folder.glob(f"*{PART}")):
        if is_remains(path.name):
            path.unlink(missing_ok=True)


def check_same(folder: Path, have: Plan, asked: Plan) -> None:
    """Refuse a store of another plan, naming every difference."""
    different = have.differences(asked)
    if different:
        raise MeantimeError(
            f"the store {str(folder)!r} does not match: {'; '.join(different)}. "
            "Ask for the same, or choose another place"
        )


def _what_is_there(folder: Path, manifest: Manifest) -> Manifest:
    """The manifest without files that were deleted, so that they are made again; damaged ones are for the user."""
    there = sizes(folder)
    for entry in manifest.files:
        if there.get(entry.file, entry.bytes) != entry.bytes:
            raise MeantimeError(
                f"{str(folder / entry.file)!r} is truncated or changed: {there[entry.file]} bytes, expected "
                f"{entry.bytes}; delete it, and --resume will make it again"
            )
    shards = tuple(shard for shard in manifest.shards if shard.file in there)
    texts = {kind: text for kind, text in manifest.texts.items() if text.file in there}
    return replace(manifest, shards=shards, texts=texts)


def _versions() -> dict[str, str]:
    """Versions of what the content may depend on."""
    from meantime import __version__

    found = {"meantime": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

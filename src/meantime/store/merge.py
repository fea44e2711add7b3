"""Several stores that hold parts of one dataset become one. Different encoders, views or seeds are refused."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from meantime.errors import MeantimeError
from meantime.store.files import sha256, sizes, write_whole
from meantime.store.manifest import Shard, StoredFile
from meantime.store.reader import Store, open_store
from meantime.store.verify import verify_store
from meantime.store.writer import open_writer


def merge_stores(
    out: str | Path, sources: Sequence[str | Path], progress: Callable[[int, int], None] | None = None
) -> Store:
    """Copy the shards of all sources into one store. A shard that several have must be the same in all.

    A merge that was interrupted is gone on with. ``progress(done, total)`` hears of every shard twice: when it is
    verified and when it is in its place.
    """
    if not sources:
        raise MeantimeError("no stores to merge were given")
    stores = [open_store(source) for source in sources]
    first = stores[0]
    for store in stores[1:]:
        different = first.plan.differences(store.plan, ignore=("encoder_name", "part", "parts"))
        if different:
            raise MeantimeError(
                f"{str(first.path)!r} and {str(store.path)!r} cannot be merged: "
                + "; ".join(different).replace(", asked ", " in the first and ")
                + " in the second. Merge only parts of one dataset, made by one encoder with the same views and seed"
            )
    owners: dict[int, tuple[Path, Shard]] = {}
    for store in stores:
        for shard in store.manifest.shards:
            _check_same(owners.setdefault(shard.number, (store.path, shard)), (store.path, shard))
    done, total = 0, sum(len(store.manifest.shards) for store in stores) + len(owners)

    def told() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    for store in stores:
        verify_store(store, lambda *_: told())
    richest = max(stores, key=lambda store: len(store.manifest.texts))
    with open_writer(out, replace(first.plan, part=1, parts=1), resume=True) as writer:
        there = {shard.number: (writer.folder, shard) for shard in writer.manifest.shards}
        for number in there.keys() & owners.keys():
            _check_same(there[number], owners[number])
        texts = richest.manifest.texts | writer.manifest.texts
        files = sizes(writer.folder)
        for kind in texts.keys() - writer.manifest.texts.keys():
            _copy(richest.path, writer.folder, texts[kind], files)
        for number, (folder, shard) in sorted(owners.items()):
            if number not in there:
                _copy(folder, writer.folder, StoredFile(shard.file, shard.bytes, shard.sha256), files)
            told()
        every = owners | there
        shards = tuple(every[number][1] for number in sorted(every))
        replace(writer.manifest, shards=shards, texts=texts, versions=first.manifest.versions).save(writer.folder)
    return open_store(out)


def _check_same(one: tuple[Path, Shard], other: tuple[Path, Shard]) -> None:
    if one[1].sha256 != other[1].sha256:
        raise MeantimeError(
            f"{one[1].file} differs between {str(one[0])!r} and {str(other[0])!r}; leave one of them out"
        )


def _copy(source: Path, target: Path, entry: StoredFile, there: dict[str, int]) -> None:
    """Copy a file, unless a merge that was interrupted has done it: the manifest is written when all are there."""
    path = target / entry.file
    if there.get(entry.file) != entry.bytes or sha256(path) != entry.sha256:
        write_whole(path, lambda part: _copy_bytes(source / entry.file, part))


def _copy_bytes(source: Path, target: Path) -> None:
    with source.open("rb") as file, target.open("wb") as out:
        shutil.copyfileobj(file, out, 1 << 22)

"""Several stores that hold parts of one dataset become one. Different encoders, views or seeds are refused."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from meantime.errors import MeantimeError
from meantime.store.files import write_whole
from meantime.store.reader import Store, open_store
from meantime.store.verify import verify_store
from meantime.store.writer import open_writer


def merge_stores(out: str | Path, sources: Sequence[str | Path]) -> Store:
    """Copy the shards of all sources into a new store. A shard that several have must be the same in all."""
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
    owners: dict[int, Store] = {}
    checksums: dict[int, str] = {}
    for store in stores:
        verify_store(store)
        for shard in store.manifest.shards:
            if checksums.setdefault(shard.number, shard.sha256) != shard.sha256:
                raise MeantimeError(
                    f"{shard.file} differs between {str(owners[shard.number].path)!r} and {str(store.path)!r}; "
                    "leave one of them out"
                )
            owners.setdefault(shard.number, store)
    richest = max(stores, key=lambda store: len(store.manifest.texts))
    with open_writer(out, replace(first.plan, part=1, parts=1)) as writer:
        manifest = replace(writer.manifest, versions=first.manifest.versions)
        for text in richest.manifest.texts.values():
            _copy(richest.path / text.file, writer.folder / text.file)
        manifest = replace(manifest, texts=dict(richest.manifest.texts))
        for number, store in sorted(owners.items()):
            shard = next(s for s in store.manifest.shards if s.number == number)
            _copy(store.path / shard.file, writer.folder / shard.file)
            manifest = manifest.with_shard(shard)
        manifest.save(writer.folder)
    return open_store(out)


def _copy(source: Path, target: Path) -> None:
    write_whole(target, lambda part: _copy_bytes(source, part))


def _copy_bytes(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)

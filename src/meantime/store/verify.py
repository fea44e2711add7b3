"""Is a store what its manifest says: checksums, counts, labels, and vectors of length 1."""

from collections.abc import Callable

import numpy as np

from meantime.errors import MeantimeError
from meantime.store.files import sha256
from meantime.store.manifest import Shard
from meantime.store.reader import Store
from meantime.store.shards import read_groups

TOLERANCE = 2e-3  # of a length after rounding to float16


def verify_store(store: Store, progress: Callable[[int, int], None] | None = None) -> None:
    """Read everything and raise one error that names every problem."""
    problems: list[str] = []
    for text in store.manifest.texts.values():
        if sha256(store.path / text.file) != text.sha256:
            problems.append(f"{text.file}: wrong checksum")
    shards = store.manifest.shards
    for done, shard in enumerate(shards, 1):
        problems += [f"{shard.file}: {problem}" for problem in _shard_problems(store, shard)]
        if progress is not None:
            progress(done, len(shards))
    if problems:
        raise MeantimeError(
            f"the store {str(store.path)!r} is damaged: {'; '.join(problems)}. Delete these files and run "
            "`meantime encode --resume`, or copy them again"
        )


def _shard_problems(store: Store, shard: Shard) -> list[str]:
    if sha256(store.path / shard.file) != shard.sha256:
        return ["wrong checksum"]
    try:
        groups = read_groups(store.path / shard.file, ["index", "label", "views"])
        index: list[int] = [error["index"] for error in shard.errors]
        found: set[str] = set()
        for group in groups:
            index += group["index"].tolist()
            if not len(group["index"]):  # no image of the shard could be read
                continue
            allowed = store.plan.labels
            if group["label"].min() < allowed[0] or group["label"].max() > allowed[-1]:
                found.add(f"a label outside {allowed[0]}..{allowed[-1]}")
            if group["views"].shape[1] != store.n_views * store.dim:
                found.add(f"rows of {group['views'].shape[1]} numbers, expected {store.n_views} x {store.dim}")
                continue
            views = group["views"].reshape(-1, store.dim).astype(np.float32)
            if not np.all(np.abs(np.linalg.norm(views, axis=1) - 1) < TOLERANCE):  # false for NaN too
                found.add("a view that is not of unit length")
    except MeantimeError as error:
        return [str(error)]
    if sorted(index) != list(range(shard.start, shard.stop)):
        found.add(f"not each of the images {shard.start} to {shard.stop - 1} once")
    return sorted(found)

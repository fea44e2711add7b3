"""Unlabelled images through an engine: encoded into a store that grows with their folder, then answered from it.

Such a store is a folder of parts, each an ordinary store. A run adds one part, of the images that no part holds: new
ones, ones that have changed since, and those that could not be read before. So whatever ends a run, the next one goes
on where it stopped.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from meantime import pipeline
from meantime.classifier import Classifier
from meantime.datasets import Dataset
from meantime.datasets.base import Samples, storable
from meantime.engines.worker import Engine
from meantime.errors import ImageError, MeantimeError
from meantime.images import ImageSource, load_image
from meantime.pipeline.batcher import default_batch
from meantime.remote import RemotePath, as_path, is_url
from meantime.store.encode import encode_dataset
from meantime.store.files import is_remains, locked, sizes
from meantime.store.manifest import NAME, Manifest, load_manifest
from meantime.store.shards import read_groups
from meantime.store.writer import check_same
from meantime.views import Places, ViewSpec
from meantime.views.boxes import pixel_hash

PART = re.compile(r"part-(\d{5,})")
OURS = re.compile(r"manifest\.json|\.lock|(shard|text)-\w+\.parquet")  # the files of a part
CALLS = 16  # of the encoder for one shard: little is lost with it, and it is seldom kept waiting between two
SHARDS = 4096  # beyond so many they get larger instead, since the manifest is written anew with each
OPEN = 32  # row groups in memory, 2 MB each for 64 views of 512 dimensions


class Place(NamedTuple):
    """Where the views of an image lie."""

    file: Path
    group: int
    row: int


@dataclass(frozen=True)
class EncodedImages:
    """The images of a run, in their order, read from the store one by one; unreadable ones in their place."""

    sources: Sequence[ImageSource]
    keys: Sequence[str]
    places: dict[str, Place]  # by key
    errors: dict[str, str]  # by key, of those that could not be read
    n_views: int

    def __iter__(self) -> Iterator[pipeline.Encoded]:
        read = lru_cache(OPEN)(_read_group)
        for source, key in zip(self.sources, self.keys, strict=True):
            if key in self.errors:
                yield pipeline.Encoded(source, None, None, None, ImageError(self.errors[key]))
                continue
            file, group, row = self.places[key]
            found = {name: values[row] for name, values in read(file, group).items()}
            views = found["views"].astype(np.float32).reshape(self.n_views, -1)
            views /= np.linalg.norm(views, axis=-1, keepdims=True)
            yield pipeline.Encoded(
                source, views, found["norms"], Places(found["boxes"].reshape(self.n_views, 4), found["flips"])
            )


def encode_images(
    sources: Sequence[ImageSource],
    out: str | Path,
    classifier: Classifier,
    engine: Engine,
    *,
    spec: ViewSpec | None = None,
    shard_size: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> EncodedImages:
    """Encode those images that the store does not hold as they are now, and return all of them.

    The names are not part of the store, so that other names can be asked of the same embeddings. ``spec`` is the
    classifier's own unless another is given.
    """
    spec = spec or classifier.spec
    folder = _opened(as_path(out))
    keys = _keys(sources)
    with locked(folder):
        parts = _parts(folder)
        for manifest in parts.values():
            _check(folder, manifest, classifier, spec)
        places = _find(parts, set(keys))
        missing = {key: source for key, source in zip(keys, sources, strict=True) if key not in places}
        before = len(keys) - len(missing)
        errors: dict[str, str] = {}

        def heard(done: int, _: int) -> None:
            if progress is not None:
                progress(before + done, len(keys))

        heard(0, 0)
        try:
            if missing:
                views = (classifier.batch or default_batch(classifier.encoder)) * CALLS
                part = encode_dataset(
                    Dataset("images", ("unlabelled",), Samples([*missing.values()], [0] * len(missing), [*missing])),
                    folder / f"part-{_last(folder) + 1:05d}",
                    classifier.encoder,
                    spec,
                    seed=classifier.seed,
                    shard_size=shard_size or _shard_size(len(missing), views // spec.total),
                    batch=classifier.batch,
                    threads=classifier.threads,
                    engine=engine,
                    progress=heard,
                )
                errors = {error["key"]: error["error"] for error in part.errors}
                places |= _find({part.path: part.manifest}, missing)
        finally:
            _sweep(folder)
    return EncodedImages(sources, keys, places, errors, spec.total)


def count_encoded(sources: Sequence[ImageSource], out: str | Path) -> int:
    """How many of the images the store holds as they are now."""
    keys = _keys(sources)
    found = _find(_parts(as_path(out)), set(keys))
    return sum(key in found for key in keys)


def _shard_size(images: int, fitting: int) -> int:
    return max(min(256, max(1, fitting)), min(4096, images // SHARDS))


def _keys(sources: Iterable[ImageSource]) -> list[str]:
    """What each image is known by: a file by its size, its time of change and its path; pixels by themselves."""
    listings: dict[RemotePath, dict[str, int]] = {}
    return [storable(_key(source, i, listings)) for i, source in enumerate(sources)]


def _key(source: ImageSource, i: int, listings: dict[RemotePath, dict[str, int]]) -> str:
    name = pipeline.source_name(source)
    if name is None:
        with suppress(ImageError):
            return f"{pixel_hash(load_image(source)):032x}"
        return f"image {i}"
    with suppress(OSError, ValueError):  # one that cannot be looked at cannot be read either, and will say so
        if is_url(name):
            return f"{_remote_size(as_path(name), listings)} {name}"
        status = os.stat(name)
        return f"{status.st_size} {status.st_mtime_ns} {os.path.abspath(name)}"
    return name


def _remote_size(path: Path, listings: dict[RemotePath, dict[str, int]]) -> int | None:
    """From one listing of its folder: an object store takes long to be asked for each."""
    folder = path.parent
    assert isinstance(folder, RemotePath)
    if folder not in listings:
        listings[folder] = folder.sizes()
    return listings[folder].get(path.name)


def _opened(folder: Path) -> Path:
    """The folder of a store, made if it is not there; what is something else is refused."""
    try:
        there = {path.name for path in folder.iterdir()} if folder.exists() else set()
        if NAME in there:
            raise MeantimeError(
                f"{str(folder)!r} is a store of `meantime encode` or of an earlier meantime, which does not tell when "
                "a photo has changed; `classify` needs a folder of its own: choose another place"
            )
        if there - {".lock"} and not any(map(PART.fullmatch, there)):
            raise MeantimeError(f"{str(folder)!r} holds other things; choose a new or empty folder for the store")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MeantimeError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from error
    return folder


def _last(folder: Path) -> int:
    return max([int(found[1]) for path in folder.iterdir() if (found := PART.fullmatch(path.name))], default=0)


def _parts(folder: Path) -> dict[Path, Manifest]:
    """The parts by their number; one without a manifest was cut off before its first shard."""
    if not folder.is_dir():
        return {}
    paths = sorted(path for path in folder.iterdir() if PART.fullmatch(path.name) and (path / NAME).exists())
    return {path: load_manifest(path) for path in paths}


def _check(folder: Path, manifest: Manifest, classifier: Classifier, spec: ViewSpec) -> None:
    """Refuse a store of another encoder, other views or another seed, naming every difference."""
    asked = replace(
        manifest.plan,
        encoder=classifier.encoder.identity,
        dim=classifier.encoder.dim,
        logit_scale=float(classifier.encoder.logit_scale),
        views=spec.identity,
        n_views=spec.total,
        seed=classifier.seed,
    )
    check_same(folder, manifest.plan, asked)


def _find(parts: dict[Path, Manifest], wanted: Collection[str]) -> dict[str, Place]:
    """Where the wanted images lie. A shard that is missing or cut short counts for nothing: it is made again."""
    found = {}
    for path, manifest in parts.items():
        there = sizes(path)
        for shard in manifest.shards:
            if shard.rows and there.get(shard.file) == shard.bytes:
                for number, group in enumerate(read_groups(path / shard.file, ["key"])):
                    for row, key in enumerate(group["key"]):
                        if key in wanted:
                            found[key] = Place(path / shard.file, number, row)
    return found


def _read_group(file: Path, group: int) -> dict[str, Any]:
    (found,) = read_groups(file, ("views", "norms", "boxes", "flips"), [group])
    return found


def _sweep(folder: Path) -> None:
    """Delete parts without a single image: of runs that were cut off early, or found nothing that could be read."""
    for path, manifest in _parts(folder).items():
        if not any(shard.rows for shard in manifest.shards):
            for file in list(path.iterdir()):
                if OURS.fullmatch(file.name) or is_remains(file.name):
                    file.unlink()
            if not isinstance(path, RemotePath):
                with suppress(OSError):
                    path.rmdir()

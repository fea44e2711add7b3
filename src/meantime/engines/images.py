"""Unlabelled images through an engine: encoded into a store, then answered from it by any method and any names."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from meantime import pipeline
from meantime.classifier import Classifier
from meantime.datasets import Dataset
from meantime.datasets.base import Samples, storable
from meantime.engines.worker import Engine
from meantime.errors import ImageError
from meantime.images import ImageSource
from meantime.store import Batch, Store
from meantime.store.encode import encode_dataset
from meantime.views import Places

SHARD = 256


def encode_images(
    sources: Sequence[ImageSource],
    out: str | Path,
    classifier: Classifier,
    engine: Engine,
    *,
    shard_size: int = SHARD,
    progress: Callable[[int, int], None] | None = None,
) -> Store:
    """Encode images as a classifier would; a store that is there already is gone on with.

    The names are not part of the store, so that other names can be asked of the same embeddings.
    """
    keys = [storable(pipeline.source_name(source) or f"image {i}") for i, source in enumerate(sources)]
    return encode_dataset(
        Dataset("images", ("unlabelled",), Samples(sources, [0] * len(keys), keys)),
        out,
        classifier.encoder,
        classifier.spec,
        seed=classifier.seed,
        resume=True,
        shard_size=shard_size,
        batch=classifier.batch,
        threads=classifier.threads,
        engine=engine,
        progress=progress,
    )


def stored(store: Store, sources: Sequence[ImageSource], size: int = 64) -> Iterator[pipeline.Encoded]:
    """What the pipeline would have yielded for the sources, read from their store; unreadable ones in their place."""
    errors = {error["index"]: ImageError(error["error"]) for error in store.errors}
    rows = (row for batch in store.batches(size, extras=True) for row in _rows(batch))
    for index, source in enumerate(sources):
        if index in errors:
            yield pipeline.Encoded(source, None, None, None, errors[index])
        else:
            embeddings, norms, places = next(rows)
            yield pipeline.Encoded(source, embeddings, norms, places)


def _rows(batch: Batch) -> Iterator[tuple[np.ndarray, np.ndarray, Places]]:
    assert batch.norms is not None
    assert batch.boxes is not None
    assert batch.flips is not None
    for views, norms, boxes, flips in zip(batch.views, batch.norms, batch.boxes, batch.flips, strict=True):
        yield views / np.linalg.norm(views, axis=-1, keepdims=True), norms, Places(boxes, flips)

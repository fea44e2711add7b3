"""The one path from pixels to embeddings: decode and crop ahead in threads, encode in full batches.

Memory is bounded by the images in flight, whatever their number. An image that cannot be read comes out as
an error in its place; the others go on.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from meantime.cores import available_cores
from meantime.encoders import Encoder
from meantime.errors import ImageError
from meantime.images import ImageSource
from meantime.views import Views, ViewSpec, views_of

# Views encoded in one call: two or three of the encoder's own batches.
BATCH = 64


@dataclass(frozen=True)
class Encoded:
    """The views of one image as embeddings; or why there are none."""

    source: ImageSource
    embeddings: NDArray[np.float32] | None  # (N, d), unit length
    norms: NDArray[np.float32] | None  # (N,), as the encoder gave them
    views: Views | None
    error: ImageError | None = None


def default_threads() -> int:
    """Decoding and cropping take about a tenth of the encoder's time, so a part of the cores suffices."""
    return max(1, available_cores() // 2)


def encode(
    sources: Iterable[ImageSource],
    encoder: Encoder,
    spec: ViewSpec,
    *,
    seed: int = 0,
    threads: int | None = None,
    batch: int = BATCH,
) -> Iterator[Encoded]:
    """Yield the embedded views of each image, in order."""

    def read(source: ImageSource) -> Views | ImageError:
        try:
            return views_of(source, spec, encoder.preprocess, seed, cut=getattr(encoder, "cut", None))
        except ImageError as error:
            return error

    waiting: list[tuple[ImageSource, Views | ImageError]] = []
    views = 0
    for source, result in _ahead(read, sources, threads or default_threads(), window=max(2, batch // spec.total)):
        waiting.append((source, result))
        views += len(result) if isinstance(result, Views) else 0
        if views >= batch:
            yield from encode_together(waiting, encoder)
            waiting, views = [], 0
    yield from encode_together(waiting, encoder)


def encode_together(waiting: Sequence[tuple[ImageSource, Views | ImageError]], encoder: Encoder) -> Iterator[Encoded]:
    """Encode the views of several images in one call, whose batches may cross images; in order."""
    readable = [views for _, views in waiting if isinstance(views, Views)]
    if readable:
        pixels = readable[0].pixels if len(readable) == 1 else np.concatenate([v.pixels for v in readable])
        embeddings = encoder.encode_images(pixels)
        norms = np.linalg.norm(embeddings, axis=-1)
        embeddings = embeddings / norms[:, None]
    start = 0
    for source, views in waiting:
        if isinstance(views, ImageError):
            yield Encoded(source, None, None, None, views)
            continue
        own = slice(start, start + len(views))
        yield Encoded(source, embeddings[own], norms[own], views)
        start += len(views)


A = TypeVar("A")
B = TypeVar("B")


def _ahead(work: Callable[[A], B], items: Iterable[A], threads: int, window: int) -> Iterator[tuple[A, B]]:
    """Yield ``(item, work(item))`` in order, with up to ``window`` results ready beyond those in progress."""
    items = iter(items)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="views")
    pending: deque[tuple[A, Future[B]]] = deque()
    try:
        for item in islice(items, threads + window):
            pending.append((item, pool.submit(work, item)))
        while pending:
            item, future = pending.popleft()
            result = future.result()
            for following in islice(items, 1):
                pending.append((following, pool.submit(work, following)))
            yield item, result
    finally:  # also when the consumer stops early or is interrupted
        pool.shutdown(wait=True, cancel_futures=True)


def chunks(items: Iterable[A], size: int) -> Iterator[list[A]]:
    """Yield lists of up to ``size`` items."""
    items = iter(items)
    while chunk := list(islice(items, size)):
        yield chunk


def source_name(source: Any) -> str | None:
    """Return the path of an image that has one."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None

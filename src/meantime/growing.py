"""The pipeline where images need different numbers of views: an image goes on, group by group, until it is decided.

Crops are made ahead in threads and batches of the encoder cross images, as in :mod:`meantime.pipeline`; images that
are decided make room for new ones, so that batches stay full to the end.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from meantime.encoders import Encoder
from meantime.errors import ImageError
from meantime.images import ImageSource, Pixels, load_image
from meantime.pipeline import BATCH, Encoded, default_threads, encode_together
from meantime.views import Views, ViewSpec, make_views

# An image of up to so many bytes waits decoded for its next group; a larger one is decoded again.
KEPT = 6_000_000

T = TypeVar("T")
# (M, n, d) views of M images -> for each its answer, or None where more views are wanted (none are to come if `last`).
Decide = Callable[[NDArray[np.float32], bool], Sequence[T | None]]


class _Image(Generic[T]):
    """An image on its way: what is encoded of it so far."""

    def __init__(self, source: ImageSource) -> None:
        self.source = source
        self.pixels: Pixels | None = None
        self.parts: list[Encoded] = []
        self.error: ImageError | None = None
        self.answer: T | None = None

    @property
    def done(self) -> bool:
        return self.error is not None or self.answer is not None

    def embeddings(self) -> NDArray[np.float32]:
        return np.concatenate([part.embeddings for part in self.parts if part.embeddings is not None])

    def encoded(self) -> Encoded:
        """All its groups as one."""
        if self.error is not None:
            return Encoded(self.source, None, None, None, self.error)
        views = [part.views for part in self.parts if part.views is not None]
        joined = Views(
            np.concatenate([v.pixels for v in views]),
            np.concatenate([v.boxes for v in views]),
            np.concatenate([v.flips for v in views]),
            views[0].digest,
        )
        norms = np.concatenate([part.norms for part in self.parts if part.norms is not None])
        return Encoded(self.source, self.embeddings(), norms, joined)


def encode_until(
    sources: Iterable[ImageSource],
    encoder: Encoder,
    spec: ViewSpec,
    groups: Sequence[int],
    decide: Decide[T],
    *,
    seed: int = 0,
    threads: int | None = None,
    batch: int = BATCH,
) -> Iterator[tuple[Encoded, T | None]]:
    """Yield each image with its answer, in order; ``groups`` are the numbers of views at which to decide.

    An image that cannot be read has no answer.
    """
    threads = threads or default_threads()
    sources = iter(sources)
    flying: deque[_Image[T]] = deque()  # in the order of the sources
    cropping: deque[tuple[_Image[T], Future[Views | ImageError]]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="views")

    def crop(image: _Image[T]) -> Views | ImageError:
        try:
            pixels = load_image(image.source) if image.pixels is None else image.pixels
        except ImageError as error:
            return error
        image.pixels = pixels if pixels.nbytes <= KEPT else None
        start, stop = (0, *groups)[len(image.parts) :][:2]
        cut = getattr(encoder, "cut", None)
        return make_views(pixels, spec, encoder.preprocess, seed, start=start, stop=stop, cut=cut)

    def submit(image: _Image[T]) -> None:
        cropping.append((image, pool.submit(crop, image)))

    try:
        while True:
            # Twice a batch of first groups: one to encode, one to crop meanwhile.
            for source in islice(sources, max(0, threads + 2 * -(-batch // groups[0]) - len(flying))):
                flying.append(_Image(source))
                submit(flying[-1])
            if not flying:
                return
            encoded = _encode_next(cropping, encoder, batch)
            for image in _undecided(encoded, groups, decide):
                submit(image)
            while flying and flying[0].done:
                image = flying.popleft()
                yield image.encoded(), image.answer
    finally:  # also when the consumer stops early or is interrupted
        pool.shutdown(wait=True, cancel_futures=True)


def _encode_next(
    cropping: deque[tuple[_Image[T], Future[Views | ImageError]]], encoder: Encoder, batch: int
) -> list[_Image[T]]:
    """Encode one batch of what was cropped first; return the images that have got a group."""
    ready: list[tuple[_Image[T], Views | ImageError]] = []
    views = 0
    while cropping and views < batch:
        image, future = cropping.popleft()
        result = future.result()
        ready.append((image, result))
        views += len(result) if isinstance(result, Views) else 0
    parts = encode_together([(image.source, result) for image, result in ready], encoder)
    for (image, _), part in zip(ready, parts, strict=True):
        image.error = part.error
        image.parts.append(part)
    return [image for image, _ in ready if image.error is None]


def _undecided(images: list[_Image[T]], groups: Sequence[int], decide: Decide[T]) -> Iterator[_Image[T]]:
    """Decide images, those with equally many views together; yields those that want more."""
    for count in sorted({len(image.parts) for image in images}):
        same = [image for image in images if len(image.parts) == count]
        views = np.stack([image.embeddings() for image in same])
        for image, answer in zip(same, decide(views, count == len(groups)), strict=True):
            image.answer = answer
            if answer is None:
                yield image

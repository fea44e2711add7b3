"""Many images through a pipeline, in order: as many in flight as keep the encoder busy, whatever their number.

One batch is with the encoder, the next is ready for it, and a third is being cropped. Batches are put together by the
order of the images alone, never by which thread was faster, so a run can be repeated to the byte.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from meantime.encoders import Encoder
from meantime.errors import ImageError
from meantime.images import ImageSource
from meantime.pipeline.flight import Encoded, Flight
from meantime.pipeline.threads import Pipeline
from meantime.views import Places, Views, ViewSpec, joined

A = TypeVar("A")
T = TypeVar("T")
# (M, n, d) views of M images -> for each its answer, or None where more views are wanted (none are to come if `last`).
Decide = Callable[[NDArray[np.float32], bool], Sequence[T | None]]

AHEAD = 2  # batches with the encoder, the one at work included
LINE = 4  # times as many images as are on their way may stand in line, decided or not


def encode(
    sources: Iterable[ImageSource],
    encoder: Encoder,
    spec: ViewSpec,
    *,
    seed: int = 0,
    threads: int | None = None,
    batch: int | None = None,
) -> Iterator[Encoded]:
    """Yield the embedded views of each image, in order."""

    def enough(views: NDArray[np.float32], last: bool) -> list[bool]:
        return [True] * len(views)

    groups = (spec.total,)
    for encoded, _ in encode_until(sources, encoder, spec, groups, enough, seed=seed, threads=threads, batch=batch):
        yield encoded


def encode_until(
    sources: Iterable[ImageSource],
    encoder: Encoder,
    spec: ViewSpec,
    groups: Sequence[int],
    decide: Decide[T],
    *,
    seed: int = 0,
    threads: int | None = None,
    batch: int | None = None,
) -> Iterator[tuple[Encoded, T | None]]:
    """Yield each image with its answer, in order; ``groups`` are the numbers of views at which to decide.

    Images that are decided make room for others, so that batches stay full. An image that cannot be read has no answer.
    """
    with Pipeline(encoder, threads=threads, batch=batch) as pipeline:
        yield from _Run(pipeline, iter(sources), encoder, spec, groups, decide, seed).answers()


class _Image(Flight, Generic[T]):
    """A flight, and the answer that it has got."""

    answer: T | None = None

    @property
    def done(self) -> bool:
        return self.error is not None or self.answer is not None


class _Run(Generic[T]):
    """The images in flight: those being cropped, those with the encoder, those that are waited for."""

    def __init__(
        self,
        pipeline: Pipeline,
        sources: Iterator[ImageSource],
        encoder: Encoder,
        spec: ViewSpec,
        groups: Sequence[int],
        decide: Decide[T],
        seed: int,
    ) -> None:
        self.pipeline, self.sources, self.groups, self.decide = pipeline, sources, groups, decide
        self.batch = pipeline.batcher.batch
        self.begin: Callable[[ImageSource], _Image[T]] = lambda source: _Image(source, encoder, spec, seed)
        # Batches of first groups: those with the encoder, and one to crop meanwhile
        self.most = pipeline.threads + (AHEAD + 1) * -(-self.batch // groups[0])
        self.flying: deque[_Image[T]] = deque()  # in the order of the sources
        self.cropping: deque[tuple[_Image[T], int, Future[Views]]] = deque()  # with how many views are to come
        self.encoding: deque[tuple[list[tuple[_Image[T], Places]], Future[NDArray[np.float32]]]] = deque()

    def answers(self) -> Iterator[tuple[Encoded, T | None]]:
        """Yield images in order, from the first to the last."""
        try:
            while self._take_off():
                while self.cropping and len(self.encoding) < AHEAD and self._full():
                    self._send()
                if self.encoding:
                    self._receive()
                while self.flying and self.flying[0].done:
                    image = self.flying.popleft()
                    yield image.encoded(), image.answer
        finally:  # also when the consumer stops early or is interrupted
            for _, future in self.encoding:
                future.cancel()

    def _take_off(self) -> bool:
        """Begin as many images as there is room for; False when all have landed."""
        undecided = sum(not image.done for image in self.flying)
        # Those behind an image that takes long are decided but not yet out; they are small, but not without end
        room = min(self.most - undecided, LINE * self.most - len(self.flying))
        for source in islice(self.sources, max(0, room)):
            self.flying.append(self.begin(source))
            self._crop(self.flying[-1])
        return bool(self.flying)

    def _crop(self, image: _Image[T]) -> None:
        stop = next(size for size in self.groups if size > image.n)
        self.cropping.append((image, stop - image.n, self.pipeline.crop(image.crop, stop)))

    def _full(self) -> bool:
        """Whether what is cropped fills a batch; a smaller one goes only when nothing else can come before it."""
        return sum(views for _, views, _ in self.cropping) >= self.batch or not self.encoding

    def _send(self) -> None:
        """Hand one batch of what was cropped first to the encoder."""
        ready: list[tuple[_Image[T], Views]] = []
        views = 0
        while self.cropping and views < self.batch:
            image, _, future = self.cropping.popleft()
            try:
                ready.append((image, future.result()))
                views += len(ready[-1][1])
            except ImageError as error:
                image.error = error.with_traceback(None)  # which would hold on to the pixels here
            self._take_off()
        if ready:
            pixels = joined([views.pixels for _, views in ready])
            places = [(image, views.places) for image, views in ready]
            self.encoding.append((places, self.pipeline.batcher.images(pixels)))

    def _receive(self) -> None:
        """Wait for the batch that was sent first, and ask of its images whether they need more."""
        sent, future = self.encoding.popleft()
        rows = future.result()
        start = 0
        for image, places in sent:
            image.add(rows[start : start + len(places)], places)
            start += len(places)
        for n in sorted({image.n for image, _ in sent}):  # those with equally many views together
            same = [image for image, _ in sent if image.n == n]
            views = np.stack([image.embeddings for image in same])
            for image, answer in zip(same, self.decide(views, n == self.groups[-1]), strict=True):
                image.answer = answer
                if answer is None:
                    self._crop(image)
                else:
                    image.land()


def chunks(items: Iterable[A], size: int) -> Iterator[list[A]]:
    """Yield lists of up to ``size`` items."""
    items = iter(items)
    while chunk := list(islice(items, size)):
        yield chunk

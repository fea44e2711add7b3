"""How far the workers are: an actor that counts, and a thread of the driver that asks it now and then."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Any

from meantime.engines.worker import Heard
from meantime.store.manifest import Shard

EVERY = 0.5  # seconds between two looks


class Tally:
    """An actor that knows how far each shard is, and how often it was begun."""

    def __init__(self) -> None:
        self.begun: Counter[int] = Counter()
        self.images: Counter[int] = Counter()

    def begin(self, number: int) -> int:
        """A worker begins a shard; the answer is for which time."""
        self.begun[number] += 1
        self.images[number] = 0
        return self.begun[number]

    def add(self, number: int, images: int) -> None:
        """A worker has done that many more of its images."""
        self.images[number] += images

    def total(self) -> int:
        """Images done in all shards."""
        return self.images.total()


class Reporter:
    """Tells the tally how a shard gets on: now and then, since small images are done faster than messages travel."""

    def __init__(self, tally: Any, number: int) -> None:
        self.tally, self.number = tally, number
        self.waiting, self.told = 0, time.monotonic()

    def __call__(self, images: int) -> None:
        """So many more images are done."""
        self.waiting += images
        if time.monotonic() - self.told >= EVERY:
            self.tell()

    def tell(self) -> None:
        """Tell of those that were not told of yet."""
        self.tally.add.remote(self.number, self.waiting)
        self.waiting, self.told = 0, time.monotonic()


@contextmanager
def listening(ray: Any, tally: Any, heard: Heard) -> Iterator[Callable[[Shard], None]]:
    """Tell of images while shards are under way; what is yielded is told of each whole shard, and is exact."""
    known = finished = 0
    lock, over = Lock(), Event()

    def tell(images: int) -> None:
        nonlocal known
        with lock:
            news, known = images - known, max(known, images)
            if news > 0:
                heard(news)

    def listen() -> None:
        while not over.wait(EVERY):
            with suppress(ray.exceptions.RayError):  # the tally may be lost with its machine; it starts again
                tell(ray.get(tally.total.remote()))

    def told(shard: Shard) -> None:
        nonlocal finished
        finished += shard.stop - shard.start
        tell(finished)

    listener = Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield told
    finally:
        over.set()
        listener.join()

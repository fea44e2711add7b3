"""The encoder of a service: one thread that encodes together what arrives together.

It never waits for company: what is there is encoded at once, and what comes meanwhile makes the next batch.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from meantime.encoders import Encoder
from meantime.encoders.base import Floats, Pixels
from meantime.pipeline import BATCH

Kind = Literal["images", "texts"]


@dataclass
class _Job:
    kind: Kind
    items: Any  # (n, S, S, 3) uint8, or n texts
    future: "Future[Floats]" = field(default_factory=Future)


class Batcher:
    """Requests ask for embeddings; a single thread makes them, ``batch`` items in a call."""

    def __init__(self, encoder: Encoder, batch: int = BATCH) -> None:
        self.encoder = encoder
        self.batch = batch
        self.calls = 0
        self.encoded: dict[Kind, int] = {"images": 0, "texts": 0}
        self.seconds_an_item = 0.01  # a moving mean, for Retry-After
        self._jobs: deque[_Job] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="encoder", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Items that are not yet with the encoder."""
        with self._change:
            return sum(len(job.items) for job in self._jobs)

    async def images(self, pixels: Pixels) -> Floats:
        """Encode pixels (n, S, S, 3) to (n, d)."""
        return await self._encode("images", pixels)

    async def texts(self, texts: Sequence[str]) -> Floats:
        """Encode n texts to (n, d)."""
        return await self._encode("texts", list(texts))

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """Encode n texts to (n, d), from a thread that may wait."""
        return np.concatenate([job.future.result() for job in self._submit("texts", list(texts))])

    def _submit(self, kind: Kind, items: Any) -> list[_Job]:
        # In parts, so that a large request takes turns with the others
        jobs = [_Job(kind, items[i : i + self.batch]) for i in range(0, len(items), self.batch)]
        with self._change:
            if self._closed:
                raise RuntimeError("the service is stopping")
            self._jobs.extend(jobs)
            self._change.notify()
        return jobs

    async def _encode(self, kind: Kind, items: Any) -> Floats:
        jobs = self._submit(kind, items)
        try:
            parts = [await asyncio.wrap_future(job.future) for job in jobs]
        except BaseException:  # the client has gone, or one part failed: the rest is not needed
            for job in jobs:
                job.future.cancel()
            raise
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def close(self) -> None:
        """Finish what is waiting, then end the thread."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join()

    def _run(self) -> None:
        while jobs := self._take():
            started = time.perf_counter()
            count = sum(len(job.items) for job in jobs)
            try:
                rows = self._call(jobs)
            except Exception as error:
                for job in jobs:
                    job.future.set_exception(error)
                continue
            start = 0
            for job in jobs:
                job.future.set_result(rows[start : start + len(job.items)])
                start += len(job.items)
            self.calls += 1
            self.encoded[jobs[0].kind] += count
            self.seconds_an_item += 0.2 * ((time.perf_counter() - started) / count - self.seconds_an_item)

    def _take(self) -> list[_Job]:
        """Wait for work; return the jobs of one kind, from the front, that fit into a batch. None if closed."""
        with self._change:
            while True:
                jobs: list[_Job] = []
                count = 0
                while self._jobs and (not jobs or self._jobs[0].kind == jobs[0].kind):
                    if jobs and count + len(self._jobs[0].items) > self.batch:
                        break
                    job = self._jobs.popleft()
                    if job.future.set_running_or_notify_cancel():  # else nobody waits for it any more
                        jobs.append(job)
                        count += len(job.items)
                if jobs or self._closed:
                    return jobs
                self._change.wait()

    def _call(self, jobs: list[_Job]) -> Floats:
        if jobs[0].kind == "texts":
            return self.encoder.encode_texts([text for job in jobs for text in job.items])
        pixels = jobs[0].items if len(jobs) == 1 else np.concatenate([job.items for job in jobs])
        return self.encoder.encode_images(pixels)


class Budget:
    """How many views may exist as pixels at once; who asks for more waits, first come first served."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def take(self, count: int) -> None:
        """Wait until ``count`` fit, or until nothing else is held."""
        async with self._turn:
            while self.used and self.used + count > self.most:
                self._freed.clear()
                await self._freed.wait()
            self.used += count

    def give(self, count: int) -> None:
        """Give them back."""
        self.used -= count
        self._freed.set()

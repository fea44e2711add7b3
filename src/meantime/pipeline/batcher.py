"""The thread that encodes: what arrives together is encoded together.

It never waits for company: what is there is encoded at once, and what comes meanwhile makes the next batch. Whoever
wants full batches hands them over full.
"""

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Literal

from meantime.encoders import Encoder
from meantime.encoders.base import Floats, Pixels
from meantime.errors import MeantimeError
from meantime.views import joined

BATCH = 64  # views encoded in one call, at the least


def default_batch(encoder: Encoder) -> int:
    """Return how many views to encode in one call: at least one of the encoder's own batches, which fit its device."""
    return max(BATCH, getattr(encoder, "batch", BATCH))


Kind = Literal["images", "texts"]


@dataclass
class _Job:
    kind: Kind
    items: Any  # (n, S, S, 3) uint8, or n texts
    future: "Future[Floats]" = field(default_factory=Future)


class Batcher:
    """Anyone may ask for embeddings; a single thread makes them, ``batch`` items of several askers in a call.

    What one asks at once is not divided. A future that is cancelled before its turn costs nothing.
    """

    def __init__(self, encoder: Encoder, batch: int | None = None) -> None:
        self.encoder = encoder
        self.batch = batch or default_batch(encoder)
        self.calls = 0
        self.encoded: dict[Kind, int] = {"images": 0, "texts": 0}
        self.seconds_an_item = 0.01  # a moving mean: how long those who come now will wait
        self._jobs: deque[_Job] = deque()
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")

    @property
    def waiting(self) -> int:
        """Items that are not yet with the encoder."""
        with self._lock:
            return sum(len(job.items) for job in self._jobs)

    def images(self, pixels: Pixels) -> "Future[Floats]":
        """Encode pixels (n, S, S, 3) to (n, d)."""
        return self._submit(_Job("images", pixels))

    def texts(self, texts: Sequence[str]) -> "Future[Floats]":
        """Encode n texts to (n, d)."""
        return self._submit(_Job("texts", list(texts)))

    def close(self) -> None:
        """Finish what is waiting, then end the thread."""
        self._thread.shutdown()

    def _submit(self, job: _Job) -> "Future[Floats]":
        with self._lock:  # a round for each job; those whose job went with an earlier one find nothing to do
            self._thread.submit(self._round)
            self._jobs.append(job)
        return job.future

    def _round(self) -> None:
        """Encode one batch of what is waiting."""
        jobs = self._take()
        if not jobs:
            return
        started = time.perf_counter()
        count = sum(len(job.items) for job in jobs)
        try:
            rows = self._call(jobs)
            if len(rows) != count:
                raise MeantimeError(
                    f"the encoder {self.encoder.name!r} gave {len(rows)} embeddings for {count} {jobs[0].kind}; "
                    "expected one for each"
                )
        except BaseException as error:  # whatever it is, those who wait must hear of it
            for job in jobs:
                job.future.set_exception(error)
            return
        # Counted before it is told: who has an answer finds it in the counters
        self.calls += 1
        self.encoded[jobs[0].kind] += count
        self.seconds_an_item += 0.2 * ((time.perf_counter() - started) / max(1, count) - self.seconds_an_item)
        start = 0
        for job in jobs:
            job.future.set_result(rows[start : start + len(job.items)])
            start += len(job.items)

    def _take(self) -> list[_Job]:
        """Return the jobs of one kind, from the front, that fit into a batch."""
        jobs: list[_Job] = []
        count = 0
        with self._lock:
            while self._jobs and (not jobs or self._jobs[0].kind == jobs[0].kind):
                if jobs and count + len(self._jobs[0].items) > self.batch:
                    break
                job = self._jobs.popleft()
                if job.future.set_running_or_notify_cancel():  # else nobody waits for it any more
                    jobs.append(job)
                    count += len(job.items)
        return jobs

    def _call(self, jobs: list[_Job]) -> Floats:
        if jobs[0].kind == "texts":
            return self.encoder.encode_texts([text for job in jobs for text in job.items])
        return self.encoder.encode_images(joined([job.items for job in jobs]))

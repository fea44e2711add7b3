"""The engine of one machine: shard after shard in this process."""

from collections.abc import Generator, Iterable

from meantime.datasets.base import Samples
from meantime.encoders import Encoder
from meantime.engines.worker import Done, Heard, Job, Worker, of_shard


class LocalEngine:
    """Encodes here, with the encoder that was given."""

    def run(
        self, encoder: Encoder, job: Job, samples: Samples, numbers: Iterable[int], heard: Heard
    ) -> Generator[Done, None, None]:
        """Yield each shard as it is done."""
        worker = Worker(lambda: encoder, job)
        for number in numbers:
            yield worker(number, of_shard(samples, job.plan, number), heard)

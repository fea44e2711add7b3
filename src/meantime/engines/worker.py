"""The unit of work: the images of one shard through the pipeline into a file. Every engine runs this worker.

Batches of the encoder never cross shards, so a shard's bytes depend neither on where a run was interrupted nor on
which worker made it.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from meantime import pipeline
from meantime.datasets import Sample
from meantime.datasets.base import Samples
from meantime.encoders import Encoder
from meantime.errors import MeantimeError
from meantime.images import ImageSource
from meantime.store.files import Staged
from meantime.store.manifest import Plan, Shard
from meantime.store.shards import Row
from meantime.store.writer import stage_shard
from meantime.views import ViewSpec

Done: TypeAlias = tuple[Shard, Staged]  # a shard that is written, and its file, which the store's writer takes in
Heard: TypeAlias = Callable[[int], None]  # hears of images as they are done


@dataclass(frozen=True)
class Job:
    """What a worker must know of a run; small, so that it can be sent anywhere."""

    folder: Path
    plan: Plan
    spec: ViewSpec
    batch: int | None = None
    threads: int | None = None


class Engine(Protocol):
    """Has the shards of those numbers made, in any order; the caller commits each to the store."""

    def run(
        self, encoder: Encoder, job: Job, samples: Samples, numbers: Iterable[int], heard: Heard
    ) -> Generator[Done, None, None]:
        """Yield each shard as it is done."""


class Worker:
    """Encodes shards. ``load`` gives the encoder, when the first shard comes."""

    def __init__(self, load: Callable[[], Encoder], job: Job) -> None:
        self.load = load
        self.job = job

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, if it is the one that the store is made by."""
        encoder, plan = self.load(), self.job.plan
        if encoder.identity != plan.encoder:
            raise MeantimeError(
                f"the encoder {encoder.name!r} is {encoder.identity} here, but this run is made by {plan.encoder}; "
                "install the same model everywhere"
            )
        return encoder

    def __call__(self, number: int, samples: Samples, heard: Heard = lambda images: None) -> Done:
        """Encode the samples of one shard and write its file; ``heard`` is told of each image."""
        job, (start, _) = self.job, self.job.plan.bounds(number)
        flying: deque[Sample] = deque()  # read ahead by the pipeline, which answers in order

        def sources() -> Iterator[ImageSource]:
            for sample in samples:
                flying.append(sample)
                yield sample.source

        rows: list[Row] = []
        errors: list[dict[str, Any]] = []
        encoded = pipeline.encode(
            sources(), self.encoder, job.spec, seed=job.plan.seed, batch=job.batch, threads=job.threads
        )
        for index, e in enumerate(encoded, start):
            sample = flying.popleft()
            if e.embeddings is None or e.places is None or e.norms is None:
                errors.append({"index": index, "key": sample.key, "error": str(e.error)})
            else:
                if not np.all(np.isfinite(e.norms) & (e.norms > 0)):
                    raise MeantimeError(
                        f"the encoder {self.encoder.name!r} gives embeddings of {sample.key!r} that are zero or not "
                        "finite, so they have no direction; check the model and its precision (--precision fp32)"
                    )
                digest = "" if e.places.digest is None else f"{e.places.digest:032x}"
                # Rounded at once: a shard in memory then takes half.
                views = e.embeddings.astype("float16")
                row = Row(index, sample.key, sample.label, views, e.norms, e.places.boxes, e.places.flips, digest)
                rows.append(row)
            heard(1)
        return stage_shard(job.folder, job.plan, number, rows, errors)


def of_shard(samples: Samples, plan: Plan, number: int) -> Samples:
    """The samples of one shard; of an archive only their places, nothing is read."""
    own = slice(*plan.bounds(number))
    return Samples(samples.sources[own], samples.labels[own], samples.keys[own])

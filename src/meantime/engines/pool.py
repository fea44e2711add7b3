"""The actor pool of Ray Data: shards in, as bytes; what the workers answer out, as bytes, whatever their order."""

import logging
import os
import pickle
import socket
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from meantime.encoders import Encoder
from meantime.engines.tally import Reporter
from meantime.engines.worker import Done, Job, Worker
from meantime.errors import MeantimeError
from meantime.extras import optional

RETRIES = 6  # of one shard, so that an image on which every worker dies does not hold the run for ever


class Actor:
    """A worker in a process of Ray: bytes in, bytes out, and what goes wrong as a sentence."""

    def __init__(self, load: Callable[[], Encoder], job: Job, tally: Any, folder: str) -> None:
        with suppress(OSError):
            os.chdir(folder)  # relative paths mean the same here as where the run was started
        self.worker = Worker(load, job)
        self.tally = tally

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        """Make the one shard of the batch."""
        number, samples = pickle.loads(batch["shard"][0])
        answer: Done | str
        try:
            if not self.worker.job.folder.is_dir():
                raise MeantimeError(
                    f"{str(self.worker.job.folder)!r} is not there; the store must lie where every machine sees it: "
                    "a shared folder or a URL"
                )
            if optional("ray", "a worker of Ray", "ray").get(self.tally.begin.remote(number)) > RETRIES:
                raise MeantimeError(
                    f"{RETRIES} workers died of it; an image that takes more memory than there is may be the reason: "
                    f"they are {samples.keys[0]!r} to {samples.keys[-1]!r}"
                )
            reporter = Reporter(self.tally, number)
            answer = self.worker(number, samples, reporter)
            reporter.tell()
        except Exception as error:
            traceback.print_exc()  # for the log of this worker
            kind = "" if isinstance(error, MeantimeError) else f"{type(error).__name__}: "
            answer = f"shard {number} failed on {socket.gethostname()}: {kind}{error}"
        return {"answer": [pickle.dumps(answer)]}


@dataclass(frozen=True)
class Pool:
    """So many actors, and what each of them has and is made from."""

    workers: int
    cpus: float
    gpus: int
    arguments: tuple[Any, ...]

    def run(self, shards: list[bytes]) -> Generator[bytes, None, None]:
        """Yield an answer for each shard; what befalls Ray itself is one sentence too."""
        ray = optional("ray", "the engine 'ray'", "ray")
        try:
            if through_client(ray):
                relay = ray.remote(num_cpus=0)(_Relay).remote(self, shards)
                yield from iter(lambda: ray.get(relay.next.remote()), None)
            else:
                yield from self.answers(shards)
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            raise MeantimeError(
                f"Ray gave up ({reason[0]}); what was finished is kept: run again with --resume, and look into the "
                "logs of Ray if it comes again"
            ) from error

    def answers(self, shards: list[bytes]) -> Iterator[bytes]:
        """Yield an answer for each shard. Ray Data restarts actors that die, and gives their shards to others."""
        data = optional("ray.data", "the engine 'ray'", "ray")
        data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        items = data.from_items([{"shard": shard} for shard in shards], override_num_blocks=len(shards))
        done = items.map_batches(
            Actor,
            batch_size=1,
            compute=data.ActorPoolStrategy(size=min(self.workers, len(shards)), max_tasks_in_flight_per_actor=2),
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            fn_constructor_args=self.arguments,
        )
        for row in done.iter_rows():
            yield row["answer"]


def through_client(ray: Any) -> bool:
    """Whether the driver is outside the cluster, connected by ray://; Ray Data cannot run there."""
    return bool(ray.util.client.ray.is_connected())


class _Relay:
    """An actor in the cluster that runs the pool for a driver outside it."""

    def __init__(self, pool: Pool, shards: list[bytes]) -> None:
        self.answers = pool.answers(shards)

    def next(self) -> bytes | None:
        """The next answer; None after the last."""
        return next(self.answers, None)

"""The engine of many machines: an actor pool of Ray Data, one shard a task.

A worker writes its shard beside the others under a name of its own and returns a small record; the driver, which
alone writes the manifest, gives the file its name. So a worker may die, be thought dead or be run twice: every
image is in the store exactly once, and the driver's memory does not grow with the embeddings.
"""

import os
import pickle
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from meantime.datasets.base import Samples
from meantime.encoders import Encoder, OnnxEncoder, TorchEncoder, load_encoder
from meantime.engines.cluster import cluster, share
from meantime.engines.pool import Pool
from meantime.engines.tally import Tally, listening
from meantime.engines.worker import Done, Heard, Job, of_shard
from meantime.errors import MeantimeError
from meantime.extras import optional


@dataclass(frozen=True)
class RayEngine:
    """Encodes on a Ray cluster.

    Parameters
    ----------
    address
        Of a running cluster: ``"auto"`` (the one of `ray start` on this machine), ``"host:6379"`` or
        ``"ray://host:10001"``. None starts one here for the run; a Ray that the process has started is used as it is.
    workers
        How many; the cores are shared among them. By default one for each GPU, else one for each 4 cores.
    gpu
        Whether each worker gets a GPU; None if there are any and the encoder can use one.
    load
        How a worker loads the encoder, called with ``threads=``; by default by the encoder's name.
    """

    address: str | None = None
    workers: int | None = None
    gpu: bool | None = None
    load: Callable[..., Encoder] | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise MeantimeError(f"{self.workers} workers were asked for; expected at least 1")

    def run(
        self, encoder: Encoder, job: Job, samples: Samples, numbers: Iterable[int], heard: Heard
    ) -> Generator[Done, None, None]:
        """Yield each shard as it is done, whatever their order."""
        numbers = list(numbers)
        if not numbers:
            return
        ray = optional("ray", "the engine 'ray'", "ray")
        load = self.load or _loader(encoder)
        with cluster(ray, self.address) as own:
            workers, cpus, gpus = share(ray, self.workers, self._wants_gpu(encoder), own)
            cores = max(1, int(cpus))
            job = replace(job, folder=job.folder.resolve(), threads=job.threads or max(1, cores // 2))
            load = partial(load, threads=cores)
            tally = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Tally).remote()
            pool = Pool(workers, cpus, gpus, (load, job, tally, os.getcwd()))
            shards = [pickle.dumps((n, of_shard(samples, job.plan, n))) for n in numbers]
            with closing(pool.run(shards)) as answers, listening(ray, tally, heard) as told:
                for answer in map(pickle.loads, answers):
                    if isinstance(answer, str):
                        raise MeantimeError(answer)
                    told(answer[0])
                    yield answer

    def _wants_gpu(self, encoder: Encoder) -> bool | None:
        return False if self.gpu is None and not isinstance(encoder, TorchEncoder) else self.gpu


def _loader(encoder: Encoder) -> Callable[..., Encoder]:
    """How another process gets the same encoder: by its name, or else the object itself is sent."""
    if isinstance(encoder, OnnxEncoder):
        name = encoder.name if encoder.name == "embedded" else f"onnx:{encoder.directory.resolve()}"
        return partial(load_encoder, name)
    if isinstance(encoder, TorchEncoder):
        if encoder.name.startswith(("open_clip:", "transformers:")):  # wrapped: no name by which it could be loaded
            raise MeantimeError(
                f"workers cannot load {encoder.name!r}, which was made from a model in memory; tell them how by "
                "RayEngine(load=…), a function with threads=, or give the name of an encoder"
            )
        return partial(load_encoder, encoder.name, precision=encoder.precision)
    return partial(_itself, encoder)


def _itself(encoder: Encoder, threads: int) -> Encoder:
    return encoder

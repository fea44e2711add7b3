"""A Ray cluster for a run, and how it is divided among the workers."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from meantime.errors import MeantimeError

CORES = 4  # of a worker without a GPU, where nobody says how many workers there are to be
OBJECTS = 256 << 20  # bytes of the object store of a cluster that is started here: only small records pass it
PATIENCE = 10.0  # seconds for a cluster to answer at its address


@contextmanager
def cluster(ray: Any, address: str | None) -> Iterator[bool]:
    """A cluster for the run: the caller's own, the one at the address, or one that begins and ends here (True)."""
    if ray.is_initialized():
        yield False
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what is told of a worker that died; it is replaced
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"include_dashboard": False, "object_store_memory": OBJECTS}
    try:
        _knock(address)
        with _hushed():
            ray.init(address=address or "local", **options)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise MeantimeError(
            f"no Ray cluster could be used at {address or 'this machine'!r} ({reason}); start one by "
            "`ray start --head`, give its address, or leave --address out to start one for the run"
        ) from error
    try:
        yield address is None
    finally:
        ray.shutdown()


def _knock(address: str | None) -> None:
    """Whether anybody listens at host:port; Ray itself would wait for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def share(ray: Any, workers: int | None, gpu: bool | None, own: bool = False) -> tuple[int, float, int]:
    """Workers, and the cores and GPUs of each: the cluster's divided among them, never more than one machine has.

    A cluster of our ``own`` has only what this machine has; to another, GPUs may come when they are asked for.
    """
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cores, gpus = (sum(machine.get(kind, 0) for machine in machines) for kind in ("CPU", "GPU"))
    smallest = min((machine["CPU"] for machine in machines if machine.get("CPU")), default=1)
    gpu = gpus > 0 if gpu is None else gpu
    if gpu and own and not gpus:
        raise MeantimeError("a GPU for each worker was asked for, but this machine has none; leave --device out")
    workers = workers or max(1, int(gpus) if gpu else int(cores) // CORES)
    share = min(cores / workers, smallest)
    return workers, float(int(share)) if share >= 1 else max(share, 0.01), int(gpu)


@contextmanager
def _hushed() -> Iterator[None]:
    """Nothing is written to standard error, not even by libraries of C++: they speak at the start of every run."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)

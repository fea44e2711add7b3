"""Images shared among the cores: each thread takes some, and each of its matrix products one core.

NumPy's library for products (OpenBLAS) gives every product all cores, one product at a time. The many small ones of MTA
gain nothing from that, and exponentials and sums have one core anyway.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import TypeVar

from threadpoolctl import ThreadpoolController

A = TypeVar("A")
B = TypeVar("B")


_SHARING = Lock()


@contextmanager
def sharing(threads: int) -> Iterator[int]:
    """Yield how many threads may share images; inside, matrix products take one core.

    One stays inside from the first product to the last: after one on all cores, OpenBLAS's own threads keep spinning
    for a while and take the cores from ours. Its setting is the whole process's, so only one caller at a time has it
    changed; others do with the thread they have.
    """
    if threads == 1 or not _SHARING.acquire(blocking=False):
        yield 1
        return
    try:
        with _products().limit(limits=1):
            yield threads
    finally:
        _SHARING.release()


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep the solving inside to the caller's core, where others have work for the rest, such as an encoder."""
    with sharing(2):  # then nobody within can share
        yield


@lru_cache(maxsize=1)
def _products() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def side_by_side(work: Callable[[A], B], parts: Sequence[A], threads: int) -> list[B]:
    """Return what the work makes of each part, in order, on so many threads."""
    if threads == 1:
        return [work(part) for part in parts]
    # Some builds of OpenBLAS count the cores for each thread, and new ones must be told
    with ThreadPoolExecutor(threads, initializer=lambda: _products().limit(limits=1)) as pool:
        return list(pool.map(work, parts))

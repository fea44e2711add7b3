"""Work shared among the cores: each thread takes a part, and each of its matrix products one core.

NumPy's library for products (OpenBLAS) gives every product all cores, one product at a time. The many small ones of MTA
gain nothing from that, and exponentials and sums have one core anyway.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from threading import Event, Lock
from typing import TypeVar

from threadpoolctl import LibController, ThreadpoolController

A = TypeVar("A")
B = TypeVar("B")

# A step on fewer numbers than this costs little more than calling NumPy.
SMALL_STEP = 2**16

_SHARING = Lock()
_TURN = Lock()


@contextmanager
def sharing(threads: int) -> Iterator[int]:
    """Yield how many threads may share the work; inside, matrix products take one core.

    One stays inside from the first product to the last: after one on all cores, OpenBLAS's own threads keep spinning
    for a while and take the cores from ours. Its setting is the whole process's, so only one caller at a time has it
    changed; others do with the thread they have.
    """
    if threads == 1 or not _SHARING.acquire(blocking=False):
        yield 1
        return
    before = [library.num_threads for library in _products()]
    try:
        _one_core_for_products()
        yield threads
    finally:
        for library, count in zip(_products(), before, strict=True):
            library.set_num_threads(count)
        _SHARING.release()


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep the solving inside to the caller's core, where others have work for the rest, such as an encoder."""
    with sharing(2):  # then nobody within can share
        yield


@contextmanager
def in_turn(numbers: int) -> Iterator[None]:
    """Let one thread at a time take its many steps on so many numbers, if these are few.

    Two threads at it would pass Python's lock to and fro at each call of NumPy, which takes longer than the call.
    """
    if numbers >= SMALL_STEP:
        yield
        return
    with _TURN:
        yield


def side_by_side(work: Callable[[A], B], parts: Sequence[A], threads: int) -> list[B]:
    """Return what the work makes of each part, in order, on so many threads, of which the caller's is one."""
    threads = min(threads, len(parts))
    if threads == 1:
        return [work(part) for part in parts]
    made: dict[int, B] = {}
    left = iter(list(enumerate(parts)))
    stop = Event()

    def take() -> None:
        _one_core_for_products()  # some builds of OpenBLAS count the cores for each thread
        try:
            while not stop.is_set() and (place := next(left, None)) is not None:
                made[place[0]] = work(place[1])
        except BaseException:
            stop.set()
            raise

    others = [_others(threads - 1).submit(take) for _ in range(threads - 1)]
    try:
        take()
    finally:  # after an error or Ctrl-C too nobody is at work when the setting is given back
        wait(others)
    for other in others:
        other.result()
    return [made[i] for i in range(len(parts))]


@lru_cache(maxsize=1)
def _products() -> list[LibController]:
    """Return the libraries of matrix products in this process."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _one_core_for_products() -> None:
    for library in _products():
        library.set_num_threads(1)


@lru_cache(maxsize=1)
def _others(threads: int) -> ThreadPoolExecutor:
    """Threads that are kept: what a new one needs before its first product costs as much as some images."""
    return ThreadPoolExecutor(threads, thread_name_prefix="meantime-solve")


def _forget() -> None:
    """A process that forks leaves its threads behind, and perhaps a caller at work."""
    global _SHARING, _TURN
    _SHARING, _TURN = Lock(), Lock()
    _others.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

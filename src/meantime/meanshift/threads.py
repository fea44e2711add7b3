"""Work shared among the cores: each thread takes a part, and each of its matrix products one core.

NumPy's library for products (OpenBLAS) gives every product all cores, one product at a time. The many small ones of MTA
gain nothing from that, and exponentials and sums have one core anyway.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import TypeVar

from threadpoolctl import LibController, ThreadpoolController

A = TypeVar("A")
B = TypeVar("B")

# A step on fewer numbers than this costs little more than calling NumPy.
SMALL_STEP = 2**16


class _Process:
    """What solving threads of one process have in common.

    OpenBLAS's setting is the whole process's: the first who wants products on one core sets it, the last of all gives
    the cores back.
    """

    def __init__(self) -> None:
        self.gate, self.turn = Lock(), Lock()
        self.inside = 0
        self.before: list[int] = []  # cores of products, while they take one

    def enter(self, threads: int) -> int:
        """Return how many threads the caller may have; products keep all cores for one caller who wants no threads."""
        with self.gate:
            self.inside += 1
            alone = self.inside == 1
            if not self.before and (threads > 1 or not alone):
                self.before = [library.num_threads for library in _products()]
                _one_core_for_products()
            return threads if alone else 1

    def leave(self) -> None:
        """Give the cores back, unless others are still inside."""
        with self.gate:
            self.inside -= 1
            if self.inside == 0:
                self.give_back()

    def give_back(self) -> None:
        """Set products as they were before."""
        for library, count in zip(_products(), self.before, strict=False):
            _set(library, count)
        self.before = []


_here = _Process()


def _after_fork() -> None:
    """A forked process has none of the threads that were inside, and its locks stay as they left them."""
    global _here
    _here.give_back()
    _here = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def sharing(threads: int) -> Iterator[int]:
    """Yield how many threads may share the work; if several, or if callers overlap, matrix products take one core.

    One stays inside from the first product to the last: after one on all cores, OpenBLAS's own threads keep spinning
    for a while and take the cores from ours. Of callers that overlap one shares, others do with the thread they have.
    """
    here = _here
    allowed = here.enter(threads)
    try:
        yield allowed
    finally:
        here.leave()


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
    with _here.turn:
        yield


def side_by_side(work: Callable[[A], B], parts: Sequence[A], threads: int) -> list[B]:
    """Return what the work makes of each part, in order, on so many threads."""
    if threads == 1 or len(parts) == 1:
        return [work(part) for part in parts]
    # Some builds of OpenBLAS count the cores for each thread, and new ones must be told
    with ThreadPoolExecutor(threads, initializer=_one_core_for_products) as pool:
        return list(pool.map(work, parts))


@lru_cache(maxsize=1)
def _products() -> list[LibController]:
    """Return the libraries of matrix products in this process."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _one_core_for_products() -> None:
    for library in _products():
        _set(library, 1)


def _set(library: LibController, count: int) -> None:
    # threadpoolctl lets only the first thread that ever asked change OpenBLAS; here `_Process` keeps order among all
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)

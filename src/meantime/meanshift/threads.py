"""Images shared among the cores: each thread takes some, and each of its matrix products one core.

NumPy's library for products (OpenBLAS) gives every product all cores, one product at a time. The many small ones of MTA
gain nothing from that, and exponentials and sums have one core anyway.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

A = TypeVar("A")
B = TypeVar("B")


def one_core_each() -> AbstractContextManager[Any]:
    """Return the context in which matrix products take one core.

    Whoever shares images out stays inside from the first product to the last: after one on all cores, OpenBLAS's own
    threads keep spinning for a while and take the cores from ours. The setting is the whole process's; of threads that
    ask for it at once, the first has its way until it leaves.
    """
    context: AbstractContextManager[Any] = _products().limit(limits=1)
    return context


@lru_cache(maxsize=1)
def _products() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def side_by_side(work: Callable[[A], B], parts: Sequence[A], threads: int) -> list[B]:
    """Return what the work makes of each part, in order, on so many threads."""
    if threads == 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))

"""Images shared among the cores: each thread takes some, and each of its matrix products one core.

NumPy's library for products (OpenBLAS) gives every product all cores, one product at a time. The many small ones of MTA
gain nothing from that, and exponentials and sums have one core anyway.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from meantime.cores import available_cores

A = TypeVar("A")
B = TypeVar("B")


class _OneCoreEach:
    """While anyone is inside, matrix products take one core. The setting is the whole process's, so it is counted."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._held: Any = None

    @cached_property
    def _products(self) -> ThreadpoolController:
        return ThreadpoolController().select(user_api="blas")

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._held = self._products.limit(limits=1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._held.restore_original_limits()


_ONE_CORE_EACH = _OneCoreEach()


def side_by_side(work: Callable[[A], B], parts: Sequence[A]) -> list[B]:
    """Return what the work makes of each part, in order, on as many threads as there are cores."""
    threads = min(available_cores(), len(parts))
    if threads < 2:
        return [work(part) for part in parts]
    with _ONE_CORE_EACH, ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))

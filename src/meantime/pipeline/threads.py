"""The threads of a pipeline: some that decode and crop, one that encodes."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from meantime.cores import available_cores
from meantime.encoders import Encoder
from meantime.pipeline.batcher import Batcher

T = TypeVar("T")


def default_threads() -> int:
    """Decoding and cropping take about a tenth of the encoder's time, so a part of the cores suffices."""
    return max(1, available_cores() // 2)


class Pipeline:
    """What images are sent through: ``crop`` ahead in ``threads``, ``encoder`` in batches of about ``batch`` views.

    The caller solves and writes meanwhile, so the encoder need not wait for either.
    """

    def __init__(self, encoder: Encoder, *, threads: int | None = None, batch: int | None = None) -> None:
        self.threads = threads or default_threads()
        self._crops = ThreadPoolExecutor(self.threads, thread_name_prefix="views")
        self.batcher = Batcher(encoder, batch)

    def crop(self, work: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Decode or crop in one of the threads."""
        return self._crops.submit(work, *arguments)

    def close(self) -> None:
        """Let the threads end; what is being made is finished, and crops that wait for their turn are not begun."""
        try:
            self._crops.shutdown(cancel_futures=True)
        finally:  # also when waiting for a crop is interrupted
            self.batcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

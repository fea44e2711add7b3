"""What the endpoints share: the pipeline, the gate, the embeddings of labels."""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from starlette.requests import ClientDisconnect, Request

from meantime.encoders import Encoder
from meantime.pipeline import Pipeline
from meantime.serve.batching import AsyncEncoder, Budget
from meantime.serve.gate import Gate
from meantime.serve.kept import Kept
from meantime.serve.metrics import Metrics
from meantime.serve.settings import Settings
from meantime.serve.texts import Texts

T = TypeVar("T")
AHEAD = 4  # batches of views that may wait, as pixels, for the encoder
TYPICAL = 64  # views of a request, as far as its waiting time is guessed


class Service:
    """One encoder, served."""

    def __init__(self, encoder: Encoder, settings: Settings) -> None:
        self.encoder = encoder
        self.settings = settings
        self.model = public_name(encoder.name)
        self.metrics = Metrics()
        self.pipeline = Pipeline(encoder, threads=settings.threads)
        self.encode = AsyncEncoder(self.pipeline.batcher)
        self.texts = Texts(encoder, self.encode, settings)
        self.kept = Kept(settings.max_kept, settings.max_kept_bytes)
        self.gate = Gate(
            settings.queue,
            settings.max_waiting_bytes,
            lambda: self.gate.inside * TYPICAL * self.pipeline.batcher.seconds_an_item,
        )
        self.pixels = Budget(AHEAD * self.pipeline.batcher.batch)
        self.ready = False
        # Solving is short and must not stand behind photos that are being cropped.
        self._light = ThreadPoolExecutor(2, thread_name_prefix="solve")

    async def crop(self, work: Callable[..., T], *arguments: Any) -> T:
        """Decode and crop in a thread of the pipeline."""
        return await asyncio.wrap_future(self.pipeline.crop(work, *arguments))

    async def light(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run parsing and solving in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._light, functools.partial(work, *arguments))

    @asynccontextmanager
    async def room(self, views: int) -> AsyncIterator[None]:
        """Wait for memory for so many views, and hold it."""
        await self.pixels.take(views)
        try:
            yield
        finally:
            self.pixels.give(views)

    async def warm_up(self) -> None:
        """Load both towers, so that the first request need not."""
        size = self.encoder.preprocess.size
        await self.encode.images(np.zeros((1, size, size, 3), np.uint8))
        await self.encode.texts(["a photo."])
        await self.light(lambda: self.encoder.identity)
        self.ready = True

    def close(self) -> None:
        """Finish what was begun."""
        self._light.shutdown()
        self.pipeline.close()


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do the work of a request that has been read, but no longer than its client waits for it."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        leaving.cancel()
        doing.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


def public_name(name: str) -> str:
    """Return an encoder's name for strangers: of a directory on this machine only the last part."""
    prefix, colon, rest = name.rpartition(":")
    return f"{prefix}{colon}{Path(rest).name}" if os.path.exists(rest) or prefix == "onnx" else name

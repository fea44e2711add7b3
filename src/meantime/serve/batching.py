"""The pipeline as an event loop sees it: embeddings that can be awaited, and room for pixels."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from meantime.encoders.base import Floats, Pixels
from meantime.pipeline import Batcher


class AsyncEncoder:
    """The encoder's thread for coroutines: a large request takes turns with others, one that is left is dropped."""

    def __init__(self, batcher: Batcher) -> None:
        self.batcher = batcher

    async def images(self, pixels: Pixels) -> Floats:
        """Encode pixels (n, S, S, 3) to (n, d)."""
        # One part after the other: what others ask meanwhile comes between
        return _joined([await asyncio.wrap_future(self.batcher.images(part)) for part in self._parts(pixels)])

    async def texts(self, texts: Sequence[str]) -> Floats:
        """Encode n texts to (n, d)."""
        return _joined([await asyncio.wrap_future(self.batcher.texts(part)) for part in self._parts(texts)])

    def wait_for_texts(self, texts: Sequence[str]) -> Floats:
        """Encode n texts to (n, d), from a thread that may wait."""
        return _joined([self.batcher.texts(part).result() for part in self._parts(texts)])

    def _parts(self, items: Any) -> list[Any]:
        size = self.batcher.batch
        return [items[i : i + size] for i in range(0, len(items), size)]


def _joined(parts: list[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Budget:
    """How many views may exist as pixels at once; who asks for more waits, first come first served."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def take(self, count: int) -> None:
        """Wait until ``count`` fit, or until nothing else is held."""
        async with self._turn:
            while self.used and self.used + count > self.most:
                self._freed.clear()
                await self._freed.wait()
            self.used += count

    def give(self, count: int) -> None:
        """Give them back."""
        self.used -= count
        self._freed.set()

"""One section of the page: its least certain images in full, all others small, the least certain first.

The few in full wait in memory until the end. A small one goes to a part file of its score at once, so memory does
not grow; the part files, one after another, are in order.
"""

import heapq
import shutil
from pathlib import Path
from typing import BinaryIO

CARDS = 24  # images shown in full: as many as people look through


class Section:
    """Images as text, ordered by score while they come.

    Parameters
    ----------
    folder
        Where the part files go; it must not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        # The most certain on top, the first to make room: (-score, -number, tile, card)
        self._full: list[tuple[float, int, str, str]] = []
        folder.mkdir()

    @property
    def small(self) -> int:
        """How many images are not shown in full."""
        return self.count - len(self._full)

    def takes_in_full(self, score: float) -> bool:
        """Whether an image of this score is, so far, among the least certain: then `add` wants its card too."""
        return len(self._full) < CARDS or score < -self._full[0][0]

    def add(self, score: float, tile: str, card: str | None = None) -> None:
        """Take an image in; a card may make another image a tile."""
        self.count += 1
        if card is not None:
            heapq.heappush(self._full, (-score, -self.count, tile, card))
            if len(self._full) <= CARDS:
                return
            minus, _, tile, _ = heapq.heappop(self._full)
            score = -minus
        with (self.folder / f"{round(1000 * score):04}").open("ab") as part:  # as fine as the page says it
            part.write(as_bytes(tile))

    def write_cards(self, page: BinaryIO) -> None:
        """Write the images in full."""
        for _, _, _, card in sorted(self._full, reverse=True):
            page.write(as_bytes(card))

    def write_tiles(self, page: BinaryIO) -> None:
        """Write the small ones."""
        for path in sorted(self.folder.iterdir()):
            with path.open("rb") as part:
                shutil.copyfileobj(part, page)


def as_bytes(text: str) -> bytes:
    """Encode a piece of the page. File names need not be valid Unicode; such a byte is shown as its number."""
    return text.encode("utf-8", errors="backslashreplace")

"""What a table is made of once it is measured: cells with their mean, std, published value, or the reason why not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from meantime.bench.paper import Published


@dataclass(frozen=True)
class Cell:
    """One number for each seed; or the reason why there is none."""

    values: tuple[float, ...] = ()
    paper: Published | None = None
    reason: str | None = None
    interval: tuple[float, float] | None = None  # 95 %, where the number is a difference
    others: dict[str, float] = field(default_factory=dict)  # further metrics, their mean over the seeds
    seeds: tuple[int, ...] = ()  # of the values, where rows are joined by them
    sampling: float | None = None  # error by the test's size, in points; where all was measured as in the paper

    @property
    def mean(self) -> float | None:
        """Over the seeds."""
        return float(np.mean(self.values)) if self.values else None

    @property
    def std(self) -> float | None:
        """Over the seeds, the population's (ddof 0) as in the paper; None for one seed."""
        return float(np.std(self.values)) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """To the published value."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper.mean

    @property
    def agrees(self) -> bool | None:
        """Whether the difference is within twice its error; None where it was not measured as in the paper."""
        if self.difference is None or self.paper is None or self.sampling is None:
            return None
        return abs(self.difference) <= 2 * math.hypot(self.std or 0, self.paper.std or 0, self.sampling)


@dataclass(frozen=True)
class Table:
    """A measured table: rows and columns by key with their printed labels."""

    name: str
    title: str
    rows: dict[str, str]
    columns: dict[str, str]
    cells: dict[tuple[str, str], Cell]
    corner: str = "method"
    notes: Sequence[str] = ()
    unit: str = "top-1 in per cent"

    @property
    def reasons(self) -> list[str]:
        """Why cells are empty, each reason once, in the order of the rows."""
        return list(dict.fromkeys(c.reason for c in self.in_order() if c.reason is not None))

    def in_order(self) -> list[Cell]:
        """The cells row by row."""
        return [self.cells[row, column] for row in self.rows for column in self.columns]

    def column(self, key: str) -> list[Cell]:
        """The cells of a column."""
        return [self.cells[row, key] for row in self.rows]

    @property
    def filled(self) -> int:
        """How many cells have a number."""
        return sum(bool(cell.values) for cell in self.in_order())

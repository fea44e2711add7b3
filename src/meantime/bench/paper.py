"""What the paper and its successors published, from the one data file `paper.json`."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Published:
    """One published number, top-1 in per cent; few have a std."""

    mean: float
    std: float | None = None


@cache
def numbers() -> dict[str, Any]:
    """Everything in the file, by table."""
    value: dict[str, Any] = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))
    return value


def published(table: str, row: str, column: str) -> Published | None:
    """The number in that row and column of a table, if it was published."""
    part = numbers().get(table, {})
    if row not in part.get("rows", {}) or column not in part["columns"]:
        return None
    place = part["columns"].index(column)
    mean, stds = part["rows"][row][place], part.get("std", {}).get(row)
    return None if mean is None else Published(float(mean), None if stds is None else float(stds[place]))

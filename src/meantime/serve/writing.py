"""Answers as JSON."""

import json
from typing import Any


def to_json(value: Any) -> bytes:
    """Return compact JSON; NaN, which JSON does not know, would be our mistake and raises."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

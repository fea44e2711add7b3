"""Arrays in requests and answers: nested numbers, or base64 of their bytes, ten times as quick."""

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.serve.errors import invalid
from meantime.serve.limits import decode_base64
from meantime.serve.schemas import Packed

Floats = NDArray[np.float32]


def unpack(value: Packed | list[Any], what: str, layout: str, axes: tuple[int, ...] = (2,)) -> Floats:
    """Return an array of float32, with as many axes as may be, from either form."""
    if isinstance(value, list):
        stacked = bool(value and value[0] and isinstance(value[0][0], list))  # of several images
        rows = [row for image in value for row in image] if stacked else value
        width = len(rows[0]) if rows else 0
        if not width or any(len(row) != width for row in rows):
            raise invalid(f"{what} must be {layout}: rows of one length, none empty")
        if stacked and any(len(image) != len(value[0]) for image in value):
            raise invalid(f"{what} must be {layout}: as many rows for each image as for the first")
        with np.errstate(over="ignore"):  # infinity is refused where all numbers are checked
            return np.asarray(rows, dtype=np.float32).reshape((len(value), -1, width) if stacked else (-1, width))
    if len(value.shape) not in axes:
        raise invalid(f"{what} has the shape {value.shape}; expected {layout}")
    dtype = np.dtype(value.dtype).newbyteorder("<")
    # The text is looked at before it is decoded: a shape may claim anything.
    expected = math.prod(value.shape) * dtype.itemsize
    if (held := len(value.data) * 3 // 4) not in range(expected, expected + 3):
        raise invalid(f"{what} of shape {value.shape} needs {expected} bytes of {value.dtype}; data holds about {held}")
    data = decode_base64(value.data, what)
    if len(data) != expected:
        raise invalid(f"{what} of shape {value.shape} needs {expected} bytes of {value.dtype}; {len(data)} given")
    return np.frombuffer(data, dtype).astype(np.float32).reshape(value.shape)


def pack(x: Any, encoding: str) -> Any:
    """Return an array as nested numbers, or as base64 of float32 with its shape."""
    x = np.asarray(x)
    if encoding == "float":
        return x.tolist()
    return {"data": base64_floats(x), "dtype": "float32", "shape": list(x.shape)}


def base64_floats(x: Any) -> str:
    """Return base64 of little-endian float32."""
    return base64.b64encode(np.ascontiguousarray(x, "<f4").tobytes()).decode("ascii")

"""The constants and nodes of an ONNX file, read without the `onnx` package.

An ONNX file is a Protocol Buffers message; of its many kinds of fields, a graph of plain tensors needs four.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DTYPES = {1: np.float32, 3: np.int8, 7: np.int64}  # TensorProto.DataType


@dataclass(frozen=True)
class Node:
    """One operation: names of what goes in and comes out."""

    kind: str
    inputs: tuple[str, ...]
    output: str


def read_graph(path: Path) -> tuple[list[Node], dict[str, NDArray[Any]]]:
    """Return the nodes in order and the constants by name; ValueError if it is no such file."""
    data = memoryview(path.read_bytes())
    graph = next((value for number, value in _fields(data) if number == 7), None)
    if not isinstance(graph, memoryview):
        raise ValueError(f"{path} holds no graph")
    nodes, constants = [], {}
    for number, value in _fields(graph):
        if number == 1:
            nodes.append(_node(value))
        elif number == 5:
            name, array = _tensor(value)
            constants[name] = array
    return nodes, constants


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Number and value of each field: an integer, or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind} at byte {at}: not an ONNX file")
        yield number, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("the file ends within a number: not an ONNX file, or a torn one")


def _node(data: memoryview) -> Node:
    inputs, output, kind = [], "", ""
    for number, value in _fields(data):
        if number == 1:
            inputs.append(bytes(value).decode())
        elif number == 2:
            output = bytes(value).decode()
        elif number == 4:
            kind = bytes(value).decode()
    return Node(kind, tuple(inputs), output)


def _tensor(data: memoryview) -> tuple[str, NDArray[Any]]:
    shape, dtype, name, raw = [], 0, "", memoryview(b"")
    for number, value in _fields(data):
        if number == 1:  # one number, or several packed together
            at = 0
            while not isinstance(value, int) and at < len(value):
                size, at = _varint(value, at)
                shape.append(size)
            shape += [value] if isinstance(value, int) else []
        elif number == 2:
            dtype = value
        elif number == 8:
            name = bytes(value).decode()
        elif number == 9:
            raw = value
    if dtype not in _DTYPES:
        raise ValueError(f"the constant {name!r} is of ONNX's type {dtype}; expected one of {sorted(_DTYPES)}")
    return name, np.frombuffer(raw, _DTYPES[dtype]).reshape(shape)

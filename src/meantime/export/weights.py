"""Smaller files: weights stored as float16 or int8 and widened to float32 when the model is loaded.

Only storage changes. Activations stay float32: quantising those too can destroy a transformer's embeddings.
"""

from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from meantime.extras import optional

Weights = Literal["float32", "float16", "int8"]
WEIGHTS = get_args(Weights)
SMALL = 2**15  # elements; less stays float32: it saves little and rounds what is used everywhere
LIMIT = 2**31 - 2**20  # bytes of one protobuf file; weights beyond go into a file beside it


def shrink(model: Any, weights: Weights) -> Any:
    """The model with its large weights stored as asked; the same object."""
    if weights == "float32":
        return model
    onnx = optional("onnx", "export", "export")
    graph, kept, nodes = model.graph, [], []
    for tensor in graph.initializer:
        large = tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims) >= SMALL
        axis = output_axis(graph, tensor.name, len(tensor.dims)) if large else None
        if axis is None:
            kept.append(tensor)
            continue
        value = onnx.numpy_helper.to_array(tensor)
        stored = f"{tensor.name}_stored"
        if weights == "float16":
            kept.append(onnx.numpy_helper.from_array(value.astype(np.float16), stored))
            nodes.append(onnx.helper.make_node("Cast", [stored], [tensor.name], to=onnx.TensorProto.FLOAT))
        else:
            levels, scale = quantise(value, axis)
            kept.append(onnx.numpy_helper.from_array(levels, stored))
            kept.append(onnx.numpy_helper.from_array(scale, f"{tensor.name}_scale"))
            inputs = [stored, f"{tensor.name}_scale"]
            nodes.append(onnx.helper.make_node("DequantizeLinear", inputs, [tensor.name], axis=axis))
    nodes += graph.node
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(nodes)
    return model


def output_axis(graph: Any, name: str, ndim: int) -> int | None:
    """The axis of a weight that counts outputs, each of which gets a scale; None if it is no such weight."""
    for node in graph.node:
        if name not in node.input:
            continue
        place = list(node.input).index(name)
        if node.op_type == "Gather" and place == 0:
            return 0  # a table of embeddings: one scale a row
        if node.op_type == "MatMul" and place == 1:
            return ndim - 1
        if node.op_type == "Gemm" and place == 1:
            turned = any(a.name == "transB" and a.i for a in node.attribute)
            return 0 if turned else 1
        if node.op_type == "Conv" and place == 1:
            return 0
        if node.op_type == "Transpose":
            return 0  # a linear layer as PyTorch keeps it, (outputs, inputs)
    return None


def quantise(value: NDArray[np.float32], axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Symmetric int8 levels and the scale of each index of ``axis``."""
    others = tuple(i for i in range(value.ndim) if i != axis)
    scale = np.maximum(np.abs(value).max(others, keepdims=True) / 127, 1e-12)
    return np.rint(value / scale).astype(np.int8), scale.reshape(-1).astype(np.float32)


def save(model: Any, path: Path) -> None:
    """Write the file; what exceeds protobuf's 2 GB goes to a file beside it."""
    onnx = optional("onnx", "export", "export")
    big = model.ByteSize() > LIMIT
    onnx.save(model, path, save_as_external_data=big, location=f"{path.name}.data" if big else None)

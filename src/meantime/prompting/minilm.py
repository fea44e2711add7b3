"""MiniLM-L6, the text model of the embedded encoder, in PyTorch: there it can be differentiated.

Its weights are those of the package's own text.onnx, so nothing is downloaded and both give the same embeddings.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from meantime.errors import MeantimeError
from meantime.prompting.onnx_file import read_graph

_EPSILON = 1e-12  # of its layer norms


class MiniLM(nn.Module):
    """Tokens in, unit embeddings out: normalise(normalise(sum of the last hidden states) - mu)."""

    levels: Tensor  # (vocabulary, width) int8
    scales: Tensor  # (vocabulary, 1)
    places: Tensor  # (context length, width)
    centre: Tensor  # mu, (d,)

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            parts = _read(path)
        except (ValueError, KeyError, IndexError, StopIteration) as error:
            raise MeantimeError(
                f"{path} is not a text model that can be prompted: only the embedded encoder's own graph is known, "
                f"an exported one is not ({error}); load the encoder it was exported from"
            ) from error
        self.heads = int(parts.pop("heads"))
        self.layers = sum(key.startswith("qkv_weight") for key in parts)
        for name, value in parts.items():
            self.register_buffer(name, torch.from_numpy(np.array(value)))

    def embed(self, ids: Tensor) -> Tensor:
        """(…,) token ids -> (…, width): only the rows that are asked for leave int8."""
        rows: Tensor = self.levels[ids].to(self.scales.dtype) * self.scales[ids]
        return rows

    def forward(self, ids: Tensor, mask: Tensor, tokens: Tensor) -> Tensor:
        """Token embeddings (n, L, width) with their mask (n, L) -> (n, d)."""
        n, length, width = tokens.shape
        x = self._norm(tokens + self.places[:length], "start")
        visible = mask.to(x.dtype)
        hidden = ((1 - visible) * -1e9)[:, None, None]  # (n, 1, 1, L), added to the scores
        for i in range(self.layers):
            qkv = self._linear(x, f"qkv_{{}}_{i}").reshape(n, length, 3, self.heads, -1)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)  # the division by sqrt(32) is folded into the weights of q
            mixed = (q @ k.mT + hidden).softmax(-1) @ v
            mixed = mixed.transpose(1, 2).reshape(n, length, width)
            x = self._norm(self._linear(mixed, f"out_{{}}_{i}") + x, f"attention_{i}")
            wide = functional.gelu(self._linear(x, f"up_{{}}_{i}"))
            x = self._norm(self._linear(wide, f"down_{{}}_{i}") + x, f"layer_{i}")
        pooled = functional.normalize((x * visible[..., None]).sum(1), dim=-1)
        return functional.normalize(pooled - self.centre, dim=-1)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        weight, bias = getattr(self, name.format("weight")), getattr(self, name.format("bias"))
        return torch.addmm(bias, x.flatten(0, -2), weight).reshape(*x.shape[:-1], -1)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        scale, bias = getattr(self, f"{name}_scale"), getattr(self, f"{name}_shift")
        return functional.layer_norm(x, x.shape[-1:], scale, bias, _EPSILON)


def _read(path: Path) -> dict[str, Any]:
    """The weights by role: `scripts/build_embedded.py` writes the layers in the order in which they are computed."""
    nodes, constants = read_graph(path)
    if "input_ids" not in nodes[0].inputs:
        raise ValueError("it does not begin with tokens")
    weights = dict(constants)
    for node in nodes:
        if node.kind == "DequantizeLinear":
            levels, scale = (constants[name] for name in node.inputs[:2])
            weights[node.output] = levels * scale  # one scale for each column

    def inputs(kind: str) -> list[tuple[str, ...]]:
        return [node.inputs for node in nodes if node.kind == kind]

    sums = {pair[0]: pair[1] for pair in inputs("Add")}
    products = [(out.inputs[1], sums[out.output]) for out in nodes if out.kind == "MatMul" and out.inputs[1] in weights]
    (table, _), (scales, _) = inputs("Gather")[:2]
    parts: dict[str, Any] = {
        "levels": constants[table],
        "scales": constants[scales],
        "places": constants[inputs("Slice")[0][0]],
        "centre": constants[inputs("Sub")[-1][1]],
        "heads": next(shape[3] for _, name in inputs("Reshape") if len(shape := constants[name]) == 5),
    }
    for number, (weight, bias) in enumerate(products):
        layer, part = number // 4, ("qkv", "out", "up", "down")[number % 4]
        parts |= {f"{part}_weight_{layer}": weights[weight], f"{part}_bias_{layer}": constants[bias]}
    for number, (_, scale_, shift) in enumerate(inputs("LayerNormalization")):
        name = f"{('layer', 'attention')[number % 2]}_{(number - 1) // 2}" if number else "start"
        parts |= {f"{name}_scale": constants[scale_], f"{name}_shift": constants[shift]}
    return parts

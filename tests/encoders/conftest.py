"""A complete encoder directory, tiny: mean colours for pixels, sums of word vectors for texts."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = ["[PAD]", "a", "photo", "of", "cat", "dog", "red", "."]
SCALE = np.array([0.5, 0.25, 0.125, 1.0], np.float32)
LEVELS = np.array([[100, -50, 3, 1], [0, 127, -127, 2], [7, 8, 9, 3]], np.int8)
VECTORS = np.random.default_rng(0).standard_normal((len(WORDS), 4)).astype(np.float32)
CONFIG = {
    "format": 1,
    "description": "tiny",
    "dim": 4,
    "logit_scale": 7.5,
    "preprocess": {
        "size": 8,
        "resize": 10,
        "interpolation": "bilinear",
        "mean": [0.5, 0.5, 0.5],
        "std": [1, 1, 1],
    },
    "image": {"pixels": "x"},
    "text": {"ids": "ids", "mask": "mask", "context_length": 6, "padding": "longest", "pad_id": 0},
}


def save(path, nodes, inputs, constants):
    graph = helper.make_graph(
        nodes,
        "tiny",
        inputs,
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, path)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The directory."""
    node, info = helper.make_node, helper.make_tensor_value_info
    save(
        tmp_path / "image.onnx",
        [
            node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
            node("ReduceMean", ["f", "axes"], ["colour"], keepdims=0),
            node("DequantizeLinear", ["levels", "scale"], ["w"], axis=1),
            node("MatMul", ["colour", "w"], ["out"]),
        ],
        [info("x", TensorProto.UINT8, ["n", 8, 8, 3])],
        {"axes": np.array([1, 2]), "levels": LEVELS, "scale": SCALE},
    )
    save(
        tmp_path / "text.onnx",
        [
            node("Gather", ["vectors", "ids"], ["rows"]),
            node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
            node("Unsqueeze", ["m", "last"], ["m3"]),
            node("Mul", ["rows", "m3"], ["kept"]),
            node("ReduceSum", ["kept", "one"], ["out"], keepdims=0),
        ],
        [info(name, TensorProto.INT64, ["n", "length"]) for name in ("ids", "mask")],
        {"vectors": VECTORS, "last": np.array([2]), "one": np.array([1])},
    )
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[PAD]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr("meantime.encoders.cache._memory", {})

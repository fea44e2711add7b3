"""Any PyTorch encoder as a directory that ONNX Runtime runs: image.onnx, text.onnx, tokenizer.json, config.json.

The directory is checked against the original before anyone relies on it.
"""

import json
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from meantime.encoders import Encoder, OnnxEncoder, TorchEncoder, load_encoder
from meantime.encoders.base import Floats
from meantime.encoders.onnx import FORMAT
from meantime.encoders.torch_towers import PROBE
from meantime.errors import MeantimeError
from meantime.export.graphs import image_graph, text_graph
from meantime.export.weights import WEIGHTS, Weights, save, shrink

__all__ = ["WEIGHTS", "Check", "Weights", "export"]

SAMPLES = 6
# The least cosine to the original; less means that the export is wrong, not that it is rounded.
LEAST_COSINE = {"float32": 0.9999, "float16": 0.999, "int8": 0.95}
SENTENCES = ["a photo of a cat.", "", PROBE, "a blurry photo of the large red house by the sea. " * 9]


@dataclass(frozen=True)
class Check:
    """How far an export is from its original, over sample inputs: embeddings as unit vectors."""

    directory: Path
    image_difference: float  # the largest, of any coordinate
    text_difference: float
    least_cosine: float
    size_mb: float

    def __str__(self) -> str:
        return (
            f"{self.directory}: {self.size_mb:.1f} MB; largest difference to the original: images "
            f"{self.image_difference:.2g}, texts {self.text_difference:.2g}; least cosine {self.least_cosine:.6f}"
        )


def export(encoder: str | Encoder, directory: str | Path, *, weights: Weights = "float32") -> Check:
    """Write the encoder to a directory for ``load_encoder("onnx:DIR")`` and check it.

    ``weights``: how they are stored, ``"float32"``, ``"float16"`` or ``"int8"`` (one scale for each output; the
    arithmetic stays float32). Nothing is left behind if the export or its check fails.
    """
    if weights not in WEIGHTS:
        raise MeantimeError(f"weights cannot be stored as {weights!r}; known: {', '.join(WEIGHTS)}")
    target = Path(directory)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise MeantimeError(f"{str(directory)!r} exists and is not an empty directory; give another")
    original = load_encoder(encoder, device="cpu") if isinstance(encoder, str) else encoder
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as place:
        made = Path(place) / "encoder"
        made.mkdir()
        if isinstance(original, TorchEncoder):
            _write(original, made, weights)
        elif isinstance(original, OnnxEncoder) and weights == "float32":
            shutil.copytree(original.directory, made, dirs_exist_ok=True)
        else:
            raise MeantimeError(
                f"{original.name!r} cannot be exported as {weights}: expected an encoder that PyTorch runs, "
                "or float32 for one that is an ONNX directory already"
            )
        check = _check(original, made, target)
        if check.least_cosine < LEAST_COSINE[weights]:
            raise MeantimeError(f"the export differs from the original and was not kept: {check}")
        if target.is_dir():
            target.rmdir()
        made.rename(target)
    return check


def _write(encoder: TorchEncoder, directory: Path, weights: Weights) -> None:
    if encoder.device.type != "cpu" or encoder.precision != "fp32":
        raise MeantimeError(
            f"{encoder.name!r} is {encoder.precision} on {encoder.device}; load it with device='cpu', precision='fp32'"
        )
    texts = encoder.texts
    (directory / "tokenizer.json").write_text(texts.to_json(), encoding="utf-8")
    _, mask = texts.tokenize(["a"])
    save(shrink(image_graph(encoder), weights), directory / "image.onnx")
    save(shrink(text_graph(encoder, masked=mask is not None), weights), directory / "text.onnx")
    config = {
        "format": FORMAT,
        "description": f"{encoder.name}: {encoder.description}",
        "dim": encoder.dim,
        "logit_scale": encoder.logit_scale,
        "logit_bias": encoder.logit_bias,
        "preprocess": asdict(encoder.preprocess),
        "image": {"pixels": "pixels"},
        "text": {
            "ids": "input_ids",
            "mask": None if mask is None else "attention_mask",
            "context_length": texts.context_length,
            "padding": texts.padding,
            "pad_id": texts.pad_id,
        },
        "weights": weights,
        "source": encoder.identity,
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _check(original: Encoder, made: Path, target: Path) -> Check:
    """Compare on smooth random pictures and on texts that are short, empty, odd and too long."""
    copy = OnnxEncoder(made)
    size = original.preprocess.size
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (SAMPLES, -(-size // 8), -(-size // 8), 3), np.uint8)
    pixels = coarse.repeat(8, axis=1).repeat(8, axis=2)[:, :size, :size]

    def unit(x: Floats) -> Floats:
        return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))

    pairs = [
        (unit(original.encode_images(pixels)), unit(copy.encode_images(pixels))),
        (unit(original.encode_texts(SENTENCES)), unit(copy.encode_texts(SENTENCES))),
    ]
    differences = [float(np.abs(a - b).max()) for a, b in pairs]
    cosine = min(float((a * b).sum(axis=1).min()) for a, b in pairs)
    megabytes = sum(path.stat().st_size for path in made.iterdir()) / 1e6
    return Check(target, differences[0], differences[1], cosine, megabytes)

"""Milliseconds a view: PyTorch eager, ONNX Runtime in float32 and with int8 weights, side by side in one run.

    python benchmarks/encoders.py [--views 16] [--rounds 3] [--models ViT-B/32,ViT-B/16]

The weights are random, which suffices for time. Needs the extras `transformers` and `export`.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from rich.console import Console
from rich.table import Table
from timing import race
from tokenizers import Tokenizer, models

import meantime as mt
from meantime.export import export

PATCH = {"ViT-B/32": 32, "ViT-B/16": 16}


def random_clip(patch: int) -> mt.Encoder:
    """CLIP of that patch size; its text tower is a stump, for only views are timed."""
    torch.manual_seed(0)
    words = {"num_hidden_layers": 1, "vocab_size": 8, "eos_token_id": 3, "bos_token_id": 1, "pad_token_id": 0}
    config = transformers.CLIPConfig(text_config=words, vision_config={"patch_size": patch})
    fast = Tokenizer(models.WordLevel({"a": 4, "<unk>": 5}, unk_token="<unk>"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="<unk>", unk_token="<unk>")
    processor = transformers.CLIPImageProcessor()
    return mt.load_encoder(transformers.CLIPModel(config), processor, tokenizer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default=",".join(PATCH))
    arguments = parser.parse_args()
    pixels = np.random.default_rng(0).integers(0, 256, (arguments.views, 224, 224, 3), np.uint8)
    console = Console()
    for name in arguments.models.split(","):
        table = Table(title=f"{name}, {arguments.views} views, {torch.get_num_threads()} threads, random weights")
        for column in ("runs in", "ms a view", "of PyTorch", "image.onnx, MB"):
            table.add_column(column, justify="left" if column == "runs in" else "right")
        with tempfile.TemporaryDirectory() as place:
            encoders = {"PyTorch eager": random_clip(PATCH[name])}
            for weights in ("float32", "int8"):
                export(encoders["PyTorch eager"], Path(place) / weights, weights=weights)
                encoders[f"ONNX Runtime, {weights} weights"] = mt.load_encoder(f"onnx:{place}/{weights}")
            seconds = race({k: lambda e=e: e.encode_images(pixels) for k, e in encoders.items()}, arguments.rounds)
            for kind, encoder in encoders.items():
                file = Path(getattr(encoder, "directory", "")) / "image.onnx"
                size = f"{file.stat().st_size / 1e6:.0f}" if file.is_file() else ""
                ratio = seconds[kind] / seconds["PyTorch eager"]
                table.add_row(kind, f"{1e3 * seconds[kind] / arguments.views:.1f}", f"{ratio:.2f}", size)
        console.print(table)


if __name__ == "__main__":
    main()

"""What a run leaves behind of every method on every store: predictions, and metrics as CLIP_benchmark writes them."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meantime.bench.metrics import measure
from meantime.bench.predictions import PredictionFile, Predictions, prediction_file
from meantime.store import Store

# Datasets that CLIP_benchmark knows by another name, where its test images are the paper's
THEIR_NAMES = {
    "imagenet": "imagenet1k",
    "imagenet-v2": "imagenetv2",
    "imagenet-sketch": "imagenet_sketch",
    "aircraft": "fgvc_aircraft",
}


class Recorder:
    """Takes predictions, measures them, keeps both on disk."""

    def __init__(self, file: PredictionFile, folder: Path) -> None:
        self._file, self._folder = file, folder

    def add(self, p: Predictions, store: Store) -> dict[str, float]:
        """Write one method's predictions and metrics; return the metrics."""
        self._file.add(p)
        metrics = measure(p)
        record = as_record(p, metrics, len(store.class_names))
        self._folder.mkdir(parents=True, exist_ok=True)
        parts = (record["dataset"], record["pretrained"], record["model"], "en", record["task"], p.method, str(p.seed))
        name = "_".join(re.sub(r"[^\w.+@-]+", "-", part).strip("-") for part in parts)
        (self._folder / f"benchmark_{name}.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
        return metrics


@contextmanager
def recorder(out: Path, name: str) -> Iterator[Recorder]:
    """A recorder whose predictions become ``out/name.parquet``."""
    with prediction_file(out / f"{name}.parquet") as file:
        yield Recorder(file, out / "clip_benchmark")


def as_record(p: Predictions, metrics: dict[str, float], n_classes: int) -> dict[str, Any]:
    """The record that `clip_benchmark build` reads: shares instead of per cent, top-5 from five classes on."""
    prefix, colon, rest = p.encoder.partition(":")
    untagged = "meantime" if p.encoder == "embedded" else "imported"
    model, pretrained = (rest, prefix) if prefix in ("hf", "onnx") else (prefix, rest if colon else untagged)
    return {
        "dataset": THEIR_NAMES.get(p.dataset, p.dataset),
        "model": model,
        "pretrained": pretrained,
        "task": "zeroshot_classification",
        "metrics": {
            "acc1": metrics["top1"] / 100,
            "acc5": metrics["top5"] / 100 if n_classes >= 5 else None,
            "mean_per_class_recall": metrics["mean_per_class"] / 100,
            "ece": metrics["ece"] / 100,
        },
        "language": "en",
        "method": p.method,
        "seed": p.seed,
    }

"""Anytime views: accuracy against the views used, for every level of the rule, beside fixed numbers of views.

    python benchmarks/anytime.py STORE [STORE …] [--method mta] [--level 0.99]
    python benchmarks/anytime.py --photos DIR [--seeds 3] [--labels imagenet]
    python benchmarks/anytime.py views.npz [views.npz …] [--scale 100]

A store is what `meantime encode` writes; several stores (or seeds) of one dataset are averaged image by image. An
.npz holds views (M, N, d), labels (M,) and text_single or classes (K, d). The interval is a paired bootstrap over
images, 95 %, of the accuracy minus that of all views.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import meantime as mt
from meantime import pipeline
from meantime.anytime import LEVEL, anytime, groups
from meantime.evaluation import Score, labelled_images
from meantime.heads import Head, TextHead, make_heads
from meantime.registry import method_named
from meantime.store import open_store

LEVELS = (0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9999)


@dataclass(frozen=True)
class Run:
    """The views of a dataset for one seed. Equal names of classes are one class."""

    views: np.ndarray  # (M, N, d)
    labels: np.ndarray  # (M,)
    heads: dict[str, Head]
    classes: np.ndarray  # (K,): the number of each class's name


def numbers(names: list[str]) -> np.ndarray:
    return np.unique([name.replace("_", " ") for name in names], return_inverse=True)[1]


def of_file(path: str, scale: float) -> Run:
    if not path.endswith(".npz"):
        store = open_store(path)
        batches = list(store.batches(256))
        heads = {"text": TextHead(store.texts.single, store.logit_scale)}
        views = np.concatenate([b.views for b in batches])
        names, labels = numbers(list(store.class_names)), store.labels
    else:
        data = np.load(path)
        classes = data["text_single"] if "text_single" in data else data["classes"]
        heads, views, labels = {"text": TextHead(classes, scale)}, data["views"], data["labels"]
        names = numbers(data["names"].tolist()) if "names" in data else np.arange(len(classes))
    views = views.astype(np.float32)
    return Run(views / np.linalg.norm(views, axis=-1, keepdims=True), labels, heads, names)


def of_photos(folder: Path, labels: str, seeds: int, wanted: set[str]) -> list[Run]:
    clf, pairs = mt.Classifier(labels), labelled_images(folder)
    heads = dict(make_heads(clf.encoder, clf.labels, wanted))
    names = [name.replace("_", " ") for name in clf.labels.names]
    truth = np.array([names.index(name.replace("_", " ")) for _, name in pairs])
    runs = []
    for seed in range(seeds):
        encoded = pipeline.encode([path for path, _ in pairs], clf.encoder, clf.spec, seed=seed)
        runs.append(Run(np.stack([e.embeddings for e in encoded]), truth, heads, numbers(names)))
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="stores or .npz files")
    parser.add_argument("--photos", type=Path, help="a labelled folder, encoded by the embedded encoder")
    parser.add_argument("--labels", default="imagenet")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--method", default="mta")
    parser.add_argument("--scale", type=float, default=100.0, help="logit scale of .npz files")
    parser.add_argument("--level", type=float, help="only this level")
    a = parser.parse_args()
    method = method_named(a.method)
    runs = of_photos(a.photos, a.labels, a.seeds, method.heads) if a.photos else [of_file(f, a.scale) for f in a.files]

    def score(name: str, logits: list[np.ndarray], used: list[np.ndarray]) -> Score:
        hits = [r.classes[x.argmax(-1)] == r.classes[r.labels] for r, x in zip(runs, logits, strict=True)]
        return Score(name, np.array(hits), np.array(hits), np.ones(np.shape(hits)), np.array(used))

    m, n = runs[0].views.shape[:2]
    fixed = {}
    for size in groups(n):
        logits = [np.asarray(method(r.views[:, :size], r.heads).logits) for r in runs]
        fixed[size] = score(f"{size} views", logits, [np.full(m, size)] * len(runs))
    grown = []
    for level in [a.level] if a.level else LEVELS:
        answers = [anytime(r.views, method, r.heads, level=level) for r in runs]
        name = f"auto, level {level}" + (" (the rule's)" if level == LEVEL else "")
        grown.append(score(name, [x.logits for x in answers], [x.n_views for x in answers]))
    table = Table(title=f"{a.method}: {m} images x {len(runs)} runs", title_justify="left", box=None)
    for column in ("", "views", "fewer", "accuracy", f"minus {n} views, 95 % interval", "right or wrong otherwise"):
        table.add_column(column, justify="right" if column else "left")
    for s in [*fixed.values(), *grown]:
        mean, low, high = s.minus(fixed[n])
        changed = int((s.hits != fixed[n].hits).sum())
        used = float(s.n_views.mean())
        cells = (f"{used:.1f}", f"{n / used:.1f} x", f"{s.top1[0]:.2f}", f"{mean:+.2f} ({low:+.2f} to {high:+.2f})")
        table.add_row(s.method, *cells, str(changed))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

"""What a prompt tuned on each image costs beside MTA: time and peak memory from stored features.

    python benchmarks/tpt.py [K ...]
    python benchmarks/tpt.py STORE     # photos that `meantime encode` has encoded: accuracy too

Both get the same 64 unit embeddings of each image; what differs is what follows. MTA iterates on them. TPT runs the
text tower (here MiniLM-L6, the embedded encoder's, 6 layers of width 384; CLIP's has 12 of width 512) backwards and
forwards over every class name. The classes go through it in pieces, of which one is held at a time. All ratios come
from this one run.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import meantime as mt
from meantime.bench.isolated import peak
from meantime.encoders import cached_texts
from meantime.heads.tpt import TPTHead
from meantime.labels import fill, imagenet_names
from meantime.prompting import prompter
from meantime.store import open_store

N = 64
IMAGES = {10: 16, 100: 4, 1000: 1}  # at once: as many as take TPT a few seconds


class Work(NamedTuple):
    """Images as unit views (B, N, d) before K names; with labels where they are photos."""

    views: np.ndarray
    names: Sequence[str]
    classes: np.ndarray
    labels: np.ndarray | None = None


def work(what: str) -> Work:
    """K names with views that lie about some of them, more or less far; or every fourth photo of a store."""
    if not what.isdecimal():
        store = open_store(what)
        batch = next(store.batches(len(store)))
        return Work(batch.views[::4], store.class_names, store.texts.single, batch.labels[::4])
    k = int(what)
    names = imagenet_names()[:k]
    classes = cached_texts(mt.load_encoder("embedded"), [fill("a photo of a {}.", name) for name in names])
    rng = np.random.default_rng(0)
    count = IMAGES.get(k, 1)

    def noise(*shape: int) -> np.ndarray:
        x = rng.standard_normal((*shape, classes.shape[1]), np.float32)
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    image = classes[rng.integers(k, size=count)] + noise(count)
    views = image[:, None] + rng.uniform(0.3, 1.5, (count, N, 1)).astype(np.float32) * noise(count, N)
    return Work(views / np.linalg.norm(views, axis=-1, keepdims=True), names, classes)


def contender(name: str, task: Work) -> tuple[Callable[[], np.ndarray], dict[str, float]]:
    """The work on the images, and what is to be said of it; all that the work needs is made here."""
    scale = mt.load_encoder("embedded").logit_scale
    if name == "mta":
        head = mt.TextHead(task.classes, scale)
        return lambda: mt.mta(task.views, head).logits, {}
    prompts = prompter(mt.load_encoder("embedded"), task.names)
    tuned = TPTHead(prompts, scale)
    k = len(task.names)
    facts = {"piece": min(k, prompts.piece), "whole": k * prompts.graph_bytes(len(prompts.initial)) / 2**20}
    return lambda: tuned.adapt(task.views)(task.views[:, 0]), facts


def alone(name: str, what: str) -> None:
    """In a process of its own, whose peak is nobody else's: seconds for an image, and the growth of the peak."""
    task = work(what)
    before = peak()
    run, facts = contender(name, task)
    logits = run()
    grew = peak() - before
    if task.labels is not None:
        facts["accuracy"] = 100 * float((logits.argmax(axis=-1) == task.labels).mean())
        plain = mt.TextHead(task.classes)(task.views[:, 0])
        facts["plain"] = 100 * float((plain.argmax(axis=-1) == task.labels).mean())
    repeat = 20 if name == "mta" else 1
    start = time.perf_counter()
    for _ in range(repeat):
        run()
    seconds = (time.perf_counter() - start) / repeat / len(task.views)
    sizes = {"k": len(task.names), "images": len(task.views)}
    print(json.dumps({"seconds": seconds, "peak": grew, **sizes, **facts}))


def main(tasks: list[str]) -> None:
    console = Console()
    title = f"After encoding: N = {N}, the embedded encoder's text tower"
    table = Table(title=title, caption="peak: growth of the process over the stored features, its text tower included")
    for column in (
        "K",
        "images",
        "MTA, ms an image",
        "TPT, ms an image",
        "TPT / MTA",
        "MTA, peak MiB",
        "TPT, peak MiB",
    ):
        table.add_column(column, justify="right")
    pieces = []
    for what in tasks:
        rounds: dict[str, list[dict[str, float]]] = {"mta": [], "tpt": []}
        for _ in range(3 if what in ("10", "100") else 1):
            for name, results in rounds.items():  # side by side: both see the same machine
                command = [sys.executable, __file__, "--alone", name, what]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                results.append(json.loads(done.stdout.splitlines()[-1]))
        mta, tpt = (
            {key: float(np.median([result[key] for result in results])) for key in results[0]}
            for results in rounds.values()
        )
        table.add_row(
            f"{mta['k']:.0f}",
            f"{mta['images']:.0f}",
            f"{1e3 * mta['seconds']:.2f}",
            f"{1e3 * tpt['seconds']:.0f}",
            f"{tpt['seconds'] / mta['seconds']:.0f}",
            f"{mta['peak']:.0f}",
            f"{tpt['peak']:.0f}",
        )
        graph = f"{tpt['piece']:.0f} prompts at a time; the whole graph would take {tpt['whole']:.0f} MiB"
        pieces.append(f"K = {mta['k']:.0f}: {graph}")
        if "accuracy" in mta:
            right = {"plain": mta["plain"], "MTA": mta["accuracy"], "TPT": tpt["accuracy"]}
            pieces.append("right: " + ", ".join(f"{system} {share:.2f} %" for system, share in right.items()))
    console.print(table)
    for line in pieces:
        console.print(line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="TPT against MTA from stored features")
    parser.add_argument("tasks", nargs="*", default=["10", "100", "1000"], metavar="K|STORE")
    parser.add_argument("--alone", metavar="METHOD", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        alone(arguments.alone, *arguments.tasks)
    else:
        main(arguments.tasks)

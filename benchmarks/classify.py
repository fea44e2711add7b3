"""What `classify` costs beside the bare encoder: decode, crop, encode and solve, stage by stage.

    python benchmarks/classify.py [--data DIR] [--images 30]

Without a folder of photos it uses generated pictures of 500 x 375. All ratios come from this one run.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table
from timing import race

import meantime as mt
from meantime.images import find_images, load_image
from meantime.labels import imagenet_names
from meantime.views import make_views

console = Console()


def pictures(folder: Path, count: int) -> list[Path]:
    """Smooth random pictures, about as hard to decode as photographs."""
    rng = np.random.default_rng(0)
    paths = []
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (30, 40, 3), np.uint8))
        paths.append(folder / f"{i}.jpg")
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(paths[-1], quality=92)
    return paths


def stages(paths: list[Path], clf: mt.Classifier) -> None:
    encoder, spec = clf.encoder, clf.spec

    def stage(work, items):
        start = time.perf_counter()
        results = [work(item) for item in items]
        return results, time.perf_counter() - start

    encoder.encode_images(np.zeros((16, encoder.preprocess.size, encoder.preprocess.size, 3), np.uint8))  # warm up
    images, decode = stage(load_image, paths)
    views, crop = stage(lambda image: make_views(image, spec, encoder.preprocess), images)
    embeddings, encode = stage(lambda v: encoder.encode_images(v.pixels), views)
    stacked = np.stack(embeddings)
    _, solve = stage(lambda i: clf.method(stacked[i : i + 8], clf.heads), range(0, len(stacked), 8))
    table = Table(
        title=f"{len(paths)} images, {spec.n} views, {len(clf.labels.names)} names: one stage after the other"
    )
    for column in ("stage", "ms an image", "of the encoder"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for name, seconds in (("decode", decode), ("crop", crop), ("encode", encode), ("solve", solve)):
        table.add_row(name, f"{1e3 * seconds / len(paths):.1f}", f"{seconds / encode:.3f}")
    console.print(table)
    pixels = [v.pixels for v in views]
    t = race(
        {
            "bare encoder": lambda: [encoder.encode_images(p) for p in pixels],
            "classify": lambda: list(clf.stream(paths)),
        },
        rounds=2,
    )
    console.print(f"The whole of classify: {t['classify'] / t['bare encoder']:.2f} times the bare encoder\n")


def growth(paths: list[Path]) -> None:
    few = paths[:6]
    classifiers = {n: mt.Classifier(imagenet_names(), views=n) for n in (8, 16, 32, 64)}
    t = race({str(n): lambda c=c: list(c.stream(few)) for n, c in classifiers.items()}, rounds=2)
    console.print(
        "Milliseconds a view: " + ", ".join(f"{1e3 * s / len(few) / int(n):.2f} at {n} views" for n, s in t.items())
    )
    clf = mt.Classifier(imagenet_names(), views=4)
    peaks = []
    for count in (100, 400):
        for _ in clf.stream(paths[i % len(paths)] for i in range(count)):
            pass
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
    console.print(f"Peak memory after 100 images: {peaks[0]} MiB; after 400 more: {peaks[1]} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder of photos")
    parser.add_argument("--images", type=int, default=30, help="the first few of them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        found = list(find_images([arguments.data])) if arguments.data else pictures(Path(made), arguments.images)
        chosen = found[: arguments.images]
        stages(chosen, mt.Classifier(imagenet_names()))
        growth(chosen)

"""What `classify` costs beside the bare encoder: decode, crop, encode and solve, stage by stage, and how cost grows.

    python benchmarks/classify.py [--data DIR] [--images 30] [--rounds 3] [--no-growth]

Without a folder of photos it uses generated pictures of 500 x 375. All ratios come from this one run. "Bare" is
ONNX Runtime as it comes, on ready pixels in batches of 16: its own choice of threads, nothing before, nothing after.
Seconds of the clock need a machine that does nothing else; seconds of the processor suffer less from its other work.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
from PIL import Image
from rich.console import Console
from rich.table import Table
from timing import race

import meantime as mt
from meantime.answers import answers
from meantime.cores import available_cores
from meantime.encoders import OnnxEncoder
from meantime.images import find_images, load_image
from meantime.labels import imagenet_names
from meantime.views import make_views

console = Console(width=100)


def pictures(folder: Path, count: int) -> list[Path]:
    """Smooth random pictures, about as hard to decode as photographs."""
    rng = np.random.default_rng(0)
    paths = []
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (30, 40, 3), np.uint8))
        paths.append(folder / f"{i}.jpg")
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(paths[-1], quality=92)
    return paths


def bare_session(encoder: OnnxEncoder):
    """ONNX Runtime as it comes, but for folding the int8 weights: the encoder without anything of ours."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = ort.InferenceSession(encoder.directory / "image.onnx", options, providers=["CPUExecutionProvider"])
    (pixels,) = (node.name for node in session.get_inputs())
    return lambda views: [session.run(None, {pixels: views[i : i + 16]}) for i in range(0, len(views), 16)]


def stages(paths: list[Path], clf: mt.Classifier, rounds: int) -> None:
    single, spec = OnnxEncoder(clf.encoder.directory, threads=1), clf.spec

    def stage(work, items):
        start = time.process_time()
        results = [work(item) for item in items]
        return results, time.process_time() - start

    single.encode_images(np.zeros((4, single.preprocess.size, single.preprocess.size, 3), np.uint8))  # warm up
    images, decode = stage(load_image, paths)
    views, crop = stage(lambda image: make_views(image, spec, single.preprocess), images)
    embeddings, encode = stage(lambda v: single.encode_images(v.pixels), views)
    stacked = np.stack(embeddings)
    answers(stacked[:8], clf.method, clf.heads)  # warm up
    _, solve = stage(lambda i: answers(stacked[i : i + 8], clf.method, clf.heads), range(0, len(stacked), 8))
    table = Table(title=f"{len(paths)} images, {spec.n} views, {len(clf.labels.names)} names: processor time")
    for column in ("stage", "ms an image", "of the encoder"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for name, seconds in (("decode", decode), ("crop", crop), ("encode", encode), ("solve", solve)):
        table.add_row(name, f"{1e3 * seconds / len(paths):.1f}", f"{seconds / encode:.3f}")
    console.print(table)

    pixels, bare = [v.pixels for v in views], bare_session(clf.encoder)
    contenders = {
        "bare": lambda: [bare(p) for p in pixels],
        "encoder": lambda: [clf.encoder.encode_images(p) for p in pixels],
        "classify": lambda: list(clf.stream(paths)),
    }
    clock = race(contenders, rounds)
    work = processor(contenders)
    console.print(f"Milliseconds a view, bare session: {1e3 * clock['bare'] / len(paths) / spec.n:.2f}")
    for name in ("encoder", "classify"):
        console.print(
            f"{name:8s} against the bare session: {clock[name] / clock['bare']:.2f} of the clock, "
            f"{work[name] / work['bare']:.2f} of the processor; "
            f"against our encoder: {clock[name] / clock['encoder']:.2f} and {work[name] / work['encoder']:.2f}"
        )


def processor(contenders) -> dict[str, float]:
    seconds = {}
    for name, run in contenders.items():
        time.sleep(0.1)  # threads that still spin belong to the one before
        start = time.process_time()
        run()
        seconds[name] = time.process_time() - start
    return seconds


def growth(paths: list[Path], rounds: int) -> None:
    few, names = paths[:6], imagenet_names()

    def line(what: str, classifiers: dict[str, mt.Classifier]) -> None:
        t = race({key: lambda c=c: list(c.stream(few)) for key, c in classifiers.items()}, rounds)
        console.print(f"ms an image by {what}: " + ", ".join(f"{1e3 * s / len(few):.0f} at {k}" for k, s in t.items()))

    line("views", {str(n): mt.Classifier(names, views=n) for n in (8, 16, 32, 64)})
    line("names", {str(k): mt.Classifier([f"thing {i}" for i in range(k)]) for k in (10, 100, 1000, 10_000)})
    directory = mt.load_encoder("embedded").directory
    counts = [n for n in (1, 2, 4, 8, 16, 32) if n <= available_cores()]
    line("threads", {str(n): mt.Classifier(names, OnnxEncoder(directory, threads=n)) for n in counts})
    line("auto views", {"auto": mt.Classifier(names, views="auto"), "64": mt.Classifier(names)})
    clf = mt.Classifier(names, views=4)
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-growth", action="store_true", help="only the stages and the whole")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        found = list(find_images([arguments.data])) if arguments.data else pictures(Path(made), arguments.images)
        chosen = found[: arguments.images]
        stages(chosen, mt.Classifier(imagenet_names()), arguments.rounds)
        if not arguments.no_growth:
            growth(chosen, arguments.rounds)

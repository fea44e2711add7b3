"""Ray beside the local engine: fixed overhead and throughput apart, the driver's memory, the first result.

    python benchmarks/ray_engine.py [--images 48] [--views 16] [--rounds 2] [--many 1000 50000]

Every timed run is a process of its own, on generated pictures with the embedded encoder. The time of a run is taken
as overhead + images / throughput, which two sizes tell apart. The engines take turns, and only their ratios count.
Ray's workers share the cores that the local engine has to itself.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

console = Console()

RUN = """
import json, resource, sys, time
start = time.perf_counter()
from meantime import ViewSpec
from meantime.datasets import Dataset
from meantime.datasets.base import Samples
from meantime.encoders import load_encoder
from meantime.engines import RayEngine
from meantime.images import find_images
from meantime.store.encode import encode_dataset

folder, out, count, views, workers, shard = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
found = list(find_images(folder))
sources = [found[i % len(found)] for i in range(count)]
data = Dataset("benchmark", ("image",), Samples(sources, [0] * count, [f"{i}.jpg" for i in range(count)]))
first = []
engine = RayEngine(workers=workers) if workers else None
store = encode_dataset(data, out, load_encoder("embedded"), ViewSpec(n=views), shard_size=shard, engine=engine,
                       progress=lambda *_: first or first.append(time.perf_counter() - start))
print(json.dumps({"seconds": time.perf_counter() - start, "first": first[0], "images": len(store),
                  "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def pictures(folder: Path, count: int, size: tuple[int, int]) -> Path:
    rng = np.random.default_rng(0)
    folder.mkdir()
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (15, 20, 3), np.uint8))
        coarse.resize(size, Image.Resampling.BICUBIC).save(folder / f"{i}.jpg", quality=92)
    return folder


def run(folder: Path, count: int, views: int, workers: int, shard: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as out:
        arguments = [str(folder), f"{out}/store", count, views, workers, shard]
        command = [sys.executable, "-c", RUN, *map(str, arguments)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, float] = json.loads(answer.splitlines()[-1])
    assert result["images"] == count
    return result


def throughput(folder: Path, images: int, views: int, rounds: int) -> None:
    kinds = {"local": 0, "Ray, 1 worker": 1, "Ray, 2 workers": 2}
    sizes = (images, 4 * images)
    runs: dict[tuple[str, int], list[dict[str, float]]] = {(kind, size): [] for kind in kinds for size in sizes}
    for _ in range(rounds):
        for (kind, size), results in runs.items():
            results.append(run(folder, size, views, kinds[kind], shard=max(1, images // 8)))
    table = Table(title=f"{sizes[0]} and {sizes[1]} images, {views} views: median of {rounds} rounds")
    for column in ("engine", "overhead, s", "images/s", "efficiency", "first result, s"):
        table.add_column(column, justify="left" if column == "engine" else "right")
    rates: dict[str, float] = {}
    for kind in kinds:
        small, large = (median(r["seconds"] for r in runs[kind, size]) for size in sizes)
        rates[kind] = (sizes[1] - sizes[0]) / (large - small)
        overhead = small - sizes[0] / rates[kind]
        first = median(r["first"] for r in runs[kind, sizes[0]])
        efficiency = rates[kind] / rates["local"]
        table.add_row(kind, f"{overhead:.1f}", f"{rates[kind]:.2f}", f"{efficiency:.2f}", f"{first:.1f}")
    console.print(table)


def memory(folder: Path, counts: list[int]) -> None:
    table = Table(title="Peak memory of the driver, one view of tiny images, Ray with 2 workers")
    for column in ("images", "MiB", "seconds"):
        table.add_column(column, justify="right")
    for count in counts:
        result = run(folder, count, 1, 2, 256)
        table.add_row(f"{count:,}", f"{result['memory']:.0f}", f"{result['seconds']:.0f}")
    console.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=48, help="of the smaller of the two sizes")
    parser.add_argument("--views", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--many", type=int, nargs="*", default=[1000, 50000], help="images for the driver's memory")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        throughput(pictures(Path(made) / "photos", 24, (500, 375)), chosen.images, chosen.views, chosen.rounds)
        memory(pictures(Path(made) / "tiny", 24, (32, 32)), chosen.many)

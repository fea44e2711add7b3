"""How fast the solver is: against the released program's structure, and against the bare matrix products.

    python benchmarks/solver.py

All ratios come from this one run; absolute times depend on the machine.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from authors_mta import solve_one
from rich.console import Console
from rich.table import Table
from timing import race

import meantime as mt
from meantime.meanshift.fast import compiled

N, D, K, BATCH = 64, 512, 1000, 64
LAMBDAS = (0, 0.5, 1, 2, 4, 8, 16)
LAMBDA_YS = (0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 10, 100)
GRID = [(a, b) for a in LAMBDAS for b in LAMBDA_YS] + [(0, float("inf"))]  # Table 7: 71 cells

console = Console()


def embeddings(images: int, n: int = N, k: int = K, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Views and classes like CLIP's: all classes alike, views more or less far from their image.

    The cosines (0.7 between classes, 0.5-0.9 between views, 0.2-0.3 between the two) leave predictions
    open, so that the loops run about as long as on photographs.
    """
    rng = np.random.default_rng(seed)

    def noise(*shape: int) -> np.ndarray:
        x = rng.standard_normal(shape).astype(np.float32)
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    classes = noise(D) + 0.65 * noise(k, D)
    image = noise(D) + 0.3 * classes[rng.integers(k, size=images)] + 0.5 * noise(images, D)
    spread = rng.uniform(0.3, 1.0, (images, n, 1)).astype(np.float32)
    return image[:, None] + spread * noise(images, n, D), classes


def floor_numpy(views: np.ndarray, classes: np.ndarray) -> None:
    logits = 100.0 * views @ classes.T
    s = np.exp(logits - logits.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    views @ views.swapaxes(-1, -2)
    s @ s.swapaxes(-1, -2)


def floor_torch(views: torch.Tensor, classes: torch.Tensor) -> None:
    s = (100.0 * views @ classes.T).softmax(-1)
    views @ views.mT
    s @ s.mT


def against_baselines() -> None:
    views, classes = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in embeddings(BATCH))
    tviews, tclasses = torch.from_numpy(views), torch.from_numpy(classes)
    one, tone = views[0], tviews[0]
    t = race(
        {
            "released structure": lambda: [solve_one(v, tclasses) for v in tviews],
            "floor numpy": lambda: floor_numpy(views, classes),
            "floor torch": lambda: floor_torch(tviews, tclasses),
            "mta numpy": lambda: mt.mta(views, classes),
            "mta torch": lambda: mt.mta(tviews, tclasses),
        }
    )
    t |= race(
        {
            "one released": lambda: solve_one(tone, tclasses),
            "one numpy": lambda: mt.mta(one, classes),
            "one torch": lambda: mt.mta(tone, tclasses),
        },
        repeat=20,
    )
    install = "with the extra fast" if compiled() else "default install"
    table = Table(title=f"MTA, N = {N}, d = {D}, K = {K}, float32, {BATCH} images at once: {install}")
    for column in ("", "ms an image", "faster than the released structure", "times the floor"):
        table.add_column(column, justify="right" if column else "left")
    for name, floor in (("numpy", "floor numpy"), ("torch", "floor torch")):
        mine = t[f"mta {name}"]
        table.add_row(
            f"batch, {name}",
            f"{1e3 * mine / BATCH:.2f}",
            f"{t['released structure'] / mine:.1f}",
            f"{mine / t[floor]:.2f}",
        )
        single = t[f"one {name}"]
        table.add_row(f"one image, {name}", f"{1e3 * single:.2f}", f"{t['one released'] / single:.1f}", "")
    console.print(table)


def grid() -> None:
    views, classes = embeddings(BATCH)
    lambdas, lambda_ys = zip(*GRID, strict=True)
    t = race(
        {
            "one": lambda: mt.mta(views, classes),
            "grid": lambda: mt.mta(views, classes, lambda_=lambdas, lambda_y=lambda_ys),
        },
        rounds=3,
    )
    console.print(f"The {len(GRID)} settings of Table 7 side by side: {t['grid'] / t['one']:.1f} times one setting\n")


def growth() -> None:
    sizes = {f"N = {n}": embeddings(16, n=n) for n in (16, 32, 64, 128, 256)}
    sizes |= {f"K = {k}": embeddings(16, k=k) for k in (10, 100, 1000, 5000, 20_000)}
    sizes |= {f"{b} images": embeddings(b) for b in (16, 64, 256)}
    t = race({name: lambda a=arrays: mt.mta(*a) for name, arrays in sizes.items()}, rounds=3)
    table = Table(title="How time grows (NumPy; 16 images, N = 64, K = 1000 unless said)")
    table.add_column("")
    table.add_column("ms an image", justify="right")
    for name, seconds in t.items():
        table.add_row(name, f"{1e3 * seconds / sizes[name][0].shape[0]:.2f}")
    console.print(table)


MEMORY = """
import sys
import numpy as np, meantime as mt
from meantime.bench.isolated import peak
rng = np.random.default_rng(0)
views = np.empty((int(sys.argv[1]), 64, 64), np.float16)
for image in views:  # one by one: a large array in between would be the peak
    image[:] = rng.standard_normal((64, 64), np.float32)
classes = rng.standard_normal((1000, 64), np.float32)
mt.mta(views[:100], classes)
before = peak()
mt.mta(views, classes)
print(views.nbytes >> 20, round(peak() - before))
"""


def memory() -> None:
    for count in (5_000, 20_000):  # each in a process of its own, whose peak is nobody else's
        run = subprocess.run([sys.executable, "-c", MEMORY, str(count)], capture_output=True, text=True, check=True)
        given, grew = run.stdout.split()
        results = count * (1000 + 64 + 64) * 4 >> 20
        console.print(f"{count:,} images, {given} MiB of views: peak memory grew by {grew} MiB; results take {results}")


WITHOUT_NUMBA = "import sys; sys.modules['numba'] = None; import solver; solver.against_baselines()"


if __name__ == "__main__":
    against_baselines()
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], cwd=Path(__file__).parent, check=True)
    grid()
    growth()
    memory()

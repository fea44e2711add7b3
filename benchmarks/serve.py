"""What HTTP costs: `/v1/mta` beside `mt.mta`, `/v1/classify` beside the local pipeline, and 64 clients at once.

    python benchmarks/serve.py [--images 48] [--views 64] [--rounds 3]

The service is `meantime serve` in a process of its own, on the same machine as its clients. All ratios come
from this one run.
"""

import argparse
import base64
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from classify import pictures
from rich.console import Console
from rich.table import Table
from serve_clients import run_clients, started
from timing import race

import meantime as mt

console = Console()
NAMES = ["cat", "cup of coffee", "rocket", "flower", "temple"]
JSON = {"content-type": "application/json"}


def packed(x: np.ndarray) -> dict[str, object]:
    data = base64.b64encode(x.astype("<f2").tobytes()).decode()
    return {"data": data, "dtype": "float16", "shape": list(x.shape)}


def solver(url: str, rounds: int, requests: int = 20) -> None:
    rng = np.random.default_rng(0)
    views, classes = rng.normal(size=(64, 512)).astype("f4"), rng.normal(size=(100, 512)).astype("f4")
    as_json = json.dumps({"views": views.tolist(), "classes": classes.tolist()}).encode()
    as_base64 = json.dumps({"views": packed(views), "classes": packed(classes), "encoding_format": "base64"}).encode()

    def over_http(body, clients):
        load = run_clients(url, [("/v1/mta", JSON, body)] * requests, clients)
        assert load.statuses == {200: requests}, load.statuses

    t = race(
        {
            "mt.mta": lambda: [mt.mta(views, classes) for _ in range(requests)],
            "base64, 1 client": lambda: over_http(as_base64, 1),
            "base64, 8 clients": lambda: over_http(as_base64, 8),
            "JSON, 1 client": lambda: over_http(as_json, 1),
            "JSON, 8 clients": lambda: over_http(as_json, 8),
        },
        rounds=rounds,
    )
    table = Table(title="/v1/mta: 64 views of 512 numbers, 100 classes")
    for column in ("", "KiB", "requests a second", "of mt.mta"):
        table.add_column(column, justify="left" if not column else "right")
    for name, seconds in t.items():
        size = {"m": 0, "b": len(as_base64), "J": len(as_json)}[name[0]]
        rate = requests / seconds
        table.add_row(name, f"{size / 1024:.0f}" if size else "", f"{rate:.0f}", f"{rate * t['mt.mta'] / requests:.2f}")
    console.print(table)


def classify(url: str, paths: list[Path], views: int, rounds: int) -> None:
    clf = mt.Classifier(NAMES, views=views)
    query = f"/v1/classify?labels={','.join(NAMES).replace(' ', '%20')}&views={views}"
    requests = [(query, {"content-type": "image/jpeg"}, path.read_bytes()) for path in paths]

    def over_http(clients):
        load = run_clients(url, requests, clients)
        assert load.statuses == {200: len(paths)}, load.statuses

    t = race(
        {"local pipeline": lambda: list(clf.stream(paths))}
        | {f"{n} client{'s' * (n > 1)}": lambda n=n: over_http(n) for n in (1, 8, 64)},
        rounds=rounds,
    )
    table = Table(title=f"/v1/classify: {len(paths)} photos, {views} views")
    for column in ("", "images a second", "of the local pipeline"):
        table.add_column(column, justify="left" if not column else "right")
    for name, seconds in t.items():
        table.add_row(name, f"{len(paths) / seconds:.2f}", f"{t['local pipeline'] / seconds:.2f}")
    console.print(table)


def load(service, paths: list[Path], count: int = 640) -> None:
    query = f"/v1/classify?labels={','.join(NAMES).replace(' ', '%20')}&views=4"
    bodies = [path.read_bytes() for path in paths]
    requests = [(query, {"content-type": "image/jpeg"}, bodies[i % len(bodies)]) for i in range(count)]
    alone = run_clients(service.url, requests[:20], 1)
    run_clients(service.url, requests[:128], 64)
    before = service.memory()
    started_at = time.perf_counter()
    many = run_clients(service.url, requests, 64)
    rate = count / (time.perf_counter() - started_at)
    console.print(
        f"64 clients, {count} requests of 4 views: {dict(many.statuses)}, {rate:.1f} a second; "
        f"p50 {many.quantile(0.5) / alone.quantile(0.5):.1f} and p99 {many.quantile(0.99) / alone.quantile(0.5):.1f} "
        f"times the p50 of one client; memory {before >> 20} MiB before, {service.memory() >> 20} MiB after"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=48)
    parser.add_argument("--views", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=640, help="of the load run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, started() as service:
        photos = pictures(Path(folder), arguments.images)
        solver(service.url, arguments.rounds)
        classify(service.url, photos, arguments.views, arguments.rounds)
        load(service, photos, arguments.requests)

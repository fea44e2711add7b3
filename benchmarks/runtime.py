"""Figure 2 with two baselines: what Meantime costs beside the structure of the released programs, in one run.

    python benchmarks/runtime.py [--images 2] [--backbones ViT-B/16] [--classes 1000] [--data DIR] [--out bench]

The baselines are `authors_pipeline.py` (MTA) and `authors_tpt.py` (TPT). Random weights; only ratios matter.
"""

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from meantime.bench.backbones import backbones_named
from meantime.bench.figure2 import SYSTEMS, draw, for_terminal, measure, pictures, remarks, write
from meantime.images import find_images

MTA, TPT = "MTA, authors' structure", "TPT, authors' structure"
BASELINES = {MTA: "authors_pipeline:mta", TPT: "authors_tpt:tpt"}
# Least ratios to reach on ViT-B/16 with 64 views and 1000 classes, and the most that is not the encoder.
TARGETS = {MTA: 3.5, TPT: 8.0}
BESIDE = 0.10


def ratios(rows) -> list[str]:
    """Ours against each baseline, for every backbone and number of classes."""
    lines = []
    for ours in (row for row in rows if row.system == "MTA" and row.timing is not None):
        for row in rows:
            if (row.backbone, row.classes) == (ours.backbone, ours.classes) and row.system in ("TPT", *BASELINES):
                what = f"{ours.backbone}, {ours.classes} classes: MTA against {row.system}"
                if row.timing is None:
                    lines.append(f"{what}: missing, {row.missing}")
                    continue
                wanted = f" (to reach: {TARGETS[row.system]:g})" if row.system in TARGETS else ""
                lines.append(
                    f"{what}: {row.timing.seconds / ours.timing.seconds:.1f} times as fast{wanted}, "
                    f"{row.peak / ours.peak:.1f} times less memory"
                )
        lines.append(
            f"{ours.backbone}, {ours.classes} classes: {100 * ours.beside_encoder:.1f} % of MTA is not the encoder "
            f"(at most {100 * BESIDE:.0f})"
        )
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--backbones", default="ViT-B/16", help="RN50,RN101,ViT-B/32,ViT-B/16,ViT-L/14")
    parser.add_argument("--classes", default="1000")
    parser.add_argument("--views", type=int, default=64)
    parser.add_argument("--data", type=Path, help="a folder of photos instead of generated pictures")
    parser.add_argument("--out", type=Path, help="where table and figure go")
    a = parser.parse_args()
    console = Console(width=150)
    with tempfile.TemporaryDirectory() as made:
        paths = [str(p) for p in find_images([a.data])][: a.images] if a.data else pictures(Path(made), a.images)
        rows = measure(
            backbones_named(a.backbones.split(",")),
            [int(k) for k in a.classes.split(",")],
            paths,
            systems=SYSTEMS | BASELINES,
            views=a.views,
            heard=lambda what: console.log(what),
        )
    console.print(for_terminal(rows))
    print("\n".join([*remarks(rows), *ratios(rows)]))
    if a.out is not None:
        write(rows, a.out)
        draw(rows, a.out / "figure2.png")

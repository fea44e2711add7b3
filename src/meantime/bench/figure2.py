"""Figure 2: seconds and peak memory an image for CLIP, TPT and MTA on the paper's backbones, stage by stage."""

import csv
import json
import os
import platform
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.table import Table

from meantime.bench.backbones import Backbone
from meantime.bench.isolated import isolated
from meantime.bench.paper import numbers
from meantime.bench.plots import BLUE, GREY, INK, ORANGE, new_figure, save
from meantime.bench.systems import STAGES, Task, Timing
from meantime.errors import MeantimeError
from meantime.labels import imagenet_names

SYSTEMS = {name: f"meantime.bench.systems:{name.lower()}" for name in ("CLIP", "TPT", "MTA")}
COLOURS = {"CLIP": GREY, "TPT": ORANGE, "MTA": BLUE}
EXTRA_COLOURS = ("#8a5fb0", "#3a8f5c", "#b0413e", "#5b7065")


@dataclass(frozen=True)
class Measured:
    """One row: a system on a backbone with K classes; without a timing, ``missing`` says why."""

    backbone: str
    classes: int
    system: str
    images: int
    views: int
    timing: Timing | None = None
    peak: float = 0.0  # MiB, weights included
    missing: str = ""

    @property
    def beside_encoder(self) -> float:
        """The share of the time that is not the image encoder's; none where the encoder alone was timed no faster."""
        if self.timing is None or not self.timing.seconds:
            return float("nan")
        return max(0.0, 1 - self.timing.stages["encode"] / self.timing.seconds)


def measure(
    backbones: Sequence[Backbone],
    classes: Sequence[int],
    images: Sequence[str],
    *,
    systems: Mapping[str, str] | None = None,
    views: int = 64,
    heard: Callable[[str], None] = lambda what: None,
) -> list[Measured]:
    """Time every system (name -> "module:function" of a `Task`) on every backbone, for every number of classes."""
    names = imagenet_names()
    wrong = [k for k in classes if not 2 <= k <= len(names)]
    if wrong or not images or not classes:
        raise MeantimeError(f"{list(classes)} classes and {len(images)} images; expected 2 to {len(names)}, and some")
    rows = []
    for backbone in backbones:
        with tempfile.TemporaryDirectory(prefix="meantime-figure2-") as place:
            heard(f"{backbone.name}: exporting")
            directory = str(Path(place) / "onnx")
            made = isolated("meantime.bench.backbones:export_to", (backbone, directory))
            for k in classes:
                for system, function in (SYSTEMS if systems is None else systems).items():
                    heard(f"{backbone.name}, {k} classes: {system}")
                    row = (backbone.name, k, system, len(images), views)
                    if made.error is not None:
                        rows.append(Measured(*row, missing=made.error))
                        continue
                    task = Task(backbone, directory, tuple(images), tuple(names[:k]), views)
                    done = isolated(function, task)
                    rows.append(Measured(*row, done.value, done.peak, done.error or ""))
    return rows


def pictures(folder: Path, count: int) -> list[str]:
    """Smooth random pictures of 500 x 375, about as hard to decode and crop as photographs."""
    rng = np.random.default_rng(0)
    paths = []
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (30, 40, 3), np.uint8))
        paths.append(str(folder / f"{i}.jpg"))
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(paths[-1], quality=92)
    return paths


COLUMNS = ("backbone", "classes", "system", "s an image", *STAGES, "texts, once", "beside the encoder", "peak MiB")


def cells(row: Measured) -> list[str]:
    """A row as texts, in the order of ``COLUMNS``."""
    start = [row.backbone, str(row.classes), row.system]
    if row.timing is None:
        return [*start, f"missing: {row.missing}", *[""] * (len(COLUMNS) - 4)]
    t = row.timing
    seconds = [f"{s:.3g}" for s in (t.seconds, *(t.stages[name] for name in STAGES), t.once)]
    return [*start, *seconds, f"{100 * row.beside_encoder:.0f} %", f"{row.peak:,.0f}"]


def title(rows: Sequence[Measured]) -> str:
    """What was measured, and where."""
    images = f"{rows[0].images} image{'s' * (rows[0].images > 1)}"
    return (
        f"{images}, {rows[0].views} views, random weights unless the published ones are cached, "
        f"{os.cpu_count()} cores of {platform.machine()}"
    )


LEGEND = (
    "Stages are timed one after the other, in seconds an image; the whole overlaps decoding, cropping and encoding. "
    "Texts, once: loading the text tower and encoding the class texts, for all images together. "
    "Peak: memory of the process, weights included."
)


def for_terminal(rows: Sequence[Measured]) -> Table:
    """The table as rich shows it."""
    table = Table(title=f"Runtime: {title(rows)}", title_justify="left", box=None)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("backbone", "system") else "right")
    for row in rows:
        shown = cells(row)
        table.add_row(*(shown if row.timing is not None else [*shown[:3], "missing"]))  # why is longer than a cell
    return table


def remarks(rows: Sequence[Measured]) -> list[str]:
    """What must be said beside the times: how they were taken, what was done otherwise, why some are missing."""
    said = [LEGEND]
    said += [f"{row.system}: {row.timing.note}." for row in rows if row.timing is not None and row.timing.note]
    said += [f"{row.backbone} is missing: {row.missing}." for row in rows if row.timing is None]
    return list(dict.fromkeys([*said, *ratios(rows)]))


def ratios(rows: Sequence[Measured]) -> list[str]:
    """What TPT costs beside MTA, on each backbone and for each number of classes; the paper tells only the time."""
    timed = {(row.backbone, row.classes, row.system): row for row in rows if row.timing is not None}
    paper = numbers()["figures"]["figure2"]["times as fast as TPT"]
    said = []
    for (backbone, k, system), tpt in timed.items():
        mta = timed.get((backbone, k, "MTA"))
        if system == "TPT" and mta is not None:
            time = tpt.timing.seconds / mta.timing.seconds  # type: ignore[union-attr]
            said.append(
                f"{backbone}, {k} classes: TPT / MTA {time:.1f} in time, {tpt.peak / mta.peak:.1f} in memory "
                f"(paper: nearly {paper} in time)."
            )
    return said


def write(rows: Sequence[Measured], out: Path) -> list[Path]:
    """The table as Markdown, CSV and JSON."""
    out.mkdir(parents=True, exist_ok=True)
    table = [COLUMNS, tuple("---" for _ in COLUMNS), *(tuple(cells(row)) for row in rows)]
    text = "\n".join("| " + " | ".join(line) + " |" for line in table)
    paths = [out / f"figure2.{kind}" for kind in ("md", "csv", "json")]
    said = "\n\n".join(remarks(rows))
    paths[0].write_text(f"# Runtime\n\n{title(rows)}\n\n{text}\n\n{said}\n", encoding="utf-8")
    with paths[1].open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *(cells(row) for row in rows)])
    paths[2].write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    return paths


def draw(rows: Sequence[Measured], path: Path) -> Path:
    """The paper's figure: bars of seconds an image for each backbone; below, of peak memory."""
    timed = [row for row in rows if row.timing is not None]
    if not timed:
        raise MeantimeError("there is nothing to draw: no backbone could be measured")
    systems = list(dict.fromkeys(row.system for row in timed))
    extra = iter(EXTRA_COLOURS * len(systems))
    colours = {system: COLOURS.get(system) or next(extra) for system in systems}
    classes = list(dict.fromkeys(row.classes for row in timed))
    figure = new_figure(5.6 * len(classes), 6.4)
    grid = figure.subplots(2, len(classes), squeeze=False, sharey="row")
    for column, k in enumerate(classes):
        here = [row for row in timed if row.classes == k]
        for axes, what, value in (
            (grid[0, column], "seconds an image, on a logarithmic scale", lambda row: row.timing.seconds),
            (grid[1, column], "peak memory in GiB", lambda row: row.peak / 1024),
        ):
            _bars(axes, here, colours, value)
            if column == 0:
                axes.set_ylabel(what, color=INK)
        grid[0, column].set_title(f"{k} classes", loc="left", size=11, color=INK)
        grid[0, column].set_yscale("log")
    bars, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(bars, labels, frameon=False, fontsize=9, loc="outside lower center", ncols=len(systems))
    figure.suptitle(textwrap.fill(title(rows), 60 * grid.shape[1]), size=10, color=INK)
    return save(figure, path)


def _bars(axes: Any, rows: list[Measured], colours: dict[str, str], value: Callable[[Any], float]) -> None:
    backbones = list(dict.fromkeys(row.backbone for row in rows))
    width = 0.8 / len(colours)
    for place, (system, colour) in enumerate(colours.items()):
        chosen = [row for row in rows if row.system == system]
        x = [backbones.index(row.backbone) + (place - (len(colours) - 1) / 2) * width for row in chosen]
        bars = axes.bar(x, [value(row) for row in chosen], 0.92 * width, color=colour, label=system)
        axes.bar_label(bars, fmt="%.3g", size=7, color=INK, padding=1)
    axes.set_xticks(range(len(backbones)), backbones)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=INK, labelsize=9)

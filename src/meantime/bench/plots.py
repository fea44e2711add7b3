"""Figures: accuracy against the number of views, the lambda grid as a heat map, reliability diagrams."""

from pathlib import Path
from typing import Any

import numpy as np

from meantime.bench.cells import Table
from meantime.bench.metrics import calibration_error, reliability
from meantime.bench.paper import numbers
from meantime.bench.predictions import Predictions
from meantime.extras import optional

INK, GREY, BLUE, ORANGE = "#1f2937", "#9aa3af", "#1f6fb4", "#d9772b"
FURTHER = ("#3a8f5c", "#8a5fb0", INK)  # of lines that the paper has not


def new_figure(width: float, height: float) -> Any:
    """An empty figure; neither pyplot nor rcParams, so a caller's notebook keeps its settings."""
    figures = optional("matplotlib.figure", "a figure", "plots")
    return figures.Figure(figsize=(width, height), facecolor="white", layout="constrained")


def save(figure: Any, path: Path) -> Path:
    """Write a PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=130)
    return path


def _clean(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=INK, labelsize=9)


def views_curve(table: Table, path: Path) -> Path:
    """Figure 4: a line for each method, with the std as a band."""
    figure = new_figure(6.4, 4.2)
    axes = figure.add_subplot()
    colours = [BLUE, ORANGE, *FURTHER]
    counts: set[int] = set()
    for (row, label), colour in zip(table.rows.items(), colours * len(table.rows), strict=False):
        points = [(int(c), table.cells[row, c]) for c in table.columns if table.cells[row, c].mean is not None]
        if not points:
            continue
        x = [n for n, _ in points]
        mean = np.array([cell.mean for _, cell in points])
        std = np.array([cell.std or 0.0 for _, cell in points])
        axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.18, lw=0)
        axes.plot(x, mean, marker="o", ms=5, color=colour, lw=2, label=label)
        counts.update(x)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(counts), [str(n) for n in sorted(counts)])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=10, loc="best")
    axes.set_xlabel("views", color=INK)
    axes.set_ylabel(table.unit, color=INK)
    axes.set_title(table.title, loc="left", size=11, color=INK)
    axes.grid(axis="y", color="#e5e7eb", lw=0.8)
    _clean(axes)
    return save(figure, path)


def gains(table: Table) -> list[str]:
    """Figure 4 in words: what 16 and 128 views add to one, beside what the paper's text says."""
    said = numbers()["figures"]["figure4"]
    lines = []
    for row, by_count in said.items():
        if row not in table.rows:
            continue
        for count, gain in by_count.items():
            first, then = table.cells[row, "1"].mean, table.cells[row, count].mean
            if first is not None and then is not None:
                lines.append(f"{table.rows[row]}: {count} views add {then - first:+.2f} points (paper: {gain:+.1f})")
    return lines


def heat_map(table: Table, path: Path) -> Path:
    """Table 7: the grid in colours, the paper's setting framed."""
    rows, columns = list(table.rows), list(table.columns)
    values = np.array([[table.cells[r, c].mean for c in columns] for r in rows], np.float64)  # None becomes NaN
    figure = new_figure(8.6, 4.4)
    axes = figure.add_subplot()
    shown = np.ma.masked_invalid(values)
    image = axes.imshow(shown, cmap="YlGnBu", aspect="auto")
    low, high = float(shown.min()), float(shown.max())
    for i, j in np.ndindex(values.shape):
        if np.isfinite(values[i, j]):
            dark = high > low and (values[i, j] - low) / (high - low) > 0.6
            axes.text(j, i, f"{values[i, j]:.1f}", ha="center", va="center", size=9, color="white" if dark else INK)
    place = (columns.index("0.2") - 0.5, rows.index("4") - 0.5)
    patches = optional("matplotlib.patches", "a figure", "plots")
    axes.add_patch(patches.Rectangle(place, 1, 1, fill=False, ec=ORANGE, lw=2.5))
    axes.set_xticks(range(len(columns)), ["∞" if c == "inf" else c for c in columns])
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel("λ_y  (∞: plain MeanShift)", color=INK)
    axes.set_ylabel("λ", color=INK)
    axes.set_title(f"{table.title}\ntop-1 in per cent; framed: the paper's setting", loc="left", size=10, color=INK)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=9)
    bar = figure.colorbar(image, ax=axes, pad=0.01)
    bar.outline.set_visible(False)
    return save(figure, path)


def reliability_diagrams(predictions: dict[str, list[Predictions]], title: str, path: Path) -> Path:
    """For each method: accuracy against confidence; the width of a bar is its share of the images."""
    names = list(predictions)
    across = min(4, len(names))
    down = -(-len(names) // across)
    figure = new_figure(2.6 * across, 2.5 * down + 0.4)
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    for name, axes in zip(names, grid.flat, strict=False):
        sure = np.concatenate([p.confidence for p in predictions[name]])
        hits = np.concatenate([p.hits for p in predictions[name]])
        share, confidence, accuracy = reliability(sure, hits)
        axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--", zorder=1)
        there = share > 0
        axes.vlines(confidence[there], confidence[there], accuracy[there], color=ORANGE, lw=1.5, zorder=2)
        axes.scatter(
            confidence[there], accuracy[there], s=10 + 260 * share[there], color=BLUE, lw=0, zorder=3, clip_on=False
        )
        axes.set_title(f"{name}  ({calibration_error(sure, hits):.1f})", size=10, color=INK, loc="left")
        axes.set_xlim(0, 1.03)
        axes.set_ylim(0, 1.05)
        axes.set_aspect("equal")
        _clean(axes)
    figure.supxlabel("confidence", size=10, color=INK)
    figure.supylabel("accuracy", size=10, color=INK)
    figure.suptitle(
        f"{title}\nin brackets the calibration error in points; area: share of the images", size=10, color=INK
    )
    return save(figure, path)

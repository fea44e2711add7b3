"""Few shots: table 5, MTA on top of four few-shot methods; figures 3 and 5, MTA and TPT on top of CoOp.

Heads come from `meantime fit`, for each dataset, number of shots, number of tokens and seed.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from meantime.bench.cells import Cell, Table
from meantime.bench.declare import FINE_GRAINED, Row, TableSpec, title_of
from meantime.bench.paper import Published, numbers, published
from meantime.bench.plots import BLUE, GREY, INK, ORANGE, new_figure, save
from meantime.bench.run import Bench
from meantime.heads.saved import KINDS
from meantime.registry import method_named

SHOTS = (1, 2, 4, 8, 16)
FIGURE_DATASETS = ("imagenet", *FINE_GRAINED)
LABELS = {
    "tip-adapter": "Tip-Adapter",
    "tip-adapter-f": "Tip-Adapter-F",
    "coop": "CoOp",
    "prograd": "ProGrad",
}
ON_COOP = {"coop": "CoOp", "tpt@coop": "CoOp + TPT", "mta@coop": "CoOp + MTA"}
COLOURS = {"coop": GREY, "tpt@coop": ORANGE, "mta@coop": BLUE}


def _row(method: str, shots: int, tokens: int, dataset: str) -> Row:
    # As in tables 1 and 2, TPT sees AugMix views of fine-grained images.
    views = "augmix" if method.startswith("tpt") and dataset in FINE_GRAINED else "crop"
    name = f"{method}, {shots} shots" + (f", M {tokens}" if "tip" not in method else "")
    return Row(method, method, name, views, made=method_named(method), shots=shots, tokens=tokens)  # type: ignore[arg-type]


def _spec(name: str, methods: Sequence[str], shots: int, tokens: int, dataset: str) -> TableSpec:
    rows = tuple(_row(method, shots, tokens, dataset) for method in methods)
    return TableSpec(f"{name}/{dataset}/{shots}/{tokens}", "Few-shot", rows, (dataset,), title_of(dataset))


def table5_specs(datasets: Sequence[str] = ()) -> Iterator[TableSpec]:
    """Yield a small table for each dataset and number of shots: the four methods, without and with MTA."""
    methods = [name for kind in KINDS for name in (kind, f"mta@{kind}")]
    for dataset in datasets or ("imagenet",):
        yield from (_spec("table5", methods, shots, 16, dataset) for shots in SHOTS)


def figure_specs(name: str, tokens: int, datasets: Sequence[str] = ()) -> Iterator[TableSpec]:
    """Yield a small table for each dataset and number of shots: CoOp, with TPT and with MTA."""
    for dataset in datasets or FIGURE_DATASETS:
        yield from (_spec(name, tuple(ON_COOP), shots, tokens, dataset) for shots in SHOTS)


def _measure(bench: Bench, specs: Sequence[TableSpec], name: str) -> dict[tuple[str, int, str], Cell]:
    """The cells by dataset, shots and method."""
    cells = {}
    for spec, table in zip(specs, bench.tables(specs, name), strict=True):
        (dataset,) = spec.datasets
        for row in spec.rows:
            cells[dataset, row.shots, row.key] = table.cells[row.key, dataset]
    return cells


def table5(bench: Bench, dataset: str = "imagenet") -> Table:
    """The four methods, the same with MTA on top, and the gain, for each number of shots."""
    found = _measure(bench, list(table5_specs([dataset])), "table5")
    rows: dict[str, str] = {}
    cells: dict[tuple[str, str], Cell] = {}
    for kind, label in LABELS.items():
        rows |= {kind: label, f"mta@{kind}": f"{label} + MTA", f"gain {kind}": "gain"}
        for shots in SHOTS:
            column = str(shots)
            plain, ours = (
                _with_paper(bench, found[dataset, shots, name], name, column, dataset) for name in (kind, f"mta@{kind}")
            )
            cells |= {(kind, column): plain, (f"mta@{kind}", column): ours}
            cells[f"gain {kind}", column] = _gain(plain, ours)
    title = f"Few-shot methods, without and with MTA: {title_of(dataset)} ({bench.encoder}), prompts of 16 tokens"
    return Table("table5", title, rows, {str(n): f"{n} shots" for n in SHOTS}, cells)


def _with_paper(bench: Bench, cell: Cell, row: str, column: str, dataset: str) -> Cell:
    paper = published("table5", row, column) if dataset == "imagenet" and bench.metric == "top1" else None
    return Cell(cell.values, paper, cell.reason, others=cell.others)


def _gain(plain: Cell, ours: Cell) -> Cell:
    paper = None
    if plain.paper is not None and ours.paper is not None:
        paper = Published(round(ours.paper.mean - plain.paper.mean, 2))
    if plain.reason or ours.reason or len(plain.values) != len(ours.values):
        return Cell(paper=paper, reason=plain.reason or ours.reason or "the two rows have other seeds")
    return Cell(tuple(b - a for a, b in zip(plain.values, ours.values, strict=True)), paper)


def figure(bench: Bench, name: str, tokens: int, datasets: Sequence[str] = ()) -> Table:
    """CoOp, + TPT and + MTA for each number of shots, on each dataset and on average."""
    found = _measure(bench, list(figure_specs(name, tokens, datasets)), name)
    panels = tuple(datasets) or FIGURE_DATASETS
    told = numbers()["figures"]["figure3"] if name == "figure3" and bench.metric == "top1" else {}
    rows: dict[str, str] = {}
    cells: dict[tuple[str, str], Cell] = {}
    for panel in (*panels, *(["average"] if len(panels) > 1 else [])):
        for method, label in ON_COOP.items():
            key = f"{panel}/{method}"
            rows[key] = f"{'Average' if panel == 'average' else title_of(panel)}: {label}"
            for shots in SHOTS:
                if panel == "average":
                    cell = _average([found[d, shots, method] for d in panels])
                else:
                    cell = found[panel, shots, method]
                    value = told.get(method, {}).get(panel) if shots == 16 else None
                    cell = Cell(cell.values, value and Published(value), cell.reason, others=cell.others)
                cells[key, str(shots)] = cell
    title = f"CoOp of {tokens} tokens, with TPT and with MTA ({bench.encoder})"
    return Table(name, title, rows, {str(n): f"{n} shots" for n in SHOTS}, cells, corner="dataset and method")


def _average(cells: Sequence[Cell]) -> Cell:
    missing = sum(1 for cell in cells if cell.reason)
    if missing:
        return Cell(reason=f"an average needs every dataset; {missing} of {len(cells)} are missing")
    seeds = min(len(cell.values) for cell in cells)
    return Cell(tuple(np.mean([cell.values[:seeds] for cell in cells], axis=0).tolist()))


def draw(table: Table, path: Path) -> Path:
    """Draw a panel for each dataset and their average: accuracy against shots, a line for each method."""
    panels = list(dict.fromkeys(row.partition("/")[0] for row in table.rows))
    columns = min(4, len(panels))
    height = -(-len(panels) // columns)
    figure = new_figure(3.1 * columns, 2.7 * height)
    for place, panel in enumerate(panels, 1):
        axes = figure.add_subplot(height, columns, place)
        for method, colour in COLOURS.items():
            points = [(n, table.cells[f"{panel}/{method}", str(n)]) for n in SHOTS]
            points = [(n, cell) for n, cell in points if cell.mean is not None]
            if points:
                mean, std = (np.array([getattr(cell, what) or 0.0 for _, cell in points]) for what in ("mean", "std"))
                x = [n for n, _ in points]
                axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.18, lw=0)
                axes.plot(x, mean, marker="o", ms=3.5, lw=1.6, color=colour, label=ON_COOP[method])
        axes.set_xscale("log", base=2)
        axes.set_xticks(SHOTS, [str(n) for n in SHOTS])
        axes.minorticks_off()
        axes.set_title("Average" if panel == "average" else title_of(panel), loc="left", size=9, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK, labelsize=7)
        if place == 1 and axes.lines:
            axes.legend(frameon=False, fontsize=7)
    figure.supxlabel("shots", size=9, color=INK)
    figure.supylabel("top-1 in per cent", size=9, color=INK)
    return save(figure, path)

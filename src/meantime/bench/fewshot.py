"""Few shots: table 5, MTA on top of four few-shot methods; figures 3 and 5, MTA and TPT on top of CoOp.

Heads come from `meantime fit`, for each dataset, number of shots, number of tokens and seed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from meantime.bench.cells import Cell, Table
from meantime.bench.declare import FINE_GRAINED, Row, TableSpec, Views, title_of
from meantime.bench.metrics import METRICS
from meantime.bench.paper import Published, numbers, published
from meantime.bench.plots import BLUE, FURTHER, GREY, INK, ORANGE, new_figure, save
from meantime.bench.run import Bench
from meantime.heads.saved import KINDS, PROMPTS
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
TABLE5 = [name for kind in KINDS for name in (kind, f"mta@{kind}")]
Found = dict[tuple[str, int, int, str], Cell]  # by dataset, shots, tokens and method


def _row(method: str, shots: int, tokens: int, dataset: str) -> Row:
    made = method_named(method)
    # As in tables 1 and 2, TPT sees AugMix views of fine-grained images.
    views: Views = "augmix" if method.startswith("tpt") and dataset in FINE_GRAINED else "crop"
    kinds = {part for head in made.heads for part in head.split("@")} & set(KINDS)
    if not kinds:  # the same whatever the shots: it is measured once
        return Row(method, method, method, views, made=made)
    name = f"{method}, {_shots(shots)}" + (f", M {tokens}" if kinds & set(PROMPTS) else "")
    return Row(method, method, name, views, made=made, shots=shots, tokens=tokens)


def _shots(n: int) -> str:
    return f"{n} shot" if n == 1 else f"{n} shots"


def _spec(name: str, methods: Sequence[str], shots: int, tokens: int, dataset: str) -> TableSpec:
    rows = tuple(_row(method, shots, tokens, dataset) for method in methods)
    return TableSpec(f"{name}/{dataset}/{shots}/{tokens}", "Few-shot", rows, (dataset,), title_of(dataset))


def table5_specs(datasets: Sequence[str] = (), methods: Sequence[str] = TABLE5) -> Iterator[TableSpec]:
    """Yield a small table for each dataset and number of shots: the four methods, without and with MTA."""
    for dataset in datasets or ("imagenet",):
        yield from (_spec("table5", methods, shots, 16, dataset) for shots in SHOTS)


def figure_specs(
    name: str, tokens: int, datasets: Sequence[str] = (), methods: Sequence[str] = tuple(ON_COOP)
) -> Iterator[TableSpec]:
    """Yield a small table for each dataset and number of shots: CoOp, with TPT and with MTA."""
    for dataset in datasets or FIGURE_DATASETS:
        yield from (_spec(name, methods, shots, tokens, dataset) for shots in SHOTS)


def _measure(bench: Bench, specs: Sequence[TableSpec], name: str) -> tuple[Found, list[str]]:
    """The cells, and what is to be said of them."""
    cells: Found = {}
    notes: list[str] = []
    for spec, table in zip(specs, bench.tables(specs, name), strict=True):
        _, dataset, shots, tokens = spec.name.split("/")
        notes += table.notes
        for row in spec.rows:
            cells[dataset, int(shots), int(tokens), row.key] = table.cells[row.key, dataset]
    return cells, list(dict.fromkeys(notes))


def table5(
    bench: Bench, dataset: str = "imagenet", methods: Sequence[str] = TABLE5, predictions: str = "table5"
) -> Table:
    """The four methods, the same with MTA on top, and the gain, for each number of shots; then any other methods."""
    found, notes = _measure(bench, list(table5_specs([dataset], methods)), predictions)
    rows: dict[str, str] = {}
    cells: dict[tuple[str, str], Cell] = {}
    pairs = [((kind, label), (f"mta@{kind}", f"{label} + MTA")) for kind, label in LABELS.items()]
    for both in (*pairs, *(((name, name),) for name in methods if name not in TABLE5)):
        pair = {name: text for name, text in both if name in methods}
        kind = both[0][0]
        rows |= pair
        for shots in map(str, SHOTS):
            for name in pair:
                cells[name, shots] = _with_paper(bench, found[dataset, int(shots), 16, name], name, shots, dataset)
        if len(pair) == 2:
            rows[f"gain {kind}"] = "gain"
            cells |= {(f"gain {kind}", n): _gain(*(cells[name, n] for name in pair)) for n in map(str, SHOTS)}
    if any(cell.paper and cell.values for cell in cells.values()):
        notes += bench.published_otherwise(64)
    title = f"Few-shot methods, without and with MTA: {title_of(dataset)} ({bench.encoder}), prompts of 16 tokens"
    columns = {str(n): _shots(n) for n in SHOTS}
    return Table("table5", title, rows, columns, cells, notes=notes, unit=_unit(bench))


def _unit(bench: Bench) -> str:
    return f"{METRICS[bench.metric]} in per cent"


def _with_paper(bench: Bench, cell: Cell, row: str, column: str, dataset: str) -> Cell:
    paper = published("table5", row, column) if dataset == "imagenet" and bench.metric == "top1" else None
    return replace(cell, paper=paper)


def _gain(plain: Cell, ours: Cell) -> Cell:
    paper = None
    if plain.paper is not None and ours.paper is not None:
        paper = Published(round(ours.paper.mean - plain.paper.mean, 2))
    if plain.reason or ours.reason:
        return Cell(paper=paper, reason=plain.reason or ours.reason)
    a, b = (dict(zip(cell.seeds, cell.values, strict=True)) for cell in (plain, ours))
    seeds = tuple(sorted(a.keys() & b.keys()))
    if not seeds:
        return Cell(paper=paper, reason="the two rows have no seed in common")
    return Cell(tuple(b[seed] - a[seed] for seed in seeds), paper, seeds=seeds)


def figure(
    bench: Bench, name: str, tokens: int, datasets: Sequence[str] = (), methods: Sequence[str] = tuple(ON_COOP)
) -> Table:
    """CoOp, + TPT and + MTA for each number of shots, on each dataset and on average.

    As in the paper, the average of figure 3 is that of M = 4 beside that of M = 16.
    """
    panels = tuple(datasets) or FIGURE_DATASETS
    others = (16,) if name == "figure3" and len(panels) > 1 else ()
    specs = [spec for m in (tokens, *others) for spec in figure_specs(name, m, panels, methods)]
    found, notes = _measure(bench, specs, name)
    told = numbers()["figures"]["figure3"] if name == "figure3" and bench.metric == "top1" else {}
    rows: dict[str, str] = {}
    cells: dict[tuple[str, str], Cell] = {}
    for panel in panels:
        for method in methods:
            key = f"{panel}/{method}"
            rows[key] = f"{title_of(panel)}: {_label(method)}"
            for shots in SHOTS:
                value = told.get(method, {}).get(panel) if shots == 16 else None
                cells[key, str(shots)] = replace(found[panel, shots, tokens, method], paper=value and Published(value))
    for m in (tokens, *others) if len(panels) > 1 else ():
        for method in methods:
            key = f"average/{method}" + ("" if m == tokens else f", M {m}")
            rows[key] = f"Average: {_label(method)}" + ("" if m == tokens else f", M = {m}")
            for shots in SHOTS:
                cells[key, str(shots)] = _average([found[d, shots, m, method] for d in panels])
    if any(cell.paper and cell.values for cell in cells.values()):
        notes += bench.published_otherwise(64)
    title = f"CoOp of {tokens} tokens, with TPT and with MTA ({bench.encoder})"
    columns = {str(n): _shots(n) for n in SHOTS}
    return Table(name, title, rows, columns, cells, corner="dataset and method", notes=notes, unit=_unit(bench))


def _label(method: str) -> str:
    return ON_COOP.get(method, method)


def _average(cells: Sequence[Cell]) -> Cell:
    missing = sum(1 for cell in cells if cell.reason)
    if missing:
        return Cell(reason=f"an average needs every dataset; {missing} of {len(cells)} are missing")
    by_seed = [dict(zip(cell.seeds, cell.values, strict=True)) for cell in cells]
    seeds = tuple(sorted(set.intersection(*map(set, by_seed))))
    if not seeds:
        return Cell(reason="the datasets have no seed in common")
    return Cell(tuple(float(np.mean([values[seed] for values in by_seed])) for seed in seeds), seeds=seeds)


def _lines(table: Table, panel: str) -> Iterator[tuple[str, str, str, str]]:
    """Row, label, colour and style of each line of a panel; another number of tokens is dashed."""
    further = iter(FURTHER * len(table.rows))
    colours = dict(COLOURS)
    for row in table.rows:
        where, _, what = row.partition("/")
        method, _, tokens = what.partition(", M ")
        if where == panel:
            label = _label(method) + (f", M = {tokens}" if tokens else "")
            colour = colours[method] if method in colours else colours.setdefault(method, next(further))
            yield row, label, colour, "--" if tokens else "-"


def draw(table: Table, path: Path) -> Path:
    """Draw a panel for each dataset and their average: accuracy against shots, a line for each method."""
    panels = list(dict.fromkeys(row.partition("/")[0] for row in table.rows))
    columns = min(4, len(panels))
    height = -(-len(panels) // columns)
    figure = new_figure(3.1 * columns, 2.7 * height)
    for place, panel in enumerate(panels, 1):
        axes = figure.add_subplot(height, columns, place)
        for row, label, colour, style in _lines(table, panel):
            points = [(n, table.cells[row, str(n)]) for n in SHOTS]
            points = [(n, cell) for n, cell in points if cell.mean is not None]
            if points:
                mean, std = (np.array([getattr(cell, what) or 0.0 for _, cell in points]) for what in ("mean", "std"))
                x = [n for n, _ in points]
                axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.18, lw=0)
                axes.plot(x, mean, marker="o", ms=3.5, lw=1.6, ls=style, color=colour, label=label)
        axes.set_xscale("log", base=2)
        axes.set_xticks(SHOTS, [str(n) for n in SHOTS])
        axes.minorticks_off()
        axes.set_title("Average" if panel == "average" else title_of(panel), loc="left", size=9, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK, labelsize=7)
        if axes.lines and (place == 1 or any(line.get_linestyle() == "--" for line in axes.lines)):
            axes.legend(frameon=False, fontsize=7, handlelength=3)
    figure.supxlabel("shots", size=9, color=INK)
    figure.supylabel(table.unit, size=9, color=INK)
    return save(figure, path)

"""Tables for people and programs: the terminal, Markdown, CSV, LaTeX and JSON."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table as RichTable

from meantime.bench.agree import verdict
from meantime.bench.cells import Cell, Table

DASH = "–"
LABEL = 16  # letters in a line of a row's name, in a narrow terminal
LEAST = 40  # of letters: such a name and one column


def number(cell: Cell) -> str:
    """Mean ± std of a cell."""
    if cell.mean is None:
        return ""
    sign = "+" if cell.interval is not None else ""
    return f"{cell.mean:{sign}.2f}" + (f" ± {cell.std:.2f}" if cell.std is not None else "")


def beside(cell: Cell) -> str:
    """What stands below the number: the published value and the difference, or an interval."""
    if cell.interval is not None:
        return f"{cell.interval[0]:+.2f} to {cell.interval[1]:+.2f}"
    if cell.paper is None:
        return ""
    std = "" if cell.paper.std is None else f" ± {cell.paper.std:.2f}"
    gap = "" if cell.difference is None else f" ({cell.difference:+.2f}{'*' * (cell.agrees is False)})"
    return f"{cell.paper.mean:.2f}{std}{gap}"


def _above(cell: Cell, marks: dict[str, int]) -> str:
    """The number, or where the reason for none is told."""
    return number(cell) if cell.reason is None else f"{DASH} [{marks[cell.reason]}]"


def _marks(table: Table) -> dict[str, int]:
    return {reason: i for i, reason in enumerate(table.reasons, 1)}


def legend(table: Table) -> list[str]:
    """The lines below a table: what the numbers are, why cells are empty, what else to know."""
    lines = [f"{table.unit}; mean ± std over seeds"]
    if any(cell.paper for cell in table.cells.values()):
        lines[0] += "; below it the published value and the difference to it"
    return [*lines, *(f"[{i}] {reason}" for reason, i in _marks(table).items()), *table.notes, *verdict(table)]


@dataclass(frozen=True)
class _Column:
    """One column as the terminal shows it."""

    heading: str
    cells: list[str]  # of several lines
    width: int


def for_terminal(table: Table, width: int) -> list[RichTable]:
    """A table of rich; in a narrow terminal several, each with as many columns as have room: no number is cut short."""
    columns = [_column(table, key, narrow=False) for key in table.columns]
    room = max(map(len, [table.corner, *table.rows.values()]))
    if _needed(room, columns) <= width:
        return [_shown(table, table.title, room, columns)]
    room = min(room, LABEL)
    blocks: list[list[_Column]] = [[]]
    for column in (_column(table, key, narrow=True) for key in table.columns):
        if blocks[-1] and _needed(room, [*blocks[-1], column]) > width:
            blocks.append([])
        blocks[-1].append(column)
    titles = [table.title, *(f"{table.title}, continued" for _ in blocks[1:])]
    return [_shown(table, title, room, block) for title, block in zip(titles, blocks, strict=True)]


def _column(table: Table, key: str, *, narrow: bool) -> _Column:
    """A column; if it is to be narrow, what is told of a number is broken into lines, and so are headings."""
    marks = _marks(table)
    cells = ["\n".join(filter(None, [_above(cell, marks), beside(cell)])) for cell in table.column(key)]
    heading = table.columns[key]
    if not narrow:
        return _Column(heading, cells, max(len(heading), _widest(cells)))
    cells = [cell.replace(" (", "\n(") for cell in cells]
    numbers = _widest(cells)
    words = [word if len(word) <= numbers else word.replace("-", "-\n") for word in heading.split()]
    return _Column(" ".join(words), cells, max(numbers, min(LABEL, _widest(words))))


def _widest(texts: Sequence[str]) -> int:
    return max(len(line) for text in texts for line in text.split("\n"))


def _needed(room: int, columns: Sequence[_Column]) -> int:
    """How wide a table is: beside each column a space on either side and a line."""
    return 1 + sum(3 + width for width in (room, *(column.width for column in columns)))


def _shown(table: Table, title: str, room: int, columns: Sequence[_Column]) -> RichTable:
    shown = RichTable(title=escape(title), title_justify="left", show_lines=True)
    shown.add_column(table.corner, width=room, overflow="fold")
    for column in columns:
        shown.add_column(escape(column.heading), justify="right", width=column.width, overflow="fold")
    for label, *cells in zip(table.rows.values(), *(column.cells for column in columns), strict=True):
        texts = []
        for cell in cells:
            first, *rest = map(escape, cell.split("\n"))
            texts.append("\n".join([first, *(f"[dim]{line}[/dim]" for line in rest)]))
        shown.add_row(escape(label), *texts)
    return shown


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown, with its legend."""
    marks = _marks(table)
    lines = [f"**{table.title}**", ""]
    lines.append("| " + " | ".join([table.corner, *table.columns.values()]) + " |")
    lines.append("|---" + "|---:" * len(table.columns) + "|")
    for row, label in table.rows.items():
        texts = []
        for column in table.columns:
            cell = table.cells[row, column]
            texts.append(_above(cell, marks) + (f"<br>{beside(cell)}" if beside(cell) else ""))
        lines.append("| " + " | ".join([label.replace("|", r"\|"), *texts]) + " |")
    return "\n".join([*lines, "", *(f"- {line}" for line in legend(table)), ""])


def to_latex(table: Table) -> str:
    """A table for booktabs; published values stand small below the measured ones."""
    marks = _marks(table)

    def row_of(label: str, texts: list[str]) -> str:
        return " & ".join([label, *texts]) + r" \\"

    lines = [f"% {table.title}", rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}", r"\toprule"]
    lines += [row_of(_tex(table.corner), [_tex(c) for c in table.columns.values()]), r"\midrule"]
    for row, label in table.rows.items():
        cells = [table.cells[row, column] for column in table.columns]
        firsts = [_tex(number(c)) if c.reason is None else rf"--$^{{{marks[c.reason]}}}$" for c in cells]
        lines.append(row_of(_tex(label), firsts))
        if any(beside(c) for c in cells):
            lines.append(row_of("", [rf"{{\scriptsize {_tex(beside(c))}}}" if beside(c) else "" for c in cells]))
    lines += [r"\bottomrule", r"\end{tabular}", *(f"% {line}" for line in legend(table))]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    for plain, special in {
        "\\": r"\textbackslash ",
        "&": r"\&",
        "%": r"\%",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
    }.items():
        text = text.replace(plain, special)
    return text.replace("±", r"$\pm$").replace("–", "--").replace("∞", r"$\infty$")


def as_records(table: Table) -> list[dict[str, Any]]:
    """One record for each cell."""
    records = []
    for row in table.rows:
        for column in table.columns:
            cell = table.cells[row, column]
            records.append(
                {
                    "table": table.name,
                    "row": row,
                    "column": column,
                    "mean": cell.mean,
                    "std": cell.std,
                    "seeds": len(cell.values),
                    "paper": cell.paper.mean if cell.paper else None,
                    "paper_std": cell.paper.std if cell.paper else None,
                    "difference": cell.difference,
                    "agrees": cell.agrees,
                    "low": cell.interval[0] if cell.interval else None,
                    "high": cell.interval[1] if cell.interval else None,
                    **{name: cell.others.get(name) for name in ("top5", "mean_per_class", "ece")},
                    "reason": cell.reason,
                }
            )
    return records


def to_csv(table: Table) -> str:
    """A line for each cell."""
    records = as_records(table)
    text = io.StringIO()
    writer = csv.DictWriter(text, records[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def to_json(table: Table) -> str:
    """The cells with all that is known of each seed."""
    value = {"name": table.name, "title": table.title, "unit": table.unit, "notes": list(table.notes)}
    cells = [r | {"values": list(table.cells[r["row"], r["column"]].values)} for r in as_records(table)]
    return json.dumps(value | {"cells": cells}, ensure_ascii=False, indent=1) + "\n"


def write_all(table: Table, out: Path) -> list[Path]:
    """Write a table in every form and return the files."""
    forms = {".md": to_markdown, ".csv": to_csv, ".tex": to_latex, ".json": to_json}
    out.mkdir(parents=True, exist_ok=True)
    for suffix, form in forms.items():
        (out / f"{table.name}{suffix}").write_text(form(table), encoding="utf-8")
    return [out / f"{table.name}{suffix}" for suffix in forms]

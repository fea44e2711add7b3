"""Tables in a terminal: whatever its width, no number is cut short."""

import io

import pytest
from rich.console import Console

from meantime.bench import Cell, Table, published, write
from meantime.bench.declare import TABLES


def table_of(spec):
    columns = {column.key: column.label for column in spec.columns()}
    rows = {row.key: row.label for row in spec.rows}
    cells = {
        (row, column): Cell((61.23, 62.34 + i, 63.4), published(spec.name, row, column))
        for i, column in enumerate(columns)
        for row in rows
    }
    cells[next(iter(cells))] = Cell(reason="no store")
    return Table(spec.name, spec.title, rows, columns, cells)


@pytest.mark.parametrize("width", [20, 60, 80, 120, 400])
@pytest.mark.parametrize("name", ["table1", "table2", "table4", "table11", "figure4"])
def test_every_number_stands_in_the_terminal(name, width):
    table = table_of(TABLES[name])
    parts = write.for_terminal(table, width)
    text = io.StringIO()
    console = Console(file=text, width=max(width, write.LEAST))
    for part in parts:
        console.print(part)
    shown = text.getvalue()
    assert "…" not in shown
    for cell in table.cells.values():
        assert write.number(cell) in shown
        if cell.paper is not None:
            assert f"{cell.paper.mean:.2f}" in shown
        if cell.difference is not None:
            assert f"({cell.difference:+.2f})" in shown
    assert max(map(len, shown.splitlines())) <= max(width, write.LEAST)
    assert len(parts) == 1 if width == 400 and name != "table11" else parts


def test_headings_that_begin_alike_are_told_apart():
    (first, *_), text = write.for_terminal(table_of(TABLES["table1"]), 80), io.StringIO()
    Console(file=text, width=80).print(first)
    for word in ("ImageNet", "A ", "V2", "R "):
        assert word in text.getvalue()

"""The one data file against itself and against the paper's own source."""

import re

import numpy as np
import pytest
from shared import SHARED, needs

from meantime.bench import TABLES, published
from meantime.bench.grid import SETTINGS
from meantime.bench.paper import numbers
from meantime.datasets import list_datasets

SOURCE = SHARED.parent / "paper" / "mta.tex"
TABULAR = [name for name in numbers() if name.startswith("table")]


def test_numbers_by_name():
    assert published("table1", "mta", "imagenet-a").mean == 57.41
    assert published("table1", "mta", "imagenet-a").std == 0.15
    assert published("table1", "clip", "imagenet").std is None
    assert (published("table1", "clip+e", "average").mean, published("table4", "clip+e", "ViT-B-16").mean) == (
        61.15,
        61.12,
    )
    assert published("zero", "zero+e", "imagenet-r").mean == 80.75
    assert published("table7", "16", "0.8").mean == 69.3
    assert published("table7", "16", "inf") is None
    assert published("table1", "nobody", "imagenet") is None
    assert published("table12", "mta", "imagenet") is None


@pytest.mark.parametrize("name", [*TABULAR, "zero"])
def test_rows_are_as_long_as_their_columns(name):
    table = numbers()[name]
    for row in (*table["rows"].values(), *table.get("std", {}).values()):
        assert len(row) == len(table["columns"])
    assert set(table.get("std", {})) <= set(table["rows"])


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table11"])
def test_averages_are_those_of_their_rows(name):
    """A slip of the pen in any of these numbers would show; the paper's own rounding is 0.01 to 0.1."""
    for key, row in numbers()[name]["rows"].items():
        assert row[-1] == pytest.approx(np.mean(row[:-1]), abs=0.11), key


def test_every_declared_row_and_column_of_the_paper_is_found():
    for spec in TABLES.values():
        if spec.name == "figure4":
            continue
        table = numbers()[spec.name]
        assert [column.key for column in spec.columns()] == table["columns"]
        assert set(table["rows"]) <= {row.paper or row.key for row in spec.rows}
        assert set(spec.datasets) <= set(list_datasets())
    assert len(SETTINGS) == 71


@needs(SOURCE)
@pytest.mark.parametrize("name", TABULAR)
def test_every_row_stands_in_the_papers_source(name):
    text = re.sub(r"\\(textbf|underline|cellcolor|rowcolor|textcolor)\{([^{}]*)\}", r"\2", SOURCE.read_text())
    lines = [[float(x) for x in re.findall(r"(?<![\w.])\d*\.?\d+(?![\w.])", line)] for line in text.splitlines()]
    table = numbers()[name]
    for kind in ("rows", "std"):
        for key, row in table.get(kind, {}).items():
            wanted = [float(x) for x in row if x is not None]
            found = any(line[i : i + len(wanted)] == wanted for line in lines for i in range(len(line)))
            assert found, (kind, key)

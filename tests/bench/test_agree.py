"""A number is compared with the published one where it was measured as that, and only there."""

import math
from dataclasses import replace

import pytest

from meantime.bench import TABLES, Cell, Table, write
from meantime.bench.grid import table7
from meantime.bench.paper import Published
from meantime.datasets import declarations, list_datasets


@pytest.fixture
def small_imagenet(monkeypatch):
    """ImageNet with as few test images as the stores have."""
    known = list_datasets()
    monkeypatch.setattr(declarations, "_DECLARED", known | {"imagenet": replace(known["imagenet"], test=24)})


def test_two_errors_decide():
    paper = Published(60.0, 0.3)
    for mean, agrees in ((61.1, True), (61.2, False), (58.6, False)):
        assert Cell((mean, mean), paper, sampling=0.5).agrees is agrees  # twice the root of 0.34
    assert Cell((60.0 + 2 * math.sqrt(0.34) - 1e-6,), paper, sampling=0.5).agrees
    assert Cell((60.0,), paper).agrees is None
    assert Cell((60.0,), sampling=0.5).agrees is None


def test_cells_are_judged_where_they_were_measured_as_in_the_paper(small_imagenet, make_store, bench):
    spec = TABLES["table1"].only(["mta", "zero"])
    store = make_store(n=64)
    (table,) = bench([store], n_views=None).tables([spec])
    cell = table.cells["mta", "imagenet"]
    p = cell.mean / 100
    assert cell.sampling == pytest.approx(100 * math.sqrt(p * (1 - p) / 24))
    assert cell.agrees is not None
    assert table.cells["zero", "imagenet"].agrees is None  # of other authors, with other templates
    assert table7(bench([store], n_views=None)).cells["4", "0.2"].agrees is not None
    others = [make_store(n=64, encoder="RN50:openai"), make_store(n=64, images=20)]
    for there, options in ((store, {"n_views": 8}), (others[0], {"model": "RN50:openai"}), (others[1], {})):
        b = bench([there], **{"n_views": None} | options)
        assert {c.agrees for t in (*b.tables([spec]), table7(b)) for c in t.cells.values()} == {None}


def test_the_last_line_counts_and_names_those_outside():
    cells = {
        ("mta", "a"): Cell((60.0,), Published(60.1), sampling=0.5),
        ("mta", "b"): Cell((65.0,), Published(60.0), sampling=0.5),
        ("clip", "a"): Cell((65.0,), Published(60.0)),
        ("clip", "b"): Cell(reason="no store"),
    }
    table = Table("t", "T", {"mta": "MTA", "clip": "CLIP"}, {"a": "A", "b": "B"}, cells)
    last = write.legend(table)[-1]
    assert last.startswith("1 of 2 cells agree with the published value")
    assert last.endswith("; outside, marked *: MTA, B (+5.00)")
    assert write.beside(cells["mta", "b"]) == "60.00 (+5.00*)"
    assert write.beside(cells["clip", "a"]) == "60.00 (+5.00)"
    assert [record["agrees"] for record in write.as_records(table)] == [True, False, None, None]

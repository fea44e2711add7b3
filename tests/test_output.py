import csv
import json
import os
import random
import resource
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from meantime import MeantimeError, Prediction
from meantime.output import Output
from meantime.prediction import failure

NOTHING = np.zeros(0)
GOOD = Prediction(
    "ä,b.jpg", ("cat", "dog"), np.array([0.3, 0.7]), np.array([0.6, 0.4]), np.ones(3) / 3, NOTHING, NOTHING
)
BAD = failure("x.jpg", ("cat", "dog"), "cannot be read")


def write(path, predictions):
    with Output(path, top=2) as out:
        for p in predictions:
            out.add(p)


def test_json_is_the_shape_of_zero_shot_pipelines(tmp_path):
    write(tmp_path / "x.json", [GOOD, BAD])
    good, bad = json.loads((tmp_path / "x.json").read_text("utf-8"))
    assert good == {
        "path": "ä,b.jpg",
        "label": "dog",
        "score": 0.7,
        "scores": [{"label": "dog", "score": 0.7}, {"label": "cat", "score": 0.3}],
        "plain_label": "cat",
        "n_views": 3,
    }
    assert bad["error"] == "cannot be read"
    write(tmp_path / "empty.json", [])
    assert json.loads((tmp_path / "empty.json").read_text()) == []


def test_csv_and_parquet_hold_the_same(tmp_path):
    write(tmp_path / "x.csv", [GOOD, BAD])
    write(tmp_path / "x.parquet", [GOOD, BAD])
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [r["path"] for r in rows] == [r["path"] for r in table] == ["ä,b.jpg", "x.jpg"]
    assert rows[0]["label"] == table[0]["label"] == "dog"
    assert table[1]["label"] is None
    assert rows[1]["error"] == table[1]["error"] == "cannot be read"
    assert json.loads(rows[0]["scores"])[0]["label"] == table[0]["scores"][0]["label"]
    assert [(r["plain_label"], r["n_views"]) for r in rows] == [("cat", "3"), ("", "")]
    assert [(r["plain_label"], r["n_views"]) for r in table] == [("cat", 3), (None, None)]


def test_json_lines_are_an_object_each(tmp_path):
    write(tmp_path / "x.JSONL", [GOOD, BAD])  # endings may be in capitals
    lines = (tmp_path / "x.JSONL").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [GOOD.to_dict(2), BAD.to_dict(2)]


@pytest.mark.parametrize(("ending", "read"), [("json", 1), ("jsonl", 1), ("csv", 2)])
def test_a_prediction_is_on_its_way_to_disk_at_once(tmp_path, ending, read):
    """For a process that is killed: each is one line, after the heading of CSV."""
    with Output(tmp_path / f"x.{ending}", top=1) as out:
        out.add(GOOD)
        assert GOOD.path in out.part.read_text("utf-8").splitlines()[read - (ending != "json")]


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
def test_an_interrupted_run_keeps_what_it_has(tmp_path, ending):
    path = tmp_path / f"x.{ending}"

    def run():
        with Output(path, top=1) as out:
            out.add(GOOD)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert path.stat().st_size > 0
    assert list(tmp_path.iterdir()) == [path]  # no partial file left behind


@pytest.mark.parametrize("ending", ["json", "jsonl", "csv", "parquet"])
def test_an_interrupted_run_replaces_nothing(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    path.write_text("good results")
    (tmp_path / f"x.{ending}.part").write_text("what a run that was killed has left")

    def run(out):
        with out:
            out.add(GOOD)
            raise KeyboardInterrupt

    for name in ("x-incomplete", "x-incomplete-2"):
        out = Output(path, top=1)
        with pytest.raises(KeyboardInterrupt):
            run(out)
        assert out.written == tmp_path / f"{name}.{ending}"
    assert path.read_text() == "good results"
    assert (tmp_path / f"x.{ending}.part").read_text() == "what a run that was killed has left"
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
def test_a_run_that_fails_at_once_leaves_the_old_results(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    path.write_text("good results")
    with pytest.raises(RuntimeError), Output(path, top=1):
        raise RuntimeError
    assert path.read_text() == "good results"
    assert list(tmp_path.iterdir()) == [path]


def test_file_names_that_are_not_unicode_are_written(tmp_path):
    name = os.fsdecode(b"caf\xe9.jpg")
    predictions = [replace(GOOD, path=name), failure(name, ("cat",), f"{name!r} cannot be read")]
    for ending in ("json", "csv", "parquet"):
        write(tmp_path / f"x.{ending}", predictions)
    assert [r["path"] for r in json.loads((tmp_path / "x.json").read_text("utf-8"))] == [name, name]
    shown = ["caf\\udce9.jpg"] * 2
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        assert [r["path"] for r in csv.DictReader(file)] == shown
    assert pq.read_table(tmp_path / "x.parquet")["path"].to_pylist() == shown


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
def test_a_full_disk_is_named_and_the_old_results_stay(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    path.write_text("good results")
    long = replace(GOOD, path=random.Random(0).randbytes(10_000).hex())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))  # Python ignores the signal that comes with it
    try:
        with pytest.raises(MeantimeError, match=r"x\..*part': File too large"):
            write(path, [long])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "good results"


def test_unknown_endings_and_unwritable_places_are_named(tmp_path):
    with pytest.raises(MeantimeError, match=r"\.json, \.jsonl, \.csv, \.parquet"):
        Output(tmp_path / "x.xlsx", 5)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(MeantimeError, match=r"folder\.json': it is a folder"):
        Output(tmp_path / "folder.json", 5)
    with pytest.raises(MeantimeError, match=r"nowhere"), Output(tmp_path / "nowhere" / "x.json", 5):
        pass

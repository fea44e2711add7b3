import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from meantime import MeantimeError, Prediction
from meantime.output import Output
from meantime.prediction import failure

NOTHING = np.zeros(0)
GOOD = Prediction("ä,b.jpg", ("cat", "dog"), np.array([0.3, 0.7]), np.array([0.6, 0.4]), NOTHING, NOTHING, NOTHING)
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


def test_unknown_endings_and_unwritable_places_are_named(tmp_path):
    with pytest.raises(MeantimeError, match=r"\.json, \.csv, \.parquet"):
        Output(tmp_path / "x.xlsx", 5)
    with pytest.raises(MeantimeError, match=r"nowhere"), Output(tmp_path / "nowhere" / "x.json", 5):
        pass

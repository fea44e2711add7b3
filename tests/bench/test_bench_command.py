"""`meantime bench` as it is typed: from stores, from images, with a file of one's own."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from toy import COLOURS, ToyEncoder, picture

import meantime as mt
from meantime import registry
from meantime.bench import figure1, load_plugin
from meantime.cli import bench as command
from meantime.cli import main
from meantime.extras import optional
from meantime.parquet import pq

EXAMPLE = Path(__file__).parents[2] / "examples" / "new_aggregator.py"


@pytest.fixture(autouse=True)
def _own_registry_and_cache(monkeypatch, tmp_path):
    """Methods that a plugin adds are gone after the test."""
    monkeypatch.setattr(registry, "_METHODS", mt.methods())
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a command: exit code, what it printed, and what it said of errors."""
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setattr(command, "load_encoder", lambda name: ToyEncoder())

    def run(*arguments):
        out = () if arguments[0] == "compare" else ("--out", tmp_path / "out")
        monkeypatch.setattr("sys.argv", ["meantime", "bench", *map(str, arguments), *map(str, out)])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code or 0, said.out, said.err

    return run


@pytest.fixture
def photos(tmp_path):
    """A folder with three classes of three photos."""
    for name in COLOURS:
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(picture(name, seed=i)).save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


def picture_size(path):
    with Image.open(path) as image:
        return image.size


def test_table1_from_stores(run, make_store, tmp_path):
    for seed in (0, 1):
        make_store("imagenet", seed)
    for name in ("table1", "imagenet"):
        code, out, _ = run(name, "--store", tmp_path / "stores", "--views", 6)
        assert code == 0
        assert "69.29 ± 0.09" in out
        assert "no store of imagenet-a with ViT-B-16" in out
        assert "needs a fitted head: meantime fit coop imagenet --shots 16" in out
    for suffix in ("md", "csv", "tex", "json", "parquet"):
        assert (tmp_path / "out" / f"table1.{suffix}").stat().st_size
    code, out, _ = run("compare", "mta", "clip", "--predictions", tmp_path / "out")
    assert code == 0
    assert "mta (6 views) minus clip (6 views)" in out
    assert "McNemar" in out
    assert "imagenet" in out


def test_only_some_rows(run, make_store, tmp_path):
    make_store("imagenet")
    for table, expected in (("table1", ["clip", "mta"]), ("rows", ["clip", "mta"]), ("table3", ["mta, crops", "clip"])):
        code, _, _ = run(table, "--store", tmp_path / "stores", "--views", 6, "--method", "mta", "--method", "clip")
        assert code == 0
        name = "rows-imagenet-vit-b-16-openai" if table == "rows" else table
        cells = json.loads((tmp_path / "out" / f"{name}.json").read_text())["cells"]
        assert list(dict.fromkeys(c["row"] for c in cells)) == expected


def test_all_of_some_rows(run, make_store, tmp_path):
    make_store("imagenet")
    code, out, _ = run("all", "--store", tmp_path / "stores", "--views", 6, "--method", "clip")
    assert code == 0
    assert "table1, table2, table4, table6 as" in out
    code, out, _ = run("figure4", "--store", tmp_path / "stores", "--dataset", "imagenet", "--method", "mta")
    assert code == 0
    assert (tmp_path / "out" / "figure4.png").is_file()
    code, _, err = run("few-shot", "--store", tmp_path / "stores", "--views", 6, "--method", "coop")
    assert (code, "table5: no cell could be filled" in err) == (1, True)
    cells = json.loads((tmp_path / "out" / "table5.json").read_text())["cells"]
    assert {c["row"] for c in cells} == {"coop"}


@pytest.mark.parametrize("table", ["table1", "table4", "table5", "figure3", "figure4", "table11", "rows", "all"])
def test_every_method_that_is_asked_for_is_a_row(run, make_store, tmp_path, table):
    make_store("imagenet")
    load_plugin(EXAMPLE)
    asked = ("mta-exact", "zero", "median", "zero@coop")
    methods = [x for name in asked for x in ("--method", name)]
    only = () if table in ("rows", "all") else ("--dataset", "imagenet")
    code, _, _ = run(table, "--store", tmp_path / "stores", "--views", 6, "--seeds", 1, *methods, *only)
    assert code == 0
    name = {"rows": "rows-imagenet-vit-b-16-openai", "all": "table11"}.get(table, table)
    cells = json.loads((tmp_path / "out" / f"{name}.json").read_text())["cells"]
    shown = {cell["row"].partition("/")[2] or cell["row"] for cell in cells}
    assert shown == set(asked) - ({"zero"} if table == "all" else set())  # of all tables only the first two have zero
    if table in ("table5", "table1"):
        by_row = {(c["row"], c["column"]): c for c in cells}
        column = "16" if table == "table5" else "imagenet"
        assert by_row["mta-exact", column]["mean"] is not None
        assert "meantime fit coop imagenet" in by_row["zero@coop", column]["reason"]


def test_only_this_runs_answers_lie_beside_a_table(run, make_store, tmp_path):
    make_store("imagenet")
    arguments = ("--store", tmp_path / "stores", "--views", 6, "--method", "clip")
    code, out, _ = run("table1", *arguments)
    assert f"each image's answers: {tmp_path / 'out' / 'table1.parquet'}" in out
    code, out, _ = run("table2", *arguments)  # of which no store has a dataset
    assert code == 1
    assert "each image's answers" not in out
    assert (tmp_path / "out" / "table1.parquet").is_file()
    code, out, _ = run("all", *arguments)
    assert code == 0
    assert f"each image's answers: {tmp_path / 'out' / 'predictions.parquet'}" in out
    assert not (tmp_path / "out" / "table1.parquet").exists()
    code, out, _ = run("table1", "--store", tmp_path / "stores", "--views", 6, "--method", "coop")
    assert code == 1
    assert "each image's answers" not in out


def test_table5_keeps_the_answers_of_each_dataset(run, make_store, tmp_path):
    for name in ("mine", "yours"):
        make_store(name)
    datasets = ("--dataset", "mine", "--dataset", "yours")
    code, _, _ = run("table5", "--store", tmp_path / "stores", "--views", 6, "--method", "clip", *datasets)
    assert code == 0
    for name in ("mine", "yours"):
        (dataset,) = set(pq.read_table(tmp_path / "out" / f"table5-{name}.parquet")["dataset"].to_pylist())
        assert dataset == name


def test_a_backbone_finds_its_stores_in_rows_too(run, make_store, tmp_path):
    make_store("imagenet")
    code, out, _ = run("rows", "--store", tmp_path / "stores", "--model", "ViT-B-16")
    assert code == 0
    assert "ViT-B-16:openai" in out


def test_the_grid_and_figures(run, make_store, tmp_path):
    make_store("imagenet", n=8)
    stores = ("--store", tmp_path / "stores")
    code, out, _ = run("lambda-grid", *stores, "--views", 8)
    assert code == 0
    assert "MeanShift" in out
    assert picture_size(tmp_path / "out" / "table7.png") > (800, 400)
    code, out, _ = run("figure4", *stores, "--dataset", "imagenet")
    assert "the store of imagenet has 8 views, not 16" in out
    assert picture_size(tmp_path / "out" / "figure4.png") > (600, 400)
    assert run("figure1", *stores)[0] == 0
    assert picture_size(tmp_path / "out" / "figure1-imagenet.png") > (1000, 400)
    assert "has no image 99; it has 24" in run("figure1", *stores, "--image", 99)[2]
    assert "choose one by --dataset" in run("figure1", *stores, "--dataset", "pets")[2]


def test_all_reads_a_store_once_for_its_tables(run, make_store, tmp_path):
    make_store("imagenet", n=6)
    code, _, _ = run("all", "--store", tmp_path / "stores", "--views", 6)
    assert code == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    tables = {
        f"{name}.md" for name in ("table1", "table2", "table3", "table4", "table6", "table7", "table11", "figure4")
    }
    assert tables | {"figure1-imagenet.png", "table7.png", "predictions.parquet"} <= names


def test_a_file_of_ones_own_is_in_every_table(run, make_store, tmp_path):
    store = make_store("imagenet")
    arguments = ("--store", tmp_path / "stores", "--views", 6, "--plugin", EXAMPLE)
    assert run("table1", *arguments)[0] == 0
    cells = json.loads((tmp_path / "out" / "table1.json").read_text())["cells"]
    (found,) = [c["mean"] for c in cells if (c["row"], c["column"]) == ("median", "imagenet")]
    (batch,) = store.batches(100)
    median = mt.methods()["median"]
    logits = median(batch.views, {"text": mt.TextHead(store.texts.single, 10.0)}).logits
    assert found == pytest.approx(100 * np.mean(logits.argmax(-1) == batch.labels))
    assert "there is a method 'median' already" in run("table6", *arguments)[2]
    for table in ("table6", "table11", "rows"):
        registry._METHODS.pop("median")
        registry._METHODS.pop("median+e")
        code, out, _ = run(table, *arguments, *(() if table == "rows" else ("--dataset", "imagenet")))
        assert code == 0
        assert "median+e" in out, table


def test_the_example_finds_the_geometric_median():
    load_plugin(EXAMPLE)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 9, 4))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    answer = mt.methods()["median"](x, {"text": mt.TextHead(np.eye(4))})

    def total(m):
        return np.linalg.norm(x - m[:, None], axis=-1).sum(axis=1)

    for _ in range(50):
        near = answer.mode + rng.normal(scale=0.05, size=answer.mode.shape)
        near /= np.linalg.norm(near, axis=-1, keepdims=True)
        assert (total(answer.mode) <= total(near) + 1e-3).all()
    np.testing.assert_allclose(answer.weights.sum(-1), 1)


def test_rows_from_ones_own_photos(run, photos, tmp_path):
    (tmp_path / "made").mkdir()  # a folder that is there and empty is filled like one that is not
    arguments = ("rows", "--data", photos, "--store", tmp_path / "made", "--views", 3, "--seeds", 2)
    code, out, _ = run(*arguments)
    assert code == 0
    assert "photos: 9 images, 3 names, 3 views, seed 0, 1, toy" in out
    made = sorted(path.name for path in (tmp_path / "made").iterdir())
    assert made == ["photos-embedded-crop3-seed0", "photos-embedded-crop3-seed1"]
    assert picture_size(tmp_path / "out" / "reliability-photos-toy.png") > (600, 400)


def test_tables_from_images_encode_only_what_is_missing(run, tmp_path, monkeypatch):
    root = tmp_path / "data" / "eurosat"
    entries = []
    for label, name in enumerate(COLOURS):
        (root / "2750" / name).mkdir(parents=True)
        Image.fromarray(picture(name)).save(root / "2750" / name / "a.png")
        entries.append([f"{name}/a.png", label, name])
    (root / "split_zhou_EuroSAT.json").write_text(json.dumps({"train": [], "val": [], "test": entries}))
    monkeypatch.setattr(ToyEncoder, "name", "embedded")
    arguments = ("table11", "--data", tmp_path / "data", "--store", tmp_path / "made", "--views", 3, "--seeds", 1)
    code, _, err = run(*arguments)
    assert (code, "nothing to measure" in err) == (2, True)  # three images are not the published 8100
    code, out, err = run(*arguments, "--unchecked")
    assert code == 0
    assert "not encoded: pets with embedded" in err
    assert "no store of pets with embedded" in out
    (store,) = (tmp_path / "made").iterdir()
    before = (store / "shard-00000.parquet").stat().st_mtime_ns
    assert run(*arguments, "--unchecked")[0] == 0
    assert (store / "shard-00000.parquet").stat().st_mtime_ns == before


def test_what_cannot_be_run(run, make_store, tmp_path):
    assert "give --store DIR" in run("table1")[2]
    assert "there is no folder" in run("table1", "--store", tmp_path / "none")[2]
    make_store()
    assert "expected at least 1" in run("table1", "--store", tmp_path / "stores", "--seeds", 0)[2]
    said = run("table11", "--store", tmp_path / "stores", "--method", "nobody", "--method", "mta")[2]
    assert "table11 has no row nobody; it has 'meanshift', 'confidence', 'mta', and there is no method 'nobody'" in said
    assert "has no row nobody" in run("table5", "--store", tmp_path / "stores", "--method", "nobody")[2]
    assert "all has no row nobody; it has" in run("all", "--store", tmp_path / "stores", "--method", "nobody")[2]
    assert "expected at least 1" in run("table1", "--store", tmp_path / "stores", "--views", 0)[2]
    assert "there is no method 'nobody'" in run("rows", "--store", tmp_path / "stores", "--method", "nobody")[2]
    for name in ("table7", "figure1"):
        said = run(name, "--store", tmp_path / "stores", "--method", "mta", "--method", "zero")[2]
        assert f"{name} is of mta alone; zero cannot be shown in it" in said
    assert "metric is 'speed'" in run("table1", "--store", tmp_path / "stores", "--metric", "speed")[2]


def test_figure1_shows_the_solvers_own_inlierness(make_store):
    store = make_store("imagenet", n=8)
    shown = figure1.spreading(store, 5)
    (batch,) = store.batches(100)
    r = mt.mta(batch.views[5].astype(np.float64), mt.TextHead(store.texts.single, 10.0), trace=True)
    np.testing.assert_allclose(shown.inlierness[0], 1 / 8)
    np.testing.assert_allclose(shown.inlierness[-1], r.inlierness, atol=1e-5)
    assert shown.mta_path.shape == (len(r.path), 2)
    np.testing.assert_allclose(shown.mta_path[0], shown.points[0], atol=1e-5)
    np.testing.assert_allclose(shown.shift_path[0], shown.points[0], atol=1e-5)
    assert 0 < shown.seen <= 1


def test_without_matplotlib_tables_stand_alone(run, make_store, tmp_path, monkeypatch):
    make_store("imagenet", n=6)

    def missing(module, feature, extra):
        if module.startswith("matplotlib"):
            raise mt.MissingExtraError(feature, extra)
        return optional(module, feature, extra)

    monkeypatch.setattr("meantime.bench.plots.optional", missing)
    code, _, err = run("table7", "--store", tmp_path / "stores", "--views", 6)
    assert code == 0
    assert "pip install 'meantime[plots]'" in err
    assert (tmp_path / "out" / "table7.md").is_file()

"""A file of one's own: what it adds is known to every command."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from toy import COLOURS, ToyEncoder, picture

import meantime as mt
from meantime import MeantimeError, registry
from meantime.cli import classify, evaluate, main
from meantime.datasets import declarations, list_datasets
from meantime.datasets.wnids import wnid_names
from meantime.plugins import load_plugin
from meantime.store import import_arrays

EXAMPLE = Path(__file__).parents[1] / "examples" / "new_aggregator.py"
DATASET = """
from meantime.datasets import ClassFolders, Declaration, add_dataset
layout = ClassFolders({"test": ("val",)}, subset=("n01440764",))
add_dataset(Declaration("tenches", "Tenches alone", 1, 2, ("tenches",), (layout,)))
"""


@pytest.fixture(autouse=True)
def _own_registries(monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "_METHODS", mt.methods())
    monkeypatch.setattr(declarations, "_DECLARED", list_datasets())
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(monkeypatch, capsys):
    for command in (classify, evaluate):
        monkeypatch.setattr(command, "load_encoder", lambda *_, **__: ToyEncoder())

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["meantime", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code or 0, said.out, said.err

    return run


def test_plugins_that_do_not_work(tmp_path):
    (tmp_path / "nothing.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "taken.py").write_text("import meantime as mt\nmt.add_method('mta', mt.methods()['clip'])\n")
    for name, message in (
        ("nothing", "added no method and no dataset"),
        ("broken", "broken.py' failed: ZeroDivisionError"),
        ("taken", "taken.py' failed: there is a method 'mta' already"),
        ("none", "there is no"),
    ):
        with pytest.raises(MeantimeError, match=message):
            load_plugin(tmp_path / f"{name}.py")


def test_a_method_of_ones_own_in_every_command(run, tmp_path):
    for name in COLOURS:
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.fromarray(picture(name)).save(tmp_path / "photos" / name / "0.png")
    asked = ("--method", "median", "--views", 4)
    code, out, _ = run("--plugin", EXAMPLE, "classify", tmp_path / "photos/red/0.png", "--labels", "red,blue", *asked)
    assert code == 0
    assert "red" in out
    code, out, _ = _again(run, "evaluate", tmp_path / "photos", *asked, "--seeds", 1)
    assert code == 0
    assert "median" in out
    code, out, _ = _again(run, "methods")
    assert "geometric median" in out


def _again(run, *arguments):
    for name in ("median", "median+e"):
        registry._METHODS.pop(name)
    return run("--plugin", EXAMPLE, *arguments)


def test_a_dataset_of_ones_own_in_the_shell(run, tmp_path):
    (tmp_path / "mine.py").write_text(DATASET)
    for i in range(2):
        place = tmp_path / "tenches" / "val" / next(iter(wnid_names()))
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture("green", seed=i)).save(place / f"{i}.png")
    code, out, _ = run("--plugin", tmp_path / "mine.py", "datasets", "check", "tenches", tmp_path)
    assert (code, out.splitlines()[-1]) == (0, "ok")


def test_a_plugin_before_the_command_has_rows_in_the_bench_too(run, tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"views": rng.normal(size=(6, 4, 5)), "labels": np.arange(6) % 3, "names": np.array(["a", "b", "c"])}
    np.savez(tmp_path / "x.npz", **arrays, text_single=rng.normal(size=(3, 5)))
    import_arrays(tmp_path / "x.npz", tmp_path / "store", name="mine", encoder="e")
    places = ("--store", tmp_path / "store", "--out", tmp_path / "out", "--views", 4, "--dataset", "mine")
    code, _, _ = run("--plugin", EXAMPLE, "bench", "table11", *places)
    assert code == 0
    cells = json.loads((tmp_path / "out" / "table11.json").read_text())["cells"]
    assert "median" in {cell["row"] for cell in cells if cell["mean"] is not None}

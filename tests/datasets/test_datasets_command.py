"""`meantime datasets` as it is typed."""

import pytest
from trees import class_folders
from typer.testing import CliRunner

from meantime.cli import app


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, ["datasets", *map(str, arguments)])


def test_list_names_all_with_their_sizes(run):
    result = run("list")
    assert result.exit_code == 0
    assert "imagenet-sketch" in result.output
    assert "50,889" in result.output


def test_check_says_what_is_wrong_and_fails(run, tmp_path):
    class_folders(tmp_path / "val", ["n01440764"])
    result = run("check", "imagenet", tmp_path)
    assert result.exit_code == 1
    assert "imagenet (test): 2 of 50000 images, 1 of 1000 classes" in result.output
    assert "problem: 2 images, published are 50000" in result.output


def test_check_of_own_data(run, tmp_path):
    class_folders(tmp_path / "mine", ["cat", "dog"])
    result = run("check", tmp_path / "mine")
    assert result.exit_code == 0
    assert "4 images, 2 classes" in result.output
    assert result.output.endswith("ok\n")

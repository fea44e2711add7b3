"""The command line as a user types it: in a process of its own, with the embedded encoder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LABELS = "cat,cup of coffee,rocket"


@pytest.fixture
def meantime(tmp_path):
    def run(*arguments, **options):
        environment = os.environ | {"MEANTIME_CACHE": str(tmp_path / "cache"), "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, "-c", "from meantime.cli import main; main()", *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            **options,
        )

    return run


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "my photos"
    folder.mkdir()
    for name in ("chelsea", "coffee"):
        shutil.copy(EXAMPLES / "photos" / f"{name}.jpg", folder)
    return folder


def test_a_folder_is_classified_written_and_reported(meantime, photos, tmp_path):
    (photos / "broken.jpg").write_bytes(b"\xff\xd8 not a photo")
    run = meantime(
        "classify", photos, "--labels", LABELS, "--views", 8, "--out", "x.json", "--report", "x.html", "--top", 2
    )
    assert run.returncode == 0, run.stderr
    assert "cup of coffee" in run.stdout
    assert "broken.jpg" in run.stderr
    results = {Path(r["path"]).name: r for r in json.loads((tmp_path / "x.json").read_text())}
    assert results["chelsea.jpg"]["label"] == "cat"
    assert len(results["coffee.jpg"]["scores"]) == 2
    assert results["broken.jpg"]["error"]
    assert "chelsea.jpg" in (tmp_path / "x.html").read_text()


def test_paths_from_standard_input_and_globs(meantime, photos):
    listed = "\n".join(map(str, sorted(photos.iterdir())))
    run = meantime("classify", "-", "--labels", LABELS, "--views", 1, input=listed)
    assert "2 classified" in run.stderr
    run = meantime("classify", f"{photos}/*.jpg", "--labels", LABELS, "--views", 1)
    assert "2 classified" in run.stderr


def test_only_if_nothing_could_be_classified_the_status_is_bad(meantime, photos):
    run = meantime("classify", "nowhere.jpg", photos / "coffee.jpg", "--labels", LABELS, "--views", 1)
    assert run.returncode == 0
    assert "nowhere.jpg" in run.stderr
    run = meantime("classify", "nowhere.jpg", "--labels", LABELS, "--views", 1)
    assert run.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--labels", "names.txt"], "names.txt"),
        (["--labels", LABELS, "--method", "nope"], "mta+e"),
        (["--labels", LABELS, "--model", "embeded"], "Did you mean 'embedded'"),
        (["--labels", LABELS, "--out", "x.docx"], ".parquet"),
        (["--labels", LABELS, "--template", "no place"], "{c}"),
    ],
)
def test_mistakes_get_one_sentence(meantime, photos, arguments, words):
    run = meantime("classify", photos, *arguments)
    assert run.returncode == 2
    assert words in run.stderr
    assert "Traceback" not in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_abstaining_is_said(meantime, photos, tmp_path):
    meantime("classify", photos, "--labels", LABELS, "--views", 2, "--abstain", 1.0, "--out", "x.json")
    assert all(r["abstained"] and r["label"] is None for r in json.loads((tmp_path / "x.json").read_text()))


def test_evaluate_puts_methods_side_by_side(meantime, tmp_path):
    for name, photo in (("cat", "chelsea"), ("cup of coffee", "coffee")):
        (tmp_path / "mine" / name).mkdir(parents=True)
        shutil.copy(EXAMPLES / "photos" / f"{photo}.jpg", tmp_path / "mine" / name)
    run = meantime("evaluate", "mine", "--views", 4, "--seeds", 2, "--method", "mta", "--method", "zero")
    assert run.returncode == 0, run.stderr
    assert "100.00 ± 0.00" in run.stdout
    assert all(name in run.stdout for name in ("clip", "mta", "zero"))


def test_explain_writes_a_picture(meantime, photos, tmp_path):
    run = meantime("explain", photos / "chelsea.jpg", "--labels", LABELS, "--views", 8)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "chelsea-explained.png").read_bytes().startswith(b"\x89PNG")


def test_models_and_methods_are_listed(meantime):
    assert "embedded" in meantime("models").stdout
    listed = meantime("methods").stdout
    assert all(name in listed for name in ("mta+e", "confidence-mode", "zero"))


def test_auto_views_tell_how_many_they_took(meantime, photos):
    run = meantime("classify", photos, "--labels", LABELS, "--views", "auto")
    assert run.returncode == 0, run.stderr
    assert "2 classified by 8.0 views on average" in run.stderr
    run = meantime("classify", photos, "--labels", LABELS, "--views", "some")
    assert run.returncode == 2
    assert "'some'" in run.stderr

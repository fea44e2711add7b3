"""The command line as a user types it: in a process of its own, with the embedded encoder."""

import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from importlib.metadata import version
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LABELS = "cat,cup of coffee,rocket"


@pytest.fixture
def meantime(tmp_path):
    def run(*arguments, COLUMNS="200", **options):
        environment = os.environ | {"MEANTIME_CACHE": str(tmp_path / "cache"), "COLUMNS": COLUMNS}
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
    run = meantime("classify", "-", "--labels", LABELS, "--views", 1, input=listed.replace("\n", "\r\n"))
    assert "2 classified\n" in run.stderr
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--port", 99999], "--port"),
        (["serve", "--log-level", "loud"], "loud"),
        (["serve", "--threads", -1], "--threads"),
        (["serve", "--max-body", "nan"], "--max-body"),
        (["classify", "x.jpg", "--labels", LABELS, "--threads", 0], "--threads"),
        (["classify", "x.jpg", "--labels", LABELS, "--top", -1], "--top"),
        (["evaluate", ".", "--labels", LABELS, "--seeds", 0], "--seeds"),
        (["explain", EXAMPLES / "photos" / "coffee.jpg", "--labels", LABELS, "--out", "e.jpg"], ".png"),
    ],
)
def test_impossible_values_are_named_without_a_trace(meantime, arguments, words):
    run = meantime(*arguments)
    assert run.returncode == 2
    assert words in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr


def test_a_full_disk_gets_one_sentence(meantime, photos):
    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    arguments = ["classify", photos, "--labels", LABELS, "--views", 1, "--report", "x.html"]
    run = meantime(*arguments, preexec_fn=full)
    assert run.returncode == 2
    assert run.stderr.strip() == "meantime: File too large"


def test_in_a_pipe_nothing_is_cut(meantime, photos, tmp_path):
    deep = tmp_path / ("a long name of a folder " * 5) / "another"
    shutil.copytree(photos, deep)
    (deep / os.fsdecode(b"caf\xe9.jpg")).write_bytes((deep / "coffee.jpg").read_bytes())
    run = meantime("classify", deep, tmp_path / "nowhere", "--labels", LABELS, "--views", 1)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    paths = [deep / "caf\\udce9.jpg", deep / "chelsea.jpg", deep / "coffee.jpg", tmp_path / "nowhere"]
    assert [row[0] for row in rows] == list(map(str, paths))
    assert [row[1] for row in rows] == ["cup of coffee", "cat", "cup of coffee", ""]
    assert all(0.5 < float(row[2]) <= 1 for row in rows[:3])


def on_a_terminal(command, columns=80):
    """What a command prints on a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name != "COLUMNS"} | {"TERM": "dumb"}
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    printed = b""
    with contextlib.suppress(OSError), open(ours, "rb", buffering=0) as file:  # an error is how a terminal ends
        while piece := file.read(4096):
            printed += piece
    process.wait(60)
    return printed.decode()


def test_on_a_narrow_terminal_label_and_score_are_whole(photos, tmp_path):
    for name in ("chelsea", "coffee"):
        (photos / f"{name}.jpg").rename(photos / f"{'a long name of a photo ' * 6}{name}.jpg")
    command = [sys.executable, "-m", "meantime", "classify", photos, "nosuch/", "--labels", LABELS, "--views", "1"]
    printed = on_a_terminal(list(map(str, command)))
    assert "cup of coffee" in printed
    assert len(re.findall(r"[01]\.\d\d ", printed)) >= 2
    assert "…" not in printed
    alone = [sys.executable, "-m", "meantime", "classify", "nosuch/", "--labels", LABELS]
    assert re.search(r"^nosuch/ +unreadable", on_a_terminal(alone), re.MULTILINE)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_told_to_stop_keeps_what_it_has(photos, tmp_path, how):
    many = "\n".join([str(photos / "coffee.jpg")] * 500)
    command = [sys.executable, "-m", "meantime", "classify", "-", "--labels", LABELS, "--views", "8"]
    place = tmp_path / "results"
    place.mkdir()
    process = subprocess.Popen(
        [*command, "--out", place / "x.json", "--report", place / "x.html"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdin.write(many)
    process.stdin.close()
    # A tile: the first images are in the report, and so many that not all of them are shown in full
    while not any(path.stat().st_size for path in place.glob(".x.html.*/same/*")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(how)
    said = process.stderr.read()
    assert process.wait(60) == 130
    assert "of 500 images" in said
    assert f"wrote {place / 'x.json'} (incomplete)" in said
    assert "Traceback" not in said
    assert sorted(path.name for path in place.iterdir()) == ["x.html", "x.json"]
    assert 0 < len(json.loads((place / "x.json").read_text())) < 500
    assert "the run was interrupted" in (place / "x.html").read_text()


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
    listed = meantime("models", COLUMNS="80").stdout
    assert all(name in listed for name in ("embedded", "hf:openai/clip-vit-base-patch16", "hf:google/siglip2-base-"))
    assert "…" not in listed + meantime("datasets", "list", COLUMNS="80").stdout
    listed = meantime("methods").stdout
    assert all(name in listed for name in ("mta+e", "confidence-mode", "zero"))


def test_auto_views_tell_how_many_they_took(meantime, photos):
    run = meantime("classify", photos, "--labels", LABELS, "--views", "auto")
    assert run.returncode == 0, run.stderr
    assert "2 classified by 8.0 views on average" in run.stderr
    run = meantime("classify", photos, "--labels", LABELS, "--views", "some")
    assert run.returncode == 2
    assert "'some'" in run.stderr


def test_the_version_and_the_module(meantime):
    run = meantime("--version")
    assert (run.returncode, run.stdout) == (0, f"meantime {version('meantime')}\n")
    module = subprocess.run([sys.executable, "-m", "meantime", "--version"], capture_output=True, text=True, timeout=60)
    assert module.stdout == run.stdout

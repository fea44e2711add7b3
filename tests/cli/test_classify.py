"""`meantime classify` over many photos: whatever ends it, nothing is lost and nothing is replaced unasked."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PHOTO = Path(__file__).parents[2] / "examples" / "photos" / "coffee.jpg"
LABELS = "cat,cup of coffee,rocket"
COMMAND = [sys.executable, "-m", "meantime", "classify"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder of a run: photos in `photos`."""
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "photos").mkdir()
    for i in range(3):
        shutil.copy(PHOTO, tmp_path / "photos" / f"{i}.jpg")
    return tmp_path


@pytest.fixture
def start(place):
    def begin(*arguments, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
        return subprocess.Popen([*COMMAND, "--labels", LABELS, *map(str, arguments)], cwd=place, **options)

    return begin


@pytest.fixture
def run(start):
    def whole(*arguments, **options):
        process = start(*arguments, **options)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    return whole


def many(place, n=500):
    """A list of so many photos, for standard input."""
    (place / "list").write_text("".join(f"photos/{i % 3}.jpg\n" for i in range(n)))
    return (place / "list").open()


def wait(process, condition):
    while not condition():
        assert process.poll() is None
        time.sleep(0.02)


def lines(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_an_interrupted_run_leaves_what_was_there_and_says_how_to_go_on(start, place):
    for made in ("x.json", "x.html"):
        (place / made).write_text("of a run that was complete")
    process = start("-", "--views", 8, "--out", "x.json", "--report", "x.html", stdin=many(place))
    wait(process, lambda: lines(place / "x.json.part") > 2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "of 500 images; with --store DIR, the next run goes on from there" in said
    assert "wrote x-incomplete.json (incomplete)\nwrote x-incomplete.html (incomplete)" in said
    for made in ("x.json", "x.html"):
        assert (place / made).read_text() == "of a run that was complete"
    assert len(json.loads((place / "x-incomplete.json").read_text())) > 0


def test_an_interrupted_run_with_a_store_is_gone_on_with(start, run, place):
    for i in range(3, 90):
        shutil.copy(PHOTO, place / "photos" / f"{i}.jpg")
    process = start("photos", "--views", 16, "--batch", 1, "--store", "s", "--out", "x.csv")
    wait(process, lambda: list(place.glob("s/part-00001/shard-00001.parquet")))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    there = int(said.split("stopped; ")[1].split()[0])
    assert 0 < there < 90
    assert f"{there} of 90 images are encoded in s: the same command goes on from there" in said
    assert not (place / "x.csv").exists()
    code, out, said = run("photos", "--views", 16, "--batch", 1, "--store", "s", "--out", "x.csv")
    assert (code, len(out.splitlines())) == (0, 90), said
    rows = [len(json.loads(path.read_text())["shards"]) for path in sorted(place.glob("s/*/manifest.json"))]
    assert len(rows) == 2


def test_when_the_reader_has_had_enough_the_files_are_still_finished(start, place):
    process = start("-", "--views", 1, "--out", "x.csv", "--report", "x.html", stdin=many(place, 40))
    assert process.stdout.readline().startswith("photos/0.jpg\tcup of coffee")
    process.stdout.close()
    assert process.wait(300) == 0
    assert "40 classified" in process.stderr.read()
    assert lines(place / "x.csv") == 41
    assert (place / "x.html").exists()


def test_when_nobody_is_left_to_hear_of_it_the_run_ends(start, place):
    process = start("-", "--views", 1, stdin=many(place, 100_000))
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(300) == 0
    said = process.stderr.read()
    assert "Traceback" not in said
    assert "Broken" not in said


def test_a_process_that_is_killed_leaves_its_results_in_the_part_file(start, place):
    process = start("-", "--views", 1, "--out", "x.jsonl", stdin=many(place, 5000))
    wait(process, lambda: lines(place / "x.jsonl.part") > 2)
    process.kill()
    process.communicate()
    assert json.loads((place / "x.jsonl.part").read_text().splitlines()[0])["path"] == "photos/0.jpg"


@pytest.fixture
def terminal(start):
    """Begin a command on a terminal, of which what is read comes back in the end."""

    def begin(*arguments, streams=("stdout", "stderr"), **options):
        ours, theirs = pty.openpty()
        process = start(*arguments, **dict.fromkeys(streams, theirs), **options)
        os.close(theirs)

        def read(until=None):
            seen = b""
            try:
                while (until is None or until not in seen) and (piece := os.read(ours, 4096)):
                    seen += piece
            except OSError:  # how a terminal ends
                os.close(ours)
            return seen.decode()

        return process, read

    return begin


def test_lines_go_to_their_file_while_the_bar_is_on_the_terminal(terminal, place):
    with (place / "lines").open("w") as file:
        process, read = terminal("photos", "--views", 1, streams=("stderr",), stdout=file)
        shown = read()
    assert process.wait(60) == 0
    assert "photos/0.jpg" not in shown
    assert lines(place / "lines") == 3


def test_on_a_terminal_an_interrupted_run_shows_what_it_has(terminal, place):
    process, read = terminal("-", "--views", 8, "--out", "x.jsonl", stdin=many(place))
    wait(process, lambda: lines(place / "x.jsonl.part") > 2)
    process.send_signal(signal.SIGINT)
    shown = read()
    assert process.wait(60) == 130
    assert "0.jpg" in shown
    assert "cup of coffee" in shown
    assert shown.index("cup of coffee") < shown.index("stopped after")


def test_on_a_terminal_it_is_said_first_that_not_all_are_shown(terminal, place):
    (place / "list").write_text("nowhere.jpg\n" * 300)
    with (place / "list").open() as file:
        process, read = terminal("-", "--views", 1, stdin=file)
        shown = read()
    assert process.wait(60) == 1
    said = "of 300 images 200 will be shown; --out x.csv keeps all"
    assert shown.index(said) < shown.index("does not exist")
    assert "100 more are not shown" in shown


def test_images_without_an_answer_are_counted_apart(run, place):
    (place / "photos" / "broken.jpg").write_bytes(b"no photo")
    code, _, said = run("photos", "--views", 2, "--abstain", 1.0)
    assert code == 0
    assert "0 classified, 3 without an answer, 1 unreadable" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "photos"], "must end in one of"),
        (["--out", "folder.json"], "it is a folder"),
        (["--out", "nowhere/x.json"], "No such file or directory"),
        (["--out", "x.json", "--report", "./x.json"], "each a file of its own"),
        (["--views", "1000000"], "at most 2048"),
        (["--labels", "names.csv"], "there is no label file 'names.csv'"),
        (["--sort-into", "photos"], "sort into another folder"),
        (["--sort-into", "a file"], "it is a file"),
        (["--store", "photos"], "holds other things"),
    ],
)
def test_what_cannot_be_done_is_told_before_the_run(run, place, arguments, words):
    (place / "folder.json").mkdir()
    (place / "a file").touch()
    before = sorted(place.iterdir())
    code, out, said = run("photos", *arguments)
    assert (code, out) == (2, "")
    assert words in said
    assert len(said.splitlines()) == 1
    assert [path for path in sorted(place.iterdir()) if path.name != "cache"] == before


def test_photos_are_sorted_by_their_label(run, place):
    (place / "photos" / "broken.jpg").write_bytes(b"no photo")
    code, _, said = run("photos", "--views", 1, "--sort-into", "by label")
    assert code == 0
    assert "sorted into by label: 4 linked" in said
    assert sorted(str(p.relative_to(place / "by label")) for p in (place / "by label").rglob("*.jpg")) == [
        "_unreadable/broken.jpg",
        *(f"cup of coffee/{i}.jpg" for i in range(3)),
    ]

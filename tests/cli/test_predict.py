"""`meantime predict` as it is typed: embeddings in, answers out, by every method that texts allow."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from shared import COCO, needs

import meantime as mt
from meantime.cli import main
from meantime.parquet import pa, pq
from meantime.registry import training_free
from meantime.store import import_arrays

NAMES = ("cat", "dog", "owl")


@pytest.fixture
def arrays():
    """9 images of 5 views around one of 3 classes, some astray."""
    rng = np.random.default_rng(3)
    texts = rng.normal(size=(3, 8)).astype(np.float32)
    views = texts[np.arange(9) % 3, None] + rng.normal(scale=2.5, size=(9, 5, 8))
    return {"views": views.astype(np.float32), "names": np.array(NAMES), "text_single": texts}


@pytest.fixture
def files(arrays, tmp_path, monkeypatch):
    """views.npy, texts.npz and the store s, where the commands run."""
    monkeypatch.chdir(tmp_path)
    np.save("views.npy", arrays["views"])
    np.savez("texts.npz", names=arrays["names"], text_single=arrays["text_single"], logit_scale=5.0)
    np.savez("all.npz", **arrays)
    import_arrays("all.npz", "s", logit_scale=5)


@pytest.fixture
def run(files, monkeypatch, capsys):
    """Run a command: exit code, what it printed, and what it said of errors."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["meantime", "predict", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return run


def labels_of(out):
    return [line.split("\t")[1] for line in out.splitlines()]


def test_answers_are_those_of_mta(run, arrays):
    code, out, err = run("views.npy", "--classes", "texts.npz")
    expected = mt.mta(arrays["views"], arrays["text_single"], logit_scale=5.0)
    assert (code, labels_of(out)) == (0, [NAMES[i] for i in expected.labels])
    assert "9 classified" in err
    assert "logit scale" not in err
    plain = mt.TextHead(arrays["text_single"])(arrays["views"][:, 0]).argmax(axis=-1)
    assert [line.split("\t")[3] for line in out.splitlines()] == [NAMES[i] for i in plain]
    assert any(line.split("\t")[1] != line.split("\t")[3] for line in out.splitlines())


def test_every_source_gives_the_same_answers(run, arrays):
    rows = [list(map(float, view)) for view in arrays["views"].reshape(-1, 8)]
    pq.write_table(pa.table({"key": np.repeat(np.arange(9), 5), "embedding": pa.array(rows)}), "views.parquet")
    _, expected, _ = run("views.npy", "--classes", "texts.npz")
    for arguments in (
        ("views.parquet", "--classes", "texts.npz"),
        ("all.npz", "--logit-scale", 5),
        ("s",),
        ("s", "--classes", "texts.npz"),
    ):
        code, out, _ = run(*arguments)
        assert (code, labels_of(out)) == (0, labels_of(expected))


def test_files_are_those_of_classify(run):
    level = sorted(float(line.split("\t")[2]) for line in run("s")[1].splitlines())[4]
    for name in ("x.json", "x.csv", "x.parquet"):
        code, _, err = run("s", "--out", name, "--top", 2, "--abstain", level)
        assert (code, f"wrote {name}" in err) == (0, True)
    answers = json.loads(Path("x.json").read_text())
    assert [len(a["scores"]) for a in answers] == [2] * 9
    silent = [a["score"] < level for a in answers]
    assert 0 < sum(silent) < 9
    assert [a["label"] is None for a in answers] == [a.get("abstained", False) for a in answers] == silent
    rows = csv.DictReader(Path("x.csv").read_text().splitlines())
    assert [row["label"] for row in rows] == [a["label"] or "" for a in answers]
    assert pq.read_table("x.parquet")["label"].to_pylist() == [a["label"] for a in answers]


def test_a_terminal_gets_a_table_with_plain_zero_shot_beside(run, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = run("s")
    assert code == 0
    assert "plain zero-shot" in out
    assert "same" in out
    assert "plain zero-shot" not in run("s", "--method", "clip")[1]


def test_every_method_that_texts_allow(run, arrays):
    np.savez("both.npz", text_ensemble=arrays["text_single"] + 0.1, **arrays, logit_scale=20)
    for name in training_free():
        assert run("both.npz", "--method", name)[0] == 0
    code, _, err = run("s", "--method", "mta+e")
    assert (code, "needs an array text_ensemble" in err, "clip, mean" in err) == (2, True, True)
    code, _, err = run("s", "--method", "tpt")
    assert (code, "needs more than embeddings" in err) == (2, True)
    assert "no method 'mtaa'" in run("s", "--method", "mtaa")[2]


def test_one_view_is_plain_zero_shot_and_that_is_said_once(run, arrays):
    np.save("one.npy", arrays["views"][:, 0])
    code, out, err = run("one.npy", "--classes", "texts.npz")
    assert (code, err.count("one view of each image")) == (0, 1)
    assert all(line.split("\t")[1] == line.split("\t")[3] for line in out.splitlines())
    assert "one view" not in run("one.npy", "--classes", "texts.npz", "--method", "clip")[2]


def test_an_image_without_a_direction_is_named_and_the_others_are_answered(run, arrays):
    arrays["views"][3, 2, 1] = np.nan
    arrays["views"][7, 0] = 0
    np.savez("bad.npz", **arrays, keys=np.array([f"{i}.jpg" for i in range(9)]))
    code, _, err = run("bad.npz", "--out", "x.json")
    assert code == 0
    assert "view 2 of image 3 ('3.jpg') is zero or not finite" in err
    assert "view 0 of image 7 ('7.jpg')" in err
    assert "7 classified, 2 unreadable" in err
    answers = json.loads(Path("x.json").read_text())
    assert [i for i, a in enumerate(answers) if "error" in a] == [3, 7]
    np.save("nan.npy", np.full((2, 5, 8), np.nan))
    assert run("nan.npy", "--classes", "texts.npz")[0] == 1


def test_unreadable_images_of_a_store_come_last(run, tmp_path):
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    manifest["shards"][0]["errors"] = [{"index": 9, "key": "x.jpg", "error": "not an image"}]
    (tmp_path / "s" / "manifest.json").write_text(json.dumps(manifest))
    code, out, err = run("s")
    assert (code, out.splitlines()[-1]) == (0, "x.jpg\t\t\t")
    assert "not an image" in err


def test_without_a_logit_scale_100_is_used_and_said(run):
    code, out, err = run("all.npz")
    assert (code, "no logit scale was given: 100 is used" in err) == (0, True)
    assert out == run("all.npz", "--logit-scale", 100)[1]
    assert "logarithm of 100" in run("all.npz", "--logit-scale", 4.6052)[2]
    for scale in ("-3", "0", "nan", "inf"):
        code, _, err = run("s", "--logit-scale", scale)
        assert (code, "logit_scale must be positive and finite" in err) == (2, True)


def test_names_come_from_where_they_are_given(run, arrays):
    np.save("texts.npy", arrays["text_single"])
    code, _, err = run("views.npy", "--classes", "texts.npy")
    assert (code, "the 3 classes have no names: give --labels" in err) == (2, True)
    Path("names.txt").write_text("A\nB\nA\n")
    for labels in ("A,B,A", "names.txt"):
        code, out, _ = run("views.npy", "--classes", "texts.npy", "--labels", labels, "--logit-scale", 5)
        assert code == 0
        assert set(labels_of(out)) == {"A", "B"}
    assert "2 labels were given for 3 class embeddings" in run("s", "--labels", "A,B")[2]


def test_what_does_not_fit_leaves_a_file_that_was_there(run, arrays, tmp_path):
    (tmp_path / "x.json").write_text("before")
    code, _, err = run("views.npy", "--out", "x.json")
    assert (code, "has no class embeddings: give --classes" in err) == (2, True)
    np.save("texts.npy", arrays["text_single"][:, :5])
    code, _, err = run("views.npy", "--classes", "texts.npy", "--labels", "a,b,c", "--out", "x.json")
    assert (code, "8 dimensions, the classes 5" in err) == (2, True)
    assert (tmp_path / "x.json").read_text() == "before"


@needs(COCO)
@pytest.mark.parametrize(("method", "right"), [("clip", 87), ("mta", 90), ("mta-exact", 91), ("mta+e", 90)])
def test_real_clip_embeddings_give_the_published_answers(run, method, right):
    code, out, _ = run(COCO, "--method", method, "--logit-scale", 100)
    saved = np.load(COCO)
    truth = saved["names"][saved["labels"]]
    assert (code, sum(a == b for a, b in zip(labels_of(out), truth, strict=True))) == (0, right)

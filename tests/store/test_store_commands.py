"""`meantime encode` and `meantime store` as they are typed."""

import shutil

import numpy as np
import pytest
from toy import ToyEncoder

from meantime.cli import encode as encode_command
from meantime.cli import main
from meantime.store import open_store


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command with the toy encoder: exit code, what it printed, and what it said of errors."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(encode_command, "load_encoder", lambda name, **_: ToyEncoder())

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["meantime", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return run


def test_encode_info_and_verify(run, photos, tmp_path):
    store = tmp_path / "s"
    code, out, err = run("encode", photos, "--out", store, "--views", 3, "--shard", 5, "--ensemble", "--seed", 2)
    assert code == 0
    assert "11 images in" in out
    assert "1 unreadable" in out
    assert "not an image" in err
    code, out, _ = run("store", "info", store)
    assert code == 0
    for fact in ("photos, test", "11 of 12 images, 1 unreadable", "3: blue, green, red", "toy-1", "seed 2", "ensemble"):
        assert fact in out
    assert run("store", "verify", store)[:2] == (0, "11 of 12 images, 1 unreadable, 3 shards: ok\n")
    (store / "shard-00000.parquet").write_bytes(b"")
    code, _, err = run("store", "verify", store)
    assert code == 2
    assert "truncated" in err


def test_an_interrupted_run_says_how_to_go_on(run, photos, tmp_path, monkeypatch):
    class Stopped(ToyEncoder):
        def encode_images(self, pixels):
            if len(self.batches) == 8:
                raise KeyboardInterrupt
            return super().encode_images(pixels)

    arguments = ("encode", photos, "--out", tmp_path / "s", "--views", 3, "--shard", 5, "--batch", 3)
    with monkeypatch.context() as patch:
        patch.setattr(encode_command, "load_encoder", lambda name, **_: Stopped())
        code, _, err = run(*arguments)
        assert code == 130
        assert "go on with --resume" in err
    code, _, err = run(*arguments)
    assert code == 2
    assert "not empty" in err
    assert run(*arguments, "--resume")[0] == 0
    assert open_store(tmp_path / "s").complete


def test_parts_are_merged(run, photos, tmp_path):
    for i in (1, 2):
        part = ("--part", f"{i}/2", "--out", tmp_path / f"p{i}")
        assert run("encode", photos, "--views", 2, "--shard", 4, *part)[0] == 0
    code, out, _ = run("store", "merge", tmp_path / "all", tmp_path / "p1", tmp_path / "p2")
    assert code == 0
    assert "11 of 12 images, 1 unreadable in" in out
    assert "4 not encoded yet" in run("store", "info", tmp_path / "p1")[1]
    code, _, err = run("encode", photos, "--out", tmp_path / "x", "--part", "3/2")
    assert (code, "part 3 of 2" in err) == (2, True)
    assert "as in 2/8" in run("encode", photos, "--out", tmp_path / "x", "--part", "two")[2]


def test_stores_by_url(run, photos, arrays, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "x.npz", **arrays)
    url = (tmp_path / "bucket").as_uri()
    assert run("store", "import", "x.npz", "--out", f"{url}/s")[0] == 0
    assert run("store", "merge", f"{url}/all", f"{url}/s")[0] == 0
    assert run("store", "verify", f"{url}/all")[0] == 0
    assert not list(tmp_path.glob("file:*"))
    for command in (("encode", "pets", "--out", "s", "--root"), ("datasets", "check", "pets")):
        code, *said = run(*command, "s3://bucket/pets")
        assert code
        assert "read from local folders, but its root is 's3://bucket/pets'" in "".join(said)


def test_threads_are_counted_from_one(run, photos, tmp_path):
    code, _, err = run("encode", photos, "--out", tmp_path / "s", "--threads", -1)
    assert (code, "--threads" in err) == (2, True)


def test_import(run, arrays, tmp_path):
    np.savez(tmp_path / "x.npz", **arrays)
    code, out, _ = run("store", "import", tmp_path / "x.npz", "--out", tmp_path / "s", "--logit-scale", 30)
    assert code == 0
    assert "7 of 7 images x 4 views x 6" in out
    assert "logit scale 30" in out
    assert f"meantime predict {tmp_path / 's'}" in out
    assert f"meantime bench rows --store {tmp_path / 's'}" in out
    assert open_store(tmp_path / "s").logit_scale == 30


def test_import_without_labels_and_bench(run, arrays, tmp_path):
    del arrays["labels"]
    np.savez(tmp_path / "x.npz", **arrays)
    code, out, _ = run("store", "import", tmp_path / "x.npz", "--out", tmp_path / "s")
    assert (code, "it has no labels" in out) == (0, True)
    assert "x, unlabelled" in run("store", "info", tmp_path / "s")[1]
    for command in ("rows", "table1", "figure1"):
        code, _, err = run("bench", command, "--store", tmp_path / "s", "--out", tmp_path / "b")
        assert (code, "has no labels, so nothing can be measured on it" in err) == (2, True)


def test_a_dataset_with_problems_is_not_encoded_unless_asked(run, photos, tmp_path):
    (photos / "red").rename(photos / "n01440764")
    arguments = ("encode", "imagenet", "--root", photos, "--out", tmp_path / "s", "--views", 2)
    code, _, err = run(*arguments)
    assert code == 2
    assert "published are 50000" in err
    assert not (tmp_path / "s").exists()
    assert run(*arguments, "--unchecked")[0] == 0
    assert "where does imagenet lie" in run("encode", "imagenet", "--out", tmp_path / "s", "--unchecked")[2]


def test_a_problem_of_loading_is_not_one_that_unchecked_would_pass_over(run, photos, tmp_path):
    code, _, err = run("encode", "imagenet", "--root", photos, "--out", tmp_path / "s")
    assert (code, "--unchecked" in err) == (2, False)


def test_files_that_a_table_lists_must_be_there(run, photos, tmp_path):
    rows = "".join(f"{path.relative_to(photos)},{path.parent.name}\n" for path in sorted(photos.rglob("*.png")))
    (photos / "x.csv").write_text("file,name\n" + rows)
    (photos / "red").rename(tmp_path / "elsewhere")
    arguments = ("encode", photos / "x.csv", "--out", tmp_path / "s", "--views", 2)
    code, _, err = run(*arguments)
    assert (code, "4 of 12 listed images are missing (red/0.png" in err) == (2, True)
    assert not (tmp_path / "s").exists()
    assert run(*arguments, "--unchecked")[0] == 0


def test_images_that_can_be_read_later_are_encoded_then(run, photos, tmp_path):
    whole = tmp_path / "whole"
    shutil.copytree(photos, whole)
    for path in photos.rglob("*.png"):
        path.write_bytes(b"")  # as on a disk that went away
    arguments = ("encode", photos, "--out", tmp_path / "s", "--views", 3, "--shard", 5)
    code, out, err = run(*arguments)
    assert code == 1
    assert "0 images in" in out
    assert "--retry" in err
    shutil.copytree(whole, photos, dirs_exist_ok=True)
    assert run(*arguments, "--resume")[0] == 1
    code, out, _ = run(*arguments, "--retry")
    assert (code, "11 images in" in out) == (0, True)
    first = (tmp_path / "s" / "shard-00000.parquet").stat().st_ino
    assert run(*arguments, "--retry")[0] == 0  # of the others none is made again
    assert (tmp_path / "s" / "shard-00000.parquet").stat().st_ino == first
    assert run("store", "verify", tmp_path / "s")[0] == 0


def test_own_labels_and_a_wrong_augmentation(run, photos, tmp_path):
    labels = ("--labels", "green,blue,red,white")
    assert run("encode", photos, "--out", tmp_path / "s", "--views", 2, *labels)[0] == 0
    assert open_store(tmp_path / "s").class_names == ("green", "blue", "red", "white")
    assert "which is not there" in run("encode", photos, "--out", tmp_path / "t", "--labels", "green")[2]
    assert "expected crop or augmix" in run("encode", photos, "--out", tmp_path / "t", "--augment", "x")[2]

import os

import numpy as np
import pytest

from meantime import MeantimeError, Prediction, sorting
from meantime.prediction import failure
from meantime.sorting import Sorted

NOTHING = np.zeros(0)


def prediction(path, label="cat", score=0.9, threshold=0.0):
    scores = np.array([score, 1 - score])
    return Prediction(str(path), (label, "dog"), scores, scores, NOTHING, NOTHING, NOTHING, threshold=threshold)


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photos" / "a.jpg"
    path.parent.mkdir()
    path.write_bytes(b"pixels")
    return path


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_photos_go_to_the_folder_of_their_label(photo, tmp_path):
    out = tmp_path / "sorted"
    folders = Sorted(out, [photo])
    folders.add(prediction(photo))
    folders.add(prediction(photo, threshold=0.95))
    folders.add(failure(str(photo), ("cat",), "it is damaged"))
    folders.add(failure(str(tmp_path / "nowhere.jpg"), ("cat",), "does not exist"))
    assert files(out) == ["_unreadable/a.jpg", "_unsure/a.jpg", "cat/a.jpg"]
    assert (out / "cat" / "a.jpg").samefile(photo)  # a link takes no room
    assert str(folders) == f"sorted into {out}: 3 linked"


def test_nothing_is_overwritten_and_nothing_is_put_there_twice(photo, tmp_path):
    out, other = tmp_path / "sorted", tmp_path / "other" / "a.jpg"
    other.parent.mkdir()
    other.write_bytes(b"other pixels")
    for _ in range(2):
        folders = Sorted(out, [photo])
        folders.add(prediction(photo))
    assert str(folders).endswith(": 1 there already")
    folders.add(prediction(other))
    assert {path: (out / path).read_bytes() for path in files(out)} == {
        "cat/a.jpg": b"pixels",
        "cat/a-2.jpg": b"other pixels",
    }


def test_where_links_cannot_be_made_photos_are_copied(photo, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(sorting.os, "link", refuse)
    for told in ("1 copied", "1 there already"):
        folders = Sorted(tmp_path / "sorted", [photo])
        folders.add(prediction(photo))
        assert str(folders).endswith(told)
    assert not (tmp_path / "sorted" / "cat" / "a.jpg").samefile(photo)
    assert (tmp_path / "sorted" / "cat" / "a.jpg").read_bytes() == b"pixels"


def test_of_a_symbolic_link_its_photo_is_sorted(photo, tmp_path):
    link = tmp_path / "b.jpg"
    link.symlink_to(photo)
    Sorted(tmp_path / "sorted", [link]).add(prediction(link))
    assert not (tmp_path / "sorted" / "cat" / "b.jpg").is_symlink()
    assert (tmp_path / "sorted" / "cat" / "b.jpg").samefile(photo)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("../../etc", "_.._etc"),
        ("a/b:c", "a_b_c"),
        ("..", "_"),
        ("_unsure", "_unsure_"),
        ("x" * 300, "x" * 100),
        ("schöne Katze", "schöne Katze"),
    ],
)
def test_names_are_made_safe(photo, tmp_path, label, name):
    Sorted(tmp_path / "sorted", [photo]).add(prediction(photo, label))
    assert files(tmp_path / "sorted") == [f"{name}/a.jpg"]


def test_what_cannot_be_sorted_is_told_before_the_run(photo, tmp_path):
    with pytest.raises(MeantimeError, match="it is a file"):
        Sorted(photo, [])
    with pytest.raises(MeantimeError, match=r"lies in .* already"):
        Sorted(photo.parent, [photo])
    with pytest.raises(MeantimeError, match="is not on this machine"):
        Sorted(tmp_path / "sorted", ["s3://bucket/a.jpg"])
    assert not os.path.exists(tmp_path / "sorted")

import csv

import numpy as np
import pytest
from PIL import Image
from toy import ToyEncoder, picture

import meantime as mt
from meantime.evaluation import Score, evaluate, labelled_images


@pytest.fixture
def folder(tmp_path):
    for name in ("red", "green"):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.fromarray(picture(name, seed=i)).save(tmp_path / name / f"{i}.png")
    return tmp_path


def test_a_folder_of_folders_is_measured(folder):
    clf = mt.Classifier(["red", "green", "blue"], ToyEncoder(), views=4)
    result = evaluate(clf, folder, {"clip": "clip", "mta": "mta"}, seeds=2)
    assert result.n_images == 6
    assert result.scores["mta"].hits.shape == (2, 6)
    assert result.scores["mta"].top1 == (100.0, 0.0)
    assert clf.evaluate(folder).scores["this"].top1[0] == 100.0


def test_a_wrong_label_costs_accuracy(folder):
    (folder / "red" / "0.png").rename(folder / "green" / "wrong.png")
    clf = mt.Classifier(["red", "green"], ToyEncoder(), views=4)
    assert evaluate(clf, folder, {"clip": "clip"}).scores["clip"].top1[0] == pytest.approx(100 * 5 / 6)


def test_labels_csv_and_unreadable_images(folder):
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "name"), ("red/0.png", "red"), ("red/none.png", "red")])
    clf = mt.Classifier(["red", "green"], ToyEncoder(), views=2)
    result = evaluate(clf, folder, {"clip": "clip"})
    assert result.n_images == 1
    assert "none.png" in result.errors[0]


def test_a_class_that_is_no_label_is_named(folder):
    with pytest.raises(mt.MeantimeError, match="'green'"):
        evaluate(mt.Classifier(["red"], ToyEncoder()), folder, {"clip": "clip"})


def test_a_folder_without_classes_is_refused(tmp_path):
    Image.fromarray(picture("red")).save(tmp_path / "x.png")
    with pytest.raises(mt.MeantimeError, match="sub-folder"):
        labelled_images(tmp_path)
    with pytest.raises(mt.MeantimeError, match="no folder"):
        labelled_images(tmp_path / "nowhere")


def test_the_interval_is_paired():
    rng = np.random.default_rng(0)
    plain = rng.random((1, 400)) < 0.5
    better = plain | (rng.random((1, 400)) < 0.2)  # never worse, image by image
    a, b = (Score(name, hits, hits, np.ones((1, 400))) for name, hits in (("a", better), ("b", plain)))
    gain, low, high = a.minus(b)
    assert low <= gain <= high
    assert low > 0  # an unpaired interval, about ±7 points here, could not tell
    assert b.minus(b) == (0.0, 0.0, 0.0)


def test_calibration_error_is_the_gap_between_confidence_and_accuracy():
    hits = np.array([[True, True, True, False, False, False, False, True]])
    confidence = np.array([[0.95] * 4 + [0.35] * 4])  # right in 3 of 4, and in 1 of 4
    expected = 100 * (0.5 * abs(0.75 - 0.95) + 0.5 * abs(0.25 - 0.35))
    assert Score("a", hits, hits, confidence).calibration_error == pytest.approx(expected)


def test_auto_views_say_how_many_they_took(tmp_path):
    for colour in ("red", "blue"):
        (tmp_path / colour).mkdir()
        for i in range(3):
            Image.fromarray(picture(colour, seed=i)).save(tmp_path / colour / f"{i}.png")
    clf = mt.Classifier(["red", "blue"], ToyEncoder(), views="auto")
    score = clf.evaluate(tmp_path, seeds=2).scores["this"]
    assert score.top1[0] == 100
    assert score.n_views.tolist() == [[8] * 6] * 2


def test_a_table_may_name_files_by_their_whole_path(folder, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    Image.fromarray(picture("red")).save(elsewhere / "x.png")
    rows = [("file", "name"), (folder / "red" / "0.png", "red"), (elsewhere / "x.png", "red")]
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    monkeypatch.chdir(folder.parent)
    clf = mt.Classifier(["red", "green"], ToyEncoder(), views=2)
    for where in (folder, folder.name):
        assert evaluate(clf, where, {"clip": "clip"}).scores["clip"].top1[0] == 100.0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"file,name\na.png,red\nb.png\n", "row 3 of .* lacks a file or a name: 'b.png', None"),
        (b"file,name\n,red\n", "row 2 of .* lacks a file or a name"),
        ("file,name\na.png,bär\n".encode("latin-1"), "is not UTF-8; save it as UTF-8"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(folder, content, words):
    (folder / "labels.csv").write_bytes(content)
    with pytest.raises(mt.MeantimeError, match=words):
        labelled_images(folder)


@pytest.mark.parametrize("options", [{"seeds": 0}, {"seeds": 1.5}, {"methods": {}}])
def test_nothing_to_measure_is_refused(folder, options):
    clf = mt.Classifier(["red", "green"], ToyEncoder(), views=2)
    with pytest.raises(mt.MeantimeError, match="at least one"):
        evaluate(clf, folder, **({"methods": {"clip": "clip"}} | options))


def test_an_unreadable_file_that_is_listed_twice_is_two_images_less(folder):
    pairs = [(path.relative_to(folder), path.parent.name) for path in sorted(folder.glob("*/*.png"))]
    (folder / "bad.png").write_bytes(b"not an image")
    rows = [*pairs, ("bad.png", "red"), ("bad.png", "red")]
    (folder / "labels.csv").write_text("file,name\n" + "".join(f"{path},{name}\n" for path, name in rows))
    result = mt.Classifier(["red", "green"], ToyEncoder(), views=2).evaluate(folder)
    assert result.n_images == len(pairs) == result.scores["this"].hits.shape[1]

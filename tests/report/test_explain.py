"""The picture is drawn for any image and any number of views, and says what it lacks."""

import sys

import numpy as np
import pytest
from PIL import Image

from meantime.classifier import Classifier
from meantime.errors import ImageError, MeantimeError, MissingExtraError
from meantime.report import explain
from meantime.report.story import tell


def test_picture_is_written(tmp_path, photo, classifier):
    explain(photo, classifier, tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 700
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    assert len(np.unique(pixels, axis=0)) > 1000
    assert (pixels == 255).all(axis=1).mean() < 0.9


def test_story_agrees_with_the_classifier(photo, classifier):
    story, prediction = tell(photo, classifier), classifier(photo)
    assert story.prediction.label == prediction.label
    np.testing.assert_allclose(story.prediction.inlierness, prediction.inlierness, atol=1e-5)
    np.testing.assert_allclose(story.mta_path[0], story.points[0], atol=1e-6)
    np.testing.assert_allclose(story.shift_path[0], story.points[0], atol=1e-6)
    assert 0 < story.seen <= 1 + 1e-9


@pytest.mark.parametrize("views", [2, 3])
def test_few_views_alike_and_names_with_dollars(tmp_path, classifier, views):
    few = Classifier(["$a$ and $b", "a_{b}^c$"], classifier.encoder, views=views)
    explain(np.full((40, 90, 3), 128, np.uint8), few, tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_matplotlib_is_left_as_it_was(tmp_path, photo, classifier):
    import matplotlib

    before = dict(matplotlib.rcParams.copy())
    explain(photo, classifier, tmp_path / "out.png")
    assert dict(matplotlib.rcParams.copy()) == before


def test_one_view_is_refused(tmp_path, photo, classifier):
    one = Classifier(["cat", "dog"], classifier.encoder, views=1)
    with pytest.raises(MeantimeError, match="at least 2"):
        explain(photo, one, tmp_path / "out.png")


def test_unreadable_image(tmp_path, classifier):
    with pytest.raises(ImageError, match="does not exist"):
        explain(tmp_path / "gone.jpg", classifier, tmp_path / "out.png")


def test_missing_folder_is_refused_before_the_work(tmp_path, classifier):
    with pytest.raises(MeantimeError, match="does not exist"):
        explain("never read", classifier, tmp_path / "missing" / "out.png")


def test_a_name_that_is_no_png_is_refused_before_the_work(tmp_path, classifier):
    with pytest.raises(MeantimeError, match=r"end in \.png"):
        explain("never read", classifier, tmp_path / "out.jpg")


def test_missing_extra_is_named(tmp_path, photo, classifier, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"meantime\[plots\]"):
        explain(photo, classifier, tmp_path / "out.png")

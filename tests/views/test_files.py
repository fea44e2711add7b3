"""Views that lie in files, and joining them to crops."""

import numpy as np
import pytest
from PIL import Image

from meantime.errors import MeantimeError
from meantime.preprocess import Preprocess
from meantime.views import ViewSpec, file_views, join, make_views

SMALL = Preprocess(size=16, resize=20)


@pytest.fixture
def folder(tmp_path):
    def put(name: str, level: int) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (40, 30), level).save(path)

    for name, level in (
        ("bird/b.png", 2),
        ("bird/a.jpg", 1),
        ("bird/c.png", 3),
        ("bird/.d.png", 4),
        ("cats/1/x.png", 9),
    ):
        put(name, level)
    (tmp_path / "bird" / "notes.txt").write_text("prompts")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize("image", ["bird.jpg", "bird", "photos/bird.jpg", "/photos/bird.JPEG"])
def test_pictures_come_sorted_by_name(folder, image):
    views = file_views(folder, image, SMALL)
    assert views.pixels.shape == (3, 16, 16, 3)
    assert views.pixels[:, 0, 0, 0].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(views.places.boxes, [[0, 0, 1, 1]] * 3)
    assert not views.places.flips.any()


def test_a_relative_path_may_keep_its_folders(folder):
    assert file_views(folder, "cats/1.jpg", SMALL).pixels[0, 0, 0, 0] == 9


def test_pictures_are_cut_like_view_0(folder, tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (30, 50, 3), np.uint8)
    (tmp_path / "dog").mkdir()
    Image.fromarray(image).save(tmp_path / "dog" / "0.png")
    np.testing.assert_array_equal(
        file_views(tmp_path, "dog.png", SMALL).pixels, make_views(image, ViewSpec(n=1), SMALL).pixels
    )


def test_n_takes_the_first(folder):
    assert file_views(folder, "bird.jpg", SMALL, n=2).pixels[:, 0, 0, 0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("image", "n", "words"),
    [
        ("fish.jpg", None, "fish' is not a folder"),
        ("bird.jpg", 4, "holds 3 pictures of 'bird.jpg' and 4 are needed"),
        ("empty.jpg", None, "holds 0 pictures"),
    ],
)
def test_missing_pictures_are_said(folder, image, n, words):
    with pytest.raises(MeantimeError, match=words):
        file_views(folder, image, SMALL, n=n)


def test_join(folder):
    crops = make_views(np.zeros((30, 30, 3), np.uint8), ViewSpec(n=5), SMALL)
    both = join(crops, file_views(folder, "bird", SMALL))
    assert len(both) == 8
    assert both.pixels[5:, 0, 0, 0].tolist() == [1, 2, 3]
    assert both.places.boxes.shape == (8, 4)
    assert both.places.flips.shape == (8,)
    with pytest.raises(MeantimeError, match="same encoder"):
        join(crops, file_views(folder, "bird", Preprocess(size=8, resize=8)))

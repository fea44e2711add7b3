"""Boxes are legal, distributed as they should be, and a pure function of seed, pixels and view."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from meantime.errors import MeantimeError
from meantime.images import load_image
from meantime.views import pixel_hash, random_boxes
from meantime.views.boxes import uniforms

sides = st.integers(1, 3000)


@settings(deadline=None)  # machines are busy
@given(width=sides, height=sides, seed=st.integers(0, 2**64), digest=st.integers(0, 2**128 - 1))
def test_boxes_lie_inside_the_image(width, height, seed, digest):
    boxes, flips = random_boxes(width, height, 20, seed, digest)
    left, top, right, bottom = boxes.T
    assert boxes.shape == (20, 4)
    assert flips.shape == (20,)
    assert ((left >= 0) & (left < right) & (right <= width)).all()
    assert ((top >= 0) & (top < bottom) & (bottom <= height)).all()


def test_area_and_ratio_keep_their_limits_and_spread():
    boxes, flips = random_boxes(2000, 2000, 20_000, 0, 1)
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    area, ratio = w * h / 2000**2, w / h
    slack = 0.005  # sides are rounded to pixels
    assert area.min() > 0.08 - slack
    assert area.max() <= 1
    assert ratio.min() > 3 / 4 - slack
    assert ratio.max() < 4 / 3 + slack
    # Boxes that would not fit are drawn again, which takes from the large ones: of the ratios, a square
    # admits the share -log(area) / log(4/3) where that is below 1.
    areas = np.linspace(0.08, 1, 100_001)
    share = np.minimum(1, -np.log(areas) / np.log(4 / 3))
    assert area.mean() == pytest.approx((areas * share).sum() / share.sum(), abs=0.006)  # 0.478
    assert np.log(ratio).mean() == pytest.approx(0, abs=0.01)
    assert flips.mean() == pytest.approx(0.5, abs=0.02)
    # Places: as much room on the left as on the right, on average.
    assert (boxes[:, 0] - (2000 - boxes[:, 2])).mean() == pytest.approx(0, abs=20)
    assert (boxes[:, 1] - (2000 - boxes[:, 3])).mean() == pytest.approx(0, abs=20)


def test_scale_and_ratio_are_parameters():
    boxes, _ = random_boxes(1000, 1000, 500, 0, 1, scale=(0.5, 0.6), ratio=(1, 1))
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert (w == h).all()
    assert ((w >= 707) & (w <= 775)).all()


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1, 1), [0, 0, 1, 1]),
        ((1, 90), [0, 44, 1, 45]),
        ((90, 1), [44, 0, 45, 1]),
        ((5000, 20), [2486, 0, 2513, 20]),
    ],
)
def test_slivers_get_the_centre(size, expected):
    boxes, _ = random_boxes(*size, 10, 0, 1)
    assert boxes.tolist() == [expected] * 10  # no try can fit


def test_the_first_views_do_not_depend_on_how_many_follow():
    few, few_flips = random_boxes(500, 375, 16, 3, 7)
    many, many_flips = random_boxes(500, 375, 64, 3, 7)
    np.testing.assert_array_equal(few, many[:16])
    np.testing.assert_array_equal(few_flips, many_flips[:16])


def test_seed_and_pixels_both_matter():
    first = random_boxes(500, 375, 8, 0, 7)[0]
    assert not np.array_equal(first, random_boxes(500, 375, 8, 1, 7)[0])
    assert not np.array_equal(first, random_boxes(500, 375, 8, 0, 8)[0])


def test_the_same_boxes_on_every_machine():
    boxes, flips = random_boxes(500, 375, 6, 0, 12345)
    assert boxes.tolist() == [
        [96, 22, 263, 212],
        [69, 0, 491, 351],
        [92, 10, 493, 335],
        [141, 12, 428, 293],
        [171, 131, 331, 330],
        [65, 97, 359, 354],
    ]
    assert flips.tolist() == [True, True, False, False, True, True]


def test_the_hash_of_pixels_is_pinned_and_sees_the_shape():
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    assert pixel_hash(image) == 101128750334609566002724015053448484331
    assert pixel_hash(image) != pixel_hash(image.reshape(5, 4, 3))
    assert pixel_hash(image[:, ::-1]) == pixel_hash(np.ascontiguousarray(image[:, ::-1]))


def test_file_pil_and_array_of_one_picture_share_their_hash(tmp_path):
    path = tmp_path / "x.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)).save(path)
    hashes = {pixel_hash(load_image(s)) for s in (path, path.read_bytes(), Image.open(path), load_image(path))}
    assert len(hashes) == 1


def test_streams_are_apart_and_reproducible():
    draws = uniforms(0, 1, 1, 5, count=1000)
    assert ((draws >= 0) & (draws < 1)).all()
    np.testing.assert_array_equal(draws[:10], uniforms(0, 1, 1, 5, count=10))
    assert not np.array_equal(draws[:10], uniforms(0, 1, 1, 6, count=10))
    assert not np.array_equal(draws[:10], uniforms(0, 1, 0, count=10))


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_seeds_are_checked(seed):
    with pytest.raises(MeantimeError, match="seed"):
        random_boxes(10, 10, 1, seed, 0)

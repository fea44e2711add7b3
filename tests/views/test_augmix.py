"""AugMix: reproducible, mild, and on nothing but the random views."""

import numpy as np
import pytest
from PIL import Image

from meantime.preprocess import Preprocess
from meantime.views import ViewSpec, make_views
from meantime.views.augmix import OPERATIONS, augmix

SMALL = Preprocess(size=32, resize=32)
IMAGE = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
PICTURE = Image.fromarray(IMAGE[:48, :48])


def test_view_0_is_never_augmented_and_boxes_are_those_of_plain_crops():
    mixed = make_views(IMAGE, ViewSpec(n=6, augment="augmix"), SMALL)
    plain = make_views(IMAGE, ViewSpec(n=6), SMALL)
    np.testing.assert_array_equal(mixed.pixels[0], plain.pixels[0])
    np.testing.assert_array_equal(mixed.places.boxes, plain.places.boxes)
    np.testing.assert_array_equal(mixed.places.flips, plain.places.flips)
    assert mixed.pixels.dtype == np.uint8
    assert all(not np.array_equal(a, b) for a, b in zip(mixed.pixels[1:], plain.pixels[1:], strict=True))


def test_one_view_is_the_plain_original():
    mixed = make_views(IMAGE, ViewSpec(n=1, augment="augmix"), SMALL)
    np.testing.assert_array_equal(mixed.pixels, make_views(IMAGE, ViewSpec(n=1), SMALL).pixels)


def test_seed_pixels_and_view_decide():
    first = np.asarray(augmix(PICTURE, 0, 1, 2))
    np.testing.assert_array_equal(first, np.asarray(augmix(PICTURE, 0, 1, 2)))
    for other in ((1, 1, 2), (0, 2, 2), (0, 1, 3)):
        assert not np.array_equal(first, np.asarray(augmix(PICTURE, *other)))


def test_nine_operations_keep_size_and_mode():
    assert len(OPERATIONS) == 9
    for operation in OPERATIONS.values():
        for level, sign in ((0.01, 1), (0.1, -1)):
            result = operation(PICTURE, level, sign)
            assert (result.size, result.mode) == (PICTURE.size, "RGB")


def test_the_weights_sum_to_one(monkeypatch):
    for name in OPERATIONS:
        monkeypatch.setitem(OPERATIONS, name, lambda picture, level, sign: picture)
    for view in range(20):
        np.testing.assert_array_equal(np.asarray(augmix(PICTURE, 0, 0, view)), np.asarray(PICTURE))


def test_levels_depth_and_choice_cover_their_ranges(monkeypatch):
    calls = []
    for name in OPERATIONS:
        monkeypatch.setitem(
            OPERATIONS,
            name,
            lambda picture, level, sign, name=name: calls.append((name, level, sign)) or picture,
        )
    lengths = []
    for view in range(300):
        before = len(calls)
        augmix(PICTURE, 0, 0, view)
        lengths.append(len(calls) - before)
    names, levels, signs = zip(*calls, strict=True)
    assert set(names) == set(OPERATIONS)
    assert min(levels) >= 0.01  # severity 1: a tenth of each operation's range at most
    assert max(levels) <= 0.1
    assert max(levels) == pytest.approx(0.1, abs=0.001)
    assert set(signs) == {-1, 1}
    assert min(lengths) >= 3
    assert max(lengths) <= 9
    assert np.mean(lengths) == pytest.approx(6, abs=0.4)


@pytest.mark.parametrize(
    ("name", "level", "expected"),
    [
        ("posterize", 0.05, lambda a: a & 0xF0),
        ("solarize", 0.1, lambda a: np.where(a >= 231, 255 - a, a)),
        ("translate_x", 0.1, lambda a: np.concatenate([a[:, 1:], np.zeros_like(a[:, :1])], axis=1)),
        ("translate_y", 0.1, lambda a: np.concatenate([a[1:], np.zeros_like(a[:1])])),
    ],
)
def test_what_an_operation_does(name, level, expected):
    result = np.asarray(OPERATIONS[name](PICTURE, level, 1))
    np.testing.assert_array_equal(result, expected(np.asarray(PICTURE)))

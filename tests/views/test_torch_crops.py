"""Crops by matrix products are Pillow's crops to within its rounding, and take their place in the pipeline."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from toy import ToyEncoder

from meantime import pipeline
from meantime.preprocess import Preprocess
from meantime.views import ViewSpec, make_views, torch_crops
from meantime.views.torch_crops import cutter

CPU = cutter(torch.device("cpu"))
SMALL = Preprocess(size=24, resize=28)


@settings(max_examples=40, deadline=None)
@given(
    width=st.integers(1, 200),
    height=st.integers(1, 200),
    size=st.integers(1, 40),
    seed=st.integers(0, 99),
    some=st.integers(1, 10**6),
)
def test_within_two_levels_of_pillow(width, height, size, seed, some):
    """Noise is the worst case: every pixel differs from its neighbours."""
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    pre = Preprocess(size=size, resize=size)
    exact = make_views(image, ViewSpec(n=7, exact=True), pre, seed)
    torch_crops.MOST, before = some, torch_crops.MOST
    try:
        cut = make_views(image, ViewSpec(n=7), pre, seed, cut=CPU)
    finally:
        torch_crops.MOST = before
    difference = np.abs(cut.pixels.astype(int) - exact.pixels)
    assert difference.max() <= 2
    assert difference.mean() < 0.6
    np.testing.assert_array_equal(cut.pixels[0], exact.pixels[0])
    np.testing.assert_array_equal(cut.boxes, exact.boxes)
    np.testing.assert_array_equal(cut.flips, exact.flips)
    assert cut.digest == exact.digest


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 1), (1, 1), (0, 5), (3, 9), (8, 9)])
def test_any_part_of_the_views(start, stop):
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    whole = make_views(image, ViewSpec(n=9), SMALL, cut=CPU)
    part = make_views(image, ViewSpec(n=9), SMALL, cut=CPU, start=start, stop=stop)
    np.testing.assert_array_equal(part.pixels, whole.pixels[start:stop])
    np.testing.assert_array_equal(part.boxes, whole.boxes[start:stop])


@pytest.mark.parametrize("spec", [ViewSpec(4, exact=True), ViewSpec(4, "augmix"), ViewSpec(4, resample="bicubic")])
def test_what_it_does_not_make_is_left_to_pillow(spec):
    def never(*_):
        raise AssertionError

    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    np.testing.assert_array_equal(
        make_views(image, spec, SMALL, cut=never).pixels, make_views(image, spec, SMALL).pixels
    )


def test_an_encoder_that_cuts_is_used_by_the_pipeline():
    images = [np.asarray(Image.new("RGB", (50, 40), (9 * i, 50, 200 - i))) for i in range(5)]
    cutting, plain = ToyEncoder(), ToyEncoder()
    calls = []
    cutting.cut = lambda *arguments: calls.append(1) or CPU(*arguments)
    got = [e.embeddings for e in pipeline.encode(images, cutting, ViewSpec(n=4))]
    expected = [e.embeddings for e in pipeline.encode(images, plain, ViewSpec(n=4))]
    np.testing.assert_allclose(got, expected, atol=0.01)
    assert len(calls) == 5

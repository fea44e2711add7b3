"""Crops by matrix products are Pillow's crops to within its rounding, and take their place in the pipeline."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from toy import ToyEncoder

from meantime import pipeline
from meantime.preprocess import Preprocess
from meantime.views import Places, Views, ViewSpec, join, joined, make_views, torch_crops
from meantime.views.torch_crops import Feed

CPU = Feed("cpu").cut
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
    pixels = cut.pixels.numpy()
    difference = np.abs(pixels.astype(int) - exact.pixels)
    assert difference.max() <= 2
    assert difference.mean() < 0.6
    np.testing.assert_array_equal(pixels[0], exact.pixels[0])
    np.testing.assert_array_equal(cut.places.boxes, exact.places.boxes)
    np.testing.assert_array_equal(cut.places.flips, exact.places.flips)
    assert cut.places.digest == exact.places.digest


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 1), (1, 1), (0, 5), (3, 9), (8, 9)])
def test_any_part_of_the_views(start, stop):
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    whole = make_views(image, ViewSpec(n=9), SMALL, cut=CPU)
    part = make_views(image, ViewSpec(n=9), SMALL, cut=CPU, start=start, stop=stop)
    np.testing.assert_array_equal(part.pixels, whole.pixels[start:stop])
    np.testing.assert_array_equal(part.places.boxes, whole.places.boxes[start:stop])


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
    plainly = cutting.encode_images
    cutting.encode_images = lambda pixels: plainly(np.asarray(pixels))  # they come as a tensor
    got = [e.embeddings for e in pipeline.encode(images, cutting, ViewSpec(n=4))]
    expected = [e.embeddings for e in pipeline.encode(images, plain, ViewSpec(n=4))]
    np.testing.assert_allclose(got, expected, atol=0.01)
    assert len(calls) == 5


def test_crops_stay_on_the_device():
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    pixels = make_views(image, ViewSpec(n=3), SMALL, cut=CPU).pixels
    assert isinstance(pixels, torch.Tensor)
    assert (pixels.dtype, tuple(pixels.shape)) == (torch.uint8, (3, 24, 24, 3))


def test_huge_images_are_left_to_pillow(monkeypatch):
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    monkeypatch.setattr("meantime.views.crops.LARGEST", 60 * 80)
    assert isinstance(make_views(image, ViewSpec(n=3), SMALL, cut=CPU).pixels, torch.Tensor)
    monkeypatch.setattr("meantime.views.crops.LARGEST", 60 * 80 - 1)
    np.testing.assert_array_equal(
        make_views(image, ViewSpec(n=3), SMALL, cut=CPU).pixels, make_views(image, ViewSpec(n=3), SMALL).pixels
    )


@pytest.mark.parametrize(("height", "width"), [(4000, 10), (10, 4000)])
def test_neither_tall_nor_wide_pictures_need_much_memory(height, width, monkeypatch):
    """The weights of a tall one are larger than what stands between the two products."""
    made = []
    weights = torch_crops._weights
    monkeypatch.setattr(torch_crops, "_weights", lambda *a: made.append(weights(*a)) or made[-1])
    monkeypatch.setattr(torch_crops, "MOST", 300_000)
    boxes, flips = np.tile([0, 0, 8, 8], (16, 1)), np.zeros(16, bool)
    CPU(np.zeros((height, width, 3), np.uint8), boxes, flips, 24)
    assert max(w.numel() for w in made) <= 300_000


def test_pixels_are_joined_whatever_they_are():
    a, b = (np.full((n, 2, 2, 3), n, np.uint8) for n in (1, 2))
    assert joined([a]) is a
    both = joined([a, b])
    assert isinstance(both, np.ndarray)
    for parts in ([a, torch.tensor(b)], [torch.tensor(a), b], [torch.tensor(a), torch.tensor(b)]):
        assert isinstance(joined(parts), torch.Tensor)
        np.testing.assert_array_equal(joined(parts).numpy(), both)
    places = Places(np.zeros((2, 4), np.float32), np.zeros(2, bool))
    made = join(Views(torch.tensor(b), places), Views(b, places))
    assert (len(made), len(made.places)) == (4, 4)


def test_what_a_gpu_makes_aside_is_ready_for_who_reads_it(monkeypatch):
    """The order of calls on CUDA, without one: made on a stream of its own, waited for, kept until it is read."""
    calls = []

    class Stream:
        def __init__(self, device=None, name="aside"):
            self.name = name

        def wait_stream(self, other):
            calls.append(f"{self.name} waits for {other.name}")

    @contextmanager
    def on(stream):
        calls.append(f"begin {stream.name}")
        yield
        calls.append(f"end {stream.name}")

    copy, cpu = torch_crops._copy, torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: Stream(name="default"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream(name="current"))
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda self, stream: calls.append(f"keep for {stream.name}"))
    monkeypatch.setattr(
        torch_crops, "_copy", lambda torch, array, device: calls.append("copy") or copy(torch, array, cpu)
    )
    feed = Feed("cuda")
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    views = make_views(image, ViewSpec(n=3), SMALL, cut=feed.cut, start=1)
    assert calls == ["begin aside", *["copy"] * 3, "end aside", "default waits for aside", "keep for default"]
    np.testing.assert_array_equal(views.pixels, make_views(image, ViewSpec(n=3), SMALL, cut=CPU).pixels[1:])
    calls.clear()
    feed.upload(image)
    assert calls == ["begin aside", "copy", "end aside", "default waits for aside", "keep for default"]
    calls.clear()
    with torch_crops.reading(torch.device("cuda")):
        pass
    assert calls == ["default waits for current", "begin default", "end default"]

import numpy as np
import pytest
from PIL import Image

from meantime.errors import MeantimeError
from meantime.preprocess import Preprocess
from meantime.views import ViewSpec, make_views

PREPROCESS = Preprocess(size=16, resize=16)


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)


@pytest.mark.parametrize(("resample", "filter_"), [("bilinear", 2), ("bicubic", 3)])
def test_crops_are_pillows_with_that_filter(image, resample, filter_):
    views = make_views(image, ViewSpec(n=6, exact=True, resample=resample), PREPROCESS)
    for pixels, box, flip in list(zip(views.pixels, views.places.boxes, views.places.flips, strict=True))[1:]:
        edges = np.round(box * (50, 40, 50, 40)).astype(int).tolist()
        expected = np.asarray(Image.fromarray(image).crop(edges).resize((16, 16), Image.Resampling(filter_)))
        np.testing.assert_array_equal(pixels, expected[:, ::-1] if flip else expected)


def test_the_filter_moves_no_crop_and_leaves_the_original(image):
    linear, cubic = (make_views(image, ViewSpec(n=4, resample=r), PREPROCESS) for r in ("bilinear", "bicubic"))
    np.testing.assert_array_equal(linear.places.boxes, cubic.places.boxes)
    np.testing.assert_array_equal(linear.pixels[0], cubic.pixels[0])
    assert (linear.pixels[1:] != cubic.pixels[1:]).any()


def test_identities_of_earlier_stores_do_not_change():
    assert ViewSpec().identity == "crop-fast-scale0.08,1-ratio0.75,1.33333"
    assert ViewSpec(resample="bicubic").identity == "crop-fast-scale0.08,1-ratio0.75,1.33333-bicubic"


def test_unknown_filter():
    with pytest.raises(MeantimeError, match="bilinear, bicubic"):
        ViewSpec(resample="lanczos")

"""The fast way of cropping is as good as the exact one where it matters: in the embeddings."""

from pathlib import Path

import numpy as np
from PIL import Image

from meantime.encoders import load_encoder
from meantime.views import ViewSpec, make_views

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"


def test_embeddings_of_fast_and_exact_views_agree():
    encoder = load_encoder("embedded")
    cosines = []
    differ = False
    for path in sorted(PHOTOS.glob("*.jpg")):
        # Enlarged, so that many crops take the fast way
        photo = Image.open(path).convert("RGB").resize((2800, 2100), Image.Resampling.BICUBIC)
        fast, exact = (
            make_views(np.asarray(photo), ViewSpec(n=12, exact=exact), encoder.preprocess).pixels
            for exact in (False, True)
        )
        differ |= bool((fast != exact).any())
        a, b = (encoder.encode_images(pixels) for pixels in (fast, exact))
        cosines += (a * b).sum(axis=1).tolist()  # the embedded encoder gives unit length
    assert differ
    assert np.mean(cosines) >= 0.999

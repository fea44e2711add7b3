"""AugMix (Hendrycks et al. 2020) as test-time prompt tuning uses it on the fine-grained datasets.

Three chains of one to three mild operations are mixed with each other and then with the clean crop.
"""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageOps

from meantime.views.boxes import AUGMIX_STREAM, uniforms

CHAINS, DEPTH, SEVERITY = 3, 3, 1
BILINEAR = Image.Resampling.BILINEAR

# An operation takes the picture, its level in 0..1 and a sign; the factors are AugMix's maxima.
Operation = Callable[[Image.Image, float, int], Image.Image]


def _affine(picture: Image.Image, *matrix: float) -> Image.Image:
    return picture.transform(picture.size, Image.Transform.AFFINE, matrix, BILINEAR)  # black beyond the edge


def _shift(picture: Image.Image, level: float, sign: int) -> int:
    return sign * int(level * picture.width / 3)


OPERATIONS: dict[str, Operation] = {
    "autocontrast": lambda p, level, sign: ImageOps.autocontrast(p),
    "equalize": lambda p, level, sign: ImageOps.equalize(p),
    "posterize": lambda p, level, sign: ImageOps.posterize(p, 4 - int(level * 4)),
    "rotate": lambda p, level, sign: p.rotate(sign * int(level * 30), BILINEAR),
    "solarize": lambda p, level, sign: ImageOps.solarize(p, 256 - int(level * 256)),
    "shear_x": lambda p, level, sign: _affine(p, 1, sign * level * 0.3, 0, 0, 1, 0),
    "shear_y": lambda p, level, sign: _affine(p, 1, 0, 0, sign * level * 0.3, 1, 0),
    "translate_x": lambda p, level, sign: _affine(p, 1, 0, _shift(p, level, sign), 0, 1, 0),
    "translate_y": lambda p, level, sign: _affine(p, 1, 0, 0, 0, 1, _shift(p, level, sign)),
}


def augmix(picture: Image.Image, seed: int, pixels_hash: int, view: int) -> Image.Image:
    """Mix one crop; the randomness belongs to the seed, the image's pixels and the view's number."""
    draws = uniforms(seed, pixels_hash, AUGMIX_STREAM, view, count=1 + CHAINS * (2 + 3 * DEPTH))
    clean = float(draws[0])  # Beta(1, 1) is uniform
    chains = draws[1:].reshape(CHAINS, 2 + 3 * DEPTH)
    weights = -np.log1p(-chains[:, 0])  # Dirichlet(1): exponentials, normalised
    weights *= (1 - clean) / weights.sum()
    # Normalising the pixels is affine and the weights sum to 1, so mixing levels here is mixing the
    # encoder's inputs, as TPT does, up to the rounding to uint8.
    mixed = clean * np.asarray(picture, np.float32)  # (S, S, 3)
    for weight, chain in zip(weights.tolist(), chains, strict=True):
        mixed += weight * np.asarray(_chain(picture, *chain[1:].tolist()), np.float32)
    return Image.fromarray(np.rint(mixed).clip(0, 255).astype(np.uint8))


def _chain(picture: Image.Image, depth: float, *draws: float) -> Image.Image:
    operations = list(OPERATIONS.values())
    for step in range(1 + int(depth * DEPTH)):
        which, strength, sign = draws[3 * step : 3 * step + 3]
        level = (0.1 + strength * (SEVERITY - 0.1)) / 10  # uniform in 0.1..severity, of at most 10
        operation = operations[int(which * len(operations))]
        picture = operation(picture, level, 1 if sign < 0.5 else -1)
    return picture

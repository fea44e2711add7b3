"""The random boxes of an image's crops: a pure function of the seed, the decoded pixels and the view.

Neither the number of views nor batches, threads or the order of images matter, so that every run
and every engine sees the same views.
"""

import hashlib

import numpy as np
import numpy.typing as npt

from meantime.errors import MeantimeError

TRIES = 10
BOX_STREAM, AUGMIX_STREAM = 0, 1


def pixel_hash(image: npt.NDArray[np.uint8]) -> int:
    """128 bits of the shape and the pixels: a file, a PIL image and an array of one picture agree."""
    digest = hashlib.blake2b(repr(image.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(image).data)
    return int.from_bytes(digest.digest(), "little")


def uniforms(seed: int, pixels_hash: int, *stream: int, count: int) -> npt.NDArray[np.float64]:
    """``count`` numbers in [0, 1) that belong to a seed, a picture and a purpose.

    Built on Philox's raw words, whose sequence NumPy guarantees, unlike that of Generator's methods.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise MeantimeError(f"the seed is {seed!r}; expected an integer of at least 0")
    sequence = np.random.SeedSequence([int(seed), pixels_hash], spawn_key=stream)
    words: npt.NDArray[np.uint64] = np.random.Philox(sequence).random_raw(count)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def random_boxes(
    width: int,
    height: int,
    n: int,
    seed: int,
    pixels_hash: int,
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """n boxes (n, 4) as left, top, right, bottom in pixels, and whether each crop is flipped (n,).

    The random resized crop that image classifiers are trained with: up to ten times, draw an area
    uniform in ``scale`` and a width / height log-uniform in ``ratio``, and place the box anywhere if
    it fits. If none fits, take the largest centred box whose ratio is allowed.
    """
    # A fixed number of draws for each view, so that more views never change the earlier ones.
    draws = uniforms(seed, pixels_hash, BOX_STREAM, count=n * (4 * TRIES + 1)).reshape(n, 4 * TRIES + 1)
    area, shape, left, top = np.moveaxis(draws[:, :-1].reshape(n, TRIES, 4), 2, 0)  # (n, TRIES) each

    area = width * height * (scale[0] + area * (scale[1] - scale[0]))
    shape = np.exp(np.log(ratio[0]) + shape * (np.log(ratio[1]) - np.log(ratio[0])))
    w = np.rint(np.sqrt(area * shape))
    h = np.rint(np.sqrt(area / shape))
    fits = (w >= 1) & (w <= width) & (h >= 1) & (h <= height)
    left = np.floor(left * (width - w + 1))
    top = np.floor(top * (height - h + 1))

    tries = np.stack([left, top, left + w, top + h], axis=2)  # (n, TRIES, 4)
    boxes = tries[np.arange(n), fits.argmax(axis=1)].astype(np.int64)  # the first try that fits
    boxes[~fits.any(axis=1)] = _centred(width, height, ratio)
    return boxes, draws[:, -1] < 0.5


def _centred(width: int, height: int, ratio: tuple[float, float]) -> list[int]:
    w, h = width, height
    if width / height < ratio[0]:
        h = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        w = max(1, round(height * ratio[1]))
    left, top = (width - w) // 2, (height - h) // 2
    return [left, top, left + w, top + h]

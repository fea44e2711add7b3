"""The views of an image as pixels: the original first, then random resized crops.

Two paths. `exact` is Pillow's `crop(box).resize(size, BILINEAR)` to the pixel. The default differs from
it only for crops of at least 4 x the encoder's size (896 pixels for 224): these are resampled from a copy
of the image that was reduced once, by a power of two that leaves at least a factor of 2 to the filter,
instead of reading millions of pixels for each crop. On photos whose short side is below that the two
paths are the same bytes. Encoders on CUDA bring a third (`meantime.views.torch_crops`), within two levels of `exact`.

Candidates, 64 crops to 224: milliseconds in one run (the best of several rounds, one thread of a shared
2-core AMD EPYC, Pillow 13; "x 2" on two threads), and against `exact` over 22 photos, 3 of them enlarged to
12 megapixels, the mean difference in levels and the cosine of the embedded encoder's embeddings:

                                          500 x 375  1411 x 1411  4000 x 3000  levels  cosine   worst photo
    Pillow, crop then resize (exact)             59          335         1518    0     1        1
      x 2                                        49          163          749
    Pillow on reduced copies, GAP 2 (default)    61          195          221    0.03  0.9999   0.9990
      x 2                                        37          111          133
    Pillow on reduced copies, GAP 1              60           81           95    0.11  0.9996   0.9970
    NumPy, fixed point, antialiased, GAP 2       46          158          240    0.14  0.9998   0.9991
    NumPy, fixed point, antialiased, GAP 1       44           69           78    0.21  0.9995   0.9974
    NumPy, two taps on a pyramid                 34          181          576    0.55  0.998    0.990
    ONNX Runtime, Resize with antialias         103          441         1393    0.03  1.0000   0.9999
    ONNX Runtime, RoiAlign with one sample      133          171            -    1.15  0.989    0.940

Only dropping the antialiasing is much faster on small photos, and the embeddings notice that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from meantime.errors import MeantimeError
from meantime.images import Pixels, quiet_pillow
from meantime.preprocess import Preprocess
from meantime.views.augmix import augmix
from meantime.views.boxes import pixel_hash, random_boxes
from meantime.views.spec import ViewSpec
from meantime.views.torch_crops import LARGEST, Cut, Tensor, joined

GAP = 2  # the least factor that a reduced copy leaves to the antialiasing filter
LONGEST = 100  # times the short side: longer images are never resized whole
BILINEAR = Image.Resampling.BILINEAR
INTERPOLATION = {"bicubic": Image.Resampling.BICUBIC, "bilinear": BILINEAR}


@dataclass(frozen=True)
class Places:
    """Where N views of one image lie in it."""

    boxes: npt.NDArray[np.float32]  # (N, 4) left, top, right, bottom in 0..1 of the image
    flips: npt.NDArray[np.bool_]  # (N,)
    digest: int | None = None  # hash of the decoded image, where crops asked for it

    def __len__(self) -> int:
        return len(self.boxes)

    @classmethod
    def join(cls, parts: "Sequence[Places]") -> "Places":
        """All of several groups of one image's views, in this order."""
        boxes, flips = (np.concatenate(arrays) for arrays in zip(*((p.boxes, p.flips) for p in parts), strict=True))
        return cls(boxes, flips, parts[0].digest)


@dataclass(frozen=True)
class Views:
    """N pictures of one image, and where each came from."""

    pixels: Pixels | Tensor  # (N, S, S, 3) uint8 RGB; a tensor on the encoder's device, where that cuts them itself
    places: Places

    def __len__(self) -> int:
        return len(self.places)


def make_views(
    image: Pixels,
    spec: ViewSpec,
    preprocess: Preprocess,
    seed: int = 0,
    *,
    start: int = 0,
    stop: int | None = None,
    cut: Cut | None = None,
) -> Views:
    """Views ``start``..``stop`` - 1 of an image (H, W, 3); without them all ``spec.n``.

    View i is the same picture whatever ``spec.n``, ``start`` and ``stop`` are, so views can be added later. ``cut``
    takes Pillow's place for bilinear crops (`meantime.views.torch_crops`), unless the spec is ``exact`` or the image
    huge.
    """
    stop = spec.n if stop is None else stop
    if not 0 <= start <= stop <= spec.n:
        raise MeantimeError(f"views {start}..{stop} of {spec.n} were asked; expected 0 <= start <= stop <= n")
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0:
        raise MeantimeError(
            f"the image is {image.dtype} of shape {image.shape}; expected uint8 (H, W, 3), as load_image gives"
        )
    height, width = image.shape[:2]
    size = preprocess.size
    source = Image.fromarray(image)
    digest = pixel_hash(image) if stop > 1 else 0  # view 0 uses no randomness
    # Crop k is view k + 1, hence the row of view 0 in front.
    crops, flips = random_boxes(width, height, max(stop - 1, 0), seed, digest, scale=spec.scale, ratio=spec.ratio)
    boxes = np.concatenate([centre_box(width, height, preprocess), crops / (width, height, width, height)])
    own_flips, known = np.append(False, flips)[start:stop], digest if stop > 1 else None
    places = Places(boxes[start:stop].astype(np.float32), own_flips, known)
    by_pillow = spec.augment != "crop" or spec.resample != "bilinear" or spec.exact or width * height > LARGEST
    if cut is not None and not by_pillow:
        own = slice(max(start - 1, 0), max(stop - 1, 0))
        with quiet_pillow():
            first = [np.asarray(centre_view(source, preprocess))[None]] if start == 0 < stop else []
        return Views(joined([*first, cut(image, crops[own], flips[own], size)]), places)
    factors = [1 if spec.exact else _factor(box, size) for box in crops]
    copies = {1: source} | {f: source.reduce(f) for f in set(factors[max(start - 1, 0) :]) if f > 1}

    def view(i: int) -> Image.Image:
        if i == 0:
            return centre_view(source, preprocess)
        factor = factors[i - 1]
        picture = _crop(copies[factor], factor, crops[i - 1], size, INTERPOLATION[spec.resample])
        if flips[i - 1]:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return augmix(picture, seed, digest, i) if spec.augment == "augmix" else picture

    pixels = np.empty((stop - start, size, size, 3), np.uint8)
    with quiet_pillow():
        for i in range(start, stop):
            pixels[i - start] = np.asarray(view(i))
    return Views(pixels, places)


def _factor(box: npt.NDArray[np.int64], size: int) -> int:
    """The largest power of two that leaves ``GAP`` to the filter on the box's short side."""
    left, top, right, bottom = box.tolist()
    return int(2 ** max(0, (min(right - left, bottom - top) // (GAP * size)).bit_length() - 1))


def _crop(
    picture: Image.Image,
    factor: int,
    box: npt.NDArray[np.int64],
    size: int,
    filter_: Image.Resampling = BILINEAR,
) -> Image.Image:
    left, top, right, bottom = box.tolist()
    if factor == 1:  # cut first: `box=` would let the filter look over the edge
        return picture.crop((left, top, right, bottom)).resize((size, size), filter_)
    edges = (left / factor, top / factor, right / factor, bottom / factor)
    return picture.resize((size, size), filter_, box=edges)


def centre_view(picture: Image.Image, preprocess: Preprocess) -> Image.Image:
    """View 0: the short side resized, the centre cut out, as CLIP and its like prepare a photo."""
    filter_ = INTERPOLATION[preprocess.interpolation]
    (width, height), size = picture.size, preprocess.size
    if preprocess.squash:
        return picture.resize((size, size), filter_)
    w, h, left, top = _centre(width, height, preprocess)
    if max(w, h) <= LONGEST * preprocess.resize:
        return picture.resize((w, h), filter_).crop((left, top, left + size, top + size))
    # A sliver, 1 x 5000 say, would become gigabytes. Computing only what is seen costs a level or so,
    # because Pillow keeps `box` in single precision.
    box = (left / w * width, top / h * height, (left + size) / w * width, (top + size) / h * height)
    return picture.resize((size, size), filter_, box=(*box[:2], min(box[2], width), min(box[3], height)))


def centre_box(width: int, height: int, preprocess: Preprocess) -> npt.NDArray[np.float64]:
    """(1, 4): the part of the image that view 0 shows, in 0..1."""
    if preprocess.squash:
        return np.array([[0.0, 0.0, 1.0, 1.0]])
    w, h, left, top = _centre(width, height, preprocess)
    return np.array([[left / w, top / h, (left + preprocess.size) / w, (top + preprocess.size) / h]])


def _centre(width: int, height: int, preprocess: Preprocess) -> tuple[int, int, int, int]:
    """Width and height once resized, left and top of the part cut out of that."""
    size, resize = preprocess.size, preprocess.resize
    if resize < size:
        raise MeantimeError(f"the encoder resizes to {resize} and cuts out {size}; expected resize >= size")
    # Rounding as in common CLIP preprocessing: down for the long side, to even for the offset.
    short = min(width, height)
    w, h = resize * width // short, resize * height // short
    return w, h, round((w - size) / 2), round((h - size) / 2)

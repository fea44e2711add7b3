"""What an encoder expects of its pixels. Encoders state it, views obey it."""

from dataclasses import dataclass
from typing import Literal

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class Preprocess:
    """Geometry and normalisation of an encoder's input.

    View 0 is the image with its short side resized to ``resize`` and its centre ``size`` x ``size``
    cut out; every other view is resized to ``size`` x ``size``. Pixels reach the encoder as uint8
    RGB in 0..255; it computes ``(pixel / 255 - mean) / std`` itself.
    """

    size: int = 224
    resize: int = 224
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"  # of view 0 only
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    squash: bool = False  # view 0 is the whole image made square, as SigLIP has it

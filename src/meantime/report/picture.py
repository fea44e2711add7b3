"""Small JPEGs of an image, as the page holds them."""

from base64 import b64encode
from dataclasses import dataclass
from io import BytesIO
from typing import NamedTuple

from PIL import Image

from meantime.images import Pixels, load_image, quiet_pillow


class Size(NamedTuple):
    """Of a thumbnail."""

    side: int  # the longer one, in pixels
    quality: int  # of the JPEG


CARD, TILE = Size(320, 82), Size(112, 60)  # about 25 KB and 3 KB


@dataclass(frozen=True)
class Thumbnail:
    """A small JPEG as base64."""

    data: str
    width: int
    height: int

    @property
    def url(self) -> str:
        """What a page puts in the place of a file."""
        return f"data:image/jpeg;base64,{self.data}"


def thumbnails(path: str, *sizes: Size) -> list[Thumbnail]:
    """Read an image once and shrink it to each of the sizes, the largest of which comes first."""
    picture = Image.fromarray(_reduced(path, sizes[0].side))
    made = []
    for side, quality in sizes:
        picture.thumbnail((side, side), Image.Resampling.BILINEAR, reducing_gap=2.0)
        buffer = BytesIO()
        picture.save(buffer, "JPEG", quality=quality, optimize=True)
        made.append(Thumbnail(b64encode(buffer.getvalue()).decode("ascii"), *picture.size))
    return made


def _reduced(path: str, side: int) -> Pixels:
    """Read an image; a JPEG no larger than is of use, which saves most of its decoding."""
    try:
        with quiet_pillow(), Image.open(path) as image:
            image.draft("RGB", (2 * side, 2 * side))
            return load_image(image)
    except Exception:  # no file: a URL, or the reason why there is none
        return load_image(path)

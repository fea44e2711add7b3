"""What one request may hold, checked before it costs anything."""

import base64
import binascii
from io import BytesIO
from typing import Any

from PIL import Image, UnidentifiedImageError

from meantime.errors import ImageError
from meantime.images import Pixels, load_image, quiet_pillow, reads_heif
from meantime.serve.errors import ApiError, invalid
from meantime.serve.settings import Settings

# Kinds of images that people have; Pillow knows dozens more, some of which start other programs.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")


def decode_image(data: bytes, settings: Settings) -> Pixels:
    """Return an image (H, W, 3), refused by its header if it is too large."""
    if not data:
        raise invalid("the image is empty")
    formats = (*FORMATS, "HEIF") if reads_heif() else FORMATS
    try:
        with quiet_pillow(), Image.open(BytesIO(data), formats=formats) as image:
            width, height = image.size
            if width * height > settings.max_pixels:
                raise ApiError(
                    413, f"the image is {width} x {height}; at most {settings.max_pixels} pixels are taken: shrink it"
                )
            if _has_more_frames(image, data, settings.max_frames):
                raise ApiError(413, f"the image has more than {settings.max_frames} frames; send one of them")
            return load_image(image, max_pixels=settings.max_pixels)
    except ApiError:
        raise
    except UnidentifiedImageError:
        raise invalid(f"the image is none of {', '.join(formats)}: convert it to PNG or JPEG") from None
    except Image.DecompressionBombError:
        raise ApiError(413, f"the image has more than {settings.max_pixels} pixels: shrink it") from None
    except ImageError as error:
        raise invalid(str(error).replace("'the PIL image'", "the image")) from None
    except Exception:  # headers that are damaged make Pillow raise nearly anything
        raise invalid("the image is damaged: its header cannot be read") from None


def _has_more_frames(image: Image.Image, data: bytes, most: int) -> bool:
    """Whether there are more frames than that, at a cost that does not grow with their number."""
    if image.format == "GIF":  # Pillow would walk through all
        return _gif_frames(data, most) > most
    if image.format == "TIFF":
        try:
            image.seek(most)
        except EOFError:
            image.seek(0)
            return False
        return True
    return getattr(image, "n_frames", 1) > most


def _gif_frames(data: bytes, most: int) -> int:
    """Count the frames of a GIF, up to one more than ``most``."""

    def table(flags: int) -> int:
        return 3 << ((flags & 7) + 1) if flags & 0x80 else 0

    frames, at = 0, 13 + table(data[10])
    while at + 10 < len(data) and frames <= most:
        if data[at] == 0x2C:  # a picture: descriptor, colours, and the width of its codes
            frames += 1
            at += 11 + table(data[at + 9])
        elif data[at] == 0x21:  # an extension
            at += 2
        else:
            break
        while at < len(data) and data[at]:
            at += data[at] + 1
        at += 1
    return frames


def decode_base64(text: str, what: str) -> bytes:
    """Return the bytes of a base64 text; a data URL's head is taken off."""
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"{what} is not base64") from None


def check_labels(names: list[str], settings: Settings) -> list[str]:
    """Return the names, each once and with its ends trimmed, if they are not too many, too long or empty."""
    if len(names) > settings.max_labels:
        raise invalid(f"there are {len(names)} labels; at most {settings.max_labels} are taken")
    names = [name.strip() for name in names]
    if not names or not all(names):
        raise invalid("a label is empty: name at least one class, and each by a text")
    for name in names:
        check_text(name, "a label", settings.max_label_length)
    return list(dict.fromkeys(names))  # one that came twice would share its probability with itself


def check_names(names: list[str], count: int, settings: Settings) -> tuple[str, ...]:
    """Return the names of so many classes, if there is one for each and none is too long."""
    if len(names) != count:
        raise invalid(f"there are {len(names)} names for {count} classes; expected one for each")
    return tuple(check_text(name, "a name", settings.max_label_length) for name in names)


def check_batch(views: tuple[int, ...], classes: int, settings: Settings) -> None:
    """Check what /v1/mta is asked for by views (N, d) or (B, N, d): each image, and all of them together."""
    images, n, d = (1, *views)[-3:]
    check_range("the number of views", n, 1, settings.max_views)
    check_range("the number of classes", classes, 1, settings.max_classes)
    check_range("the dimension", d, 1, settings.max_dim)
    check_range("the number of images", images, 1, settings.max_images)
    check_range("images x classes", images * classes, 1, settings.max_scores)
    check_range("images x views x classes", images * n * classes, 1, settings.max_predictions)


def check_text(text: str, what: str, most: int) -> str:
    """Return the text if it is not too long and is Unicode that can be written."""
    if len(text) > most:
        raise invalid(f"{what} has {len(text)} characters; at most {most} are taken")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise invalid(f"{what} holds half of a surrogate pair, which is no character") from None
    return text


def check_range(what: str, value: Any, low: int, high: int) -> int:
    """Return the number if it lies between."""
    if not low <= value <= high:
        raise invalid(f"{what} is {value}; expected {low} to {high}")
    return int(value)

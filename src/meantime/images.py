"""Images from anywhere: a path, bytes, a PIL image or an array becomes (H, W, 3) uint8 RGB.

The same picture gives the same pixels whichever way it came, and whatever cannot be read raises an
`ImageError` of one sentence, so that a run over many images can report it and go on.
"""

import functools
import os
import re
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from meantime.errors import ImageError, MeantimeError
from meantime.remote import RemotePath, as_path, is_url

Pixels: TypeAlias = npt.NDArray[np.uint8]
ImageSource: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | Image.Image | npt.NDArray[Any]

SLACK = 1e-3  # how far floats may lie outside 0..1, as filters leave them
MAX_PIXELS = 178_000_000  # 0.5 GB of RGB, and just below what Pillow itself refuses to open
# fmt: off
EXTENSIONS = (
    ".avif", ".bmp", ".gif", ".heic", ".heif", ".hif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm",
    ".png", ".pnm", ".ppm", ".tga", ".tif", ".tiff", ".webp",
)
# fmt: on
HEIF = (".heic", ".heif", ".hif")  # what phones write; Pillow reads it with the extra `heif`
KINDS_OF_HEIF = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1")
HEIF_STARTS = tuple(b"ftyp" + kind for kind in KINDS_OF_HEIF)
RAW = (".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".raw", ".rw2")  # what cameras write, and it does not
_ORIENTATION = 0x0112  # the EXIF tag, and below how to undo each of its values
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@functools.cache
def reads_heif() -> bool:
    """Whether HEIC can be read, which Pillow learns at the first call."""
    try:
        import pillow_heif
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True


# A PIL image reads its file when it is first asked for pixels, and two threads that ask at once get wrong ones.
_one_at_a_time = threading.Lock()


def load_image(source: ImageSource, *, max_pixels: int = MAX_PIXELS) -> Pixels:
    """Read one image as contiguous (H, W, 3) uint8 RGB, upright, with transparency laid on white.

    Arrays are (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) of uint8, uint16, bool or floats in 0..1.
    16-bit values are scaled, not clipped; of an animation the first frame is taken. An image of more
    than ``max_pixels`` is refused before it is decoded.

    >>> load_image(np.zeros((2, 3), bool)).shape
    (2, 3, 3)
    """
    if isinstance(source, Image.Image):
        name = repr(getattr(source, "filename", "") or "the PIL image")
        with _one_at_a_time, quiet_pillow(), _plain_errors(name, max_pixels):
            return _pixels(source, name, max_pixels)
    if isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview)):
        return _decode(source, max_pixels)
    if hasattr(source, "__array__"):
        values: Any = source
        if hasattr(values, "detach"):  # a tensor: with gradients, on a GPU or of bfloat16 NumPy would not take it
            values = values.detach().cpu()
            values = values.float() if values.is_floating_point() else values
        return _array_pixels(np.asarray(values), "the array")
    raise ImageError(
        f"an image cannot be made from {type(source).__name__}; give a path, bytes, a PIL image or an array"
    )


def _decode(source: str | os.PathLike[str] | bytes | bytearray | memoryview, max_pixels: int) -> Pixels:
    file: Path | BytesIO
    if isinstance(source, (str, os.PathLike)) and is_url(source):
        name = repr(os.fspath(source))
        content = _fetch(source, name)
        file, size = BytesIO(content), len(content)
    elif isinstance(source, (str, os.PathLike)):
        file, name = Path(source), repr(os.fspath(source))
        if not os.path.isfile(file):
            problem = "is a folder, not an image" if os.path.isdir(file) else _absence(file)
            raise ImageError(f"{name} {problem}; give the path of an image file")
        size = os.path.getsize(file)
    else:
        file = BytesIO(source)
        size = file.getbuffer().nbytes
        name = f"the image of {size} bytes"
    if size == 0:
        raise ImageError(f"{name} is empty; copy or download the image again")
    with quiet_pillow(), _plain_errors(name, max_pixels), _open(file, name) as image:
        return _pixels(image, name, max_pixels)


def _open(file: Path | BytesIO, name: str) -> Image.Image:
    """Open with what Pillow knows by itself, else as HEIC, whatever the file is called."""
    try:
        return Image.open(file)
    except UnidentifiedImageError:
        with BytesIO(file.getvalue()) if isinstance(file, BytesIO) else file.open("rb") as content:
            if content.read(12)[4:] not in HEIF_STARTS:
                raise
        if not reads_heif():
            raise ImageError(f"{name} is HEIC, which needs the extra 'heif': pip install 'meantime[heif]'") from None
        try:
            return Image.open(file)
        except UnidentifiedImageError:
            raise ImageError(f"{name} is truncated or damaged HEIC; copy or download it again") from None


def _absence(path: str | os.PathLike[str]) -> str:
    """Why there is no file: `Path.exists` would raise for a name that is too long or a folder that is closed to us."""
    try:
        os.stat(path)
    except PermissionError:
        return "may not be looked at, check its rights"
    except (OSError, ValueError):
        pass
    return "does not exist"


def _fetch(source: str | os.PathLike[str], name: str) -> bytes:
    """What lies at a URL. A store that does not answer is no fault of the image: that ends a run, to be resumed."""
    try:
        return as_path(source).read_bytes()
    except FileNotFoundError as error:
        raise ImageError(f"{name} does not exist; give the URL of an image") from error
    except OSError as error:
        reason = " ".join(str(error).split())
        raise MeantimeError(f"{name} cannot be fetched ({reason}); check the network and your rights") from error


def _pixels(image: Image.Image, name: str, max_pixels: int) -> Pixels:
    """Decode, turn upright and bring any mode to RGB."""
    width, height = image.size
    if width * height > max_pixels:  # known from the header: nothing is decoded yet
        raise ImageError(
            f"{name} is {width} x {height}, more than the limit of {max_pixels} pixels; "
            "shrink it, or raise max_pixels if you trust it"
        )
    if width == 0 or height == 0:
        raise ImageError(f"{name} is {width} x {height} and has no pixels; give an image with some")
    image.load()
    try:
        turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged metadata is no reason to refuse good pixels
        turn = None
    upright = image if turn is None else image.transpose(turn)
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(upright)
        if image.mode == "I" and values.min() >= 0 and values.max() <= 65535:
            values = values.astype(np.uint16)  # how older Pillows open 16-bit PNG
        return _array_pixels(values, name)
    if image.has_transparency_data:
        rgba = upright.convert("RGBA")
        rgb = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    else:
        rgb = upright.convert("RGB")
    return np.array(rgb)


def _array_pixels(values: npt.NDArray[Any], name: str) -> Pixels:
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (1, 3, 4)):
        raise ImageError(
            f"{name} has the shape {values.shape}; expected (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), channels last"
        )
    if values.size == 0:
        raise ImageError(f"{name} has the shape {values.shape} and no pixels; give an image with some")
    levels = _levels(values, name)
    if levels.ndim == 2 or levels.shape[2] == 1:
        return np.repeat(levels.reshape(*levels.shape[:2], 1), 3, axis=2)
    if levels.shape[2] == 4:  # by way of PIL, so that both lay transparency on white alike
        return _pixels(Image.fromarray(np.ascontiguousarray(levels)), name, levels.size)
    return np.array(levels, order="C")  # a copy: the caller may change theirs later


def _levels(values: npt.NDArray[Any], name: str) -> Pixels:
    """Any of the known number types as uint8 in 0..255."""
    if values.dtype == np.uint8:
        return values
    if values.dtype == np.bool_:
        return values.astype(np.uint8) * np.uint8(255)
    if values.dtype.kind == "u" and values.dtype.itemsize == 2:  # either byte order
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)  # 65535 / 255 = 257
    if values.dtype.kind == "f":
        if values.min() >= -SLACK and values.max() <= 1 + SLACK:  # false for NaN too
            return np.rint(np.clip(values.astype(np.float64), 0, 1) * 255).astype(np.uint8)
        raise ImageError(
            f"{name} holds floats in {values.min():.4g}..{values.max():.4g}; expected 0..1, so divide by the maximum"
        )
    raise ImageError(
        f"{name} holds {values.dtype}; expected uint8, uint16, bool or floats in 0..1, so convert it first"
    )


@contextmanager
def _plain_errors(name: str, max_pixels: int) -> Iterator[None]:
    """Whatever a decoder raises, as one sentence with the image's name."""
    try:
        yield
    except MeantimeError:
        raise
    except UnidentifiedImageError as error:
        raise ImageError(
            f"{name} is not an image, or of a kind that Pillow cannot read; convert it to PNG or JPEG"
        ) from error
    except Image.DecompressionBombError as error:  # Pillow's own limit, checked as a file is opened
        limit = min(max_pixels, 2 * (Image.MAX_IMAGE_PIXELS or max_pixels))
        raise ImageError(
            f"{name} has more pixels than the limit of {limit} and may be malicious; "
            "shrink it, or raise max_pixels and PIL.Image.MAX_IMAGE_PIXELS if you trust it"
        ) from error
    except PermissionError as error:
        raise ImageError(f"{name} may not be read; check its rights") from error
    except Exception as error:  # damaged files make decoders raise nearly anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ImageError(
            f"{name} cannot be read, it is truncated or damaged ({reason}); copy or download it again"
        ) from error


_quiet_lock = threading.Lock()
_quiet_users = 0
_entry = ("ignore", None, Warning, re.compile(r"PIL\."), 0)  # what `warnings.filterwarnings` would put into the list


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Pillow's warnings are silent inside, in any number of threads at once.

    `warnings.catch_warnings` is not for threads: the first to leave would restore the filters under
    the others. So one filter, for Pillow only, stands while anyone needs it.
    """
    global _quiet_users
    with _quiet_lock:
        _quiet_users += 1
        if _quiet_users == 1:
            # Put there by hand: `filterwarnings` makes Python forget which warnings it has shown, for each image anew.
            cast(list[Any], warnings.filters).insert(0, _entry)
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet_users -= 1
            if _quiet_users == 0:
                filters = cast(list[Any], warnings.filters)
                if _entry in filters:  # not if someone has reset them all meanwhile
                    filters.remove(_entry)


def find_images(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    """Image files among files, folders and globs, one by one, in a stable order.

    A file that is named is always taken. Folders are searched to the bottom, by name order, for the
    known extensions, each real folder once; globs (`*`, `**`) likewise. Hidden files and folders are
    left out. Photos of kinds that cannot be read (raw; HEIC without its extra) are passed over, with a warning at
    the end.
    """
    passed: Counter[str] = Counter()
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        where = as_path(path)
        named = False
        if isinstance(where, RemotePath):
            named = not where.is_dir()
            found = iter([where]) if named else (p for p in where.walk_files() if _is_photo(p.name))
        elif os.path.isdir(where):
            found = _walk(where, set())
        elif os.path.exists(where):
            found, named = iter([where]), True
        elif any(character in str(where) for character in "*?["):
            found = _glob(where)
        else:
            raise MeantimeError(f"{str(path)!r} {_absence(where)}; give image files, folders or globs")
        empty, others = True, Counter[str]()
        for image in found:
            kind = os.path.splitext(image.name)[1].lower()
            if not named and (kind in RAW or (kind in HEIF and not reads_heif())):
                others[kind] += 1
                continue
            empty = False
            yield image
        if empty:
            what = f"no images but {_told(others)}" if others else "no images"
            advice = _advice(others) or f"known are the extensions {', '.join(EXTENSIONS)}"
            raise MeantimeError(f"{str(path)!r} holds {what}; {advice}")
        passed += others
    if passed:
        warnings.warn(f"{_told(passed)} passed over; {_advice(passed)}", stacklevel=2)


def _told(passed: Counter[str]) -> str:
    n = passed.total()
    return f"{n} file{'s' if n > 1 else ''} ({', '.join(sorted(passed))})"


def _advice(passed: Counter[str]) -> str:
    heif = ["HEIC needs the extra 'heif': pip install 'meantime[heif]'"] if passed.keys() & set(HEIF) else []
    raw = ["convert raw photos to JPEG"] if passed.keys() & set(RAW) else []
    return "; ".join(heif + raw)


def _is_photo(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith((*EXTENSIONS, *RAW))


def _walk(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    try:
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:  # a symlink back to where we have been
            return
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as entries:
            # Only names are kept, so that a folder of 100,000 files stays small.
            names = sorted((entry.name, entry.is_dir()) for entry in entries if not entry.name.startswith("."))
    except OSError as error:
        raise MeantimeError(
            f"the folder {str(folder)!r} cannot be read ({error.strerror}); check its rights"
        ) from error
    for name, is_folder in names:
        if is_folder:
            yield from _walk(folder / name, seen)
        elif _is_photo(name) and os.path.isfile(folder / name):
            yield folder / name


def _glob(pattern: Path) -> Iterator[Path]:
    parts = pattern.parts
    # A folder whose name has brackets is itself, not a pattern.
    first = next(
        i
        for i, part in enumerate(parts)
        if any(character in part for character in "*?[") and not os.path.exists(Path(*parts[: i + 1]))
    )
    base = Path(*parts[:first])
    for path in sorted(base.glob("/".join(parts[first:]))):
        hidden = any(part.startswith(".") for part in path.relative_to(base).parts)
        if not hidden and _is_photo(path.name) and os.path.isfile(path):
            yield path

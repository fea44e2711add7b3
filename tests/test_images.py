"""Images come out the same whichever way they went in; what cannot be read says so in one sentence."""

import os
import re
import shutil
import struct
import threading
import warnings
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
import torch
from PIL import Image

from meantime.errors import ImageError, MeantimeError
from meantime.images import find_images, load_image

RNG = np.random.default_rng(0)
RGB = RNG.integers(0, 256, (6, 9, 3), np.uint8)
GRAY = RGB[..., 0]
ALPHA = RNG.integers(0, 256, (6, 9), np.uint8)


def on_white(rgb: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    a = alpha[..., None] / 255
    return rgb * a + 255 * (1 - a)


def saved(tmp_path: Path, image: Image.Image, name: str = "x.png", **options: object) -> Path:
    path = tmp_path / name
    image.save(path, **options)
    return path


def photo() -> Image.Image:
    """Smooth, so that JPEG changes it little."""
    y, x = np.mgrid[0:24, 0:40]
    return Image.fromarray(np.stack([x * 6, y * 10, 255 - x * 3 - y * 4], axis=2).astype(np.uint8))


def test_file_bytes_pil_and_array_agree(tmp_path):
    path = saved(tmp_path, photo(), "x.jpg")
    image = load_image(path)
    assert image.shape == (24, 40, 3)
    assert image.dtype == np.uint8
    assert image.flags.c_contiguous
    assert image.flags.writeable
    for other in (str(path), path.read_bytes(), bytearray(path.read_bytes()), Image.open(path), image):
        np.testing.assert_array_equal(load_image(other), image)


def test_an_array_is_copied():
    mine = RGB.copy()
    loaded = load_image(mine)
    mine[:] = 0
    np.testing.assert_array_equal(loaded, RGB)


def test_a_pil_image_is_left_as_it_was():
    image = Image.fromarray(GRAY)
    load_image(image)
    assert image.mode == "L"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("RGB", RGB), ("L", np.repeat(GRAY[..., None], 3, 2))],
)
def test_plain_modes(tmp_path, mode, expected):
    path = saved(tmp_path, Image.fromarray(RGB if mode == "RGB" else GRAY))
    assert Image.open(path).mode == mode
    np.testing.assert_array_equal(load_image(path), expected)


def test_one_bit(tmp_path):
    path = saved(tmp_path, Image.fromarray(GRAY > 127))
    assert Image.open(path).mode == "1"
    np.testing.assert_array_equal(load_image(path), np.repeat((GRAY > 127)[..., None] * np.uint8(255), 3, 2))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_is_laid_on_white(tmp_path, mode):
    rgb = RGB if mode == "RGBA" else np.repeat(GRAY[..., None], 3, 2)
    rgba = Image.fromarray(np.dstack([rgb, ALPHA]))
    path = saved(tmp_path, rgba if mode == "RGBA" else Image.merge("LA", [rgba.getchannel(0), rgba.getchannel(3)]))
    assert Image.open(path).mode == mode
    image = load_image(path)
    assert np.abs(image - on_white(rgb, ALPHA)).max() <= 1
    np.testing.assert_array_equal(image, load_image(np.dstack([rgb, ALPHA])))


def test_palette_with_transparency(tmp_path):
    image = Image.new("P", (3, 1))
    image.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    image.putdata([0, 1, 2])
    opaque = saved(tmp_path, image)
    clear = saved(tmp_path, image, "clear.png", transparency=b"\xff\x00\xff")
    np.testing.assert_array_equal(load_image(opaque)[0], [[255, 0, 0], [0, 255, 0], [0, 0, 255]])
    np.testing.assert_array_equal(load_image(clear)[0], [[255, 0, 0], [255, 255, 255], [0, 0, 255]])


def test_a_transparent_colour_of_an_rgb_file(tmp_path):
    path = saved(tmp_path, Image.fromarray(np.array([[[1, 2, 3], [9, 9, 9]]], np.uint8)), transparency=(1, 2, 3))
    assert Image.open(path).mode == "RGB"
    np.testing.assert_array_equal(load_image(path)[0], [[255, 255, 255], [9, 9, 9]])


def test_cmyk_jpeg(tmp_path):
    path = saved(tmp_path, photo().convert("CMYK"), "x.jpg", quality=95)
    assert Image.open(path).mode == "CMYK"
    assert np.abs(load_image(path).astype(int) - np.asarray(photo())).mean() < 4


def test_sixteen_bits_are_scaled_not_clipped(tmp_path):
    values = np.array([[0, 256, 257, 30000, 65535]], np.uint16)
    expected = [0, 1, 1, 117, 255]
    path = saved(tmp_path, Image.fromarray(values))
    assert Image.open(path).mode in ("I;16", "I")
    for source in (path, values, values.astype(">u2"), Image.fromarray(values.astype(np.int32))):
        np.testing.assert_array_equal(load_image(source)[0, :, 0], expected)


def test_animation_gives_its_first_frame(tmp_path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "green", "blue")]
    path = saved(tmp_path, frames[0], "x.gif", save_all=True, append_images=frames[1:])
    assert Image.open(path).n_frames == 3
    assert (load_image(path) == [255, 0, 0]).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path, orientation):
    turned = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, -1),
        7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
        8: lambda a: np.rot90(a),
    }[orientation]
    plain = load_image(saved(tmp_path, photo(), "plain.jpg"))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path, photo(), "turned.jpg", exif=exif)
    np.testing.assert_array_equal(load_image(path), turned(plain))
    np.testing.assert_array_equal(load_image(Image.open(path)), turned(plain))


def test_damaged_exif_is_ignored(tmp_path):
    path = saved(tmp_path, photo(), "x.jpg", exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff\x01")
    assert load_image(path).shape == (24, 40, 3)


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1)])
def test_tiny_images(tmp_path, shape):
    assert load_image(saved(tmp_path, Image.new("L", shape[::-1]))).shape == (*shape, 3)


@pytest.mark.parametrize(
    ("values", "level"),
    [
        (np.full((2, 2), 7, np.uint8), 7),
        (np.full((2, 2, 1), 7, np.uint8), 7),
        (np.ones((2, 2), bool), 255),
        (np.full((2, 2, 3), 0.5, np.float32), 128),
        (np.ones((2, 2, 3), np.float16), 255),
    ],
)
def test_arrays(values, level):
    image = load_image(values)
    assert image.shape == (2, 2, 3)
    assert (image == level).all()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros((3, 8, 8), np.uint8), "channels last"),
        (np.zeros(5, np.uint8), r"shape \(5,\)"),
        (np.zeros((0, 4, 3), np.uint8), "no pixels"),
        (np.full((2, 2), 200.0), "expected 0..1"),
        (np.full((2, 2), np.nan), "expected 0..1"),
        (np.zeros((2, 2), np.int64), "int64"),
    ],
)
def test_unusable_arrays(values, words):
    with pytest.raises(ImageError, match=words):
        load_image(values)


def test_other_types():
    with pytest.raises(ImageError, match="NoneType"):
        load_image(None)


def zip_named_jpg(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b" * 100)


def truncated(path: Path) -> None:
    buffer = BytesIO()
    Image.fromarray(RNG.integers(0, 256, (64, 64, 3), np.uint8)).save(buffer, "JPEG")
    path.write_bytes(buffer.getvalue()[:2000])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (zip_named_jpg, "is not an image"),
        (truncated, "truncated"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_text("hello"), "is not an image"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: None, "does not exist"),
    ],
)
def test_unreadable_files_are_named_with_the_reason(tmp_path, make, words):
    path = tmp_path / "bad.jpg"
    make(path)
    with pytest.raises(ImageError, match=words) as caught:
        load_image(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_bytes():
    with pytest.raises(ImageError, match="image of 4 bytes is not an image"):
        load_image(b"nope")
    with pytest.raises(ImageError, match="empty"):
        load_image(b"")


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [100_000, 13_350])  # far beyond Pillow's own limit, and just beyond ours
def test_a_bomb_is_refused_before_decoding(tmp_path, side):
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(side, side))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ImageError, match="limit of 178"):
            load_image(path)


def test_max_pixels(tmp_path):
    path = saved(tmp_path, Image.new("L", (10, 10)))
    assert load_image(path, max_pixels=100).shape == (10, 10, 3)
    with pytest.raises(ImageError, match="10 x 10, more than the limit of 99"):
        load_image(path, max_pixels=99)


def test_pillows_warnings_stay_inside_and_filters_come_back(tmp_path):
    path = tmp_path / "large.png"
    path.write_bytes(png_header(10_000, 10_000))  # large enough for a warning, with its pixels missing
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        errors: list[Exception] = []

        def load() -> None:
            try:
                load_image(path)
            except ImageError as error:
                errors.append(error)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert warnings.filters == before
    assert len(errors) == 4
    assert seen == []


@pytest.fixture
def tree(tmp_path):
    for name in (
        "b.jpg",
        "a.PNG",
        "notes.txt",
        ".hidden.jpg",
        "sub/c.webp",
        "sub/.d/e.jpg",
        "sub/z/f.gif",
        "g[1].jpg",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def names(tree: Path, *paths: str) -> list[str]:
    return [str(path.relative_to(tree)) for path in find_images([tree / path for path in paths])]


def test_folders_are_searched_in_order(tree):
    assert names(tree, ".") == ["a.PNG", "b.jpg", "g[1].jpg", "sub/c.webp", "sub/z/f.gif"]
    assert len(list(find_images(tree))) == len(list(find_images(str(tree)))) == 5


def test_a_named_file_is_always_taken(tree):
    assert names(tree, "notes.txt", ".hidden.jpg", "g[1].jpg") == ["notes.txt", ".hidden.jpg", "g[1].jpg"]


def test_globs(tree):
    assert names(tree, "*") == ["a.PNG", "b.jpg", "g[1].jpg"]
    assert names(tree, "*.jpg") == ["b.jpg", "g[1].jpg"]
    assert names(tree, "**/*.*") == ["a.PNG", "b.jpg", "g[1].jpg", "sub/c.webp", "sub/z/f.gif"]
    assert names(tree, "s*/*.webp") == ["sub/c.webp"]


def test_a_relative_glob(tree, monkeypatch):
    monkeypatch.chdir(tree)
    assert list(find_images(["*.jpg"])) == [Path("b.jpg"), Path("g[1].jpg")]


def test_symlink_loops_end(tree):
    (tree / "sub" / "loop").symlink_to(tree, target_is_directory=True)
    (tree / "broken.jpg").symlink_to(tree / "nowhere")
    assert len(names(tree, ".")) == 5
    assert len(names(tree, "**/*.*")) == 5


def test_nothing_found_is_said(tree):
    with pytest.raises(MeantimeError, match="nowhere' does not exist"):
        names(tree, "nowhere")
    for path in ("*.xyz", "empty"):
        (tree / "empty").mkdir(exist_ok=True)
        with pytest.raises(MeantimeError, match=r"no images; known are the extensions .*\.jpg"):
            names(tree, path)


def test_images_stream(tree):
    assert next(find_images([tree, tree / "nowhere"])).name == "a.PNG"


def test_one_lazy_pil_image_in_many_threads(tmp_path):
    """Pillow decodes an opened file when it is first asked, and not for two threads at once."""
    path = tmp_path / "noise.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)
    Image.fromarray(noise).save(path)
    expected = load_image(path)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            with Image.open(path) as image:
                for got in pool.map(load_image, [image] * 8):
                    np.testing.assert_array_equal(got, expected)


def test_warnings_that_were_shown_are_not_shown_again_after_an_image():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            warnings.warn("once is enough", stacklevel=1)
            load_image(Image.new("RGB", (4, 4)))
    assert [str(w.message) for w in seen] == ["once is enough"]


def test_floats_a_hair_outside_are_clipped():
    values = np.array([[-1e-4, 0.5, 1.0005]])
    np.testing.assert_array_equal(load_image(values)[0, :, 0], [0, 128, 255])
    with pytest.raises(ImageError, match=r"-0.01..1"):
        load_image(np.array([[-0.01, 1.0]]))


def test_tensors_of_any_kind():
    values = torch.rand(5, 6, 3)
    expected = load_image(values.numpy())
    np.testing.assert_array_equal(load_image(values.clone().requires_grad_()), expected)
    np.testing.assert_allclose(load_image(values.bfloat16()).astype(int), expected, atol=1)
    np.testing.assert_array_equal(load_image(torch.tensor(expected)), expected)


def test_names_too_long_and_closed_folders_are_said(tmp_path, monkeypatch):
    for long in ("a" * 5000 + ".jpg", "a" * 300):
        with pytest.raises(ImageError, match="does not exist"):
            load_image(long)
        with pytest.raises(MeantimeError, match="does not exist"):
            list(find_images(long))
    (tmp_path / "a.jpg").write_bytes(b"x")

    def closed(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Image, "open", closed)
    with pytest.raises(ImageError, match="may not be read; check its rights"):
        load_image(tmp_path / "a.jpg")
    monkeypatch.setattr(os, "stat", closed)
    with pytest.raises(ImageError, match="check its rights"):
        load_image(tmp_path / "b.jpg")
    with pytest.raises(MeantimeError, match="check its rights"):
        list(find_images(tmp_path / "b.jpg"))


def test_a_glob_below_a_folder_with_brackets(tree):
    (tree / "trip [2019]").mkdir()
    (tree / "trip [2019]" / "x.jpg").touch()
    assert names(tree, "trip [2019]/*.jpg") == ["trip [2019]/x.jpg"]
    assert names(tree, "trip*/*.jpg") == ["trip [2019]/x.jpg"]


def test_photos_of_kinds_that_cannot_be_read_are_told(tree, without_heif):
    for name in ("IMG_1.HEIC", "IMG_2.heic", "sub/x.dng", ".hidden.heic"):
        (tree / name).touch()
    for path in (".", "**/*"):
        advice = "HEIC needs the extra 'heif': pip install 'meantime[heif]'; convert raw photos to JPEG"
        with pytest.warns(UserWarning, match=rf"^3 files \(\.dng, \.heic\) passed over; {re.escape(advice)}$"):
            assert len(names(tree, path)) == 5
    (tree / "phone").mkdir()
    (tree / "phone" / "a.heic").touch()
    with pytest.raises(MeantimeError, match=r"holds no images but 1 file \(\.heic\); HEIC needs the extra 'heif'"):
        names(tree, "phone")
    (tree / "empty").mkdir()
    with pytest.raises(MeantimeError, match=r"empty' holds no images; known"):  # those passed over lie elsewhere
        list(find_images([tree, tree / "empty"]))
    assert names(tree, "IMG_1.HEIC") == ["IMG_1.HEIC"]


@pytest.fixture
def without_heif(monkeypatch):
    monkeypatch.setattr("meantime.images.reads_heif", lambda: False)


@pytest.fixture
def heic(tmp_path):
    """A photo as phones keep it: 40 x 24, red above and blue below."""
    picture = Image.new("RGB", (40, 24), "red")
    picture.paste("blue", (0, 12, 40, 24))
    file = pillow_heif.from_pillow(picture)
    file.save(tmp_path / "photo.HEIC", quality=-1)
    return tmp_path / "photo.HEIC"


def test_photos_of_phones(heic, tree):
    pixels = load_image(heic)
    assert pixels.shape == (24, 40, 3)
    assert pixels[4, 20, 0] > 200 > 50 > pixels[4, 20, 2]
    assert pixels[20, 20, 2] > 200 > 50 > pixels[20, 20, 0]
    np.testing.assert_array_equal(load_image(heic.read_bytes()), pixels)
    shutil.copy(heic, tree / "called.jpg")  # as some programs that share photos leave it
    np.testing.assert_array_equal(load_image(tree / "called.jpg"), pixels)
    shutil.copy(heic, tree / "IMG_1.HEIC")
    assert "IMG_1.HEIC" in names(tree, ".")


def test_photos_of_phones_say_what_is_missing(heic, without_heif, monkeypatch):
    kept = dict(Image.OPEN)
    monkeypatch.setattr(Image, "OPEN", {name: opener for name, opener in kept.items() if name != "HEIF"})
    monkeypatch.setattr(Image, "ID", [name for name in Image.ID if name != "HEIF"])
    with pytest.raises(ImageError, match=r"photo.HEIC' is HEIC, which needs the extra 'heif': pip install"):
        load_image(heic)
    with pytest.raises(ImageError, match=r"the image of \d+ bytes is HEIC"):
        load_image(heic.read_bytes())


@pytest.mark.parametrize("kept", [100, 200, -20])
def test_a_damaged_photo_of_a_phone(heic, kept):
    heic.write_bytes(heic.read_bytes()[:kept])
    with pytest.raises(ImageError, match=r"photo.HEIC' .*truncated or damaged"):
        load_image(heic)


def test_rare_kinds_of_heic(heic):
    content = heic.read_bytes()
    assert load_image(content[:8] + b"hevx" + content[12:]).shape == (24, 40, 3)

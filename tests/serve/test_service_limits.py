"""What is too large is refused by its header, before it costs memory."""

import io
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pillow_heif
import pytest
from parts import png, text64
from PIL import Image
from toy import picture

from meantime.serve.errors import ApiError
from meantime.serve.limits import decode_image
from meantime.serve.settings import Settings


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(width, height):
    """A small PNG of any size: rows of zeros, as far as 50 MB."""
    row = bytes(1 + (width + 7) // 8)
    rows = zlib.compress(row * min(height, 5 * 10**7 // len(row)), 1)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def refused(data, **settings):
    with pytest.raises(ApiError) as caught:
        decode_image(data, Settings(**settings))
    return caught.value.status, caught.value.message


def test_a_bomb_is_refused_before_it_is_decoded():
    data = bomb(20_000, 20_000)
    tracemalloc.start()
    assert refused(data)[0] == 413
    assert tracemalloc.get_traced_memory()[1] < 10 * len(data) + 2**20
    tracemalloc.stop()
    assert refused(bomb(10**6, 10**6))[0] == 413


@pytest.mark.parametrize("size", [(1, 100_000), (100_000, 1)])
def test_slivers_are_classified(client, size):
    data = png(np.zeros((*size, 3), np.uint8))
    answer = client.post("/v1/classify", json={"image": text64(data), "labels": ["red"], "views": 4})
    assert answer.status_code == 200


def animation(kind, count):
    file = io.BytesIO()
    frames = [Image.fromarray(picture("red", size=8, seed=i)) for i in range(count)]
    frames[0].save(file, kind, save_all=True, append_images=frames[1:])
    return file.getvalue()


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_frames_are_counted(kind):
    data = animation(kind, 5)
    first = decode_image(data, Settings(max_frames=5))
    assert first.shape == (8, 8, 3)
    assert abs(first.astype(int) - picture("red", size=8)).mean() < 40
    status, message = refused(data, max_frames=4)
    assert (status, "more than 4 frames" in message) == (413, True)


def test_counting_frames_of_a_gif_stops_in_time():
    head = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes(6)
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    assert refused(head + frame * 200_000)[0] == 413
    assert decode_image(head + frame + b";", Settings()).shape == (1, 1, 3)


def test_other_kinds_of_files_are_not_tried():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("photo.jpg", png(picture("red")))
    for data in (packed.getvalue(), b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"<svg/>", b"P6 1 1 255 abc"):
        status, message = refused(data)
        assert status == 422
        assert "convert it to PNG or JPEG" in message


def test_damaged_images_are_told_without_our_names_for_them(red):
    for end in (9, 30, len(red) // 2):
        status, message = refused(red[:end])
        assert status == 422
        assert "PIL" not in message
        assert "0x" not in message


def test_the_body_has_a_limit_declared_or_not(serve, red):
    client = serve(max_body=1000)
    kind = {"content-type": "image/png"}
    declared = client.post("/v1/classify?labels=red", content=bytes(1001), headers=kind)
    streamed = client.post("/v1/classify?labels=red", content=(bytes(100) for _ in range(11)), headers=kind)
    form = client.post("/v1/classify", files={"image": ("a.png", red)}, data={"labels": "red"})
    for answer in (declared, streamed, form):
        assert answer.status_code == 413
        assert "MiB" in answer.json()["error"]["message"]


def test_photos_of_phones_are_taken_with_the_extra_and_named_without(monkeypatch):
    buffer = io.BytesIO()
    pillow_heif.from_pillow(Image.new("RGB", (30, 20), "red")).save(buffer)
    assert decode_image(buffer.getvalue(), Settings()).shape == (20, 30, 3)
    assert refused(buffer.getvalue(), max_pixels=599)[0] == 413
    monkeypatch.setattr("meantime.serve.limits.reads_heif", lambda: False)
    assert refused(buffer.getvalue()) == (
        422,
        "the image is none of JPEG, PNG, WEBP, GIF, BMP, TIFF, AVIF: convert it to PNG or JPEG",
    )

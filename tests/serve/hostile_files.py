"""Image files that no honest client sends: cut, turned, swollen, or of another kind altogether."""

import io
import struct
import zipfile
import zlib

from PIL import Image

KINDS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF")
LABELS = "?labels=cat,dog&views=2"


def photo(rng, kind, size=(40, 30)):
    image = Image.frombytes("RGB", size, rng.randbytes(3 * size[0] * size[1]))
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def raw(data, kind="image/jpeg", query=LABELS):
    return "POST", "/v1/classify" + query, {"content-type": kind}, data


def images(rng):
    """Files cut short, with bits turned, and of other kinds."""
    for kind in KINDS:
        whole = photo(rng, kind)
        for i in range(10):
            yield f"{kind} cut {i}", raw(whole[: rng.randrange(len(whole))])
        for i in range(20):
            damaged = bytearray(whole)
            for _ in range(rng.choice((1, 5, 50))):
                damaged[rng.randrange(min(len(damaged), rng.choice((40, 10**6))))] = rng.randrange(256)
            yield f"{kind} turned {i}", raw(bytes(damaged))
        for i in range(4):
            yield f"{kind} and noise {i}", raw(whole[:12] + rng.randbytes(500))
        yield f"{kind} twice", raw(whole + whole)
    for i in range(10):
        yield f"noise {i}", raw(rng.randbytes(rng.randrange(2000)))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.jpg"), photo(rng, "JPEG"))
    others = {
        "zip": packed.getvalue(),
        "empty": b"",
        "html": b"<!doctype html><script>alert(1)</script>",
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
        "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) run\n",
        "pdf": b"%PDF-1.7\n1 0 obj\n<<>>\nendobj",
        "ppm": b"P6 100000 100000 255\n" + bytes(100),
        "gzip": b"\x1f\x8b" + bytes(100),
        "elf": b"\x7fELF" + bytes(100),
        "pickle": b"cos\nsystem\n(S'true'\ntR.",
    }
    for name, data in others.items():
        yield name, raw(data)


def png(width, height, rows, depth=8, colour=2, extra=b""):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def bombs(rng):
    """Files that are small until they are opened."""
    for width, height in ((1, 100_000), (100_000, 1), (1, 1), (2, 65_535)):
        yield f"sliver {width} x {height}", raw(png(width, height, (b"\0" + bytes(3 * width)) * height))
    for width, height in (
        (20_000, 20_000),
        (65_535, 65_535),
        (2**31 - 1, 2**31 - 1),
        (0, 0),
        (2**31 - 1, 1),
        (7_000, 7_000),
    ):
        yield f"PNG that claims {width} x {height}", raw(png(width, height, bytes(10**5)))
        head = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
        yield f"BMP that claims {width} x {height}", raw(head) if height < 2**31 else raw(b"")
        side = (min(width, 65_535), min(height, 65_535))
        yield (
            f"GIF that claims {width} x {height}",
            raw(b"GIF89a" + struct.pack("<HHBBB", *side, 0, 0, 0) + b"\x2c" + bytes(20)),
        )
    yield "PNG of zeros, 12 megapixels", raw(png(4_000, 3_000, bytes((1 + 500) * 3_000), depth=1, colour=0))
    text = b"zTXtk\0\0" + zlib.compress(bytes(3 * 10**7))
    extra = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    yield "PNG with 30 MB of text", raw(png(2, 2, (b"\0" + bytes(6)) * 2, extra=extra))
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    yield "GIF of 300,000 frames", raw(b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes(6) + frame * 300_000)
    entry = struct.pack("<HHHII", 1, 256, 3, 1, 1)
    yield "TIFF whose pages are a circle", raw(b"II*\0" + struct.pack("<I", 8) + entry[:14] + struct.pack("<I", 8))
    for i in range(20):
        entries = b"".join(
            struct.pack("<HHII", rng.randrange(250, 350), rng.randrange(14), rng.randrange(2**32), rng.randrange(2**32))
            for _ in range(8)
        )
        yield f"TIFF of random tags {i}", raw(b"II*\0" + struct.pack("<IH", 8, 8) + entries + bytes(4))

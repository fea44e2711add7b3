"""Requests that no honest client sends, made from a seed.

    python tests/serve/hostile.py URL     # all of them, against a service

Each is (name, method, path, headers, body).
"""

import base64
import json
import random
import struct
import sys

from hostile_files import bombs, images, photo, raw

JSON = {"content-type": "application/json"}


def corpus(seed=0):
    """All of them, always the same."""
    rng = random.Random(seed)
    for part in (images, bombs, classify_json, matrices, kept_classes, embeddings, raw_json, forms, addresses):
        for name, (method, path, headers, body) in part(rng):
            yield f"{part.__name__}: {name}", method, path, headers, body


def post(path, value):
    return "POST", path, JSON, json.dumps(value).encode("utf-8", "surrogatepass")


def classify_json(rng):
    """Questions that are wrong in one thing each."""
    good = {"image": base64.b64encode(photo(rng, "PNG")).decode(), "labels": ["cat", "dog"], "views": 2}
    wrong = [
        None,
        True,
        -1,
        0,
        1e308,
        2**70,
        1.5,
        "",
        "x",
        "\0",
        "\ud800",
        [],
        [[]],
        {},
        {"a": {}},
        ["\ud800"],
        "9" * 4000,
    ]
    for name in ("image", "labels", "method", "views", "seed", "top", "detail", "template"):
        for i, value in enumerate(wrong):
            yield f"{name} {i}", post("/v1/classify", good | {name: value})
    more = {
        "labels": [
            ["x"] * 100_000,
            ["y" * 10**6],
            ["\0"],
            ["\u202e" * 100],
            ["{}" * 90],
            [""] * 5,
            "../../etc/passwd",
            "labels.txt",
            "/etc/hostname",
            ["a\nb", "a\rb"],
            ["'; DROP TABLE texts; --"],
            ["😀" * 200],
        ],
        "template": ["{}" * 100, "{" * 200, "{0.__class__}", "%s", "{c}{c}", "\0{}"],
        "method": ["mta@/etc", "../mta", "mta+e+e", "tpt", "__class__", "coop"],
        "image": [
            "data:,",
            "data:image/png;base64,",
            "file:///etc/passwd",
            "http://127.0.0.1:1/",
            "A" * 10**6,
            "====",
            "é",
        ],
        "seed": [2**63 - 1, 2**63, 2**64],
        "views": [256, 257, 10**9],
        "top": [10**9],
    }
    for name, values in more.items():
        for i, value in enumerate(values):
            yield f"{name} more {i}", post("/v1/classify", good | {name: value})
    for name in ("veiws", "__proto__", "", "image2"):
        yield f"unknown {name}", post("/v1/classify", good | {name: 1})


def matrices(rng):
    """Shapes, numbers and settings that no solver should meet."""
    good = {"views": [[1.0, 0.0], [0.5, 0.5]], "classes": [[1.0, 0.0], [0.0, 1.0]]}
    data = base64.b64encode(struct.pack("<4f", 1, 0, 0, 1)).decode()

    def packed(**changes):
        return {"data": data, "dtype": "float32", "shape": [2, 2]} | changes

    bad = [
        None,
        1,
        "x",
        [],
        [[]],
        [[], []],
        [[1], [1, 2]],
        [[[1.0]]],
        [["1", "2"]],
        [[None, 1]],
        [[True, False]],
        [[0, 0]],
        [[1e308, 1e308]],
        [[1e-320, 0]],
        [[1, 2, 3]],
        [[1.0, 0.0]] * 300,
        [[1.0] * 9000],
        {},
        packed(shape=[]),
        packed(shape=[4]),
        packed(shape=[2, 2, 1]),
        packed(shape=[1, 1, 4]),
        packed(shape=[1, 1, 2, 2]),
        packed(shape=[2**30, 2**30, 2**30]),
        [[[1.0, 0.0]]] * 300,
        [[[1.0, 0.0]], []],
        [[[1.0, 0.0]], [[1.0]]],
        [[[1.0, 0.0]], [1.0, 0.0]],
        [[1.0, 0.0], [[1.0, 0.0]]],
        [[[[1.0, 0.0]]]],
        [[[]]],
        "0" * 64,
        "../" * 1000,
        "\ud800",
        "\0",
        packed(shape=[2**31 - 1, 2**31 - 1]),
        packed(shape=[2**62, 4]),
        packed(shape=[-2, -2]),
        packed(shape=[0, 4]),
        packed(shape=[1, 3]),
        packed(shape=["2", "2"]),
        packed(shape=[2.5, 2]),
        packed(dtype="object"),
        packed(dtype="float64"),
        packed(dtype="<f4"),
        packed(dtype="float16"),
        packed(data=""),
        packed(data="é" * 24),
        packed(data=data + "="),
        packed(data="!" * 24),
        packed(data=data[:-1]),
        packed(extra=1),
        packed(data=base64.b64encode(struct.pack("<4f", float("nan"), 0, 0, 1)).decode()),
        packed(data=base64.b64encode(struct.pack("<4f", float("inf"), 0, 0, 1)).decode()),
        packed(data=base64.b64encode(bytes(16)).decode()),
    ]
    for name in ("views", "classes"):
        for i, value in enumerate(bad):
            yield f"{name} {i}", post("/v1/mta", good | {name: value})
    for name in ("logit_scale", "lambda", "lambda_y", "rho"):
        for value in (None, "1", 0, -1, 1e-300, 1e300, float("nan"), float("inf"), [], True):
            yield f"{name} {value}", post("/v1/mta", good | {name: value})
    wrong = ("x", [], ["x"] * 10**5, ["x" * 10**6, "y"], [1, 2], [None, None], ["\ud800", "\0"], -1, 0, 2**70, {})
    for name in ("names", "top"):
        for i, value in enumerate(wrong):
            yield f"{name} {i}", post("/v1/mta", good | {"names": ["a", "b"]} | {name: value})
    most = [base64.b64encode(bytes(2) + struct.pack("<e", 1) * (n - 1)).decode() for n in (65_536, 20_000)]
    many = {"data": most[0], "dtype": "float16", "shape": [256, 256, 1]}
    few = {"data": most[1], "dtype": "float16", "shape": [20_000, 1]}
    yield "a batch of everything", post("/v1/mta", good | {"views": many, "classes": few})
    yield "a batch of ones", post("/v1/mta", good | {"views": many | {"shape": [65_536, 1, 1]}, "classes": [[1.0]]})
    for name in ("variant", "encoding_format", "affinity", "lambda_"):
        for value in (None, "", "mine", 1, []):
            yield f"{name} {value}", post("/v1/mta", good | {name: value})


def kept_classes(rng):
    """More than there is room for, and what should not be kept at all."""
    for i in range(80):
        yield f"many {i}", post("/v1/classes", {"classes": [[rng.random(), 1.0]]})
    large = {"dtype": "float16", "shape": [1200, 1024]}
    for i in range(12):
        data = base64.b64encode(struct.pack("<e", 1 + i / 64) + b"\0<" * (1200 * 1024 - 1)).decode()
        yield f"large {i}", post("/v1/classes", {"classes": large | {"data": data}})
    for i, classes in enumerate((None, 1, "x", [], [[]], [[[1.0]]], [[0.0]], [["1"]], {}, large | {"data": ""})):
        yield f"classes {i}", post("/v1/classes", {"classes": classes})
    for i, names in enumerate(("x", [], ["x", "y"], [1], ["\ud800"], ["x" * 10**6], [["x"]], {})):
        yield f"names {i}", post("/v1/classes", {"classes": [[1.0]], "names": names})


def embeddings(rng):
    """Inputs that are none."""
    image = base64.b64encode(photo(rng, "JPEG")).decode()
    bad = [
        None,
        1,
        [],
        [[]],
        [["x"]],
        {},
        {"image": 1},
        [{"image": ""}],
        [{"image": "x" * 10**5}],
        [{"url": "http://127.0.0.1/"}],
        ["x"] * 1000,
        ["x" * 10**5],
        [{"image": image}] * 300,
        ["\0"],
        [""],
        ["\ud800"],
        ["\u202e"],
        [None],
        {"text": "x"},
        [{"image": image, "x": 1}],
        "y" * 10**6,
        [{"image": image[: len(image) // 2]}],
        [[1, 2, 3]],
        True,
    ]
    for i, value in enumerate(bad):
        yield f"input {i}", post("/v1/embed", {"input": value})
    for name in ("user", "dimensions"):
        for value in (0, -1, 2**70, 1.5, "", "x" * 10**6, "\ud800", [], {}, True):
            yield f"{name} {str(value)[:9]}", post("/v1/embeddings", {"input": "x", name: value})
    for model in ("", "other", "../embedded", 1, []):
        yield f"model {model}", post("/v1/embed", {"input": "x", "model": model})


def raw_json(rng):
    """Bodies that are not JSON, or too much of it."""
    bodies = [
        b"",
        b"{",
        b"[",
        b"nul",
        b"NaN",
        b'{"a"',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"[" * 10**6,
        b'{"a":' * 10**5,
        b'{"views":' + b"[" * 10**5,
        b'"' + b"\\u0000" * 1000 + b'"',
        b"1" * 10**6,
        b'{"views":[[1e999999999]],"classes":[[1]]}',
        b'{"views":[[NaN]],"classes":[[1]]}',
        b'{"views":[[Infinity]],"classes":[[1]]}',
        b"{}" * 100,
        b'{"input":"a","input":"b"}',
        b"\0" * 1000,
        rng.randbytes(1000),
        b"true",
        b"0",
    ]
    for path in ("/v1/classify", "/v1/mta", "/v1/classes", "/v1/embed", "/v1/embeddings"):
        for i, body in enumerate(bodies):
            yield f"{path} {i}", ("POST", path, JSON, body)
        for kind in (
            "",
            "text/plain",
            "application/xml",
            "application/json; charset=utf-16",
            "APPLICATION/JSON",
            "image/",
        ):
            yield f"{path} as {kind!r}", ("POST", path, {"content-type": kind}, b"{}")


def forms(rng):
    """Forms that are broken, overfull or false."""
    image = photo(rng, "PNG")

    def part(head, body):
        return b"--b\r\n" + head + b"\r\n\r\n" + body + b"\r\n"

    file = part(b'Content-Disposition: form-data; name="image"; filename="../../x.png"', image)
    labels = part(b'Content-Disposition: form-data; name="labels"', b"cat,dog")
    end = b"--b--\r\n"
    bodies = {
        "good but for its name": file + labels + end,
        "without end": file + labels,
        "cut": (file + labels + end)[: len(file) // 2],
        "empty": b"",
        "only an end": end,
        "without disposition": part(b"X: y", b"z") + file + labels + end,
        "without name": part(b"Content-Disposition: form-data", b"z") + file + labels + end,
        "two images": file + file + labels + end,
        "image as a field": part(b'Content-Disposition: form-data; name="image"', image) + labels + end,
        "five thousand fields": part(b'Content-Disposition: form-data; name="x"', b"y") * 5000 + end,
        "a long head": part(b"X: " + b"y" * 10**6, b"z") + end,
        "ten thousand heads": part(b"X: y\r\n" * 10**4 + b"Z: y", b"z") + end,
        "a long field": part(b'Content-Disposition: form-data; name="labels"', b"x," * 10**6) + end,
        "a charset": part(b'Content-Disposition: form-data; name="_charset_"', b"rot13") + file + labels + end,
        "bytes as labels": file + part(b'Content-Disposition: form-data; name="labels"', rng.randbytes(100)) + end,
        "unknown field": file + labels + part(b'Content-Disposition: form-data; name="veiws"', b"3") + end,
        "no line ends": (file + labels + end).replace(b"\r\n", b"\n"),
        "noise": rng.randbytes(5000),
        "an inner form": part(b"Content-Type: multipart/mixed; boundary=c", b"--c\r\n\r\n--c--") + file + labels + end,
    }
    for name, body in bodies.items():
        yield name, ("POST", "/v1/classify", {"content-type": "multipart/form-data; boundary=b"}, body)
    for kind in (
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=" + "b" * 500,
        'multipart/form-data; boundary="',
        "multipart/form-data; boundary=b; charset=none",
        "multipart/mixed; boundary=b",
    ):
        yield kind[:60], ("POST", "/v1/classify", {"content-type": kind}, file + labels + end)


def addresses(rng):
    """Addresses that lead elsewhere, and methods that nobody offers."""
    for path in ("/samples/", "/static/", "/v1/", "/"):
        for rest in (
            "../settings.py",
            "..%2fsettings.py",
            "%2e%2e/%2e%2e/pyproject.toml",
            "..\\settings.py",
            "%00",
            "%ff",
            "~root",
            "." * 300,
            "/etc/passwd",
            "%2fetc%2fpasswd",
            "C:/x",
            "con",
            "x" * 3000,
            "%",
            "%zz",
            "?a=" + "b" * 3000,
            "#x",
        ):
            yield path + rest[:40], ("GET", path + rest, {}, b"")
    for method in ("GET", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "HEAD", "OPTIONS", "BREW"):
        for path in ("/v1/classify", "/metrics", "/"):
            yield f"{method} {path}", (method, path, {}, b"")
    image = photo(rng, "PNG")
    for query in (
        "?labels=",
        "?labels=[",
        "?labels=[1]",
        "?labels=%00",
        "?labels=a&views=x",
        "?labels=a&views=1e9",
        "?labels=a&seed=-1",
        "?x=1",
        "?labels=a&detail=maybe",
        "?labels=" + "a," * 2000,
        "?labels=a&top=0",
        "?views=1&views=2&labels=a",
        "?%ff=%ff",
    ):
        yield f"query {query[:30]}", raw(image, query=query)
    for headers in (
        {"authorization": "Bearer " + "x" * 5000},
        {"host": "evil.example"},
        {"origin": "null"},
        {"range": "bytes=0-" + "9" * 40},
        {"content-encoding": "gzip"},
        {"accept-encoding": "x" * 3000},
        {"cookie": "a" * 5000},
        {"if-none-match": "\x01"},
    ):
        yield f"header {next(iter(headers))}", ("POST", "/v1/embed", JSON | headers, b'{"input":"x"}')


if __name__ == "__main__":
    import http.client
    from collections import Counter
    from urllib.parse import urlsplit

    where, found = urlsplit(sys.argv[1]), Counter()
    for name, method, path, headers, body in corpus():
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host="host" in headers)
            for key, value in {"content-length": str(len(body)), **headers}.items():
                connection.putheader(key, value)
            connection.endheaders(body)
            status = connection.getresponse().status
        except (OSError, ValueError, http.client.HTTPException) as error:
            status = type(error).__name__
        found[status] += 1
        if status in (500, 502, 504):
            print(status, name)
    print(dict(found))

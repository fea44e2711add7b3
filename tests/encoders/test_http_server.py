"""Our own service as someone else's API: the same answers as the encoder that stands behind it."""

import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import uvicorn

import meantime as mt
from meantime.serve.app import create_app
from meantime.serve.settings import Settings

ROOT = Path(__file__).parents[2]
PHOTOS = sorted((ROOT / "examples" / "photos").glob("*.jpg"))
NAMES = ["cat", "cup of coffee", "flower", "rocket", "temple", "dog"]


@pytest.fixture(scope="module")
def api():
    """The service on a free port."""
    config = uvicorn.Config(create_app(Settings()), port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_the_encoder_is_the_one_behind_it(api):
    near, far = mt.load_encoder("embedded"), mt.load_encoder(api)
    assert far.identity == f"http-{near.identity}"
    for fact in ("dim", "logit_scale", "preprocess"):
        assert getattr(far, fact) == getattr(near, fact)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (5, near.preprocess.size, near.preprocess.size, 3), dtype=np.uint8)
    np.testing.assert_allclose(far.encode_images(pixels), near.encode_images(pixels), atol=1e-5)
    texts = ["a photo of a cat.", "größe", ""]
    np.testing.assert_allclose(far.encode_texts(texts), near.encode_texts(texts), atol=1e-5)


def test_the_same_predictions(api):
    near = mt.Classifier(NAMES, views=8)([str(p) for p in PHOTOS])
    far = mt.Classifier(NAMES, encoder=api, views=8)([str(p) for p in PHOTOS])
    for a, b in zip(near, far, strict=True):
        assert a.label == b.label
        np.testing.assert_allclose(a.probabilities, b.probabilities, atol=1e-4)
        np.testing.assert_allclose(a.inlierness, b.inlierness, atol=1e-4)


def test_the_lines_of_the_documentation(api, tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "blackbox.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(import meantime.*?)```", page, re.DOTALL)
    assert len(lines.strip().splitlines()) <= 11  # ten, and an empty one
    (tmp_path / "photo.jpg").write_bytes((ROOT / "examples" / "photos" / "chelsea.jpg").read_bytes())
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(lines.replace("http://localhost:8000", api), names)
    assert capsys.readouterr().out.startswith("tabby cat 0.9")
    here = mt.Classifier(names["names"])("photo.jpg")
    np.testing.assert_allclose(names["answer"].probabilities, here.probabilities, atol=1e-4)
    np.testing.assert_allclose(names["answer"].inlierness, here.inlierness, atol=1e-4)

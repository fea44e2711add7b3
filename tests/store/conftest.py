import numpy as np
import pytest
from PIL import Image
from toy import COLOURS, ToyEncoder, picture

from meantime import ViewSpec
from meantime.datasets import load_dataset
from meantime.store.encode import encode_dataset


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path):
    """Three classes of four photos, one of them unreadable."""
    root = tmp_path / "photos"
    for name in COLOURS:
        (root / name).mkdir(parents=True)
        for i in range(4):
            Image.fromarray(picture(name, seed=i)).save(root / name / f"{i}.png")
    (root / "green" / "2.png").write_bytes(b"not an image")
    return root


@pytest.fixture
def encode(photos, tmp_path):
    """Encode the photos into tmp_path / name with the toy encoder: 12 images in 3 shards."""

    def run(name="store", encoder=None, **options):
        options = {"spec": ViewSpec(n=5), "shard_size": 5} | options
        spec = options.pop("spec")
        return encode_dataset(load_dataset(str(photos)), tmp_path / name, encoder or ToyEncoder(), spec, **options)

    return run


@pytest.fixture
def arrays():
    """What an .npz holds: 7 images, 4 views, 6 dimensions, 3 classes."""
    rng = np.random.default_rng(0)
    return {
        "views": rng.normal(size=(7, 4, 6)).astype(np.float32),
        "labels": np.array([0, 1, 2, 0, 1, 2, 2]),
        "names": np.array(["a", "b", "c"]),
        "text_single": rng.normal(size=(3, 6)).astype(np.float32),
    }

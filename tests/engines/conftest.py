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
    """Twelve pictures of three classes: names that occur twice, with spaces and umlauts; one is unreadable."""
    root = tmp_path / "my photos"
    for name in COLOURS:
        (root / name).mkdir(parents=True)
        for i in range(4):
            Image.fromarray(picture(name, seed=i)).save(root / name / f"{i} schön 最.png")
    (root / "green" / "2 schön 最.png").write_bytes(b"not an image")
    return root


@pytest.fixture
def encode(photos, tmp_path):
    """Encode the photos into tmp_path / name: 12 images in 4 shards."""

    def run(name, encoder=None, **options):
        options = {"shard_size": 3, "batch": 5} | options
        dataset = options.pop("dataset", None) or load_dataset(str(photos))
        return encode_dataset(dataset, tmp_path / name, encoder or ToyEncoder(), ViewSpec(n=5), **options)

    return run

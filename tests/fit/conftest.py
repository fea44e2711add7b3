import pytest
from PIL import Image
from toy import COLOURS, ToyEncoder, picture


@pytest.fixture(autouse=True)
def _own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MEANTIME_HEADS", str(tmp_path / "heads"))


@pytest.fixture
def make_photos(tmp_path):
    """Write a folder of photos: how many of each colour."""

    def make(name="photos", red=6, green=6, blue=6, noise=60):
        for colour, count in zip(COLOURS, (red, green, blue), strict=True):
            folder = tmp_path / name / colour
            folder.mkdir(parents=True, exist_ok=True)
            for i in range(count):
                Image.fromarray(picture(colour, noise=noise, seed=i + 100 * len(colour))).save(folder / f"{i}.png")
        return tmp_path / name

    return make


@pytest.fixture
def encoder():
    return ToyEncoder()

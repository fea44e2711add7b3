import json

import pytest

from meantime.encoders import list_encoders, load_encoder
from meantime.errors import MeantimeError


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty cache of the model hub."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def put(hub, repository, config, size, file="config.json"):
    folder = hub / f"models--{repository.replace('/', '--')}"
    (folder / "blobs").mkdir(parents=True)
    (folder / "blobs" / "weights").write_bytes(bytes(size))
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "snapshots" / "abc" / file).write_text(json.dumps(config))


def test_well_known_models_would_be_downloaded(hub):
    infos = {info.name: info for info in list_encoders()}
    info = infos["ViT-B-16:openai"]
    assert (info.state, info.size_mb, info.dim) == ("download", 598, 512)
    assert not info.installed
    assert {"RN50:openai", "RN101:openai", "ViT-L-14:openai", "hf:google/siglip2-base-patch16-224"} <= infos.keys()


def test_what_lies_in_the_cache_is_found_with_its_size(hub):
    put(hub, "openai/clip-vit-base-patch32", {"model_type": "clip"}, 3_000_000)
    put(hub, "me/mine", {"model_type": "siglip"}, 2_000_000)
    put(hub, "me/open", {}, 1_500_000, "open_clip_config.json")
    put(hub, "timm/vit_base_patch16_clip_224.openai", {}, 4_000_000, "open_clip_model.safetensors")
    put(hub, "someone/bert", {"model_type": "bert"}, 10)
    (hub / "home" / ".cache" / "clip").mkdir(parents=True)
    (hub / "home" / ".cache" / "clip" / "RN50.pt").write_bytes(bytes(1_000_000))
    infos = {info.name: info for info in list_encoders()}
    cached = {name: info.size_mb for name, info in infos.items() if info.state == "cached"}
    assert cached == {
        "hf:openai/clip-vit-base-patch32": 3,
        "hf:me/mine": 2.0,
        "hf-hub:me/open": 1.5,
        "RN50:openai": 1,
        "ViT-B-16:openai": 4,
    }
    assert infos["hf:openai/clip-vit-base-patch32"].dim == 512


@pytest.mark.parametrize(
    ("name", "near"),
    [("embeded", "embedded"), ("Vit-B-16:openai", "ViT-B-16:openai"), ("hf", None), ("resnet", None)],
)
def test_unknown_names_get_the_nearest(name, near, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "open_clip", None)
    with pytest.raises(MeantimeError) as error:
        load_encoder(name)
    assert (near or "") in str(error.value)


def test_the_embedded_encoder_has_no_device():
    with pytest.raises(MeantimeError, match="runs on the CPU in fp32"):
        load_encoder("embedded", device="cuda")

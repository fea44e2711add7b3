"""A directory that was exported is the encoder that it came from."""

import copy
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from tiny_models import SIZE, build, photo

import meantime as mt
from meantime.encoders import OnnxEncoder, load_encoder
from meantime.errors import MeantimeError
from meantime.export import export, weights

PIXELS = np.random.default_rng(0).integers(0, 256, (5, SIZE, SIZE, 3), dtype=np.uint8)
TEXTS = ["cat", "", "a long sentence that goes on, and on, and on beyond the context of 40 letters"]


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def clip():
    return load_encoder(*build("clip"))


@pytest.fixture(scope="module")
def exported(clip, tmp_path_factory):
    directory = tmp_path_factory.mktemp("export") / "deep" / "clip"
    return directory, export(clip, directory)


def test_embeddings_and_facts_are_kept(clip, exported):
    directory, check = exported
    assert sorted(path.name for path in directory.iterdir()) == [
        "config.json",
        "image.onnx",
        "text.onnx",
        "tokenizer.json",
    ]
    encoder = load_encoder(f"onnx:{directory}")
    np.testing.assert_allclose(encoder.encode_images(PIXELS), clip.encode_images(PIXELS), atol=1e-4)
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), clip.encode_texts(TEXTS), atol=1e-4)
    assert (encoder.preprocess, encoder.dim) == (clip.preprocess, clip.dim)
    assert encoder.logit_scale == pytest.approx(clip.logit_scale)
    assert max(check.image_difference, check.text_difference) < 1e-5
    assert "largest difference to the original" in str(check)
    assert mt.Classifier(["cat", "dog"], str(directory), views=4)(photo()).label in ("cat", "dog")


def test_the_graphs_run_on_old_runtimes_and_name_no_machine(exported):
    for file in ("image.onnx", "text.onnx"):
        model = onnx.load(exported[0] / file)
        assert model.ir_version <= 9
        assert {o.version for o in model.opset_import if o.domain == ""} == {18}
        assert b"site-packages" not in (exported[0] / file).read_bytes()


def test_siglip_with_int8_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "SMALL", 256)  # or nothing in a tiny model is large
    original = load_encoder(*build("siglip"))
    check = export(original, tmp_path / "siglip", weights="int8")
    encoder = OnnxEncoder(tmp_path / "siglip")
    assert encoder.logit_bias == original.logit_bias == -3.25
    assert encoder.preprocess.squash
    assert 0.99 < check.least_cosine < 0.99999999
    cosines = (unit(encoder.encode_texts(TEXTS)) * unit(original.encode_texts(TEXTS))).sum(1)
    assert cosines.min() > 0.99
    assert json.loads((tmp_path / "siglip" / "config.json").read_text())["weights"] == "int8"


@pytest.mark.parametrize(("kind", "ratio", "cosine"), [("float16", 0.6, 0.99999), ("int8", 0.4, 0.99)])
def test_stored_weights_are_smaller_and_near(clip, exported, monkeypatch, kind, ratio, cosine):
    monkeypatch.setattr(weights, "SMALL", 256)
    graph = onnx.load(exported[0] / "image.onnx")
    small = weights.shrink(copy.deepcopy(graph), kind)
    onnx.checker.check_model(small)

    def stored(model):
        return sum(len(onnx.numpy_helper.to_array(t).tobytes()) for t in model.graph.initializer)

    assert stored(small) < ratio * stored(graph)
    (rows,) = ort.InferenceSession(small.SerializeToString()).run(None, {"pixels": PIXELS})
    assert (unit(rows) * unit(clip.encode_images(PIXELS))).sum(1).min() > cosine


def test_quantise_errs_by_half_a_level_at_most():
    value = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    levels, scale = weights.quantise(value, 1)
    assert levels.dtype == np.int8
    assert (np.abs(levels * scale - value) <= scale / 2 + 1e-6).all()


def test_mistakes(clip, exported, tmp_path):
    with pytest.raises(MeantimeError, match="not an empty directory"):
        export(clip, exported[0])
    with pytest.raises(MeantimeError, match="cannot be stored as 'int4'"):
        export(clip, tmp_path / "x", weights="int4")
    with pytest.raises(MeantimeError, match="cannot be exported as int8"):
        export("embedded", tmp_path / "x", weights="int8")
    with pytest.raises(MeantimeError, match="load it with device='cpu'"):
        export(load_encoder(*build("clip"), precision="bf16"), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_differs_is_not_kept(clip, exported, tmp_path, monkeypatch):
    def other_weights(encoder, directory, weights):
        for path in exported[0].iterdir():
            (directory / path.name).write_bytes(path.read_bytes())

    real = clip.encode_images
    monkeypatch.setattr("meantime.export._write", other_weights)
    monkeypatch.setattr(clip, "encode_images", lambda pixels: real(pixels)[:, ::-1])
    with pytest.raises(MeantimeError, match="was not kept"):
        export(clip, tmp_path / "wrong")
    assert list(tmp_path.iterdir()) == []

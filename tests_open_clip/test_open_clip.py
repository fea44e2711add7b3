"""A tiny open_clip configuration with a saved checkpoint: from load to prediction, beside open_clip's own result.

Runs in an environment of its own: `make test-open-clip`.
"""

import json
import sys

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image

import meantime as mt
from meantime.encoders import OnnxEncoder, load_encoder
from meantime.errors import MeantimeError, MissingExtraError
from meantime.export import export
from meantime.images import load_image
from meantime.integrations import mta_classifier
from meantime.views import ViewSpec, make_views

SIZE = 32
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2}
LABELS = ["cat", "a photo of a dog", "Two Red Cars, isn't it? 42"]
SHAPES = {
    "tiny-vit": {"layers": 2, "width": 32, "head_width": 8, "patch_size": 8},
    "tiny-resnet": {"layers": [1, 1, 1, 1], "width": 8, "patch_size": None},
}


@pytest.fixture(scope="module", autouse=True)
def configurations(tmp_path_factory):
    """The names become known to open_clip, a sigmoid variant and one with QuickGELU among them."""
    place = tmp_path_factory.mktemp("configurations")
    for name, vision in SHAPES.items():
        config = {"embed_dim": 16, "vision_cfg": vision | {"image_size": SIZE}, "text_cfg": TEXT}
        (place / f"{name}.json").write_text(json.dumps(config))
        (place / f"{name}-quickgelu.json").write_text(json.dumps(config | {"quick_gelu": True}))
        bias = {"init_logit_bias": -3.25, "init_logit_scale": 2.5}
        (place / f"{name}-sigmoid.json").write_text(json.dumps(config | bias))
    open_clip.add_model_config(place)


@pytest.fixture(scope="module", params=["tiny-vit", "tiny-vit-quickgelu", "tiny-vit-sigmoid", "tiny-resnet"])
def name(request):
    return request.param


@pytest.fixture(scope="module")
def checkpoint(name, tmp_path_factory):
    return saved(name, tmp_path_factory.mktemp(name) / "weights.pt")


def saved(name, path):
    torch.manual_seed(0)
    model = open_clip.create_model(name)
    with torch.no_grad():  # far from the initial values, so that a test sees them lost
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    torch.save(model.state_dict(), path)
    return str(path)


def photo():
    coarse = np.random.default_rng(0).integers(0, 256, (7, 10, 3), np.uint8)
    return Image.fromarray(coarse).resize((80, 56), Image.Resampling.BICUBIC)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def logits(encoder):
    pixels = make_views(load_image(photo()), ViewSpec(n=1), encoder.preprocess).pixels
    cosines = unit(encoder.encode_images(pixels)) @ unit(encoder.encode_texts(LABELS)).T
    return encoder.logit_scale * cosines + (encoder.logit_bias or 0)


def test_logits_are_those_of_the_library(name, checkpoint):
    model, _, preprocess = open_clip.create_model_and_transforms(name, pretrained=checkpoint)
    tokens = open_clip.get_tokenizer(name)(LABELS)
    with torch.no_grad():
        expected, _ = model.eval().get_logits(preprocess(photo())[None], tokens)
    encoder = load_encoder(name, pretrained=checkpoint)
    np.testing.assert_allclose(logits(encoder), expected.numpy(), atol=1e-4)
    assert np.ptp(expected.numpy()) > 0.1
    assert (encoder.logit_bias is not None) == name.endswith("sigmoid")
    assert ("softmax" in encoder.description) == name.endswith("sigmoid")


def test_texts_are_read_as_long_as_they_are(name, checkpoint):
    encoder = load_encoder(name, pretrained=checkpoint)
    texts = [*LABELS, "", "!", "a long story " * 60]
    assert encoder.texts.tokenize(LABELS)[0].shape[1] < 20
    assert encoder.texts.tokenize(texts)[0].shape[1] == 77
    with torch.no_grad():
        expected = encoder.model.encode_text(open_clip.get_tokenizer(name)(texts)).numpy()
    np.testing.assert_allclose(encoder.encode_texts(texts), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_texts(LABELS), expected[: len(LABELS)], atol=1e-5)


def test_names_with_a_colon_and_loaded_objects_are_the_same(name, checkpoint):
    named = load_encoder(f"{name}:{checkpoint}")
    model, _, preprocess = open_clip.create_model_and_transforms(name, pretrained=checkpoint)
    given = load_encoder(model, preprocess, open_clip.get_tokenizer(name))
    assert given.identity == named.identity
    assert given.preprocess == named.preprocess
    np.testing.assert_allclose(logits(given), logits(named), atol=1e-5)


def test_two_lines_to_a_classifier(name, checkpoint):
    model, _, preprocess = open_clip.create_model_and_transforms(name, pretrained=checkpoint)
    clf = mta_classifier(model, preprocess, open_clip.get_tokenizer(name), LABELS, views=6)
    assert clf(photo()).label in LABELS
    assert mt.Classifier(LABELS, f"{name}:{checkpoint}", views=6)(photo()).label == clf(photo()).label


@pytest.mark.parametrize("which", ["tiny-vit-quickgelu", "tiny-resnet"])
def test_export(which, tmp_path):
    original = load_encoder(which, pretrained=saved(which, tmp_path / "w.pt"))
    check = export(original, tmp_path / "onnx")
    assert max(check.image_difference, check.text_difference) < 1e-4
    copy = OnnxEncoder(tmp_path / "onnx")
    texts = [*LABELS, "", "a long story " * 60, "naïve café, 3.5 x 7!"]
    np.testing.assert_allclose(copy.encode_texts(texts), original.encode_texts(texts), atol=1e-4)
    np.testing.assert_allclose(logits(copy), logits(original), atol=1e-3)


def test_tags_that_were_trained_with_quickgelu_get_it(tmp_path, monkeypatch):
    from open_clip import pretrained

    file = saved("tiny-vit", tmp_path / "w.pt")
    monkeypatch.setitem(pretrained._PRETRAINED, "tiny-vit", {"openai": {"file": file, "quick_gelu": True}})
    tagged = load_encoder("tiny-vit", pretrained="openai")
    quick = load_encoder("tiny-vit-quickgelu", pretrained=file)
    assert "QuickGELU" in tagged.description
    np.testing.assert_array_equal(tagged.encode_texts(LABELS), quick.encode_texts(LABELS))
    assert not np.allclose(tagged.encode_texts(LABELS), load_encoder("tiny-vit", pretrained=file).encode_texts(LABELS))


def test_precision(tmp_path):
    file = saved("tiny-vit", tmp_path / "w.pt")
    half = load_encoder("tiny-vit", pretrained=file, precision="bf16")
    full = load_encoder("tiny-vit", pretrained=file)
    assert (unit(half.encode_texts(LABELS)) * unit(full.encode_texts(LABELS))).sum(1).min() > 0.99
    assert half.identity != full.identity
    assert half.encode_images(np.zeros((1, SIZE, SIZE, 3), np.uint8)).shape == (1, 16)


def test_contradictions_are_told(tmp_path):
    model, _, _ = open_clip.create_model_and_transforms("tiny-vit")
    other = open_clip.image_transform(64, is_train=False, resize_mode="shortest")
    with pytest.warns(UserWarning, match="pictures of 64 pixels, but the model was made for 32"):
        load_encoder(model, other, open_clip.get_tokenizer("tiny-vit"))


def test_squashing_is_read_off_the_transforms():
    model, _, _ = open_clip.create_model_and_transforms("tiny-vit")
    squash = open_clip.image_transform(SIZE, is_train=False, resize_mode="squash", interpolation="bilinear")
    preprocess = load_encoder(model, squash, open_clip.get_tokenizer("tiny-vit")).preprocess
    assert preprocess.squash
    assert preprocess.interpolation == "bilinear"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "ViT-B-61:openai",
            r"unknown encoder 'ViT-B-61': open_clip lists \d+ names, but not this; near to it are ViT-B-",
        ),
        ("ViT-B-16", "needs weights, as in ViT-B-16:openai; there are openai, "),
        ("ViT-B-16:opnai", "neither a tag of 'ViT-B-16' nor a file; its tags are openai"),
        ("embeded", "Did you mean 'embedded'"),
    ],
)
def test_unknown_names(name, message):
    with pytest.raises(MeantimeError, match=message):
        load_encoder(name)


def test_every_listed_pair_is_known():
    from meantime.encoders.open_clip import _check_names

    for name, tag in open_clip.list_pretrained():
        _check_names(open_clip, name, tag)


def test_broken_and_foreign_checkpoints(tmp_path):
    file = tmp_path / "w.pt"
    file.write_bytes(b"not weights")
    with pytest.raises(MeantimeError, match="is broken or of another model than 'tiny-vit'"):
        load_encoder("tiny-vit", pretrained=str(file))
    saved("tiny-resnet", file)
    with pytest.raises(MeantimeError, match="is broken or of another model than 'tiny-vit'"):
        load_encoder("tiny-vit", pretrained=str(file))


def test_no_network(monkeypatch):
    def refuse(*arguments, **options):
        raise OSError("Connection refused")

    monkeypatch.setattr("open_clip.factory.download_pretrained", refuse)
    with pytest.raises(MeantimeError, match="'ViT-B-16:openai' cannot be downloaded and are not in the cache"):
        load_encoder("ViT-B-16", pretrained="openai")


def test_training_transforms_are_refused():
    model, train, _ = open_clip.create_model_and_transforms("tiny-vit")
    with pytest.raises(MeantimeError, match="not that of inference"):
        load_encoder(model, train, open_clip.get_tokenizer("tiny-vit"))
    with pytest.raises(MeantimeError, match="needs the model's tokenizer"):
        load_encoder(model, train)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(MissingExtraError, match=r"meantime\[open-clip\]"):
        load_encoder("RN50", pretrained="openai")

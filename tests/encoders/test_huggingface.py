"""Tiny CLIP, SigLIP and SigLIP 2 from load to prediction, beside transformers' own zero-shot result."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from tiny_models import SIZE, build, photo, save

import meantime as mt
from meantime.encoders import cached_texts, load_encoder
from meantime.errors import MeantimeError, MissingExtraError
from meantime.images import load_image
from meantime.views import ViewSpec, make_views

LABELS = ["cat", "a small dog", "red 7, blue"]
# SigLIP 2 of variable shape sees other than square photos in their own shape; views are square.
SHAPES = {"clip": (80, 56), "siglip": (80, 56), "siglip2": (56, 56)}


@pytest.fixture(scope="module", params=["clip", "siglip", "siglip2"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def directory(kind, tmp_path_factory):
    return save(kind, tmp_path_factory.mktemp(kind))


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return save("clip", tmp_path_factory.mktemp("clip"))


def logits(encoder, image):
    pixels = make_views(load_image(image), ViewSpec(n=1), encoder.preprocess).pixels
    images, texts = encoder.encode_images(pixels), encoder.encode_texts(LABELS)
    images, texts = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (images, texts))
    return encoder.logit_scale * images @ texts.T + (encoder.logit_bias or 0)


def test_logits_are_those_of_the_library(kind, directory):
    image = photo(*SHAPES[kind])
    pipe = transformers.pipeline("zero-shot-image-classification", model=str(directory))
    inputs = pipe.preprocess(image, LABELS, "{}")
    with torch.no_grad():
        expected = pipe._forward(inputs)["logits"].numpy()
    encoder = load_encoder(f"hf:{directory}", threads=2)
    np.testing.assert_allclose(logits(encoder, image), expected, atol=1e-4)
    assert np.ptp(expected) > 0.1  # or the comparison would say nothing
    assert (encoder.logit_bias is None) == (kind == "clip")
    assert ("softmax" in encoder.description) == (kind != "clip")


def test_from_a_directory_to_a_prediction(kind, directory):
    encoder = load_encoder(str(directory))
    prediction = mt.Classifier(LABELS, encoder, views=6)(photo())
    assert prediction.label in LABELS
    assert sum(prediction.probabilities) == pytest.approx(1)
    assert prediction.embedding.shape == (encoder.dim,)


def test_loaded_objects_are_the_same_encoder(kind, directory):
    model = transformers.AutoModel.from_pretrained(directory)
    processor = transformers.AutoImageProcessor.from_pretrained(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    named, given = load_encoder(str(directory)), load_encoder(model, processor, tokenizer)
    assert given.identity == named.identity
    assert given.name != named.name
    both = transformers.CLIPProcessor(processor, tokenizer) if kind == "clip" else None
    if both is not None:
        assert load_encoder(model, both).identity == named.identity
    image = photo(*SHAPES[kind])
    np.testing.assert_allclose(logits(given, image), logits(named, image), atol=1e-5)


def test_any_number_of_images_and_texts_in_any_batch(clip):
    encoder = load_encoder(str(clip))
    pixels = np.random.default_rng(0).integers(0, 256, (19, SIZE, SIZE, 3), dtype=np.uint8)
    whole = encoder.encode_images(pixels)
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole[17:], encoder.encode_images(pixels[17:]), atol=1e-5)
    texts = [f"number {i}" + " and more" * (i % 5) for i in range(40)]
    alone = np.concatenate([encoder.encode_texts([text]) for text in texts])
    np.testing.assert_allclose(encoder.encode_texts(texts), alone, atol=1e-5)
    assert encoder.encode_images(pixels[:0]).shape == encoder.encode_texts([]).shape == (0, 16)
    np.testing.assert_array_equal(cached_texts(encoder, texts[:2]), encoder.encode_texts(texts[:2]))
    with pytest.raises(MeantimeError, match="expects"):
        encoder.encode_images(pixels[:, :8])


def test_precision_changes_identity_and_little_else(clip):
    full, half = load_encoder(str(clip)), load_encoder(str(clip), precision="bf16", device="cpu")
    assert half.identity != full.identity
    a, b = full.encode_texts(LABELS), half.encode_texts(LABELS)
    assert b.dtype == np.float32
    assert not np.array_equal(a, b)
    assert ((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min() > 0.99


def test_identity_follows_what_weights_do_not_show(clip, tmp_path):
    save("clip", tmp_path, hidden_act="gelu")
    assert load_encoder(str(tmp_path)).identity != load_encoder(str(clip)).identity


def test_features_bare_or_in_an_object():
    from meantime.encoders.huggingface import pooled

    bare = torch.ones(2, 3)
    assert pooled(bare) is bare
    assert pooled(transformers.modeling_outputs.BaseModelOutputWithPooling(pooler_output=bare)) is bare


def test_contradictions_are_told(tmp_path):
    model, processor, tokenizer = build("clip")
    small = transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size=16)
    with pytest.warns(UserWarning, match=r"pictures of 16 pixels, but the model was made for 32"):
        assert load_encoder(model, small, tokenizer).preprocess.size == SIZE
    tokenizer.add_tokens([f"word{i}" for i in range(40)])
    with pytest.warns(UserWarning, match="do not belong together"):
        load_encoder(model, processor, tokenizer)
    model.config.name_or_path = "openai/clip-vit-base-patch32"
    model.config.vision_config.hidden_act = "gelu"
    with pytest.warns(UserWarning, match="OpenAI trained with quick_gelu"):
        load_encoder(model, processor, build("clip")[2])


def test_broken_checkpoints(clip, tmp_path):
    save("clip", tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(MeantimeError, match="cannot be loaded as a CLIP or SigLIP model"):
        load_encoder(str(tmp_path))
    from safetensors.torch import load_file, save_file

    tensors = load_file(clip / "model.safetensors")
    del tensors["visual_projection.weight"]
    save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(MeantimeError, match=r"lacks 1 weights, visual_projection\.weight"):
        load_encoder(str(tmp_path))


def test_other_mistakes(clip, tmp_path):
    with pytest.raises(MeantimeError, match="there is no directory"):
        load_encoder("hf:/nowhere/at/all")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(MeantimeError, match=r"of type 'bert'; expected one of clip, siglip, siglip2"):
        load_encoder(str(tmp_path))
    with pytest.raises(MeantimeError, match="needs an image processor and a tokenizer"):
        load_encoder(build("clip")[0], build("clip")[1])
    with pytest.raises(MeantimeError, match="unknown precision 'int4'"):
        load_encoder(str(clip), precision="int4")
    with pytest.raises(MeantimeError, match="unknown device 'tpu'"):
        load_encoder(str(clip), device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(MeantimeError, match=r"'cuda' is not available to PyTorch here; available: "):
            load_encoder(str(clip), device="cuda")


def test_an_unreachable_hub_is_one_sentence(tmp_path):
    code = (
        "import meantime as mt\n"
        "try: mt.load_encoder('hf:openai/clip-vit-base-patch32')\n"
        "except mt.MeantimeError as e: print(e)"
    )
    # Port 9 is closed: the hub cannot be reached, and it is known at once.
    environment = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == (
        "the hub cannot be reached for 'openai/clip-vit-base-patch32' and it is not in the cache: "
        "go online, or give a directory"
    ), run.stderr


@pytest.mark.parametrize(
    ("name", "blocked", "extra"),
    [
        ("hf:x/y", "transformers", "transformers"),
        ("hf:x/y", "torch", "transformers"),
        ("ViT-B-16:openai", "open_clip", "open-clip"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, name, blocked, extra):
    monkeypatch.setitem(sys.modules, blocked, None)  # what an absent package looks like
    with pytest.raises(MissingExtraError, match=rf"meantime\[{extra}\]"):
        load_encoder(name)


def test_meantime_alone_imports_neither_library():
    names = "{'torch', 'transformers', 'open_clip', 'sklearn'}"
    code = f"import meantime, meantime.integrations, sys; print({names} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "set()", run.stderr

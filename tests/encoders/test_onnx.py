import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from meantime.encoders import OnnxEncoder
from meantime.errors import MeantimeError
from meantime.preprocess import Preprocess

# The tiny model's own numbers, so that the tests compute its answers by hand.
CONFIG_TEXT = {"ids": "ids", "mask": "mask", "context_length": 6, "padding": "longest", "pad_id": 0}
WORDS = ["[PAD]", "a", "photo", "of", "cat", "dog", "red", "."]


def pixels(n, size=8):
    return np.random.default_rng(n).integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def change_config(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def constants(directory, file):
    model = onnx.load(directory / file)
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def test_reads_what_the_directory_says(tiny):
    encoder = OnnxEncoder(tiny)
    assert (encoder.name, encoder.dim, encoder.logit_scale) == (f"onnx:{tiny}", 4, 7.5)
    assert encoder.preprocess == Preprocess(8, 10, "bilinear", (0.5, 0.5, 0.5), (1, 1, 1))


@pytest.mark.parametrize("n", [0, 1, 16, 37])
def test_images_of_any_number(tiny, n):
    weights = constants(tiny, "image.onnx")
    expected = pixels(n).mean((1, 2)) @ (weights["levels"] * weights["scale"])
    out = OnnxEncoder(tiny).encode_images(pixels(n))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, expected.reshape(n, 4), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("padding", ["longest", "max_length"])
def test_texts_keep_their_order_and_do_not_depend_on_the_batch(tiny, padding):
    change_config(tiny, text=CONFIG_TEXT | {"padding": padding})
    rng = np.random.default_rng(0)
    words = [rng.choice(WORDS[1:], rng.integers(1, 9)).tolist() for _ in range(75)]
    vectors = constants(tiny, "text.onnx")["vectors"]
    # The context is of 6 tokens: the rest of a long text is not read.
    expected = np.stack([vectors[[WORDS.index(word) for word in text[:6]]].sum(0) for text in words])
    encoder = OnnxEncoder(tiny)
    texts = [" ".join(text) for text in words]
    np.testing.assert_allclose(encoder.encode_texts(texts), expected, rtol=1e-5, atol=1e-5)
    alone = np.concatenate([encoder.encode_texts([text]) for text in texts])
    np.testing.assert_allclose(encoder.encode_texts(texts), alone, rtol=1e-5, atol=1e-5)
    assert encoder.encode_texts([]).shape == (0, 4)


def test_int8_weights_are_expanded_once_at_load(tiny, monkeypatch):
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tiny / "seen-by-the-runtime")
    monkeypatch.setattr(ort, "SessionOptions", lambda: options)
    OnnxEncoder(tiny).encode_images(pixels(1))
    kinds = {node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node}
    assert "MatMul" in kinds
    assert "DequantizeLinear" not in kinds


def test_each_tower_loads_only_when_asked(tiny):
    (tiny / "image.onnx").write_bytes(b"not a model")
    encoder = OnnxEncoder(tiny, threads=1)
    assert encoder.encode_texts(["a cat"]).shape == (1, 4)
    with pytest.raises(MeantimeError, match=r"image\.onnx is not a model that ONNX Runtime can load"):
        encoder.encode_images(pixels(1))


def test_identity_follows_the_content_and_not_the_place(tiny, tmp_path_factory):
    copy = tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(tiny, copy)
    identity = OnnxEncoder(tiny).identity
    assert OnnxEncoder(copy).identity == identity
    assert OnnxEncoder(copy, name="embedded").identity == OnnxEncoder(copy, name="hf:x/y").identity == identity
    change_config(copy, logit_scale=1.0, description="other")  # embeddings stay what they were
    assert OnnxEncoder(copy).identity == identity
    change_config(copy, text=CONFIG_TEXT | {"context_length": 5})
    assert OnnxEncoder(copy).identity != identity
    (tiny / "text.onnx").write_bytes((tiny / "image.onnx").read_bytes())
    assert OnnxEncoder(tiny).identity != identity


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros((8, 8, 3), np.uint8), r"\(8, 8, 3\).*expects \(n, 8, 8, 3\)"),
        (np.zeros((1, 3, 8, 8), np.uint8), r"\(1, 3, 8, 8\)"),
        (np.zeros((1, 8, 8, 3), np.float32), "float32.*uint8"),
    ],
)
def test_wrong_pixels(tiny, bad, message):
    with pytest.raises(MeantimeError, match=message):
        OnnxEncoder(tiny).encode_images(bad)


@pytest.mark.parametrize(("bad", "message"), [("a cat", "one string given"), (["a", 3], "3 of type int")])
def test_wrong_texts(tiny, bad, message):
    with pytest.raises(MeantimeError, match=message):
        OnnxEncoder(tiny).encode_texts(bad)


def test_missing_directory_and_files(tiny):
    with pytest.raises(MeantimeError, match="no encoder directory at"):
        OnnxEncoder(tiny / "nowhere")
    (tiny / "text.onnx").unlink()
    with pytest.raises(MeantimeError, match=r"lacks text\.onnx; expected"):
        OnnxEncoder(tiny)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "is of format 2; this version of Meantime reads format 1"),
        ({"text": {}}, "no field 'ids'"),
        ({"dim": "many"}, "not the configuration of an encoder"),
        ({"text": CONFIG_TEXT | {"padding": "left"}}, "neither 'longest' nor 'max_length'"),
    ],
)
def test_wrong_configuration(tiny, changes, message):
    change_config(tiny, **changes)
    with pytest.raises(MeantimeError, match=message):
        OnnxEncoder(tiny)


def test_configuration_that_is_not_json(tiny):
    (tiny / "config.json").write_text("{")
    with pytest.raises(MeantimeError, match="not the configuration of an encoder"):
        OnnxEncoder(tiny)


def test_configuration_that_does_not_fit_the_model(tiny):
    change_config(tiny, dim=5)
    with pytest.raises(MeantimeError, match=r"shape \(1, 4\); expected \(1, 5\)"):
        OnnxEncoder(tiny).encode_images(pixels(1))
    change_config(tiny, dim=4, image={"pixels": "y"})
    with pytest.raises(MeantimeError, match="it expects"):
        OnnxEncoder(tiny).encode_images(pixels(1))


def test_broken_tokenizer(tiny):
    (tiny / "tokenizer.json").write_text("{}")
    with pytest.raises(MeantimeError, match=r"tokenizer\.json is not a tokenizer"):
        OnnxEncoder(tiny).encode_texts(["a"])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_no_embedding(tiny, threads):
    encoder = OnnxEncoder(tiny, threads=threads)
    for n in (1, 3, 4, 50):
        np.testing.assert_allclose(
            encoder.encode_images(pixels(n)), OnnxEncoder(tiny, threads=1).encode_images(pixels(n)), rtol=1e-5
        )


def test_many_batches_run_on_one_thread_each_and_few_on_all(tiny):
    encoder = OnnxEncoder(tiny, threads=3)
    encoder.encode_images(pixels(2))
    assert encoder._sessions.keys() == {("image.onnx", 3)}
    encoder.encode_images(pixels(30))
    assert encoder._sessions.keys() == {("image.onnx", 3), ("image.onnx", 1)}


def test_callers_may_share_an_encoder(tiny):
    encoder = OnnxEncoder(tiny, threads=2)
    expected = encoder.encode_images(pixels(20))
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(encoder.encode_images, [pixels(20)] * 12):
            np.testing.assert_array_equal(got, expected)


def test_an_error_in_one_of_many_batches_is_told(tiny):
    change_config(tiny, dim=5)
    with pytest.raises(MeantimeError, match=r"shape \(2, 4\); expected \(2, 5\)"):
        OnnxEncoder(tiny, threads=2).encode_images(pixels(40))


def test_texts_with_undecodable_bytes_are_named(tiny):
    text = b"caf\xe9".decode(errors="surrogateescape")  # as a file name or an argument comes
    with pytest.raises(MeantimeError, match="not UTF-8"):
        OnnxEncoder(tiny).encode_texts(["a", text])

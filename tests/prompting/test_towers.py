"""Prompted with the tokens of "a photo of a", every tower gives the embeddings of the plain prompt."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
import tiny_models
import torch
from onnx import numpy_helper
from tiny_prompts import tiny_encoder, tiny_prompter
from toy import ToyEncoder

from meantime.encoders import EMBEDDED, OnnxEncoder, export_folder, load_encoder
from meantime.errors import MeantimeError
from meantime.export import export
from meantime.labels import imagenet_names
from meantime.prompting import prompter, towers
from meantime.prompting.onnx_file import read_graph
from meantime.prompting.prompts import Prompter
from meantime.prompting.towers import frozen, tower_of

KINDS = ["clip", "siglip", "siglip2"]
# Of different lengths; the third is cut by every tiny tokenizer, the underscore is a space.
NAMES = ["cat", "dog house", "x" * 70, "two_red birds", "tabby cat, 7 years - old", "cat"]


def plain(encoder, names, context="a photo of a"):
    return encoder.encode_texts([f"{context} {name.replace('_', ' ')}." for name in names])


@pytest.fixture(scope="module")
def embedded():
    return load_encoder("embedded", threads=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("context", ["a photo of a", "one"])
def test_words_give_the_plain_prompt(kind, context):
    encoder = load_encoder(*tiny_models.build(kind))
    prompts = prompter(encoder, NAMES, context=context)
    with torch.no_grad():
        classes = prompts(prompts.initial).numpy()
    np.testing.assert_allclose(classes, plain(encoder, NAMES, context), atol=2e-6)
    assert np.ptp(classes, axis=0).max() > 0.1
    assert (prompts.dim, prompts.width) == (classes.shape[1], 32)
    assert prompts.encoder_identity == encoder.identity


def test_words_give_the_plain_prompt_embedded(embedded):
    for names in ([*imagenet_names()[::50], "naïve_café & 3.5"], ["cat", "a name of many words " * 60]):
        prompts = prompter(embedded, names)
        assert prompts.initial.shape == (4, 384)
        with torch.no_grad():
            classes = prompts(prompts.initial).numpy()
        np.testing.assert_allclose(classes, plain(embedded, names), atol=1e-5)


def test_clip_whose_padding_is_its_end_token():
    """As OpenAI's: the end is the first of the tokens that look like it."""
    model, processor, tokenizer = tiny_models.build("clip")
    tokenizer.pad_token = tokenizer.eos_token
    encoder = load_encoder(model, processor, tokenizer)
    prompts = prompter(encoder, NAMES)
    with torch.no_grad():
        np.testing.assert_allclose(prompts(prompts.initial).numpy(), plain(encoder, NAMES), atol=2e-6)


def test_clip_with_the_old_end_token():
    """Configurations that say 2 mean the highest token of a text."""
    model, processor, tokenizer = tiny_models.build("clip", eos_token_id=2)
    names = ["cat", "dog house", "tree"]  # the highest token of each is in the name: the last letter counts no more
    encoder = load_encoder(model, processor, tokenizer)
    prompts = prompter(encoder, names, context="a bad face")
    with torch.no_grad():
        expected = plain(encoder, names, "a bad face")
        np.testing.assert_allclose(prompts(prompts.initial).numpy(), expected, atol=2e-6)


def test_siglip_whose_tokenizer_hides_the_padding():
    model, processor, tokenizer = tiny_models.build("siglip")
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    encoder = load_encoder(model, processor, tokenizer)
    prompts = prompter(encoder, NAMES)
    with torch.no_grad():
        np.testing.assert_allclose(prompts(prompts.initial).numpy(), plain(encoder, NAMES), atol=2e-6)
    unmasked = plain(load_encoder(*tiny_models.build("siglip")), NAMES)
    assert np.abs(plain(encoder, NAMES) - unmasked).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_of_another_length_pushes_the_name_along(kind):
    """Prompted with the tokens of other words, more or fewer, it is the plain prompt of those; too long is cut."""
    encoder = load_encoder(*tiny_models.build(kind))
    short, long = (prompter(encoder, NAMES, context=words) for words in ("one", "a longer line of words"))
    with torch.no_grad():
        np.testing.assert_allclose(short(long.initial), long(long.initial), atol=2e-6)
        fits = [name for name in NAMES if len(name) < 30]
        again = prompter(encoder, fits, context="a longer line of words")
        np.testing.assert_allclose(again(short.initial), plain(encoder, fits, "one"), atol=2e-6)


def test_the_users_model_stays_as_it_is():
    model, processor, tokenizer = tiny_models.build("clip")
    encoder = load_encoder(model, processor, tokenizer)
    before = encoder.encode_texts(["cat"])
    prompts = prompter(encoder, NAMES)
    context = prompts.initial.clone().requires_grad_()
    prompts(context).sum().backward()
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    np.testing.assert_array_equal(encoder.encode_texts(["cat"]), before)
    copy = frozen(model)
    assert copy.text_projection.weight.data_ptr() == model.text_projection.weight.data_ptr()
    assert not any(p.requires_grad for p in copy.parameters())


def test_half_precision():
    model, processor, tokenizer = tiny_models.build("clip")
    encoder = load_encoder(model, processor, tokenizer, precision="bf16")
    prompts = prompter(encoder, NAMES)
    assert prompts.initial.dtype == torch.float32
    context = prompts.initial.clone().requires_grad_()
    classes = prompts(context)
    assert classes.dtype == torch.float32
    classes.sum().backward()
    assert context.grad.isfinite().all()
    assert context.grad.abs().max() > 0
    np.testing.assert_allclose(classes.detach().numpy(), plain(encoder, NAMES), atol=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_the_numerical_one(kind):
    prompts = tiny_prompter(kind, names=["cat", "big dog", "z"], context="abc")
    context = prompts.initial.clone().requires_grad_()
    assert torch.autograd.gradcheck(prompts, (context,), fast_mode=True)


def test_gradient_is_the_numerical_one_embedded(embedded):
    tower = tower_of(embedded)
    tower.run.double()
    prompts = Prompter(dataclasses.replace(tower, dtype=torch.float64), ["cat", "guinea pig"], "")
    generator = torch.Generator().manual_seed(0)
    context = prompts.initial.clone().requires_grad_()
    towards = torch.randn(2, 384, generator=generator, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(prompts(context), context, towards)
    with torch.no_grad():
        for _ in range(3):
            way = torch.randn(4, 384, generator=generator, dtype=torch.float64)
            difference = prompts(context + 1e-6 * way) - prompts(context - 1e-6 * way)
            numerical = (difference * towards).sum() / 2e-6
            assert float((gradient * way).sum()) == pytest.approx(float(numerical), rel=1e-5)


def test_encoders_without_a_tower_are_refused(tmp_path):
    with pytest.raises(MeantimeError, match=r"'toy' has no text tower that PyTorch can differentiate"):
        prompter(ToyEncoder(), ["cat"])
    for file in ("config.json", "tokenizer.json", "image.onnx"):
        (tmp_path / file).write_bytes((EMBEDDED / file).read_bytes())
    (tmp_path / "text.onnx").write_bytes((EMBEDDED / "image.onnx").read_bytes())
    with pytest.raises(MeantimeError, match="not a text model that can be prompted"):
        prompter(OnnxEncoder(tmp_path), ["cat"])
    (tmp_path / "text.onnx").write_bytes(b"no model at all")
    with pytest.raises(MeantimeError, match="not a text model that can be prompted"):
        prompter(OnnxEncoder(tmp_path), ["cat"])


@pytest.mark.parametrize("file", ["text.onnx", "image.onnx"])
def test_onnx_files_are_read_as_by_their_library(file):
    nodes, constants = read_graph(EMBEDDED / file)
    graph = onnx.load(EMBEDDED / file).graph
    assert [(n.kind, n.inputs, n.output) for n in nodes] == [
        (n.op_type, tuple(n.input), n.output[0]) for n in graph.node
    ]
    assert list(constants) == [tensor.name for tensor in graph.initializer]
    for tensor in graph.initializer:
        np.testing.assert_array_equal(constants[tensor.name], numpy_helper.to_array(tensor))


def test_prompts_of_two_threads_do_not_meet():
    prompts = tiny_prompter()
    contexts = [prompts.random(4, seed) for seed in range(8)]
    with torch.no_grad():
        expected = [prompts(context) for context in contexts]

    def classes(context):
        with torch.no_grad():
            return [prompts(context) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        for found, one in zip(pool.map(classes, contexts), expected, strict=True):
            assert all(torch.allclose(x, one) for x in found)


def test_encoders_of_other_precision_agree():
    single = tiny_prompter(dtype=torch.float32)
    with torch.no_grad():
        classes = single(single.initial)
    np.testing.assert_allclose(classes, tiny_encoder().encode_texts([f"abcd {n}." for n in single.names]), atol=1e-5)


def test_a_kept_export_is_prompted_through_the_model_that_it_stands_for(tmp_path, monkeypatch):
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))
    original = load_encoder(*tiny_models.build("clip"))
    export(original, export_folder("hf:somebody/tiny"))
    stand_in = load_encoder("hf:somebody/tiny", device="auto")
    assert isinstance(stand_in, OnnxEncoder)
    hub = {("hf:somebody/tiny", "cpu"): original}  # which nobody can reach from here
    monkeypatch.setattr(towers, "load_encoder", lambda name, device: hub[name, device])
    prompts = prompter(stand_in, NAMES)
    with torch.no_grad():
        np.testing.assert_allclose(prompts(prompts.initial).numpy(), plain(stand_in, NAMES), atol=1e-4)
    assert prompts.encoder_identity == stand_in.identity  # whose images the head will see

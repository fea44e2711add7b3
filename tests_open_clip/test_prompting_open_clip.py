"""Continuous prompts for text towers of open_clip: with the tokens of words they are the plain prompt.

Runs in an environment of its own: `make test-open-clip`.
"""

import json

import numpy as np
import open_clip
import pytest
import torch

from meantime.encoders import load_encoder
from meantime.heads.tpt import TPTHead
from meantime.prompting import prompter

TEXT = {"context_length": 40, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2}
VISION = {"layers": 1, "width": 32, "head_width": 8, "patch_size": 8, "image_size": 32}
# One tower within the model, one apart, one that sees its padding, one with a class token at the end.
TEXTS = {
    "prompt-inside": {"text_cfg": TEXT},
    "prompt-quick": {"text_cfg": TEXT, "quick_gelu": True},
    "prompt-apart": {"text_cfg": TEXT, "custom_text": True},
    "prompt-both-ways": {
        "text_cfg": TEXT | {"no_causal_mask": True, "pool_type": "last", "proj_bias": True},
        "custom_text": True,
    },
    "prompt-class-token": {"text_cfg": TEXT | {"embed_cls": True, "context_length": 39}, "custom_text": True},
}
# Of different lengths; the third is cut by the tokenizer, the underscore is a space.
NAMES = ["cat", "guinea pig", "a very long name " * 20, "two_red birds", "Siberian husky (old), 7 years", "cat"]


@pytest.fixture(scope="module", autouse=True)
def configurations(tmp_path_factory):
    place = tmp_path_factory.mktemp("configurations")
    for name, parts in TEXTS.items():
        (place / f"{name}.json").write_text(json.dumps({"embed_dim": 16, "vision_cfg": VISION} | parts))
    open_clip.add_model_config(place)


def encoder_of(name):
    torch.manual_seed(0)
    model, _, preprocess = open_clip.create_model_and_transforms(name)
    with torch.no_grad():  # far from the initial values, so that a test sees them lost
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return load_encoder(model, preprocess, open_clip.get_tokenizer(name))


@pytest.mark.parametrize("name", TEXTS)
def test_words_give_the_plain_prompt(name):
    encoder = encoder_of(name)
    prompts = prompter(encoder, NAMES)
    assert prompts.initial.shape == (4, 32)
    with torch.no_grad():
        classes = prompts(prompts.initial).numpy()
    expected = encoder.encode_texts([f"a photo of a {name.replace('_', ' ')}." for name in NAMES])
    np.testing.assert_allclose(classes, expected, atol=2e-5)
    assert np.ptp(classes, axis=0).max() > 0.1


@pytest.mark.parametrize("name", TEXTS)
def test_other_lengths_push_the_name_along(name):
    encoder = encoder_of(name)
    names = [name for name in NAMES if len(name) < 40]
    short, long = (prompter(encoder, names, context=words) for words in ("one", "a rather bad photo of one small"))
    with torch.no_grad():
        np.testing.assert_allclose(short(long.initial), long(long.initial), atol=2e-5)
        np.testing.assert_allclose(long(short.initial), short(short.initial), atol=2e-5)


@pytest.mark.parametrize("name", TEXTS)
def test_gradients_and_tuning(name):
    encoder = encoder_of(name)
    prompts = prompter(encoder, NAMES)
    context = prompts.initial.clone().requires_grad_()
    towards = torch.randn(3, len(NAMES), prompts.dim, generator=torch.Generator().manual_seed(0))
    for pulled, g in zip(prompts.pull(prompts.initial, towards), towards, strict=True):
        (expected,) = torch.autograd.grad(prompts(context), context, g)
        assert expected.abs().max() > 1e-4
        torch.testing.assert_close(pulled, expected, rtol=1e-3, atol=1e-5)
    way = torch.randn(context.shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        difference = (prompts(context + 1e-2 * way) - prompts(context - 1e-2 * way)) / 2e-2
    assert float((expected * way).sum()) == pytest.approx(float((difference * towards[2]).sum()), rel=0.05, abs=0.01)
    assert all(p.grad is None for p in encoder.model.parameters())
    views = np.random.default_rng(0).standard_normal((2, 20, 16)).astype(np.float32)
    views /= np.linalg.norm(views, axis=-1, keepdims=True)
    tuned = TPTHead(prompts, 20.0).adapt(views)
    assert tuned(views).shape == (2, 20, len(NAMES))

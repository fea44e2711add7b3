"""Contexts in, class embeddings out: pieces, batches and gradients agree; what does not fit is refused."""

import dataclasses
import sys

import numpy as np
import pytest
import torch
from tiny_prompts import NAMES, tiny_encoder, tiny_prompter

from meantime.errors import MeantimeError, MissingExtraError
from meantime.prompting import prompter


def contexts(prompts, *shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return prompts.initial + 0.1 * torch.randn(*shape, *prompts.initial.shape, generator=generator, dtype=prompts.dtype)


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_a_batch_of_contexts_is_each_alone(kind):
    prompts = tiny_prompter(kind)
    several = contexts(prompts, 2, 3)
    with torch.no_grad():
        together = prompts(several)
        assert together.shape == (2, 3, len(NAMES), prompts.dim)
        for i in range(2):
            for j in range(3):
                torch.testing.assert_close(together[i, j], prompts(several[i, j]))


@pytest.mark.parametrize("chunk", [1, 2, 4, 100])
def test_chunks_change_nothing(chunk):
    whole, pieces = tiny_prompter(), tiny_prompter(chunk=chunk)
    towards = torch.randn(3, len(NAMES), whole.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = []
    for prompts in (whole, pieces):
        context = contexts(prompts, 3).requires_grad_()
        classes = prompts(context)
        found.append((classes.detach(), torch.autograd.grad(classes, context, towards)[0]))
        pulled = prompts.pull(prompts.initial, towards)
        found[-1] += (pulled,)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_chunks_recompute_and_keep_less(monkeypatch):
    """The graph of a chunked call holds contexts and results, not activations."""

    def kept(prompts):
        sizes = {}

        def note(x):
            sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
            return x

        with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
            out = prompts(contexts(prompts).requires_grad_())
        del out
        return sum(sizes.values())

    assert kept(tiny_prompter(chunk=2)) < kept(tiny_prompter()) / 20
    # Without a chunk of one's own, memory decides.
    monkeypatch.setattr("meantime.prompting.prompts._memory", lambda device: 1e5)
    assert kept(tiny_prompter()) == kept(tiny_prompter(chunk=2))


def test_pulled_gradients_are_those_of_autograd():
    prompts = tiny_prompter()
    towards = torch.randn(4, len(NAMES), prompts.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    pulled = prompts.pull(prompts.initial, towards)
    for one, g in zip(pulled, towards, strict=True):
        context = prompts.initial.clone().requires_grad_()
        (expected,) = torch.autograd.grad(prompts(context), context, g)
        torch.testing.assert_close(one, expected)


def test_random_contexts():
    prompts = tiny_prompter()
    context = prompts.random(16, 3)
    assert context.shape == (16, prompts.width)
    assert torch.equal(context, prompts.random(16, 3))
    assert not torch.equal(context, prompts.random(16, 4))
    assert float(context.std()) == pytest.approx(0.02, rel=0.2)
    with torch.no_grad():
        assert prompts(context).shape == (len(NAMES), prompts.dim)
        np.testing.assert_array_equal(prompts(context), prompts(context.numpy()))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: tiny_prompter(names=[]), "at least one class name"),
        (lambda: tiny_prompter(names="cat"), "at least one class name, but 'cat'"),
        (lambda: tiny_prompter(chunk=0), "chunk counts prompts"),
        (lambda: tiny_prompter(context=" "), "has no words"),
        (lambda: tiny_prompter().random(0, 0), "at least one token"),
        (lambda: tiny_prompter()(torch.zeros(4, 31)), r"has shape \(…, M, 32\), but its shape is \(4, 31\)"),
        (lambda: tiny_prompter()(torch.zeros(39, 32)), "39 tokens leaves no room for a name: the encoder reads 40"),
    ],
)
def test_what_does_not_fit_is_refused(act, message):
    with pytest.raises(MeantimeError, match=message):
        act()


def test_a_context_that_melts_into_the_name_is_refused(monkeypatch):
    encoder = tiny_encoder()
    tokenize = encoder.texts.tokenize

    def merging(texts):  # as subwords may
        return tokenize([text.replace("d c", "z") for text in texts])

    monkeypatch.setattr(encoder, "texts", dataclasses.replace(encoder.texts, tokenize=merging))
    prompter(encoder, ["dog"], context="abcd")
    with pytest.raises(MeantimeError, match="does not keep the context 'abcd' apart from the name 'cat'"):
        prompter(encoder, ["dog", "cat"], context="abcd")


def test_the_function_keeps_its_name():
    """A submodule of the same name would take its place once it is imported."""
    tiny_prompter()
    assert callable(sys.modules["meantime.prompting"].prompter)


def test_torch_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"a learned prompt needs .*meantime\[torch\]"):
        prompter(tiny_encoder(), ["cat"])

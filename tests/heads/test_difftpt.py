"""DiffTPT beside a plain reference: its filter, and four steps on what the filter leaves."""

import numpy as np
import pytest
import torch
from tiny_prompts import SCALE, images, tiny_prompter

from meantime.errors import MeantimeError
from meantime.heads.difftpt import DiffTPTHead


def filtered(logits):
    """Indices for one image's logits (N, K), in words of the paper's entry."""
    cosine = [float(x @ logits[0] / np.linalg.norm(x) / np.linalg.norm(logits[0])) for x in logits]
    others = sorted(range(1, len(logits)), key=lambda i: -cosine[i])
    faithful = [0, *others[: int(0.8 * len(others))]]
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    entropy = -(p * np.log(p)).sum(-1)
    return sorted(faithful, key=lambda i: entropy[i])[: int(0.3 * len(faithful))]


def reference(prompts, views):
    leaf = prompts.initial.clone().requires_grad_()
    optimizer = torch.optim.AdamW([leaf], lr=5e-3)
    views = torch.from_numpy(views)
    chosen = None
    for _ in range(4):
        classes = prompts(leaf)
        logits = SCALE * views @ (classes / classes.norm(dim=-1, keepdim=True)).T
        chosen = chosen or filtered(logits.detach().numpy())
        mean = logits[chosen].softmax(-1).mean(0)
        optimizer.zero_grad()
        (-(mean * mean.log()).sum()).backward()
        optimizer.step()
    with torch.no_grad():
        classes = prompts(leaf)
    return (classes / classes.norm(dim=-1, keepdim=True)).numpy()


def test_the_filter():
    head = DiffTPTHead(tiny_prompter(), SCALE)
    rng = np.random.default_rng(0)
    for n in (2, 7, 64, 128):
        logits = rng.standard_normal((4, n, 9))
        kept = head.kept(torch.from_numpy(logits))
        for found, one in zip(kept.tolist(), logits, strict=True):
            assert found == (filtered(one) or found[:1])
    assert kept.shape == (4, 30)  # of 1 + 101 faithful views of 128


def test_four_steps_on_what_is_left():
    prompts, views = tiny_prompter(), images(3)
    tuned = DiffTPTHead(prompts, SCALE).adapt(views)
    for found, one in zip(tuned.classes, views, strict=True):
        np.testing.assert_allclose(found, reference(prompts, one), atol=1e-9)


def test_a_single_view():
    tuned = DiffTPTHead(tiny_prompter(), SCALE).adapt(images(1, n=1))
    assert np.isfinite(tuned.classes).all()


def test_a_share_that_is_none():
    with pytest.raises(MeantimeError, match="faithful"):
        DiffTPTHead(tiny_prompter(), SCALE, faithful=1.5)

"""ProGrad's gradient never opposes the zero-shot one, and without projection it is CoOp."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_prompts import NAMES, SCALE, tiny_prompter

from meantime.errors import MeantimeError
from meantime.heads import coop, prograd

vectors = st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=6, max_size=6).map(
    lambda v: torch.tensor(v, dtype=torch.float64).reshape(2, 3)
)


@given(vectors, vectors)
@settings(deadline=None)
def test_the_projection_never_opposes(g_a, g_b):
    g = prograd.project(g_a, g_b)
    size = float(g_a.norm() * g_b.norm())
    assert float((g * g_b).sum()) >= -1e-12 * size
    if float((g_a * g_b).sum()) >= 0:
        assert torch.equal(g, g_a)
    else:  # what is taken out points along g_b, and nothing of it is left
        assert abs(float((g * g_b).sum())) <= 1e-12 * size
        taken = g_a - g
        assert float((taken * g_b).sum()) == pytest.approx(-float(taken.norm() * g_b.norm()), abs=1e-9 * size)


@given(vectors, vectors, st.floats(0, 1))
@settings(deadline=None)
def test_lambda_takes_its_share_out(g_a, g_b, lambda_):
    whole, part = prograd.project(g_a, g_b), prograd.project(g_a, g_b, lambda_)
    torch.testing.assert_close(part, g_a + lambda_ * (whole - g_a), rtol=1e-9, atol=1e-9)


def toy(n=20, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(n) % len(NAMES)
    x = rng.standard_normal((n, 16))
    return x / np.linalg.norm(x, axis=-1, keepdims=True), labels


def divergence(prompts, context, x):
    """KL from the zero-shot prediction to the learned one, by PyTorch's own function."""
    unit = torch.nn.functional.normalize
    logits = SCALE * torch.from_numpy(x) @ unit(prompts(context), dim=-1).T
    known = SCALE * torch.from_numpy(x) @ unit(prompts(prompts.initial).detach(), dim=-1).T
    kl = torch.nn.functional.kl_div
    return kl(logits.log_softmax(-1), known.log_softmax(-1), reduction="batchmean", log_target=True)


def test_a_step_follows_the_projected_gradient():
    """One full batch: the step beside gradients of PyTorch's cross-entropy and KL divergence."""
    prompts, (x, labels) = tiny_prompter(), toy()
    opposed = 0
    for seed in range(6):
        start = prompts.random(4, seed)
        leaf = start.clone().requires_grad_()
        logits = SCALE * torch.from_numpy(x) @ torch.nn.functional.normalize(prompts(leaf), dim=-1).T
        (g_a,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)), leaf)
        (g_b,) = torch.autograd.grad(divergence(prompts, leaf, x), leaf)
        dot = float((g_a * g_b).sum())
        g = g_a - 0.8 * dot / float((g_b * g_b).sum()) * g_b if dot < 0 else g_a
        opposed += dot < 0
        context = prograd.train(
            prompts, x, labels, logit_scale=SCALE, lambda_=0.8, init="random", epochs=1, batch=20, seed=seed
        )
        torch.testing.assert_close(context, start - 1e-5 * (g + 5e-4 * start), rtol=1e-9, atol=1e-12)
    assert opposed  # or the test has seen half of it


def test_it_learns_and_forgets_less_than_coop():
    prompts, (x, labels) = tiny_prompter(), toy()
    options = {"logit_scale": SCALE, "epochs": 25, "lr": 0.02}
    learned = {f.__name__: f.train(prompts, x, labels, **options) for f in (coop, prograd)}
    forgotten = {name: float(divergence(prompts, context, x)) for name, context in learned.items()}
    assert forgotten["meantime.heads.prograd"] < forgotten["meantime.heads.coop"]

    def loss(context):
        logits = coop.prompt_head(prompts, context, SCALE)(x)
        return float(torch.nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels)))

    assert loss(learned["meantime.heads.prograd"]) < loss(prompts.initial)


def test_without_projection_it_is_coop():
    prompts, (x, labels) = tiny_prompter(), toy()
    options = {"logit_scale": SCALE, "epochs": 3, "m": 3, "init": "random", "batch": 6, "seed": 2}
    plain = coop.train(prompts, x, labels, **options)
    assert torch.equal(prograd.train(prompts, x, labels, lambda_=0.0, **options), plain)
    assert not torch.equal(prograd.train(prompts, x, labels, **options), plain)


def test_a_seed_reproduces_it_to_the_bit():
    prompts, (x, labels) = tiny_prompter(dtype=torch.float32), toy()
    one, two = (
        prograd.train(prompts, x, labels, logit_scale=SCALE, epochs=2, batch=6, seed=3, init="random") for _ in range(2)
    )
    assert torch.equal(one, two)


def test_a_lambda_beyond_one_is_refused():
    with pytest.raises(MeantimeError, match="lambda_"):
        prograd.train(tiny_prompter(), *toy(), logit_scale=SCALE, lambda_=1.5, epochs=1)

"""TPT in batches beside a plain reference: one image, one leaf, one optimiser."""

import numpy as np
import pytest
import torch
from tiny_prompts import NAMES, SCALE, images, tiny_encoder, tiny_prompter

from meantime.aggregators import first, mta
from meantime.errors import MeantimeError
from meantime.heads.tpt import TPTHead, TunedHead, mean_entropy, scores
from meantime.meanshift.head import TextHead
from meantime.registry import method_named


def entropy(p):
    return -(p * np.log(p)).sum(-1)


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def reference(prompts, views, context, steps=1, lr=5e-3, share=0.1):
    """TPT as its authors describe it, for one image (N, d)."""
    leaf = context.clone().requires_grad_()
    optimizer = torch.optim.AdamW([leaf], lr=lr)
    views = torch.from_numpy(views)
    chosen = None
    for _ in range(steps):
        classes = prompts(leaf)
        logits = SCALE * views @ (classes / classes.norm(dim=-1, keepdim=True)).T
        p = logits.softmax(-1)
        if chosen is None:
            chosen = torch.argsort(-(p * p.log()).sum(-1))[: max(1, int(share * len(views)))]
        mean = p[chosen].mean(0)
        optimizer.zero_grad()
        (-(mean * mean.log()).sum()).backward()
        optimizer.step()
    with torch.no_grad():
        classes = prompts(leaf)
    return (classes / classes.norm(dim=-1, keepdim=True)).numpy()


@pytest.mark.parametrize("kind", ["clip", "siglip"])
@pytest.mark.parametrize("steps", [1, 3])
def test_batches_are_the_plain_reference(kind, steps):
    prompts = tiny_prompter(kind)
    views = images(5, d=prompts.dim)
    head = TPTHead(prompts, SCALE, steps=steps)
    tuned = head.adapt(views)
    assert tuned.classes.shape == (5, len(NAMES), prompts.dim)
    for found, one in zip(tuned.classes, views, strict=True):
        np.testing.assert_allclose(found, reference(prompts, one, prompts.initial, steps), atol=1e-9)
    assert np.abs(tuned.classes - head._plain.classes.numpy()).max() > 1e-4  # and it has moved


def test_a_learned_context_to_start_from():
    prompts = tiny_prompter()
    context, views = prompts.random(16, 0), images(2)
    tuned = TPTHead(prompts, SCALE, context=context.numpy()).adapt(views)
    for found, one in zip(tuned.classes, views, strict=True):
        np.testing.assert_allclose(found, reference(prompts, one, context), atol=1e-9)


def test_one_step_lowers_the_entropy_it_minimises():
    prompts = tiny_prompter()
    views = images(12, seed=3)
    head = TPTHead(prompts, SCALE)
    before, after = softmax(head(views)), softmax(head.adapt(views)(views))
    for b in range(len(views)):
        kept = np.argsort(entropy(before[b]))[:2]
        assert entropy(after[b, kept].mean(0)) < entropy(before[b, kept].mean(0))


def test_images_do_not_touch_each_other():
    views = images(9)
    whole = TPTHead(tiny_prompter(), SCALE, steps=2).adapt(views)
    one_by_one = [TPTHead(tiny_prompter(), SCALE, steps=2).adapt(v).classes for v in views]
    np.testing.assert_allclose(whole.classes, np.stack(one_by_one), atol=1e-10)
    head = TPTHead(tiny_prompter(), SCALE, steps=2)
    head.adapt(images(3, seed=9))  # nothing of it stays
    backwards = head.adapt(views[::-1].copy())
    np.testing.assert_allclose(backwards.classes[::-1], whole.classes, atol=1e-10)
    grid = head.adapt(views.reshape(3, 3, *views.shape[1:]))
    np.testing.assert_allclose(grid.classes.reshape(whole.classes.shape), whole.classes, atol=1e-10)


@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_chunks_change_nothing(chunk, monkeypatch):
    views = images(4)
    whole = TPTHead(tiny_prompter(), SCALE, steps=2).adapt(views)
    monkeypatch.setattr("meantime.heads.tpt.TOGETHER", 3 * len(NAMES) * 16 * 4)  # three images at a time
    pieces = TPTHead(tiny_prompter(chunk=chunk), SCALE, steps=2).adapt(views)
    np.testing.assert_allclose(pieces.classes, whole.classes, atol=1e-10)


def test_before_tuning_it_is_the_plain_head():
    prompts, views = tiny_prompter(), images(3)
    head = TPTHead(prompts, SCALE)
    texts = tiny_encoder().encode_texts([f"abcd {name}." for name in NAMES]).astype(float)
    np.testing.assert_allclose(head(views), TextHead(texts, SCALE)(views), atol=1e-4)
    assert head.n_classes == len(NAMES)
    assert isinstance(head(views), np.ndarray)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_come_back_as_they_went(dtype):
    head = TPTHead(tiny_prompter(dtype=torch.float32), SCALE)
    views = images(2).astype(dtype)
    tuned = head.adapt(views)
    assert tuned(views).dtype == dtype
    other = head.adapt(torch.from_numpy(views))
    logits = other(torch.from_numpy(views))
    assert isinstance(logits, torch.Tensor)
    np.testing.assert_allclose(logits.numpy(), tuned(views), atol=1e-4)


def test_views_and_modes_are_read_by_their_own_prompt():
    views = images(3)
    tuned = TPTHead(tiny_prompter(), SCALE).adapt(views)
    every = np.einsum("bnd,bkd->bnk", views, tuned.classes) * SCALE
    np.testing.assert_allclose(tuned(views), every)
    np.testing.assert_allclose(tuned(views[:, 0]), every[:, 0])
    np.testing.assert_allclose(first(views, tuned).logits, every[:, 0])
    assert tuned.adapt(views) is tuned
    assert tuned.n_classes == len(NAMES)
    with pytest.raises(MeantimeError, match=r"tuned for each of \(3,\) images, but embeddings of shape \(2, 20, 16\)"):
        tuned(views[:2])
    with pytest.raises(MeantimeError, match=r"expected \(3, 'N', 16\) or \(3, 16\), of the same images; head\[i\] is"):
        tuned(views[:2, :3])  # three views are not one embedding of each of three images
    np.testing.assert_allclose(tuned[1](views[None, 1]), every[None, 1])


def test_another_aggregator_sees_an_image_through_its_prompt():
    views = images(1)[0]
    tuned = TPTHead(tiny_prompter(), SCALE).adapt(views)
    plain = TextHead(tuned.classes, SCALE)
    np.testing.assert_allclose(mta(views, tuned).logits, mta(views, plain).logits, atol=1e-9)


def test_entropy_of_the_mean_is_exact_where_probabilities_vanish():
    logits = torch.tensor([[[0.0, -1e4, -2e4], [0.0, -1e4, -3e4]]], dtype=torch.float64).requires_grad_()
    loss = mean_entropy(logits)
    loss.sum().backward()
    assert loss.item() == 0
    assert logits.grad.isfinite().all()
    p = softmax(np.array([[1.0, 2, 3], [0, 0, 5]]))
    assert float(mean_entropy(torch.from_numpy(np.log(p)))) == pytest.approx(entropy(p.mean(0)))


def test_gradients_are_on_where_the_caller_has_switched_them_off():
    views = images(2)
    head = TPTHead(tiny_prompter(), SCALE, steps=2)
    expected = head.adapt(views).classes
    with torch.no_grad():
        np.testing.assert_allclose(head.adapt(views).classes, expected)
    assert not torch.is_tensor(expected)


def test_scores_are_cosines_times_the_scale():
    views, classes = torch.from_numpy(images(2)), torch.randn(2, 5, 16, dtype=torch.float64)
    unit = classes / classes.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(scores(views, classes, 3.0), 3 * torch.einsum("bnd,bkd->bnk", views, unit))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: TPTHead(tiny_prompter(), SCALE, steps=0), "steps must be at least 1"),
        (lambda: TPTHead(tiny_prompter(), SCALE, context=np.zeros((4, 3))), "learned for another encoder"),
        (lambda: TPTHead(tiny_prompter(), SCALE).adapt(np.ones((4, 3))), "views of 3 dimensions given; .* has 16"),
        (lambda: TPTHead(tiny_prompter(), SCALE, keep=2.0), "keep"),
        (lambda: TunedHead(np.zeros((2, 3)), 1.0), "zero vector"),
    ],
)
def test_bad_input(act, message):
    with pytest.raises(MeantimeError, match=message):
        act()


def test_any_method_on_a_tuned_head_solves_each_image_by_its_own_prompt():
    head, views = TPTHead(tiny_prompter(), SCALE), images(3)
    method = method_named("mta@tpt")
    together = method(views, {"tpt": head})
    for i, one in enumerate(views):
        alone = method(one, {"tpt": head})
        np.testing.assert_allclose(together.logits[i], alone.logits, atol=1e-8)
        np.testing.assert_allclose(together.weights[i], alone.weights, atol=1e-8)
        np.testing.assert_allclose(together.mode[i], alone.mode, atol=1e-8)

"""CoOp learns its training set, step by step as a plain loop does, and reads the files of its authors."""

import math
import pickle

import numpy as np
import pytest
import torch
from tiny_prompts import NAMES, SCALE, images, tiny_encoder, tiny_prompter

from meantime.errors import MeantimeError
from meantime.heads import coop
from meantime.meanshift.head import TextHead


def toy(n=20, seed=0):
    """Features around a random centre for each class, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % len(NAMES)
    x = rng.standard_normal((len(NAMES), 16))[labels] + 0.3 * rng.standard_normal((n, 16))
    return x / np.linalg.norm(x, axis=-1, keepdims=True), labels


def plain_loop(prompts, x, labels, context, epochs, seed, batch):
    """Independent of the code under test but for the order in which images are drawn."""
    generator = torch.Generator().manual_seed(seed)
    context, velocity = context.clone(), 0
    x, labels = torch.from_numpy(x), torch.from_numpy(labels)
    for epoch in range(epochs):
        rate = 1e-5 if epoch == 0 else 0.002 * (1 + math.cos(math.pi * (epoch - 1) / epochs)) / 2
        order = torch.randperm(len(x), generator=generator)
        for i in range(len(x) // batch):
            rows = order[i * batch : (i + 1) * batch]
            leaf = context.clone().requires_grad_()
            classes = prompts(leaf)
            logits = SCALE * x[rows] @ (classes / classes.norm(dim=-1, keepdim=True)).T
            loss = -torch.stack([row.log_softmax(-1)[k] for row, k in zip(logits, labels[rows], strict=True)]).mean()
            (g,) = torch.autograd.grad(loss, leaf)
            velocity = 0.9 * velocity + g + 5e-4 * context
            context = context - rate * velocity
    return context


@pytest.mark.parametrize("batch", [20, 8])  # of 20 images: one batch, or two and a rest that waits
def test_steps_are_those_of_a_plain_loop(batch):
    prompts, (x, labels) = tiny_prompter(), toy()
    context = coop.train(prompts, x, labels, logit_scale=SCALE, epochs=4, batch=batch, seed=5)
    expected = plain_loop(prompts, x, labels, prompts.initial, 4, 5, batch)
    torch.testing.assert_close(context, expected, rtol=1e-9, atol=1e-11)
    assert float((context - prompts.initial).abs().max()) > 1e-5


def test_it_fits_its_training_set():
    prompts, (x, labels) = tiny_prompter(dtype=torch.float32), toy()
    x = x.astype(np.float32)
    before = coop.prompt_head(prompts, prompts.random(8, 0), SCALE)(x).argmax(-1)
    context = coop.train(prompts, x, labels, logit_scale=SCALE, m=8, init="random", epochs=100, lr=0.03)
    head = coop.prompt_head(prompts, context, SCALE)
    assert (head(x).argmax(-1) == labels).mean() > 0.95
    assert (before == labels).mean() < 0.7


def test_a_seed_reproduces_it_to_the_bit():
    _, labels = toy()

    def features(epoch, seed):
        return toy(seed=1000 * seed + epoch)[0].astype(np.float32)

    def fitted(seed):
        prompts = tiny_prompter(dtype=torch.float32)
        return coop.train(
            prompts, features, labels, logit_scale=SCALE, m=6, init="random", epochs=3, batch=7, seed=seed
        )

    state = torch.get_rng_state()
    assert torch.equal(fitted(1), fitted(1))
    assert not torch.equal(fitted(1), fitted(2))
    assert fitted(1).shape == (6, 32)
    assert torch.equal(torch.get_rng_state(), state)  # and no one else's randomness was touched


def test_each_epoch_asks_for_new_views_and_tells_its_progress():
    x, labels = toy()
    asked, told = [], []

    def features(epoch, seed):
        asked.append((epoch, seed))
        return x

    def progress(done, total):
        told.append((done, total))

    coop.train(tiny_prompter(), features, labels, logit_scale=SCALE, epochs=3, seed=4, progress=progress)
    assert asked == [(0, 4), (1, 4), (2, 4)]
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_schedule_is_a_warm_up_epoch_then_a_cosine():
    """Beside PyTorch's own schedule, which begins when the warm-up ends."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.002)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    expected = [1e-5]
    for _ in range(49):
        expected += cosine.get_last_lr()
        optimizer.step()
        cosine.step()
    assert [coop.learning_rate(e, 50, 0.002) for e in range(50)] == pytest.approx(expected, rel=1e-9)


def test_a_learned_head_is_a_text_head_with_its_context():
    prompts, views = tiny_prompter(), images(2)
    context = prompts.random(5, 0)
    head = coop.prompt_head(prompts, context, SCALE)
    assert isinstance(head, TextHead)
    np.testing.assert_array_equal(head.context, context.numpy())
    assert isinstance(head(views), np.ndarray)
    words = coop.prompt_head(prompts, prompts.initial.numpy(), SCALE)
    texts = tiny_encoder().encode_texts([f"abcd {name}." for name in NAMES])
    np.testing.assert_allclose(words.classes, TextHead(texts).classes, atol=1e-5)


CTX = torch.randn(4, 512, generator=torch.Generator().manual_seed(0))


def checkpoint():
    """What the released program saves: the scheduler of the warm-up holds another one, and that an optimiser."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(CTX.clone())], lr=0.002, momentum=0.9)
    optimizer.param_groups[0]["params"][0].grad = torch.ones_like(CTX)
    optimizer.step()
    scheduler = {"successor": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50), "last_epoch": 1}
    state = {"ctx": CTX, "token_prefix": torch.zeros(3, 1, 512), "token_suffix": torch.zeros(3, 72, 512)}
    return {
        "state_dict": state,
        "epoch": 50,
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler,
        "val_result": np.float64(71.5),
    }


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    "value",
    [
        checkpoint(),
        {"state_dict": {"prompt_learner.ctx": torch.nn.Parameter(CTX)}},
        {"ctx": CTX.double()},
    ],
    ids=["released", "whole model", "bare"],
)
def test_published_files(value, zipped, tmp_path):
    file = tmp_path / "model.pth.tar-50"
    torch.save(value, file, _use_new_zipfile_serialization=zipped)
    context = coop.read_context(file)
    assert context.dtype == torch.float32
    assert not context.requires_grad
    assert torch.equal(context, CTX)


def test_half_precision_files(tmp_path):
    torch.save({"state_dict": {"ctx": CTX.half()}}, tmp_path / "f")
    assert torch.equal(coop.read_context(tmp_path / "f"), CTX.half().float())


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("zipped", [True, False])
def test_no_code_of_a_file_runs(zipped, tmp_path):
    value = {"state_dict": {"ctx": CTX}, "extra": Hostile(str(tmp_path / "made"))}
    torch.save(value, tmp_path / "f", _use_new_zipfile_serialization=zipped)
    assert torch.equal(coop.read_context(tmp_path / "f"), CTX)
    (tmp_path / "g").write_bytes(pickle.dumps(Hostile(str(tmp_path / "made"))))
    with pytest.raises(MeantimeError, match="not a file of PyTorch"):
        coop.read_context(tmp_path / "g")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"state_dict": {"weight": CTX}}, "holds no tensor 'ctx'"),
        ([1, 2], "holds no tensor 'ctx'"),
        ({"state_dict": {"ctx": torch.zeros(3, 4, 512)}}, r"shape \(3, 4, 512\); expected \(M, width\)"),
    ],
)
def test_files_without_a_prompt(value, message, tmp_path):
    torch.save(value, tmp_path / "f")
    with pytest.raises(MeantimeError, match=message):
        coop.read_context(tmp_path / "f")


def test_files_that_are_none(tmp_path):
    (tmp_path / "f").write_bytes(b"torn")
    with pytest.raises(MeantimeError, match="not a file of PyTorch"):
        coop.read_context(tmp_path / "f")
    with pytest.raises(MeantimeError, match="cannot be read: No such file"):
        coop.read_context(tmp_path / "missing")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 16}, "4 tokens, not m = 16"),
        ({"init": "zeros"}, "init must be 'words' or 'random'"),
        ({"labels": np.array([0, 5] * 10)}, r"lie in 0..4, but there are 0 to 5"),
        ({"labels": np.zeros((20, 2), int)}, "labels must be n whole numbers"),
        ({"labels": np.zeros(20)}, "labels must be n whole numbers"),
        ({"labels": np.zeros(19, int)}, r"features of shape \(20, 16\) given for 19 labels"),
    ],
)
def test_bad_input(change, message):
    x, labels = toy()
    options = {"features": x, "labels": labels, "logit_scale": SCALE, "epochs": 1} | change
    with pytest.raises(MeantimeError, match=message):
        coop.train(tiny_prompter(), **options)

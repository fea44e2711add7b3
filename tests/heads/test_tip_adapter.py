import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime as mt
from meantime import MeantimeError, TextHead
from meantime.heads.tip_adapter import STEPS, TipAdapterHead, search, train_keys


def unit(x):
    return (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)


def problem(seed=0, n=12, k=4, d=8):
    """Keys near their class's direction, classes that are a little off."""
    rng = np.random.default_rng(seed)
    centres = unit(rng.standard_normal((k, d)))
    labels = np.arange(n) % k
    keys = unit(centres[labels] + 0.3 * rng.standard_normal((n, d)))
    return keys, labels, unit(centres + 0.5 * rng.standard_normal((k, d))), rng


def closed_form(x, keys, labels, classes, tau, alpha, beta):
    """The logits by loops in float64."""
    out = np.zeros((len(x), len(classes)))
    for i, f in enumerate(x.astype(np.float64)):
        for c, w in enumerate(classes.astype(np.float64)):
            near = sum(np.exp(-beta * (1 - f @ key)) for key, label in zip(keys, labels, strict=True) if label == c)
            out[i, c] = tau * (f @ w) + alpha * near
    return out


@given(
    seed=st.integers(0, 99),
    n=st.integers(1, 15),
    k=st.integers(2, 5),
    alpha=st.floats(0, 20),
    beta=st.floats(0, 20),
)
@settings(max_examples=30, deadline=None)
def test_equals_its_closed_form_whatever_photos_a_class_has(seed, n, k, alpha, beta):
    keys, _, classes, rng = problem(seed, n, k)
    labels = rng.integers(k, size=n)  # some classes may have none
    x = unit(rng.standard_normal((3, 8)))
    head = TipAdapterHead(keys, labels, classes, 50.0, alpha, beta)
    np.testing.assert_allclose(head(x), closed_form(x, keys, labels, classes, 50.0, alpha, beta), rtol=1e-4, atol=1e-3)


def test_without_its_cache_it_is_plain_zero_shot():
    keys, labels, classes, rng = problem()
    x = unit(rng.standard_normal((5, 8)))
    np.testing.assert_array_equal(TipAdapterHead(keys, labels, classes, 30.0, alpha=0)(x), TextHead(classes, 30.0)(x))


def test_leading_axes_and_other_array_libraries():
    keys, labels, classes, rng = problem()
    x = unit(rng.standard_normal((2, 3, 8)))
    head = TipAdapterHead(keys, labels, classes)
    assert head(x).shape == (2, 3, 4)
    np.testing.assert_allclose(head(x)[1, 2], head(x[1, 2]), rtol=1e-4)
    other = TipAdapterHead(torch.from_numpy(keys), labels, torch.from_numpy(classes))
    np.testing.assert_allclose(other(torch.from_numpy(x)).numpy(), head(x), rtol=1e-4)


def test_mta_sees_the_views_and_reads_the_mode_through_the_adapter():
    keys, labels, classes, rng = problem()
    head = TipAdapterHead(keys, labels, classes, 5.0, alpha=4, beta=5)
    views = unit(keys[0] + 0.2 * rng.standard_normal((16, 8)))
    result = mt.mta(views, head)
    np.testing.assert_allclose(result.logits, head(np.asarray(result.mode, np.float32)), rtol=1e-3)
    text = mt.mta(views, TextHead(classes, 5.0))
    assert not np.allclose(result.inlierness, text.inlierness)  # the affinity is the adapter's


def test_search_is_the_best_of_the_grid_on_the_photos_given():
    keys, labels, classes, rng = problem()
    val_labels = np.arange(20) % 4
    val = unit(keys[val_labels] + 0.5 * rng.standard_normal((20, 8)))
    found = search(TipAdapterHead(keys, labels, classes), val, val_labels, (5, 2))
    grid = [
        (closed_form(val, keys, labels, classes, 100.0, alpha, beta).argmax(1) == val_labels).mean()
        for beta in (0.1 + np.arange(STEPS[0]) * 4.9 / STEPS[0])[::40]  # a part: the slow loops take their time
        for alpha in (0.1 + np.arange(STEPS[1]) * 1.9 / STEPS[1])[::5]
    ]
    assert found.accuracy >= max(grid)
    best = closed_form(val, keys, labels, classes, 100.0, found.alpha, found.beta)
    assert (best.argmax(1) == val_labels).mean() == pytest.approx(found.accuracy)
    assert 0.1 <= found.beta < 5
    assert 0.1 <= found.alpha < 2
    assert found.zero_shot == (TextHead(classes)(val).argmax(1) == val_labels).mean()


def test_f_starts_as_tip_adapter_and_lowers_the_loss():
    keys, labels, classes, rng = problem(n=40)
    head = TipAdapterHead(keys, labels, classes, 20.0, alpha=1, beta=3)

    def features(epoch, seed):
        return unit(keys + 0.2 * np.random.default_rng([epoch, seed]).standard_normal(keys.shape))

    untouched = train_keys(head, features, labels, epochs=0)
    x = unit(rng.standard_normal((5, 8)))
    np.testing.assert_array_equal(untouched(x), head(x))

    def loss(h):
        logits = h(keys)
        return (np.log(np.exp(logits).sum(-1)) - logits[np.arange(40), labels]).mean()

    trained = train_keys(head, features, labels, epochs=20)
    assert loss(trained) < 0.95 * loss(head)
    np.testing.assert_array_equal(train_keys(head, features, labels, epochs=20).keys, trained.keys)  # to the bit
    assert (train_keys(head, features, labels, epochs=20, batch=7, seed=1).keys != trained.keys).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.full(12, 4)}, r"labels in 0\.\.3"),
        ({"labels": np.zeros(3, int)}, "12 keys"),
        ({"keys": np.ones((12, 5), np.float32)}, r"\(n, 8\)"),
        ({"alpha": -1}, "not negative"),
        ({"beta": float("nan")}, "finite"),
    ],
)
def test_impossible_caches(change, message):
    keys, labels, classes, _ = problem()
    with pytest.raises(MeantimeError, match=message):
        TipAdapterHead(**({"keys": keys, "labels": labels, "classes": classes} | change))

import numpy as np
import pytest
from numpy.testing import assert_allclose

from meantime import MeantimeError, Method, TextHead, add_method, methods
from meantime.aggregators import Aggregate
from meantime.registry import _METHODS, method_named


def test_every_training_free_name_of_the_design_is_there():
    names = "clip clip+e mean meanshift confidence confidence-mode mta mta-exact mta+e mta-vision zero zero+e"
    assert set(names.split()) <= set(methods())


def test_a_method_of_ones_own_is_a_few_lines(monkeypatch):
    monkeypatch.setattr("meantime.registry._METHODS", dict(_METHODS))

    def median(views, head, reader=None):
        m = np.median(views, axis=-2)
        m /= np.linalg.norm(m, axis=-1, keepdims=True)
        weights = np.full(views.shape[:-1], 1 / views.shape[-2])
        return Aggregate((reader or head)(m), weights, m)

    add_method("median", Method(median, "median of the views"))
    views = np.random.default_rng(0).standard_normal((2, 9, 4))
    answer = method_named("median")(views, {"text": TextHead(np.eye(4))})
    assert answer.logits.shape == (2, 4)
    with pytest.raises(MeantimeError, match="'median' already"):
        add_method("median", Method(median, "again"))


def test_unknown_method_lists_those_there_are():
    with pytest.raises(MeantimeError, match=r"'mtaa'.*mta\+e"):
        method_named("mtaa")


def test_the_list_is_a_copy():
    methods().clear()
    assert "mta" in methods()


@pytest.mark.parametrize("name", ["clip", "mean", "confidence", "mta", "zero", "meanshift"])
def test_embeddings_of_any_length_and_kind_give_the_same_answer(name):
    rng = np.random.default_rng(0)
    views, heads = rng.standard_normal((3, 9, 4)), {"text": TextHead(np.eye(4), 10.0)}
    expected = methods()[name](views, heads)
    assert_allclose(expected.probabilities.sum(axis=-1), 1)
    np.testing.assert_array_equal(expected.labels, expected.logits.argmax(axis=-1))
    for other in (10 * views, views.tolist(), views.astype(np.float32)):
        got = methods()[name](other, heads)
        assert_allclose(got.logits, expected.logits, atol=1e-3)
    assert methods()[name](views.astype(np.float16), heads).logits.dtype == np.float32


@pytest.mark.parametrize(
    ("views", "heads", "message"),
    [
        (np.full((2, 3), np.nan), {"text": TextHead(np.eye(3))}, "views .* NaN"),
        (np.ones(3), {"text": TextHead(np.eye(3))}, "views must have shape"),
        (np.ones((2, 3)), {"text": TextHead(np.eye(4))}, r"'text' reads embeddings of 4 dimensions, .* \(2, 3\)"),
        (np.ones((2, 3)), {"ensemble": TextHead(np.eye(3))}, "needs the head 'text', .* given 'ensemble'"),
        (np.ones((2, 3)), TextHead(np.eye(3)), "needs the head 'text', .* given TextHead"),
    ],
)
def test_what_is_wrong_with_the_input_of_a_method_is_said(views, heads, message):
    with pytest.raises(MeantimeError, match=message):
        methods()["clip"](views, heads)


def test_a_head_of_ones_own_reads_what_it_sees():
    method = Method(methods()["mta"].aggregator, "by another head", "tree")
    assert method.heads == {"tree"}
    assert method(np.eye(3), {"tree": TextHead(np.eye(3))}).logits.shape == (3,)

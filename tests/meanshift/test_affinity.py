"""Affinities against loops, and what the paper says of them."""

import numpy as np
import pytest
import reference

from meantime.meanshift import (
    TextHead,
    gram,
    log_softmax,
    softmax,
    text_affinity,
    vision_affinity,
    without_diagonal,
)

TAUS = [1e-3, 1.0, 100.0, 1e6]


@pytest.fixture
def unit_problem():
    views, classes = reference.problem(3, n=7)
    return reference.unit(views), reference.unit(classes)


@pytest.mark.parametrize("tau", TAUS)
def test_text_affinity_is_the_dot_product_of_predictions(unit_problem, tau):
    f, t = unit_problem
    expected = reference.text_affinity(f, t, tau)
    np.testing.assert_allclose(text_affinity(tau * f @ t.T), expected, rtol=1e-8, atol=1e-14)


def test_without_diagonal_is_algorithm_3(unit_problem):
    f, t = unit_problem
    expected = reference.text_affinity(f, t, 10.0, diagonal=False)
    np.testing.assert_allclose(without_diagonal(text_affinity(10.0 * f @ t.T)), expected, rtol=1e-12)


@pytest.mark.parametrize("tau", TAUS)
def test_text_affinity_with_its_diagonal_is_positive_semi_definite(unit_problem, tau):
    f, t = unit_problem
    W = text_affinity(tau * f @ t.T)
    np.testing.assert_array_equal(W, W.T)
    assert np.linalg.eigvalsh(W).min() > -1e-12
    assert W.min() >= 0
    assert W.max() <= 1 + 1e-12


def test_dropping_the_diagonal_breaks_positive_semi_definiteness(unit_problem):
    f, t = unit_problem
    assert np.linalg.eigvalsh(without_diagonal(text_affinity(100 * f @ t.T))).min() < -0.1


def test_vision_affinity_is_the_cosine(unit_problem):
    f, _ = unit_problem
    np.testing.assert_allclose(vision_affinity(gram(f)), reference.vision_affinity(f), atol=1e-15)


@pytest.mark.parametrize("tau", TAUS)
def test_text_head_gives_scaled_cosines(unit_problem, tau):
    f, t = unit_problem
    head = TextHead(3 * t, tau)
    assert head.n_classes == 4
    np.testing.assert_allclose(head(f[None]), tau * (f @ t.T)[None], rtol=1e-12, atol=1e-12 * tau)
    np.testing.assert_allclose(head.classes, t, atol=1e-14)
    assert head.adapt(f) is head


def test_softmax_and_its_logarithm_survive_any_logits():
    logits = np.array([[0.0, 1.0, 2.0], [1e300, 0.0, -1e300], [-1e6, -1e6, -1e6]])
    np.testing.assert_allclose(softmax(logits), [reference.softmax(list(row)) for row in logits], rtol=1e-14)
    expected = [reference.log_softmax(list(row)) for row in logits]
    np.testing.assert_allclose(log_softmax(logits), expected, rtol=1e-9)

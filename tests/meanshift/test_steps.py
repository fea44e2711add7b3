"""The objective and its two updates against loops; each update does what the paper proves of it."""

import math

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.meanshift import inlierness_step, mode_step, objective

LAMBDAS = [(4.0, 0.2), (0.0, 0.2), (4.0, 3.0), (4.0, math.inf)]


class Setting:
    """Views, bandwidths, affinity, a mode off the views, and an uneven y."""

    def __init__(self, seed=0, n=7):
        views, classes = reference.problem(seed, n)
        self.f = reference.unit(views)
        self.h2 = reference.bandwidths(self.f)
        self.W = reference.text_affinity(self.f, reference.unit(classes), 5.0)
        self.m = reference.unit(self.f[0] + self.f[1])
        self.d2 = np.array([reference.distance2(x, self.m) for x in self.f])
        self.kernel = np.exp(-self.d2 / self.h2)
        self.log_y = np.array(reference.log_softmax(list(np.random.default_rng(seed).normal(size=n))))

    def reference_objective(self, log_y, lambdas):
        return reference.objective(self.f, self.h2, self.W, self.m, list(log_y), *lambdas)


@pytest.mark.parametrize("lambdas", LAMBDAS)
def test_objective_is_equation_1(lambdas):
    s = Setting()
    value = objective(s.kernel, s.W, s.log_y, *lambdas)
    assert float(value) == pytest.approx(s.reference_objective(s.log_y, lambdas), rel=1e-13)


@pytest.mark.parametrize("lambdas", LAMBDAS)
def test_inlierness_step_is_equation_6(lambdas):
    s = Setting()
    expected = reference.inlierness_step(s.f, s.h2, s.W, s.m, s.log_y, *lambdas)
    np.testing.assert_allclose(inlierness_step(s.kernel, s.W, s.log_y, *lambdas), expected, atol=1e-12)


@pytest.mark.parametrize("stationary", [False, True])
def test_mode_step_is_equation_8(stationary):
    s = Setting()
    weights = mode_step(s.log_y, s.d2, np.array(s.h2), stationary=stationary)
    assert weights.sum() == pytest.approx(1)
    expected = reference.mode_step(s.f, s.h2, s.m, s.log_y, sphere=False, stationary=stationary)
    np.testing.assert_allclose(weights @ s.f, expected, atol=1e-14)


def test_mode_step_survives_a_mode_far_from_every_view():
    weights = mode_step(np.zeros(3), np.array([1.0, 2.0, 1.0]), np.full(3, 1e-12))
    np.testing.assert_array_equal(weights, [0.5, 0, 0.5])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 10), lambda_=st.floats(0, 20), lambda_y=st.floats(0.01, 50))
def test_inlierness_step_never_raises_the_objective(seed, n, lambda_, lambda_y):
    s = Setting(seed, n=max(n, 2))
    new = inlierness_step(s.kernel, s.W, s.log_y, lambda_, lambda_y)
    before = objective(s.kernel, s.W, s.log_y, lambda_, lambda_y)
    assert objective(s.kernel, s.W, new, lambda_, lambda_y) <= before + 1e-12 * abs(before)


def test_inlierness_step_is_the_minimum_of_the_bound_over_the_simplex():
    s, (lambda_, lambda_y) = Setting(), (4.0, 0.2)

    def bound(y):
        return -y @ s.kernel - lambda_ * y @ s.W @ np.exp(s.log_y) + lambda_y * y @ np.log(y)

    best = bound(np.exp(inlierness_step(s.kernel, s.W, s.log_y, lambda_, lambda_y)))
    others = np.random.default_rng(0).dirichlet(np.ones(7), size=500)
    assert best < min(bound(y) for y in others)


def test_stationary_mode_step_rests_where_equation_1_has_no_slope():
    s = Setting(2)
    for _ in range(3000):
        d2 = np.array([reference.distance2(x, s.m) for x in s.f])
        s.m = mode_step(s.log_y, d2, np.array(s.h2), stationary=True) @ s.f

    def density(m):
        return sum(math.exp(ly) * reference.kernel(x, m, h) for ly, x, h in zip(s.log_y, s.f, s.h2, strict=True))

    slope = [(density(s.m + 1e-5 * e) - density(s.m - 1e-5 * e)) / 2e-5 for e in np.eye(5)]
    np.testing.assert_allclose(slope, 0, atol=1e-8)

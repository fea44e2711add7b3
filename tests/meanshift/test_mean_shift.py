"""Algorithm 1 against the reference, and the climb that Appendix B proves."""

import math

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime import mean_shift


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("options", [{}, {"rho": 0.6}, {"h2": 0.3}, {"max_iter": 3}])
@pytest.mark.parametrize("seed", range(3))
def test_every_step_is_the_references(seed, options, normalize):
    points, _ = reference.problem(seed, n=9)
    path = reference.mean_shift(points, normalize=normalize, **options)
    result = mean_shift(points, normalize=normalize, trace=True, **options)
    assert int(result.n_iter) == len(path) - 1
    assert bool(result.converged) == (math.dist(path[-1], path[-2]) < 1e-6)
    np.testing.assert_allclose(result.path, path, atol=1e-8)
    np.testing.assert_array_equal(result.mode, result.path[-1])


@pytest.mark.parametrize("normalize", [True, False])
def test_start_may_lie_anywhere(normalize):
    points, classes = reference.problem(5, n=6)
    path = reference.mean_shift(points, classes[1], normalize=normalize, h2=2.0)
    result = mean_shift(points, classes[1], normalize=normalize, h2=2.0, trace=True)
    np.testing.assert_allclose(result.path, path, atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    d=st.integers(1, 8),
    h2=st.floats(0.05, 20),
    far=st.floats(0, 3),
)
def test_density_never_falls_on_the_way(seed, n, d, h2, far):
    points, classes = reference.problem(seed, n, d)
    path = mean_shift(points, points[0] + far * classes[0], h2=h2, normalize=False, trace=True, max_iter=200).path
    u = np.array([sum(reference.kernel(f, m, h2) for f in points) / n for m in path])
    assert (np.diff(u) >= -1e-12).all()


def test_batch_is_one_by_one():
    points = np.stack([reference.problem(seed)[0] for seed in range(6)])
    start = points.mean(axis=-2)
    batch = mean_shift(points.reshape(2, 3, 8, 5), start.reshape(2, 3, 5))
    assert batch.mode.shape == (2, 3, 5)
    for i in range(6):
        alone = mean_shift(points[i], start[i])
        assert alone.n_iter == batch.n_iter.reshape(6)[i]
        np.testing.assert_allclose(alone.mode, batch.mode.reshape(6, 5)[i], atol=1e-12)


def test_too_few_steps_are_reported():
    points, _ = reference.problem(0)
    result = mean_shift(points, max_iter=1)
    assert not result.converged
    assert result.n_iter == 1


def test_one_point_is_its_own_mode():
    np.testing.assert_allclose(mean_shift(np.array([[3.0, 4.0]])).mode, [0.6, 0.8])


def test_points_that_cancel_leave_the_mode_where_it_is():
    points, start = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([0.0, 1.0])
    np.testing.assert_array_equal(mean_shift(points, start).mode, start)

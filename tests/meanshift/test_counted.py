"""The lean loops, in NumPy and compiled, give what the solver gives, for many images and settings and for one alone."""

import math

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.meanshift import VARIANTS, bandwidth, compiled, counted, gram, squared_distances, text_affinity
from meantime.meanshift.solver import solve

OFFICIAL = VARIANTS["official"]
either = pytest.mark.parametrize("loops", [counted, compiled], ids=["numpy", "compiled"])


def both(loops, views, classes, tau, lambda_, lambda_y):
    """Views (B, N, d) under settings (S,)."""
    G = gram(views)
    W = text_affinity(tau * views @ classes.T)
    h2 = bandwidth(squared_distances(G))
    weights = [np.array(x, float)[:, None] for x in (lambda_, lambda_y)]
    return solve(G, W, h2, *weights, OFFICIAL), loops.solve_counted(G, W, h2, *weights, OFFICIAL)


def assert_same(general, lean, atol=1e-9):
    for x, y in zip((*general.mode, *general[1:]), (*lean.mode, *lean[1:]), strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, atol=atol)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@either
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 2, 3, 5, 20]),
    st.sampled_from([0.0, 0.5, 4.0, 16.0]),
    st.sampled_from([1e-20, 1e-12, 0.01, 0.2, 3.0, math.inf]),
)
def test_one_image_alone(loops, seed, n, lambda_, lambda_y):
    views, classes = map(unit, reference.problem(seed, n=n))
    assert_same(*both(loops, views[None], classes, 10.0, [lambda_], [lambda_y]))


@either
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, 2, 5, 20]), st.integers(1, 6), st.integers(1, 3))
def test_images_and_settings_side_by_side_of_which_some_stop_early(loops, seed, n, images, count):
    problems = [reference.problem(seed + i, n=n) for i in range(images)]
    views, classes = unit(np.stack([v for v, _ in problems])), unit(problems[0][1])
    lambdas, lambda_ys = [4.0, 0.0, 16.0][:count], [0.2, math.inf, 0.01][:count]
    # A row near the tolerance may stop a step earlier, by the last bit of a sum
    assert_same(*both(loops, views, classes, 10.0, lambdas, lambda_ys), atol=2e-5)


e1, e2, e3, e4 = np.eye(4)
ODD = [[e1, -e1, e2, -e2], [e3, e1, -e1, e1], [e1, e1, e1, e2], [e2, e1, e1, e1], [e1] * 4]


@either
@pytest.mark.parametrize("views", [[e1, -e1], *ODD, [e3, e1, -e1, e1, -e1]])
def test_views_that_cancel_out_or_coincide(loops, views):
    assert_same(*both(loops, np.array(views)[None], np.eye(4), 10.0, [4.0], [0.2]))


@either
def test_views_that_cancel_out_or_coincide_beside_others(loops):
    assert_same(*both(loops, np.array(ODD), np.eye(4), 10.0, [4.0, 1.0], [0.2, 0.5]))


@either
def test_copies_of_the_first_view_stay_at_distance_zero_whatever_its_rounding(loops):
    rng = np.random.default_rng(0)
    for _ in range(20):
        views = unit(rng.standard_normal((16, 32)).astype(np.float32))
        views[:12] = views[0]  # bandwidths of nearly nothing, beside which a length of 1 - 6e-8 is far off
        classes = unit(rng.standard_normal((5, 32)).astype(np.float32))
        G = gram(views[None].astype(np.float64))
        W = text_affinity(20 * views[None] @ classes.T).astype(np.float64)
        h2 = bandwidth(squared_distances(G))
        general, lean = (
            f(G, W, h2, np.array([[4.0]]), np.array([[0.2]]), OFFICIAL) for f in (solve, loops.solve_counted)
        )
        assert_same(general, lean, atol=1e-6)


@either
def test_a_mode_many_bandwidths_away_from_every_view_still_moves(loops):
    """Weights y_p K_p that no float can hold: their logarithms decide, beside images for which nothing is lost."""
    rng = np.random.default_rng(0)
    far = np.tile(e2, (9, 1)) + 1e-4 * rng.standard_normal((9, 4))  # a tight knot of views, and view 0 elsewhere
    far[0] = e1
    near = e1 + 0.5 * rng.standard_normal((9, 4))
    for views in ([far], [near, far, near]):
        general, lean = both(loops, unit(np.array(views)), np.eye(4), 100.0, [16.0], [0.2])
        assert_same(general, lean, atol=1e-6)
        assert np.isfinite(lean.mode.a).all()

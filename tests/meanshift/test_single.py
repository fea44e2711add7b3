"""The path for one image gives what the solver gives for many."""

import math

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.meanshift import VARIANTS, bandwidth, gram, squared_distances, text_affinity
from meantime.meanshift.single import solve_single
from meantime.meanshift.solver import solve

OFFICIAL = VARIANTS["official"]


def both(views, classes, tau, lambda_, lambda_y):
    G = gram(views[None])
    W = text_affinity(tau * views[None] @ classes.T)
    h2 = bandwidth(squared_distances(G))
    weights = (np.array([[x]]) for x in (lambda_, lambda_y))
    return solve(G, W, h2, *weights, OFFICIAL), solve_single(G[0], W[0], h2[0], lambda_, lambda_y, OFFICIAL)


def assert_same(many, one):
    for x, y in zip((*many.mode, *many[1:]), (*one.mode, *one[1:]), strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 2, 3, 5, 20]),
    st.sampled_from([0.0, 0.5, 4.0, 16.0]),
    st.sampled_from([0.01, 0.2, 3.0, math.inf]),
)
def test_one_image_alone_is_one_image_of_many(seed, n, lambda_, lambda_y):
    views, classes = reference.problem(seed, n=n)
    views /= np.linalg.norm(views, axis=-1, keepdims=True)
    classes /= np.linalg.norm(classes, axis=-1, keepdims=True)
    assert_same(*both(views, classes, 10.0, lambda_, lambda_y))


e1, e2, e3, e4 = np.eye(4)


@pytest.mark.parametrize(
    "views",
    [[e1, -e1], [e1, -e1, e2, -e2], [e3, e1, -e1, e1, -e1], [e1, e1, e1, e2], [e2, e1, e1, e1], [e1] * 5],
)
def test_views_that_cancel_out_or_coincide(views):
    assert_same(*both(np.array(views), np.eye(4), 10.0, 4.0, 0.2))

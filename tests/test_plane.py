"""The plane of the views keeps their distances as far as two axes can."""

import numpy as np
import pytest

from meantime.plane import Plane


def test_views_in_a_plane_keep_their_distances():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    flat = rng.standard_normal((9, 2))
    views = flat @ basis.T + rng.standard_normal(6)
    plane = Plane(views)
    distances = np.linalg.norm(flat[:, None] - flat, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(plane.points[:, None] - plane.points, axis=-1), distances, atol=1e-9)
    np.testing.assert_allclose(plane(views[3]), plane.points[3])
    assert plane.seen == pytest.approx(1)


def test_the_share_it_shows_is_that_of_the_two_main_axes():
    views = np.random.default_rng(1).standard_normal((40, 5)) * (4, 3, 2, 1, 1)
    variances = np.linalg.eigvalsh(np.cov(views.T))
    assert Plane(views).seen == pytest.approx(variances[-2:].sum() / variances.sum())


@pytest.mark.parametrize("shape", [(1, 4), (3, 1), (2, 2)])
def test_few_views_and_few_dimensions(shape):
    plane = Plane(np.ones(shape))
    assert plane.points.shape == (shape[0], 2)
    assert not plane.points.any()
    assert plane.seen == 1

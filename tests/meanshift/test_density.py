"""Gram matrix, distances, bandwidths and kernel against loops."""

import numpy as np
import pytest
import reference

from meantime.meanshift import bandwidth, gaussian_kernel, gram, neighbours, squared_distances


@pytest.fixture
def views():
    return reference.unit(reference.problem(0, n=9)[0])


def test_gram_holds_all_dot_products(views):
    G = gram(views)
    assert G.shape == (9, 9)
    np.testing.assert_allclose(G, [[f @ g for g in views] for f in views], atol=1e-15)


def test_distances_come_from_the_gram_matrix_alone(views):
    views = views * np.linspace(0.5, 3, 9)[:, None]  # of any length
    expected = [[reference.distance2(f, g) for g in views] for f in views]
    np.testing.assert_allclose(squared_distances(gram(views)), expected, atol=1e-14)


def test_coinciding_views_have_distance_exactly_zero():
    views = reference.unit(np.repeat(reference.problem(1, n=3, d=100)[0], 4, axis=0))
    same = np.arange(12)[:, None] // 4 == np.arange(12) // 4
    d2 = squared_distances(gram(views))
    assert (d2[same] == 0).all()
    assert (d2[~same] > 0).all()


@pytest.mark.parametrize(("n", "rho", "k"), [(64, 0.3, 18), (128, 0.5, 63), (4, 0.3, 1), (2, 1e-6, 1), (7, 1.0, 6)])
def test_number_of_neighbours_is_rounded_down_but_never_zero(n, rho, k):
    assert neighbours(n, rho) == k


@pytest.mark.parametrize("rho", [1e-6, 0.2, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("n", [1, 2, 4, 9])
def test_bandwidth_is_the_mean_over_the_nearest_others(views, n, rho):
    d2 = squared_distances(gram(views[:n]))
    np.testing.assert_allclose(bandwidth(d2, rho), reference.bandwidths(views[:n], rho), rtol=1e-12)


@pytest.mark.parametrize("rho", [0.2, 0.3, 0.5, 1.0])
def test_bandwidth_can_divide_by_the_printed_real_number(views, rho):
    d2 = squared_distances(gram(views))
    expected = reference.bandwidths(views, rho, printed=True)
    np.testing.assert_allclose(bandwidth(d2, rho, divisor=rho * 8), expected, rtol=1e-12)


def test_bandwidth_of_coinciding_views_is_floored():
    assert (bandwidth(np.zeros((3, 3))) == 1e-12).all()


def test_bandwidth_takes_leading_axes(views):
    d2 = squared_distances(gram(views[:6]))
    np.testing.assert_array_equal(bandwidth(np.stack([d2, 4 * d2])), [bandwidth(d2), bandwidth(4 * d2)])


def test_kernel_is_one_at_the_mode_and_falls_with_distance(views):
    h2 = reference.bandwidths(views)
    d2 = np.array([reference.distance2(f, views[0]) for f in views])
    expected = [reference.kernel(f, views[0], h) for f, h in zip(views, h2, strict=True)]
    np.testing.assert_allclose(gaussian_kernel(d2, np.array(h2)), expected, rtol=1e-13)
    assert expected[0] == 1

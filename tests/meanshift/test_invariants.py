"""What must hold for any views and classes, and at the edges."""

import math
import sys

import numpy as np
import pytest
import reference
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meantime import mta
from meantime.meanshift import VARIANTS

pytestmark = pytest.mark.filterwarnings("error")  # no overflow, no division by zero, anywhere

variants = pytest.mark.parametrize("variant", VARIANTS)
few = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 10**6)
lambdas = st.sampled_from([0.0, 0.5, 4.0, 20.0])
lambdas_y = st.sampled_from([0.01, 0.2, 3.0, math.inf])
# Where neither the order of a sum nor a rotation may turn a rounding into another answer:
# enough entropy for y to have one solution, in `paper` too.
CALM = {"lambda_y": 5.0, "logit_scale": 10.0}


def assert_sane(result):
    """Everything finite, y on the simplex, the mode of unit length."""
    for field in ("mode", "inlierness", "logits", "objective", "probabilities"):
        assert np.isfinite(getattr(result, field)).all(), field
    assert (result.inlierness >= 0).all()
    np.testing.assert_allclose(result.inlierness.sum(axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(result.mode, axis=-1), 1, atol=1e-6)


@variants
@few
@given(
    seed=seeds,
    n=st.integers(1, 12),
    d=st.integers(1, 8),
    k=st.integers(1, 5),
    tau=st.sampled_from([1e-3, 1.0, 100.0, 1e6]),
    rho=st.sampled_from([1e-6, 0.3, 1.0]),
    lambda_=lambdas,
    lambda_y=lambdas_y,
    affinity=st.sampled_from(["head", "vision"]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_inlierness_lies_on_the_simplex(variant, seed, n, d, k, tau, rho, lambda_, lambda_y, affinity, dtype):
    views, classes = (x.astype(dtype) for x in reference.problem(seed, n, d, k))
    result = mta(
        views,
        classes,
        logit_scale=tau,
        rho=rho,
        lambda_=lambda_,
        lambda_y=lambda_y,
        affinity=affinity,
        variant=variant,
    )
    assert_sane(result)
    assert result.mode.dtype == dtype


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    n=st.integers(1, 12),
    d=st.integers(1, 8),
    noise=st.floats(0.01, 3),
    lambda_=lambdas,
    lambda_y=lambdas_y,
    affinity=st.sampled_from(["head", "vision"]),
)
def test_objective_never_rises_in_exact(seed, n, d, noise, lambda_, lambda_y, affinity):
    views, classes = reference.problem(seed, n, d, noise=noise)
    options = {"lambda_": lambda_, "lambda_y": lambda_y, "affinity": affinity}
    trace = mta(views, classes, variant="exact", trace=True, **options).trace
    # With an infinite lambda_y nothing but the mode moves, and the entropy is left out of Eq. 1.
    assert (np.diff(trace) <= 1e-12 * np.abs(trace[:-1])).all()


@variants
@few
@given(seed=seeds, n=st.integers(2, 12), data=st.data())
def test_permuting_the_other_views_only_permutes_inlierness(variant, seed, n, data):
    views, classes = reference.problem(seed, n)
    order = [0, *data.draw(st.permutations(range(1, n)))]
    result, permuted = (mta(x, classes, variant=variant, **CALM) for x in (views, views[order]))
    np.testing.assert_allclose(permuted.inlierness, result.inlierness[order], atol=1e-7)
    np.testing.assert_allclose(permuted.mode, result.mode, atol=1e-6)


@variants
@few
@given(seed=seeds, n=st.integers(1, 12), d=st.integers(2, 8))
def test_a_common_rotation_only_rotates_the_mode(variant, seed, n, d):
    views, classes = reference.problem(seed, n, d)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))
    result, rotated = (
        mta(views, classes, variant=variant, **CALM),
        mta(views @ Q, classes @ Q, variant=variant, **CALM),
    )
    np.testing.assert_allclose(rotated.inlierness, result.inlierness, atol=1e-7)
    np.testing.assert_allclose(rotated.mode, result.mode @ Q, atol=1e-6)
    np.testing.assert_allclose(rotated.logits, result.logits, atol=1e-5)


@variants
@few
@given(seed=seeds, n=st.integers(5, 12), outlier=st.integers(0, 11))
@example(seed=0, n=12, outlier=11)
def test_a_far_view_that_predicts_another_class_loses_its_weight(variant, seed, n, outlier):
    classes = np.eye(4)
    views = classes[0] + 0.1 * np.random.default_rng(seed).normal(size=(n, 4))
    views[outlier % n] = classes[1]
    result = mta(views, classes, variant=variant)
    assert result.inlierness[outlier % n] < 0.01 / n
    # From a far view 0 the mode may find no way to the others, many bandwidths off.
    assert result.labels == 0 or outlier % n == 0


@variants
@few
@given(seed=seeds, n=st.integers(1, 12), d=st.integers(1, 8))
def test_identical_views_share_their_weight_evenly(variant, seed, n, d):
    view = reference.problem(seed, 1, d)[0]
    result = mta(np.repeat(view, n, axis=0), np.random.default_rng(seed).normal(size=(3, d)), variant=variant)
    np.testing.assert_allclose(result.inlierness, 1 / n, rtol=1e-9)
    np.testing.assert_allclose(result.mode, reference.unit(view[0]), atol=1e-9)
    assert result.converged


@variants
def test_one_view_is_the_mode(variant):
    views, classes = reference.problem(0, n=1)
    result = mta(views, classes, variant=variant)
    np.testing.assert_allclose(result.mode, reference.unit(views[0]), atol=1e-15)
    np.testing.assert_array_equal(result.inlierness, [1.0])


@variants
@pytest.mark.parametrize("n", [2, 3, 4])
def test_few_views_have_a_neighbour_all_the_same(variant, n):
    assert_sane(mta(*reference.problem(0, n=n), variant=variant))


@variants
def test_one_class_is_always_the_answer(variant):
    result = mta(*reference.problem(0, k=1), variant=variant)
    assert_sane(result)
    assert result.labels == 0
    assert result.probabilities == 1


@variants
def test_one_dimension(variant):
    result = mta(np.array([[2.0], [-1.0], [3.0], [0.5]]), np.array([[1.0], [-1.0]]), variant=variant)
    assert_sane(result)
    assert result.labels == 0


@variants
def test_duplicated_classes_tie_and_the_first_answers(variant):
    views, classes = reference.problem(0, k=3)
    doubled = mta(views, np.concatenate([classes, classes]), variant=variant)
    assert_sane(doubled)
    np.testing.assert_allclose(doubled.logits[:3], doubled.logits[3:], atol=1e-12)
    assert doubled.labels < 3


@variants
@pytest.mark.parametrize("tau", [1e-3, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_temperature_is_safe(variant, tau, dtype):
    views, classes = (x.astype(dtype) for x in reference.problem(0))
    assert_sane(mta(views, classes, logit_scale=tau, variant=variant))


@variants
@pytest.mark.parametrize("lambda_y", [1e-6, 1e6])
def test_any_entropy_weight_is_safe(variant, lambda_y):
    assert_sane(mta(*reference.problem(0), lambda_y=lambda_y, variant=variant))


@variants
def test_a_share_that_leaves_no_neighbour_looks_at_the_nearest(variant):
    views, classes = reference.problem(0)
    result = mta(views, classes, rho=1e-6, variant=variant)
    assert_sane(result)
    if variant != "paper":  # its bandwidth divides by rho (N - 1) itself, whatever the neighbours are
        nearest = mta(views, classes, rho=1 / 7, variant=variant)
        np.testing.assert_allclose(result.inlierness, nearest.inlierness, atol=1e-6)


@pytest.mark.parametrize("variant", ["official", "exact"])
def test_without_affinity_classes_do_not_move_the_mode(variant):
    views, classes = reference.problem(0)
    modes = [mta(views, c, lambda_=0.0, variant=variant).mode for c in (classes, -classes[:2])]
    np.testing.assert_array_equal(*modes)


@variants
def test_infinite_lambda_y_keeps_weights_uniform(variant):
    result = mta(*reference.problem(0), lambda_y=math.inf, variant=variant)
    assert_sane(result)
    np.testing.assert_allclose(result.inlierness, 1 / 8, rtol=1e-12)


e1, e2, e3, e4 = np.eye(4)
EDGES = {
    "antipodal": [e1, -e1],
    "antipodal pairs": [e1, -e1, e2, -e2],
    "cancelling around view 0": [e3, e1, -e1, e1, -e1],
    "coinciding and one far": [e1, e1, e1, e1, e1, e2],
    "view 0 far from coinciding": [e2, e1, e1, e1, e1, e1],
    "two coinciding groups": [e1, e1, e1, e2, e2, e2],
    "nearly coinciding": [e1, e1 + 1e-9 * e2, e1 + 1e-8 * e3, e1 - 1e-7 * e2, e1, e2],
}


@variants
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("lambda_y", [0.001, 0.2, math.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_give_finite_answers(variant, edge, lambda_y, dtype):
    views = np.array(EDGES[edge], dtype=dtype)
    for classes in (np.eye(4, dtype=dtype), np.eye(4, dtype=dtype)[2:]):
        assert_sane(mta(views, classes, lambda_y=lambda_y, variant=variant))


@pytest.mark.parametrize("compiled", [True, False])
def test_views_that_coincide_in_float32_are_trusted_alike_in_a_batch_and_alone(compiled, monkeypatch):
    """float32 rounds their length, by more than their bandwidths."""
    if not compiled:
        monkeypatch.setattr(sys.modules["meantime.meanshift.mta"], "compiled", lambda: None)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        d, n, groups = rng.integers(4, 64), rng.integers(4, 24), rng.integers(1, 4)
        which = rng.integers(0, groups, (3, n))
        views = rng.standard_normal((groups, d)).astype(np.float32)[which]
        classes = rng.standard_normal((5, d)).astype(np.float32)
        together = mta(views, classes).inlierness
        for image, y, group in zip(views, together, which, strict=True):
            np.testing.assert_allclose(mta(image, classes).inlierness, y, atol=1e-5)
            for g in range(groups):
                np.testing.assert_allclose(y[group == g], y[group == g].mean() if (group == g).any() else 0, atol=1e-5)

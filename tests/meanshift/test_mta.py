"""Every variant of `mta` against the slow reference, on small problems and on real CLIP embeddings."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import reference

from meantime import MeantimeError, mean_shift, mta
from meantime.meanshift import VARIANTS, TextHead

REAL = Path(__file__).parents[3] / "shared" / "data" / "clip-b16-coco" / "views.npz"
INF = math.inf
variants = pytest.mark.parametrize("variant", VARIANTS)


def change(monkeypatch, variant, **fields):
    """Give a variant other limits for one test."""
    monkeypatch.setitem(VARIANTS, variant, dataclasses.replace(VARIANTS[variant], **fields))


def sized_problem(seed):
    rng = np.random.default_rng(seed)
    return reference.problem(seed, n=rng.integers(5, 13), d=rng.integers(2, 9), k=rng.integers(1, 6))


def assert_as_reference(result, expected, atol=1e-8):
    np.testing.assert_allclose(result.mode, expected.mode, atol=atol)
    np.testing.assert_allclose(result.inlierness, expected.inlierness, atol=atol)
    np.testing.assert_allclose(result.logits, expected.logits, atol=100 * atol)
    np.testing.assert_allclose(result.objective, expected.objective, atol=atol)
    assert int(result.n_iter) == expected.n_iter
    assert bool(result.converged) == expected.converged


OPTIONS = [
    {},
    {"logit_scale": 5.0},
    {"lambda_": 0.0},
    {"lambda_y": INF},
    {"lambda_": 1.0, "lambda_y": 0.05},
    {"affinity": "vision"},
    {"rho": 0.6},
    {"reader": reference.problem(99, d=6, k=3)[1]},
]


def name(options):
    return "-".join(options) or "defaults"


@pytest.mark.parametrize("options", OPTIONS, ids=name)
@pytest.mark.parametrize("variant", ["official", "exact"])
def test_equals_the_reference(variant, options):
    for seed in range(4):
        views, classes = reference.problem(seed, n=9 + seed, d=6) if "reader" in options else sized_problem(seed)
        result = mta(views, classes, variant=variant, trace=True, **options)
        expected = reference.mta(views, classes, variant=variant, **options)
        assert_as_reference(result, expected)
        np.testing.assert_allclose(result.trace, expected.trace, atol=1e-8)
        np.testing.assert_allclose(result.path, expected.path, atol=1e-8)
        assert_as_reference(mta(views, classes, variant=variant, **options), expected)  # the lean loops, untraced


# With these y settles in `paper` too: the entropy outweighs what the zero diagonal does to the affinity.
@pytest.mark.parametrize("options", [{"lambda_y": 5.0} | o for o in OPTIONS if o.get("lambda_y", INF) == INF], ids=name)
def test_paper_equals_the_reference_where_inlierness_settles(options):
    for seed in range(4):
        views, classes = reference.problem(seed, n=9 + seed, d=6) if "reader" in options else sized_problem(seed)
        expected = reference.mta(views, classes, variant="paper", inner=500, outer=50, **options)
        assert not expected.capped
        assert_as_reference(mta(views, classes, variant="paper", **options), expected)


@pytest.mark.parametrize("inner", [200, 201])
def test_paper_equals_the_reference_where_inlierness_alternates(monkeypatch, inner):
    change(monkeypatch, "paper", inner=inner, outer=10)
    for seed in range(3):
        views, classes = sized_problem(seed)
        expected = reference.mta(views, classes, variant="paper", inner=inner, outer=10)
        assert expected.capped
        result = mta(views, classes, variant="paper")
        # Seen as alternating once two steps together move y by less than 1e-6: no closer than that.
        np.testing.assert_allclose(result.inlierness, expected.inlierness, atol=2e-5)
        np.testing.assert_allclose(result.mode, expected.mode, atol=2e-5)


@variants
def test_prediction_reads_the_mode(variant):
    views, classes = reference.problem(2)
    result = mta(views, classes, variant=variant, logit_scale=7.0)
    np.testing.assert_allclose(result.logits, 7 * reference.unit(classes) @ result.mode, atol=1e-12)
    np.testing.assert_allclose(result.probabilities, reference.softmax(list(result.logits)), atol=1e-12)
    assert result.labels == np.argmax(result.logits)


@variants
def test_a_head_equals_its_class_embeddings(variant):
    views, classes = reference.problem(2)
    head = TextHead(classes, 20.0)
    expected = mta(views, classes, logit_scale=20.0, variant=variant)
    for form in (head, lambda x: head(x)):
        result = mta(views, form, reader=form, variant=variant)
        np.testing.assert_array_equal(result.inlierness, expected.inlierness)
        np.testing.assert_array_equal(result.logits, expected.logits)


@variants
def test_settings_side_by_side_equal_one_by_one(variant):
    views = np.stack([reference.problem(seed)[0] for seed in range(3)])
    classes = reference.problem(0)[1]
    lambdas, lambdas_y = [4.0, 0.0, 1.0, 4.0], [0.2, 0.2, 3.0, INF]
    together = mta(views, classes, lambda_=lambdas, lambda_y=lambdas_y, variant=variant)
    assert together.inlierness.shape == (4, 3, 8)
    for s, (lambda_, lambda_y) in enumerate(zip(lambdas, lambdas_y, strict=True)):
        alone = mta(views, classes, lambda_=lambda_, lambda_y=lambda_y, variant=variant)
        for field in ("mode", "inlierness", "logits", "objective", "n_iter", "converged"):
            np.testing.assert_allclose(getattr(together, field)[s], getattr(alone, field), atol=1e-9, err_msg=field)


def test_one_lambda_serves_many_lambda_y():
    views, classes = reference.problem(0)
    result = mta(views, classes, lambda_y=[0.1, 0.2, 0.4])
    np.testing.assert_allclose(result.inlierness[1], mta(views, classes).inlierness, atol=1e-12)


@variants
@pytest.mark.parametrize("lambda_y", [0.2, [0.2, 2.0]], ids=["one", "several"])
def test_trace_begins_at_view_0_and_ends_at_the_result(variant, lambda_y):
    views = np.stack([reference.problem(seed)[0] for seed in range(2)])
    classes = reference.problem(0)[1]
    result = mta(views, classes, variant=variant, lambda_y=lambda_y, trace=True)
    assert result.trace.shape == (int(result.n_iter.max()) + 1, *result.objective.shape)
    assert result.path.shape == (*result.trace.shape, 5)
    np.testing.assert_array_equal(result.trace[-1], result.objective)
    np.testing.assert_array_equal(result.path[-1], result.mode)
    first = reference.unit(views[:, 0])
    np.testing.assert_allclose(result.path[0], np.broadcast_to(first, result.mode.shape), atol=1e-14)
    plain = mta(views, classes, variant=variant, lambda_y=lambda_y)
    for field in ("mode", "inlierness", "objective", "n_iter", "converged"):
        np.testing.assert_allclose(getattr(plain, field), getattr(result, field), atol=1e-12, err_msg=field)
    assert plain.trace is None
    assert plain.path is None


def test_official_takes_five_outer_loops():
    views = np.stack([reference.problem(seed)[0] for seed in range(4)])
    assert (mta(views, reference.problem(0)[1]).n_iter == 5).all()


def test_converged_says_whether_the_last_loop_changed_anything():
    views, classes = reference.problem(0)
    assert mta(np.ones((6, 3)), np.eye(3)).converged
    assert mta(views, classes, variant="exact").converged
    far_from_settled = [reference.problem(seed, noise=1.0) for seed in range(20)]
    found = [bool(mta(*p).converged) for p in far_from_settled]
    assert found == [reference.mta(*p).converged for p in far_from_settled]
    assert not all(found)


def test_an_exact_run_that_meets_its_cap_says_so(monkeypatch):
    change(monkeypatch, "exact", outer=2, inner=1)
    easy, hard = np.ones((8, 5)), reference.problem(0)[0]
    result = mta(np.stack([easy, hard]), reference.problem(0)[1], variant="exact")
    assert list(result.converged) == [True, False]
    assert list(result.n_iter) == [1, 2]


# N = 11 makes rho (N - 1) the integer 3, so that `paper` has the bandwidths of the others.
def test_uniform_weights_make_paper_plain_mean_shift(monkeypatch):
    change(monkeypatch, "paper", tolerance=1e-12)
    views, classes = reference.problem(4, n=11)
    plain = mean_shift(reference.unit(views), normalize=False, tolerance=1e-12).mode
    result = mta(views, classes, lambda_y=INF, variant="paper")
    np.testing.assert_allclose(result.mode, reference.unit(plain), atol=1e-9)
    np.testing.assert_allclose(result.inlierness, 1 / 11, rtol=1e-12)


def test_uniform_weights_make_official_25_steps_of_mean_shift(monkeypatch):
    change(monkeypatch, "official", tolerance=1e-15)
    for seed in range(4):
        views, classes = reference.problem(seed, n=11)
        plain = mean_shift(views, tolerance=1e-15, max_iter=25).mode
        np.testing.assert_allclose(mta(views, classes, lambda_y=INF).mode, plain, atol=1e-9)


def test_exact_ends_lower_than_official():
    for seed in range(10):
        views, classes = reference.problem(seed)
        exact, official = (mta(views, classes, variant=v).objective for v in ("exact", "official"))
        assert exact <= official + 1e-6


@pytest.fixture(scope="module")
def real():
    if not REAL.exists():
        pytest.skip(f"the CLIP embeddings are not here: {REAL}")
    with np.load(REAL) as data:
        return {key: data[key] for key in ("views", "labels", "text_single", "text_ensemble")}


@pytest.mark.parametrize(
    ("correct", "options"),
    [
        (90, {"variant": "official"}),
        (91, {"variant": "paper"}),
        (91, {"variant": "exact"}),
        (91, {"affinity": "vision"}),
        (90, {"reader": "text_ensemble"}),
    ],
    ids=["official", "paper", "exact", "vision", "ensemble"],
)
def test_real_embeddings_give_the_known_number_of_correct_answers(real, correct, options):
    if "reader" in options:
        options = {"reader": real[options["reader"]]}
    result = mta(real["views"], real["text_single"], **options)
    assert result.mode.dtype == np.float32
    assert abs(int((result.labels == real["labels"]).sum()) - correct) <= 1


@pytest.mark.parametrize("variant", ["official", "exact"])
def test_real_embeddings_give_the_references_mode(real, variant):
    views = real["views"][0].astype(np.float64)[:24]
    expected = reference.mta(views, real["text_single"], variant=variant)
    assert_as_reference(mta(views, real["text_single"].astype(np.float64), variant=variant), expected)


@pytest.mark.parametrize("lambda_y", [1e-308, 5e-324, [0.2, 1e-310]])
def test_a_temperature_too_small_for_a_float_is_refused(lambda_y):
    with pytest.raises(MeantimeError, match=r"^lambda_y is \S+, too small for a float beside lambda_ 4.0$"):
        mta(np.eye(3), np.eye(3), lambda_y=lambda_y)


def test_inlierness_sums_to_one_at_the_smallest_temperatures():
    views = np.tile(np.random.default_rng(0).standard_normal(16), (8, 1))
    for lambda_y in (1e-9, 1e-15, 1e-20, 1e-300):
        assert mta(views, np.eye(16)[:5], lambda_y=lambda_y).inlierness.sum() == pytest.approx(1)

"""The rule by which views are enough: Student's t, honest at its edges, and true to its level on what is random."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import COCO, needs

from meantime import TextHead, methods
from meantime.anytime import FIRST, LEVEL, anytime, groups, settled, student
from meantime.meanshift.arrays import unit

# Of printed tables: P(T <= t).
QUANTILES = {(1, 0.9): 3.078, (2, 0.95): 2.920, (7, 0.95): 1.895, (7, 0.99): 2.998, (30, 0.975): 2.042}


@pytest.mark.parametrize(("at", "t"), QUANTILES.items())
def test_students_distribution_is_that_of_the_tables(at, t):
    freedom, probability = at
    assert student(np.array(t), freedom) == pytest.approx(probability, abs=2e-4)
    assert student(np.array(-t), freedom) == pytest.approx(1 - probability, abs=2e-4)


@settings(deadline=None)  # machines are busy
@given(t=st.floats(-30, 30), freedom=st.integers(1, 130))
def test_students_distribution_is_the_integral_of_its_density(t, freedom):
    x = np.linspace(0, abs(t), 20_001)
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    density = np.exp(log_scale - (freedom + 1) / 2 * np.log1p(x**2 / freedom))
    half = float(((density[1:] + density[:-1]) / 2 * np.diff(x)).sum())
    assert student(np.array(t), freedom) == pytest.approx(0.5 + math.copysign(half, t), abs=1e-5)


def test_infinities_are_certain():
    for freedom in (1, 2, 7):
        np.testing.assert_allclose(student(np.array([-np.inf, 0, np.inf]), freedom), [0, 0.5, 1], atol=1e-12)


def slow(answer, views):
    """One image, class by class."""
    best, n = int(np.argmax(answer)), len(views)
    values = []
    for k in range(len(answer)):
        if k != best:
            gap = [view[best] - view[k] for view in views]
            mean = sum(gap) / n
            variance = sum((g - mean) ** 2 for g in gap) / (n - 1)
            values.append(float(student(np.array(mean / math.sqrt(variance / n)), n - 1)))
    return min(values)


def test_every_class_is_compared_with_the_answer():
    rng = np.random.default_rng(0)
    answer, views = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3, 9, 5))
    views += 0.7 * answer[:, :, None]
    expected = [[slow(a, v) for a, v in zip(*pair, strict=True)] for pair in zip(answer, views, strict=True)]
    np.testing.assert_allclose(settled(answer, views), expected, rtol=1e-9)


def test_edges():
    assert settled(np.zeros((2, 1)), np.zeros((2, 8, 1))).tolist() == [1, 1]  # no rival
    assert settled(np.array([1.0, 0]), np.array([[1.0, 0]])) == 0  # one view tells nothing
    same = np.tile([2.0, 1.0], (8, 1))
    assert settled(np.array([1.0, 0]), same) == pytest.approx(1)  # views that all say the same
    assert settled(np.array([0.0, 1]), same) == pytest.approx(0)  # and the answer says otherwise
    assert settled(np.array([0.0, 0]), np.zeros((8, 2))) == 0.5  # a tie


def test_a_coin_is_seldom_settled():
    """Views that carry nothing: the test's level is what it says."""
    views = np.random.default_rng(0).normal(size=(20_000, 8, 2))
    assert (settled(np.tile([1.0, 0.0], (20_000, 1)), views) >= LEVEL).mean() == pytest.approx(1 - LEVEL, abs=0.003)


@settings(deadline=None)
@given(st.integers(1, 300))
def test_groups_double_and_end_with_all(n):
    sizes = groups(n)
    assert sizes[-1] == n
    assert all(b <= 2 * a for a, b in pairwise(sizes))
    assert sizes[0] == min(FIRST, n)


@pytest.mark.parametrize("name", ["mta", "mean", "zero", "clip", "mta-vision"])
def test_each_image_has_the_answer_of_its_own_views(name):
    rng = np.random.default_rng(1)
    classes = unit("c", rng.normal(size=(6, 16)))
    truth = classes[rng.integers(0, 6, 40)]
    views = unit("v", truth[:, None] + rng.normal(size=(40, 32, 16)) * rng.uniform(0.1, 1.2, (40, 1, 1)))
    heads = {"text": TextHead(classes, 20.0)}
    result = anytime(views, methods()[name], heads)
    assert len(set(result.n_views.tolist())) > 1  # some are easy, some are not
    for i, n in enumerate(result.n_views):
        seen = views[i, :n]
        logits = methods()[name](seen[None], heads).logits[0]
        np.testing.assert_allclose(result.logits[i], logits, rtol=1e-6, atol=1e-9)
        assert result.settled[i] == pytest.approx(float(settled(logits, heads["text"](seen))), abs=1e-9)
        assert result.settled[i] >= LEVEL or n == 32


def test_level_0_takes_the_first_group_and_beyond_1_all():
    rng = np.random.default_rng(2)
    views, heads = unit("v", rng.normal(size=(5, 64, 8))), {"text": TextHead(rng.normal(size=(3, 8)))}
    assert anytime(views, methods()["mta"], heads, level=0).n_views.tolist() == [8] * 5
    assert anytime(views, methods()["mta"], heads, level=1.1).n_views.tolist() == [64] * 5


@needs(COCO)
def test_on_real_clip_embeddings_it_saves_half_and_changes_no_answer():
    data = np.load(COCO)
    views, heads = unit("v", data["views"].astype(np.float32)), {"text": TextHead(data["text_single"])}
    result = anytime(views, methods()["mta"], heads)
    assert result.n_views.mean() <= 32
    all_views = methods()["mta"](views, heads).logits.argmax(-1)
    assert (result.logits.argmax(-1) != all_views).sum() <= 1

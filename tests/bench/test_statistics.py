"""Metrics and paired tests against slow, plain computations."""

import itertools
from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime import MeantimeError
from meantime.bench.compare import compare, mcnemar, paired_bootstrap
from meantime.bench.metrics import mean_per_class, measure, reliability
from meantime.bench.predictions import Predictions, method_in, prediction_file
from meantime.parquet import pa, pq


def predictions(hits, labels=None, confidence=None, method="mta", seed=0, dataset="d"):
    hits = np.array(hits, bool)
    labels = np.arange(len(hits)) % 3 if labels is None else np.array(labels)
    best = np.stack([np.where(hits, labels, (labels + 1) % 3), (labels + 2) % 3], axis=1).astype(np.int32)
    sure = np.full(len(hits), 0.5, np.float32) if confidence is None else np.array(confidence, np.float32)
    keys = tuple(f"k{i}" for i in range(len(hits)))
    return Predictions(dataset, "e", seed, method, np.arange(len(hits)), keys, labels, best, sure, hits, hits)


def test_mean_per_class_by_hand():
    assert mean_per_class(np.array([1, 0, 1, 1], bool), np.array([0, 0, 7, 7])) == 75.0
    assert mean_per_class(np.array([1, 1, 1, 0], bool), np.array([0, 0, 0, 9])) == 50.0


def test_calibration_error_by_hand():
    m = measure(predictions([1, 1, 0, 0], confidence=[0.95, 0.95, 0.25, 0.25]))
    assert m["ece"] == pytest.approx(0.5 * 5 + 0.5 * 25, abs=1e-4)
    assert m["top1"] == 50.0
    share, sure, right = reliability(np.array([0.95, 0.95, 0.25, 1.0]), np.array([1, 0, 1, 1], bool))
    assert share.tolist() == [0, 0, 0.25, 0, 0, 0, 0, 0, 0, 0.75]
    assert (sure[2], right[2], right[9]) == pytest.approx((0.25, 1, 2 / 3))
    assert np.isnan(right[0])


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_two_sided_binomial_test(a, b):
    n = a + b
    expected = min(1.0, 2 * sum(comb(n, i) for i in range(min(a, b) + 1)) / 2**n)
    assert mcnemar(a, b) == pytest.approx(expected, rel=1e-9)
    assert mcnemar(a, b) == mcnemar(b, a)


def test_mcnemar_of_many_disagreements():
    assert 0 <= mcnemar(4000, 5000) < 1e-20
    assert mcnemar(5000, 5000) == 1.0


def test_bootstrap_agrees_with_every_possible_resample():
    a, b = np.array([[1, 1, 0, 1]], bool), np.array([[0, 1, 1, 0]], bool)
    d = 100.0 * (a.astype(int) - b.astype(int))[0]
    every = [np.mean(draw) for draw in itertools.product(d, repeat=4)]
    low, high = paired_bootstrap(a, b)
    assert (low, high) == pytest.approx(np.percentile(every, [2.5, 97.5]), abs=1e-9)


def test_equal_methods_have_an_interval_of_nothing():
    hits = np.array([[1, 0, 1], [1, 1, 0]], bool)
    assert paired_bootstrap(hits, hits) == (0.0, 0.0)


def test_compare_reads_predictions(tmp_path):
    file = tmp_path / "p.parquet"
    with prediction_file(file) as out:
        for seed in (0, 1):
            out.add(predictions([1, 1, 1, 0, 1], method="a", seed=seed))
            out.add(predictions([1, 0, 0, 1, 1], method="b", seed=seed))
        out.add(predictions([1, 0], method="a", dataset="only-a"))
    (c,) = compare(file, "a", "b")
    assert (c.dataset, c.images, c.seeds, c.a, c.b) == ("d", 5, (0, 1), 80.0, 60.0)
    assert (c.only_a, c.only_b, c.p) == ((2, 2), (1, 1), (1.0, 1.0))
    assert c.low <= c.difference <= c.high
    with pytest.raises(MeantimeError, match="no predictions of 'c'; it has a, b"):
        compare(file, "a", "c")
    with pytest.raises(MeantimeError, match="run a table first"):
        compare(tmp_path / "none.parquet", "a", "b")


def test_compare_pairs_images_by_their_keys(tmp_path):
    file = tmp_path / "p.parquet"
    with prediction_file(file) as out:
        out.add(predictions([1, 1, 0, 0], method="a"))
        out.add(replace(predictions([0, 1], method="b"), keys=("k3", "k1")))  # a part, numbered from 0
    (c,) = compare(file, "a", "b")
    assert (c.images, c.of, c.a, c.b) == (2, (4, 2), 50.0, 50.0)
    assert (c.only_a, c.only_b) == ((0,), (0,))


def test_a_method_may_be_called_without_what_else_differed(tmp_path):
    file = tmp_path / "p.parquet"
    with prediction_file(file) as out:
        for method in ("mta (8 views)", "mta+e (8 views)", "clip (4 views)", "clip (8 views)", "zero", "zero (augmix)"):
            out.add(predictions([1, 0, 1], method=method))
    (c,) = compare(file, "mta+e", "mta")
    assert c.images == 3
    assert method_in(file, "mta") == "mta (8 views)"
    assert method_in(file, "zero") == "zero"
    with pytest.raises(MeantimeError, match=r"several of 'clip': say which of 'clip \(4 views\)', 'clip \(8 views\)'"):
        compare(file, "mta", "clip")


def test_without_predictions_there_is_no_file_not_even_an_old_one(tmp_path):
    file = tmp_path / "p.parquet"
    with prediction_file(file) as out:
        out.add(predictions([1, 0]))
    assert file.is_file()
    with prediction_file(file):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_file_of_predictions(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        with pytest.raises(MeantimeError, match="cannot be read as predictions"):
            compare(tmp_path / name, "a", "b")


def test_predictions_that_fail_leave_no_file(tmp_path):
    def interrupted():
        with prediction_file(tmp_path / "p.parquet") as out:
            out.add(predictions([1, 0]))
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert list(tmp_path.iterdir()) == []

"""Bad input gets a MeantimeError that names the argument and what is wrong with it; never a silent NaN."""

import importlib
import math

import numpy as np
import pytest
import reference
import torch

from meantime import MeantimeError, TextHead, mean_shift, mta
from meantime.meanshift import VARIANTS

VIEWS, CLASSES = reference.problem(0)  # (8, 5), (4, 5)
NAN, INF = math.nan, math.inf


def spoilt(x, value, *place):
    """Return a copy with one number, or one vector, replaced."""
    x = x.copy()
    x[place] = value
    return x


BAD_ARRAYS = [
    # the array                                what the message must hold
    (lambda x: x[0], ["shape", "(5,)"]),
    (lambda x: np.array(1.0), ["shape", "()"]),
    (lambda x: x[:0], ["shape", "(0, 5)"]),
    (lambda x: x[:, :0], ["shape", "0)"]),
    (lambda x: spoilt(x, NAN, 2, 3), ["NaN", "2]", "5)"]),
    (lambda x: spoilt(x, INF, 1, 0), ["infinity", "1]", "5)"]),
    (lambda x: spoilt(x, -INF, 3, 4), ["infinity", "3]", "5)"]),
    (lambda x: spoilt(x, 0.0, 2), ["zero vector", "2]", "5)"]),
    (lambda x: spoilt(x.astype(np.float16), NAN, 2, 3), ["NaN", "2]"]),
    (lambda x: spoilt(x.astype(np.float32), 0.0, 2), ["zero vector", "2]"]),
    (lambda x: torch.asarray(spoilt(x, NAN, 2, 3)), ["NaN", "2]"]),
    (lambda x: torch.asarray(spoilt(x, 0.0, 2)), ["zero vector", "2]"]),
    (lambda x: x.astype(int), ["int64", "5)"]),
    (lambda x: x > 0, ["bool", "5)"]),
    (lambda x: x + 0j, ["complex128"]),
    (lambda x: x.astype(object), ["object"]),
    (lambda x: torch.ones(x.shape, dtype=torch.int32), ["int32"]),
    (lambda x: [[1.0, 0.0], [1.0]], ["ragged"]),
    (lambda x: ["cat", "dog"], ["cat"]),
    (lambda x: None, ["NoneType"]),
    (lambda x: "cat", ["str"]),
    (lambda x: np.ma.masked_array(x, x > 1), ["masked"]),
    (lambda x: np.array([[1.0, 0.0], [1.0]], dtype=object), ["ragged"]),
]
ids = ["-".join(words) for _, words in BAD_ARRAYS]


def assert_message(error, words):
    assert all(word in str(error.value) for word in words), str(error.value)


def like(x, other):
    """Return ``other`` in the library of ``x``."""
    return torch.asarray(other) if isinstance(x, torch.Tensor) else other


@pytest.mark.parametrize(("make", "words"), BAD_ARRAYS, ids=ids)
def test_bad_views_are_named(make, words):
    views = make(VIEWS)
    with pytest.raises(MeantimeError) as error:
        mta(views, like(views, CLASSES))
    assert_message(error, ["views", *words])


@pytest.mark.parametrize(("make", "words"), BAD_ARRAYS, ids=ids)
def test_bad_points_are_named(make, words):
    with pytest.raises(MeantimeError) as error:
        mean_shift(make(VIEWS))
    assert_message(error, ["points", *words])


BAD_READERS = [case for case in BAD_ARRAYS if case[0](CLASSES) is not None]  # no reader is the default


@pytest.mark.parametrize(
    ("argument", "make", "words"),
    [*(("classes", *case) for case in BAD_ARRAYS), *(("reader", *case) for case in BAD_READERS)],
)
def test_bad_classes_and_readers_are_named(argument, make, words):
    bad = make(CLASSES)
    good = {"classes": like(bad, CLASSES)}
    with pytest.raises(MeantimeError) as error:
        mta(like(bad, VIEWS), **(good | {argument: bad}))
    assert_message(error, [argument, *words])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"classes": CLASSES[:, :3]}, ["classes", "(4, 3)", "(8, 5)"]),
        ({"reader": CLASSES[:, :3]}, ["reader", "(4, 3)", "(8, 5)"]),
        ({"classes": CLASSES[None]}, ["classes", "(1, 4, 5)"]),
        ({"classes": torch.asarray(CLASSES)}, ["views", "numpy", "classes", "torch"]),
        ({"views": torch.asarray(VIEWS)}, ["views", "torch", "classes", "numpy"]),
        ({"reader": torch.asarray(CLASSES)}, ["views", "numpy", "reader", "torch"]),
        ({"lambda_": -1.0}, ["lambda_", "-1.0"]),
        ({"lambda_": NAN}, ["lambda_", "nan"]),
        ({"lambda_": INF}, ["lambda_", "inf"]),
        ({"lambda_": [4.0, -2.0]}, ["lambda_", "-2.0"]),
        ({"lambda_": []}, ["lambda_", "0"]),
        ({"lambda_": "4"}, ["lambda_", "number", "'4'"]),
        ({"lambda_": None}, ["lambda_", "number", "None"]),
        ({"lambda_y": [1.0, "x"]}, ["lambda_y", "number", "'x'"]),
        ({"rho": "0.3"}, ["rho", "number", "'0.3'"]),
        ({"logit_scale": None}, ["logit_scale", "number", "None"]),
        ({"logit_scale": [1.0, 2.0]}, ["logit_scale", "number"]),
        ({"classes": TextHead(CLASSES[:, :3])}, ["classes", "3 dimensions", "(8, 5)"]),
        ({"classes": lambda x: x * NAN}, ["head", "NaN"]),
        ({"lambda_": [1.0, 2.0], "lambda_y": [1.0, 2.0, 3.0]}, ["lambda_", "lambda_y", "2", "3"]),
        ({"lambda_y": 0.0}, ["lambda_y", "0.0"]),
        ({"lambda_y": -0.2}, ["lambda_y", "-0.2"]),
        ({"lambda_y": NAN}, ["lambda_y", "nan"]),
        ({"rho": 0.0}, ["rho", "0.0"]),
        ({"rho": 1.5}, ["rho", "1.5"]),
        ({"rho": -0.3}, ["rho", "-0.3"]),
        ({"rho": NAN}, ["rho", "nan"]),
        ({"logit_scale": 0.0}, ["logit_scale", "0.0"]),
        ({"logit_scale": -100.0}, ["logit_scale", "-100.0"]),
        ({"logit_scale": INF}, ["logit_scale", "inf"]),
        ({"logit_scale": NAN}, ["logit_scale", "nan"]),
        ({"variant": "fast"}, ["variant", "'fast'", "'official'", "'paper'", "'exact'"]),
        ({"affinity": "text"}, ["affinity", "'text'", "'head'", "'vision'"]),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else "",
)
def test_bad_arguments_of_mta_are_named_with_their_value(arguments, words):
    with pytest.raises(MeantimeError) as error:
        mta(**({"views": VIEWS, "classes": CLASSES} | arguments))
    assert_message(error, words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"start": VIEWS[0, :3]}, ["start", "(3,)", "(8, 5)"]),
        ({"start": VIEWS}, ["start", "(8, 5)", "(5,)"]),
        ({"start": 0 * VIEWS[0]}, ["start", "zero vector"]),
        ({"start": NAN * VIEWS[0]}, ["start", "NaN"]),
        ({"start": torch.asarray(VIEWS[0])}, ["points", "numpy", "start", "torch"]),
        ({"rho": 0.0}, ["rho", "0.0"]),
        ({"rho": 2.0}, ["rho", "2.0"]),
        ({"h2": 0.0}, ["h2", "0.0"]),
        ({"h2": -1.0}, ["h2", "-1.0"]),
        ({"h2": NAN}, ["h2", "nan"]),
        ({"max_iter": 0}, ["max_iter", "0"]),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else "",
)
def test_bad_arguments_of_mean_shift_are_named_with_their_value(arguments, words):
    with pytest.raises(MeantimeError) as error:
        mean_shift(VIEWS, **arguments)
    assert_message(error, words)


@pytest.mark.parametrize("chunk_bytes", [1, 10**9])
def test_the_bad_view_of_a_batch_is_located(chunk_bytes, monkeypatch):
    monkeypatch.setattr(importlib.import_module("meantime.meanshift.mta"), "CHUNK_BYTES", chunk_bytes)
    batch = np.stack([VIEWS] * 6).reshape(2, 3, 8, 5)
    with pytest.raises(MeantimeError, match=r"views \(2, 3, 8, 5\) .*NaN.*views\[1, 2, 4\]"):
        mta(spoilt(batch, NAN, 1, 2, 4, 0), CLASSES)


@pytest.mark.parametrize("variant", VARIANTS)
def test_nan_from_a_users_head_is_not_passed_over(variant):
    with pytest.raises(MeantimeError, match="NaN"):
        mta(VIEWS, lambda x: NAN * x, variant=variant)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        *[(np.float32, size) for size in (1e-30, 1e-20, 1e-12, 1e12, 1e20, 1e30)],
        *[(np.float64, size) for size in (1e-200, 1e-30, 1e-12, 1e12, 1e30, 1e200)],
    ],
)
def test_length_of_embeddings_does_not_matter(dtype, size):
    views, classes = VIEWS.astype(dtype), CLASSES.astype(dtype)
    expected = mta(views, classes)
    result = mta(views * dtype(size), classes * dtype(size))
    np.testing.assert_allclose(result.inlierness, expected.inlierness, atol=1e-3 if dtype == np.float32 else 1e-9)


def test_nan_from_a_users_reader_is_not_passed_over():
    with pytest.raises(MeantimeError, match="NaN"):
        mta(VIEWS, CLASSES, reader=lambda x: NAN * x)


@pytest.mark.parametrize("kind", [int, np.float32, np.float64, np.int64, np.asarray, torch.tensor])
def test_any_number_serves_as_lambda(kind):
    expected = mta(VIEWS, CLASSES)
    result = mta(VIEWS, CLASSES, lambda_=kind(4))
    np.testing.assert_array_equal(result.inlierness, expected.inlierness)


def test_the_models_own_logit_scale_can_be_given():
    scale = torch.nn.Parameter(torch.tensor(100.0).log()).exp()  # as in model.logit_scale.exp()
    result = mta(torch.asarray(VIEWS), torch.asarray(CLASSES), logit_scale=scale)
    assert not result.logits.requires_grad
    np.testing.assert_allclose(mta(VIEWS, CLASSES, logit_scale=scale).logits, result.logits, rtol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.astype(">f4"),
        lambda x: np.array([*x, None], dtype=object)[:-1],  # a column of a table
        lambda x: np.asfortranarray(x),
        lambda x: x[:, ::-1][:, ::-1],
    ],
)
def test_arrays_that_are_stored_otherwise_are_as_good(make):
    np.testing.assert_allclose(mta(make(VIEWS), CLASSES).inlierness, mta(VIEWS, CLASSES).inlierness, atol=1e-4)


@pytest.mark.parametrize("tolerance", [NAN, -1.0])
def test_a_tolerance_that_is_none(tolerance):
    with pytest.raises(MeantimeError, match="tolerance must be zero or positive"):
        mean_shift(VIEWS, tolerance=tolerance)

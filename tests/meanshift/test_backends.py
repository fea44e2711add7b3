"""The same numbers from every array library, float, batch shape and chunk size."""

import importlib
import subprocess
import sys

import array_api_strict
import ml_dtypes
import numpy as np
import pytest
import reference
import torch

from meantime import mean_shift, mta
from meantime.meanshift import VARIANTS

FIELDS = ("mode", "inlierness", "logits", "n_iter", "objective", "converged", "probabilities", "labels")
LIBRARIES = {"torch": torch.asarray, "array_api_strict": array_api_strict.asarray}
variants = pytest.mark.parametrize("variant", VARIANTS)
libraries = pytest.mark.parametrize("library", LIBRARIES)


@pytest.fixture
def batch():
    return np.stack([reference.problem(seed)[0] for seed in range(6)]), reference.problem(0)[1]


def to_numpy(x):
    return np.from_dlpack(x) if not isinstance(x, np.ndarray | np.generic) else np.asarray(x)


def assert_same(a, b, fields=FIELDS, atol=1e-9):
    for field in fields:
        x, y = to_numpy(getattr(a, field)), to_numpy(getattr(b, field))
        np.testing.assert_allclose(x, y, atol=atol, err_msg=field)


@variants
@libraries
def test_mta_without_a_trace_is_the_same_in_every_library(batch, library, variant):
    asarray = LIBRARIES[library]
    result = mta(*(asarray(x) for x in batch), variant=variant)
    assert type(result.mode) is type(asarray(batch[0]))
    assert_same(result, mta(*batch, variant=variant))


@variants
@libraries
@pytest.mark.parametrize("affinity", ["head", "vision"])
def test_mta_is_the_same_in_every_library(batch, library, variant, affinity):
    views, classes = batch
    asarray = LIBRARIES[library]
    options = {"variant": variant, "affinity": affinity, "lambda_y": [0.2, 3.0], "trace": True}
    expected = mta(views, classes, **options)
    result = mta(asarray(views), asarray(classes), **options)
    for field in (*FIELDS, "trace", "path"):
        assert type(getattr(result, field)) is type(asarray(views)), field
    assert_same(result, expected, (*FIELDS, "trace", "path"))


@libraries
@pytest.mark.parametrize("normalize", [True, False])
def test_mean_shift_is_the_same_in_every_library(batch, library, normalize):
    expected = mean_shift(batch[0], normalize=normalize, trace=True)
    result = mean_shift(LIBRARIES[library](batch[0]), normalize=normalize, trace=True)
    assert type(result.mode) is type(LIBRARIES[library](batch[0]))
    assert_same(result, expected, ("mode", "n_iter", "converged", "path"))


FLOATS = {
    "float16": lambda x: x.astype(np.float16),
    "bfloat16": lambda x: x.astype(ml_dtypes.bfloat16),
    "float32": lambda x: x.astype(np.float32),
    "float64": lambda x: x,
    "torch.float16": lambda x: torch.asarray(x).to(torch.float16),
    "torch.bfloat16": lambda x: torch.asarray(x).to(torch.bfloat16),
    "torch.float32": lambda x: torch.asarray(x).to(torch.float32),
    "torch.float64": lambda x: torch.asarray(x),
}


def as_float64(x):
    return np.asarray(x.to(torch.float64) if isinstance(x, torch.Tensor) else x.astype(np.float64))


@variants
@pytest.mark.parametrize("kind", FLOATS)
def test_every_float_is_accepted_and_solved_in_float32_or_better(batch, kind, variant):
    views, classes = (FLOATS[kind](x) for x in batch)
    # Plenty of entropy, so that no variant alternates or turns a rounding into another answer.
    result = mta(views, classes, variant=variant, lambda_y=3.0)
    expected = mta(as_float64(views), as_float64(classes), variant=variant, lambda_y=3.0)
    wanted = "float64" if "float64" in kind else "float32"
    for field in ("mode", "inlierness", "logits", "objective"):
        assert str(getattr(result, field).dtype).removeprefix("torch.") == wanted, field
    assert_same(result, expected, ("inlierness", "objective", "labels"), atol=1e-9 if wanted == "float64" else 1e-4)
    assert str(mean_shift(views).mode.dtype).removeprefix("torch.") == wanted


def test_plain_lists_are_taken_as_numpy(batch):
    views, classes = batch
    assert_same(mta(views.tolist(), classes.tolist()), mta(views, classes))


def test_views_and_classes_may_differ_in_float(batch):
    views, classes = batch
    result = mta(views, classes.astype(np.float32))
    assert result.mode.dtype == np.float64
    assert_same(result, mta(views, classes), ("inlierness",), atol=1e-3)


def test_input_is_never_changed(batch):
    before = [x.copy() for x in batch]
    for convert in (np.asarray, torch.from_numpy):  # the tensors share the arrays' memory
        for variant in VARIANTS:
            mta(*(convert(x) for x in batch), variant=variant)
        mean_shift(convert(batch[0]))
    for x, y in zip(batch, before, strict=True):
        np.testing.assert_array_equal(x, y)


def test_tensors_inside_a_training_graph_are_accepted(batch):
    views, classes = (torch.asarray(x).requires_grad_() for x in batch)
    result = mta(views, classes)
    assert not result.mode.requires_grad
    assert_same(result, mta(*batch))


@variants
def test_batch_is_one_by_one(batch, variant):
    views, classes = batch
    together = mta(views.reshape(2, 3, 8, 5), classes, variant=variant)
    assert together.mode.shape == (2, 3, 5)
    assert together.inlierness.shape == (2, 3, 8)
    assert together.n_iter.shape == together.objective.shape == together.converged.shape == (2, 3)
    for i in range(6):
        alone = mta(views[i], classes, variant=variant)
        assert alone.mode.shape == (5,)
        for field in FIELDS:
            expected = np.reshape(getattr(together, field), (6, *getattr(alone, field).shape))[i]
            np.testing.assert_allclose(getattr(alone, field), expected, atol=1e-9, err_msg=field)


@variants
def test_chunks_change_nothing(batch, variant, monkeypatch):
    whole = mta(*batch, variant=variant, lambda_y=[0.2, 1.0])
    # The attribute meantime.meanshift.mta is the function.
    monkeypatch.setattr(importlib.import_module("meantime.meanshift.mta"), "CHUNK_BYTES", 1)
    assert_same(mta(*batch, variant=variant, lambda_y=[0.2, 1.0]), whole)


@pytest.mark.parametrize("variant", ["paper", "exact"])
@pytest.mark.parametrize("patience", [1, 10**9])
@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_images_that_leave_the_batch_early_change_nothing(batch, variant, patience, library, monkeypatch):
    easy = np.ones((3, 8, 5)) + 1e-3 * np.random.default_rng(0).normal(size=(3, 8, 5))
    views = np.concatenate([easy, batch[0]])[[0, 5, 1, 3, 2, 4]]
    expected = [mta(v, batch[1], variant=variant) for v in views]
    monkeypatch.setattr(importlib.import_module("meantime.meanshift.iterate"), "PATIENCE", patience)
    asarray = LIBRARIES.get(library, np.asarray)
    result = mta(asarray(views), asarray(batch[1]), variant=variant)
    for field in FIELDS:
        one_by_one = [getattr(r, field) for r in expected]
        np.testing.assert_allclose(to_numpy(getattr(result, field)), one_by_one, atol=1e-9, err_msg=field)


@pytest.mark.parametrize("trace", [False, True])
def test_torch_warns_of_nothing(trace):
    # torch gives such a warning once in a process, so ask in a fresh one
    code = (
        "import warnings, torch, meantime; warnings.simplefilter('error'); "
        f"meantime.mta(torch.rand(2, 4, 3), torch.rand(2, 3), trace={trace})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

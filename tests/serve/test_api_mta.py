"""`/v1/mta` is `mt.mta` over HTTP."""

import base64
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts import text64

import meantime as mt
from meantime.serve.api_mta import _answer
from meantime.serve.settings import Settings
from meantime.serve.writing import to_json

rng = np.random.default_rng(0)
VIEWS = rng.normal(size=(16, 24)).astype(np.float32)
CLASSES = rng.normal(size=(5, 24)).astype(np.float32)


def packed(x, dtype="float32"):
    return {"data": text64(x.astype(dtype).tobytes()), "dtype": dtype, "shape": list(x.shape)}


def unpacked(x):
    return np.frombuffer(base64.b64decode(x["data"]), "<f4").reshape(x["shape"])


@pytest.mark.parametrize("variant", ["official", "paper", "exact"])
def test_numbers_and_base64_give_the_solvers_answer(client, variant):
    options = {"logit_scale": 20, "lambda": 2, "lambda_y": 0.4, "rho": 0.5, "variant": variant}
    r = mt.mta(VIEWS, CLASSES, logit_scale=20, lambda_=2, lambda_y=0.4, rho=0.5, variant=variant)
    plain = client.post("/v1/mta", json={"views": VIEWS.tolist(), "classes": CLASSES.tolist(), **options}).json()
    both = client.post("/v1/mta", json={"views": packed(VIEWS), "classes": packed(CLASSES), **options})
    assert both.json() == plain
    np.testing.assert_allclose(plain["probabilities"], r.probabilities, atol=1e-6)
    np.testing.assert_allclose(plain["inlierness"], r.inlierness, atol=1e-6)
    np.testing.assert_allclose(plain["mode"], r.mode, atol=1e-6)
    assert (plain["label"], plain["n_iter"], plain["converged"]) == (int(r.labels), int(r.n_iter), bool(r.converged))
    answer = client.post(
        "/v1/mta", json={"views": packed(VIEWS), "classes": packed(CLASSES), "encoding_format": "base64", **options}
    ).json()
    np.testing.assert_array_equal(unpacked(answer["mode"]), np.float32(plain["mode"]))
    assert unpacked(answer["probabilities"]).shape == (5,)


def test_half_precision_is_read_as_such(client):
    r = mt.mta(VIEWS.astype(np.float16), CLASSES.astype(np.float16))
    answer = client.post("/v1/mta", json={"views": packed(VIEWS, "float16"), "classes": packed(CLASSES, "float16")})
    np.testing.assert_allclose(answer.json()["mode"], r.mode, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"views": [[1, 2], [3]]}, "one length"),
        ({"views": [[]]}, "one length"),
        ({"views": []}, "one length"),
        ({"views": [[0] * 24]}, "zero vector"),
        ({"views": [[1e300] * 24]}, "infinity"),
        ({"views": [["1"] * 24]}, "number"),
        ({"views": [[True] * 24]}, "number"),
        ({"views": [[1, 2]]}, "(K, 2)"),
        ({"views": [[1] * 24] * 257}, "1 to 256"),
        ({"classes": [[1] * 24] * 20_001}, "1 to 20000"),
        ({"views": packed(np.full((2, 24), np.nan))}, "NaN"),
        ({"views": packed(VIEWS) | {"shape": [2**30, 2**30]}}, "bytes"),
        ({"views": packed(VIEWS) | {"shape": [16, 23]}}, "bytes"),
        ({"views": packed(VIEWS) | {"shape": [-1, 24]}}, "greater"),
        ({"views": packed(VIEWS) | {"shape": [16 * 24]}}, "at least 2"),
        ({"views": packed(VIEWS) | {"dtype": "object"}}, "float16"),
        ({"views": packed(VIEWS) | {"data": "%" * len(packed(VIEWS)["data"])}}, "base64"),
        ({"logit_scale": 0}, "logit_scale"),
        ({"lambda": -1}, "lambda"),
        ({"lambda_y": 0}, "lambda_y"),
        ({"rho": 1.5}, "rho"),
        ({"variant": "mine"}, "variant"),
    ],
)
def test_what_cannot_be_solved_is_told(client, change, words):
    asked = {"views": VIEWS.tolist(), "classes": CLASSES.tolist()} | change
    answer = client.post("/v1/mta", json=asked)
    assert answer.status_code == 422
    assert words in answer.json()["error"]["message"]
    assert "\n" not in answer.json()["error"]["message"]


def test_nan_and_depth_in_json(client):
    kind = {"content-type": "application/json"}
    bad = client.post("/v1/mta", content=b'{"views": [[NaN, 1]], "classes": [[1, 1]]}', headers=kind)
    assert (bad.status_code, "finite" in bad.text) == (422, True)
    deep = client.post("/v1/mta", content=b'{"views":' + b"[" * 10**6, headers=kind)
    assert (deep.status_code, "recursion" in deep.text) == (400, True)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_every_shape_survives_the_journey(n, k, d, seed):
    own = np.random.default_rng(seed)
    views, classes = own.normal(size=(n, d)).astype("f4") + 0.1, own.normal(size=(k, d)).astype("f4") + 0.1
    r = mt.mta(views, classes)
    for form in (np.ndarray.tolist, packed):
        asked = {"views": form(views), "classes": form(classes), "encoding_format": "base64"}
        answer = json.loads(_answer(to_json(asked), Settings()))
        np.testing.assert_array_equal(unpacked(answer["mode"]), r.mode)
        np.testing.assert_array_equal(unpacked(answer["inlierness"]), r.inlierness)

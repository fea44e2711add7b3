"""`/v1/mta` is `mt.mta` over HTTP."""

import base64
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts import packed

import meantime as mt
from meantime.meanshift.threads import sharing
from meantime.serve.api_mta import _answer
from meantime.serve.kept import Kept
from meantime.serve.settings import Settings
from meantime.serve.writing import to_json

rng = np.random.default_rng(0)
VIEWS = rng.normal(size=(16, 24)).astype(np.float32)
CLASSES = rng.normal(size=(5, 24)).astype(np.float32)
NAMES = ["ant", "bee", "cat", "dog", "eel"]


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


def test_several_images_are_answered_as_each_alone(client):
    batch = np.random.default_rng(1).normal(size=(3, 16, 24)).astype(np.float32)
    common = {"classes": packed(CLASSES), "names": NAMES, "top": 2, "logit_scale": 20, "affinity": "vision"}
    alone = [client.post("/v1/mta", json={"views": packed(views), **common}).json() for views in batch]
    for form in (np.ndarray.tolist, packed):
        both = client.post("/v1/mta", json={"views": form(batch), **common})
        assert both.status_code == 200, both.text
        assert both.json().keys() == alone[0].keys()
        for name, values in both.json().items():
            assert len(values) == 3
            for got, expected in zip(values, alone, strict=True):
                if name == "scores":
                    assert [s["label"] for s in got] == [s["label"] for s in expected[name]]
                else:
                    np.testing.assert_allclose(got, expected[name], atol=1e-5)
    one = client.post("/v1/mta", json={"views": packed(batch[:1]), "encoding_format": "base64", **common}).json()
    assert unpacked(one["mode"]).shape == (1, 24)
    assert (len(one["label"]), len(one["n_iter"]), len(one["converged"])) == (1, 1, 1)


def test_names_come_best_first(client):
    asked = {"views": VIEWS.tolist(), "classes": CLASSES.tolist(), "logit_scale": 20}
    plain = client.post("/v1/mta", json=asked).json()
    assert "scores" not in plain
    named = client.post("/v1/mta", json=asked | {"names": NAMES, "top": 3}).json()
    scores = named.pop("scores")
    assert named == plain
    best = np.argsort(-np.array(plain["probabilities"]))[:3]
    assert [s["label"] for s in scores] == [NAMES[i] for i in best]
    assert [s["score"] for s in scores] == [plain["probabilities"][i] for i in best]
    assert len(client.post("/v1/mta", json=asked | {"names": NAMES, "top": 99}).json()["scores"]) == 5


def test_the_affinity_is_the_solvers(client):
    asked = {"views": VIEWS.tolist(), "classes": CLASSES.tolist(), "affinity": "vision"}
    got = client.post("/v1/mta", json=asked).json()["inlierness"]
    np.testing.assert_allclose(got, mt.mta(VIEWS, CLASSES, affinity="vision").inlierness, atol=1e-6)
    assert not np.allclose(got, mt.mta(VIEWS, CLASSES).inlierness, atol=1e-3)


def test_solving_takes_one_core(client, monkeypatch):
    shares = []

    def watched(*arguments, **options):
        with sharing(4) as threads:
            shares.append(threads)
        return mt.mta(*arguments, **options)

    monkeypatch.setattr("meantime.serve.api_mta.mta", watched)
    client.post("/v1/mta", json={"views": VIEWS.tolist(), "classes": CLASSES.tolist()}).raise_for_status()
    assert shares == [1]  # the rest is an encoder's


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
        ({"affinity": "text"}, "affinity"),
        ({"names": ["a"]}, "1 names for 5 classes; expected one for each"),
        ({"names": ["a" * 201] * 5}, "at most 200"),
        ({"top": 0}, "top"),
        ({"views": [[[[1.0]]]]}, "views.0.0.0: a list stands where a number should: an axis too many"),
        ({"classes": [CLASSES.tolist()]}, "classes.0.0: a list stands where a number should: an axis too many"),
        ({"classes": packed(CLASSES[None])}, "classes has the shape [1, 5, 24]; expected (K, d)"),
        ({"views": [[[1] * 24], [[1] * 24] * 2]}, "as many rows for each image"),
        ({"views": [[[1] * 24], []]}, "as many rows for each image"),
        ({"views": [[[1] * 24, ["1"] * 24]]}, "number"),
        ({"views": packed(np.ones((257, 1, 24)))}, "the number of images is 257; expected 1 to 256"),
        ({"views": packed(np.ones((2, 257, 24)))}, "the number of views is 257; expected 1 to 256"),
        (
            {"views": packed(np.ones((256, 1, 1))), "classes": packed(np.ones((4097, 1)))},
            "images x classes is 1048832; expected 1 to 1048576",
        ),
        (
            {"views": packed(np.ones((256, 17, 1))), "classes": packed(np.ones((4096, 1)))},
            "images x views x classes is 17825792; expected 1 to 16777216",
        ),
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
        answer = json.loads(_answer(to_json(asked), Settings(), Kept(1, 1)))
        np.testing.assert_array_equal(unpacked(answer["mode"]), r.mode)
        np.testing.assert_array_equal(unpacked(answer["inlierness"]), r.inlierness)

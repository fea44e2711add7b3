"""`/v1/classes` keeps classes, and `/v1/mta` answers by their id as if they had been sent."""

import numpy as np
import pytest
from parts import packed

rng = np.random.default_rng(0)
VIEWS = rng.normal(size=(3, 8, 12)).astype(np.float32)
CLASSES = rng.normal(size=(4, 12)).astype(np.float32)
NAMES = ["cat", "dog", "fox", "owl"]


def test_kept_classes_answer_as_those_that_are_sent(client):
    told = client.post("/v1/classes", json={"classes": packed(CLASSES), "names": NAMES})
    assert told.status_code == 200, told.text
    key = told.json()["id"]
    assert told.json() == {"id": key, "classes": 4, "dim": 12}
    assert client.post("/v1/classes", json={"classes": CLASSES.tolist(), "names": NAMES}).json()["id"] == key
    for views in (VIEWS, VIEWS[0]):
        sent = client.post("/v1/mta", json={"views": packed(views), "classes": packed(CLASSES), "names": NAMES}).json()
        assert client.post("/v1/mta", json={"views": packed(views), "classes": key}).json() == sent
    other = client.post("/v1/mta", json={"views": packed(VIEWS[0]), "classes": key, "names": list("abcd")}).json()
    assert {score["label"] for score in other["scores"]} == set("abcd")
    assert "meantime_classes_kept 1\n" in client.get("/metrics").text


def test_an_id_that_nobody_keeps_is_not_found(serve):
    client = serve(max_kept=1)
    key = client.post("/v1/classes", json={"classes": CLASSES.tolist()}).json()["id"]
    asked = {"views": packed(VIEWS[0]), "classes": key}
    assert "scores" not in client.post("/v1/mta", json=asked).json()
    client.post("/v1/classes", json={"classes": CLASSES[::-1].tolist()})
    answer = client.post("/v1/mta", json=asked)
    assert answer.status_code == 404
    assert "send them to POST /v1/classes" in answer.json()["error"]["message"]


def test_the_token_is_asked_for(serve):
    client = serve(token="sesame")
    assert client.post("/v1/classes", json={"classes": [[1]]}).status_code == 401
    allowed = client.post("/v1/classes", json={"classes": [[1]]}, headers={"Authorization": "Bearer sesame"})
    assert allowed.status_code == 200


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        ({"classes": [[0, 0]]}, 422, "zero vector"),
        ({"classes": packed(np.full((2, 2), np.nan))}, 422, "NaN"),
        ({"classes": [[[1.0]]]}, 422, "an axis too many"),
        ({"classes": packed(VIEWS)}, 422, "expected (K, d)"),
        ({"classes": [[1]] * 20_001}, 422, "1 to 20000"),
        ({"classes": [[1] * 8193]}, 422, "1 to 8192"),
        ({"classes": [[1], [2]], "names": ["a"]}, 422, "1 names for 2 classes"),
        ({"classes": [[1]], "names": ["a" * 201]}, 422, "at most 200"),
        ({"classes": "other"}, 422, "valid"),
        ({"classes": [[1] * 300] * 300}, 413, "are kept"),
    ],
)
def test_what_cannot_be_kept_is_told(serve, asked, status, words):
    client = serve(max_kept_bytes=300_000)
    answer = client.post("/v1/classes", json=asked)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert len(client.service.kept) == client.service.kept.bytes == 0

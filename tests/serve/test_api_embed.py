"""`/v1/embed` gives what the encoder gives."""

import base64

import numpy as np
import pytest
from parts import png, text64
from toy import ToyEncoder, picture

import meantime as mt
from meantime.images import load_image
from meantime.views import ViewSpec, make_views


def embeddings(answer):
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["object"], body["model"]) == ("list", "toy")
    assert [row["index"] for row in body["data"]] == list(range(len(body["data"])))
    return np.array([row["embedding"] for row in body["data"]])


def test_texts_in_both_encodings(client):
    texts = ["red", "green", "red"]
    expected = ToyEncoder().encode_texts(texts)
    plain = embeddings(client.post("/v1/embed", json={"input": texts}))
    np.testing.assert_allclose(plain, expected, rtol=1e-6)
    answer = client.post("/v1/embed", json={"input": texts, "encoding_format": "base64", "model": "toy"}).json()
    rows = [np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in answer["data"]]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(embeddings(client.post("/v1/embed", json={"input": "red"})), plain[:1])


def test_an_image_is_its_first_view_and_order_is_kept(client, red):
    plain = picture("blue", size=30)
    view = make_views(plain, ViewSpec(n=1), ToyEncoder.preprocess).pixels
    asked = [{"image": text64(png(plain))}, "green", {"image": text64(red)}]
    rows = embeddings(client.post("/v1/embed", json={"input": asked}))
    np.testing.assert_allclose(rows[0], ToyEncoder().encode_images(view)[0], rtol=1e-6)
    np.testing.assert_allclose(rows[1], ToyEncoder().encode_texts(["green"])[0], rtol=1e-6)
    assert rows[2].argmax() == 0


def test_a_crop_of_the_encoders_size_is_not_touched(serve):
    """The embedded encoder resizes to 256 and cuts out 224; a client that has cropped must not see that twice."""

    class Margins(ToyEncoder):
        preprocess = mt.preprocess.Preprocess(size=16, resize=20)

        def encode_images(self, pixels):
            return pixels[:, 3, 5].astype(np.float32)

    crop = picture("green", size=16)
    client = serve(Margins())
    rows = embeddings(client.post("/v1/embed", json={"input": [{"image": text64(png(crop))}]}))
    np.testing.assert_array_equal(rows[0], load_image(png(crop))[3, 5])
    larger = embeddings(client.post("/v1/embed", json={"input": [{"image": text64(png(picture("green", size=17)))}]}))
    assert not np.array_equal(larger, rows)


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_a_common_client_finds_what_it_looks_for(client, encoding):
    """It lists models, takes an id, and posts to BASE/embeddings with fields of its own."""
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    (model,) = (entry["id"] for entry in listed["data"])
    asked = {"input": ["red", "green"], "model": model, "encoding_format": encoding, "user": "someone", "dimensions": 3}
    answer = client.post("/v1/embeddings", json=asked, headers={"Authorization": "Bearer any"})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body.keys() == {"object", "data", "model", "usage"}
    rows = [row["embedding"] for row in body["data"]]
    if encoding == "base64":
        rows = [np.frombuffer(base64.b64decode(row), "<f4") for row in rows]
    np.testing.assert_allclose(rows, ToyEncoder().encode_texts(["red", "green"]), rtol=1e-6)
    assert client.post("/v1/embed", json=asked).json() == body


def test_embeddings_are_not_cut_short(client):
    answer = client.post("/v1/embeddings", json={"input": "red", "dimensions": 2})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == "dimensions is 2; embeddings of toy have 3"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"input": []}, 422),
        ({"input": None}, 422),
        ({"input": [1]}, 422),
        ({"input": [["red"]]}, 422),
        ({"input": ["x"] * 257}, 422),
        ({"input": ["x" * 4001]}, 422),
        ({"input": [{"image": "!"}]}, 422),
        ({"input": [{"url": "http://127.0.0.1/"}]}, 422),
        ({"input": "red", "model": "other"}, 404),
        ({"input": "red", "encoding_format": "hex"}, 422),
        ({"input": "red", "dimensions": "3"}, 422),
        ({"input": "red", "user": {}}, 422),
    ],
)
def test_what_cannot_be_embedded_is_told(client, asked, status):
    answer = client.post("/v1/embed", json=asked)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]

"""`/v1/classify` says what the library says, whichever way the image comes."""

import numpy as np
import pytest
from parts import png, text64
from toy import ToyEncoder, picture

import meantime as mt
from meantime.serve.texts import served_methods

NAMES = ["red", "green", "blue"]


@pytest.fixture
def asked(red):
    return {"image": text64(red), "labels": NAMES, "views": 6, "seed": 3, "top": 2}


def test_the_answer_is_that_of_the_classifier(client, asked):
    for method in served_methods():
        answer = client.post("/v1/classify", json={**asked, "method": method, "detail": True}).json()
        expected = mt.Classifier(NAMES, ToyEncoder(), method, views=6, seed=3)(picture("red"))
        assert (answer["label"], answer["plain"]["label"]) == (expected.label, expected.plain_label)
        assert answer["score"] == pytest.approx(expected.score, abs=1e-5)
        assert [s["label"] for s in answer["scores"]] == [name for name, _ in expected.top(2)]
        assert answer["plain"]["scores"][0]["score"] == pytest.approx(float(max(expected.plain)), abs=1e-5)
        np.testing.assert_allclose(answer["inlierness"], expected.inlierness, atol=1e-5)
        np.testing.assert_allclose(answer["boxes"], expected.boxes)
        assert answer["flips"] == expected.flips.tolist()
        assert (answer["size"], answer["views"], answer["seed"]) == ([40, 40], expected.n_views, 3)
        assert expected.n_views == (1 if method in ("clip", "clip+e") else 6)
        assert (answer["method"], answer["model"]) == (method, "toy")
        assert answer["milliseconds"] > 0


def test_as_many_views_as_it_needs_are_those_of_the_classifier(client, monkeypatch):
    monkeypatch.setattr("meantime.pipeline.flight.KEPT", 0)  # decoded again for each group
    counts = set()
    for noise in (10, 250):
        for seed in range(3):
            photo = picture("red", noise=noise, seed=seed) // 2 + picture("blue", noise=noise, seed=9) // 2
            expected = mt.Classifier(NAMES, ToyEncoder(), views="auto", seed=seed)(photo)
            asked = {"image": text64(png(photo)), "labels": NAMES, "views": "auto", "seed": seed, "detail": True}
            answer = client.post("/v1/classify", json=asked).json()
            assert (answer["views"], answer["label"]) == (expected.n_views, expected.label)
            assert answer["settled"] == pytest.approx(expected.settled, abs=1e-6)
            assert len(answer["inlierness"]) == len(answer["boxes"]) == len(answer["points"]) == expected.n_views
            np.testing.assert_allclose(answer["boxes"], expected.boxes)
            counts.add(expected.n_views)
    assert len(counts) > 1


def test_json_form_and_raw_body_agree(client, asked, red):
    address = {"labels": "red, green,blue", "views": 6, "seed": 3, "top": 2}
    answers = [
        client.post("/v1/classify", json=asked),
        client.post("/v1/classify", files={"image": ("x.png", red)}, data=address),
        client.post("/v1/classify", files={"image": ("x.png", red)}, data={**address, "labels": NAMES}),
        client.post(
            "/v1/classify", files={"image": ("x.png", red)}, data={**address, "labels": '["red","green","blue"]'}
        ),
        client.post("/v1/classify", content=red, params=address, headers={"content-type": "image/png"}),
        client.post("/v1/classify", json={"image": asked["image"], "labels": NAMES}, params={**address, "labels": "x"}),
        client.post("/v1/classify", json=asked | {"labels": "red,green, blue,"}),
        client.post("/v1/classify", json=asked | {"labels": ["red", "green", "red ", "blue"]}),
        client.post("/v1/classify", json=asked | {"image": "data:image/png;base64," + asked["image"]}),
    ]
    first = answers[0].json()
    for answer in answers:
        assert answer.status_code == 200, answer.text
        assert {**answer.json(), "milliseconds": 0} == {**first, "milliseconds": 0}


def test_the_path_begins_at_the_first_view_and_ends_at_the_mode(client, asked):
    answer = client.post("/v1/classify", json={**asked, "views": 12, "detail": True}).json()
    points, path = np.array(answer["points"]), np.array(answer["path"])
    assert points.shape == (12, 2)
    np.testing.assert_allclose(path[0], points[0], atol=1e-6)
    clf = mt.Classifier(NAMES, ToyEncoder(), views=12, seed=3)
    mode, encoded = clf.embed(picture("red")), mt.pipeline.encode([picture("red")], clf.encoder, clf.spec, seed=3)
    views = next(iter(encoded)).embeddings
    # Distances in the plane are those of the space, as far as the plane shows it
    assert np.linalg.norm(path[-1] - points, axis=1).max() <= np.linalg.norm(mode - views, axis=1).max() + 1e-6
    centred = views - views.mean(axis=0)
    assert (points**2).sum() == pytest.approx((np.linalg.svd(centred)[1][:2] ** 2).sum(), rel=1e-4)


def test_one_view_and_one_label_are_enough(client, red):
    answer = client.post("/v1/classify", json={"image": text64(red), "labels": ["red"], "views": 1, "detail": True})
    assert answer.json()["score"] == 1
    assert answer.json()["points"] == [[0, 0]]
    assert answer.json()["inlierness"] == [1]


def test_a_label_set_by_name_and_a_template(client, red):
    answer = client.post("/v1/classify", json={"image": text64(red), "labels": "imagenet", "views": 2}).json()
    assert answer["label"] in mt.labels.imagenet_names()
    client.post(
        "/v1/classify", json={"image": text64(red), "labels": ["dark_red"], "views": 1, "template": "my {} thing"}
    )
    assert client.service.encoder.texts[-1] == "my dark red thing"


def test_labels_seen_before_are_not_encoded_again(client, asked):
    client.post("/v1/classify", json=asked)
    before = list(client.service.encoder.texts)
    client.post("/v1/classify", json=asked)
    client.post("/v1/classify", json=asked | {"labels": ["green", "blue"]})
    client.post("/v1/classify", json=asked | {"labels": ["green", "grey"]})
    assert client.service.encoder.texts == [*before, "a photo of a grey."]


def test_texts_of_strangers_are_forgotten_and_never_reach_the_disk(serve, monkeypatch, tmp_path, red):
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path))
    monkeypatch.setattr("meantime.serve.texts.TEXTS", 8)
    monkeypatch.setattr("meantime.serve.texts.HEADS", 4)
    client = serve()
    for i in range(20):
        names = [f"name {i}", f"other {i}"]
        assert client.post("/v1/classify", json={"image": text64(red), "labels": names, "views": 1}).status_code == 200
    assert len(client.service.texts._texts) == 8
    assert len(client.service.texts._heads) == 4
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"labels": None}, 422, "labels"),
        ({"labels": []}, 422, "label"),
        ({"labels": [" "]}, 422, "empty"),
        ({"labels": ["x"] * 1001}, 422, "at most 1000"),
        ({"labels": ["x" * 201]}, 422, "at most 200"),
        ({"labels": " , ,"}, 422, "empty"),
        ({"labels": "," * 300_000}, 422, "at most 204000"),
        ({"labels": [1]}, 422, "string"),
        ({"labels": [f"{i}" for i in range(51)], "method": "mta+e"}, 422, "4080 texts"),
        ({"views": 0}, 422, "views"),
        ({"views": 257}, 422, "1 to 256"),
        ({"views": "6"}, 422, "views: Input should be a valid integer"),
        ({"views": 6.5}, 422, "views"),
        ({"seed": -1}, 422, "seed"),
        ({"seed": 2**63}, 422, "seed"),
        ({"top": 0}, 422, "top"),
        ({"method": "magic"}, 422, "mta"),
        ({"method": "coop"}, 422, "no method"),
        ({"template": "no place"}, 422, "place for the name"),
        ({"template": "{}" * 200}, 422, "at most 200"),
        ({"template": "{}" * 90, "labels": ["x" * 90]}, 422, "a prompt has 8100"),
        ({"image": "%%%"}, 422, "not base64"),
        ({"image": ""}, 422, "empty"),
        ({"image": text64(b"hello")}, 422, "convert"),
        ({"veiws": 6}, 422, "veiws"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_sentence(client, asked, change, status, words):
    answer = client.post("/v1/classify", json=asked | change)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert words in error["message"]
    assert "\n" not in error["message"]
    assert error["type"] == "invalid_request"


def test_a_label_that_looks_like_a_file_is_a_name(client, asked):
    answer = client.post("/v1/classify", json=asked | {"labels": "/etc/hostname.txt"})
    assert answer.json()["label"] == "/etc/hostname.txt"
    assert client.service.encoder.texts[-1] == "a photo of a /etc/hostname.txt."


def test_media_types_and_malformed_bodies(client, red):
    post = client.post
    assert post("/v1/classify", content=b"x", headers={"content-type": "text/plain"}).status_code == 415
    assert post("/v1/classify", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert post("/v1/classify", content=b"x", headers={"content-type": "multipart/form-data"}).status_code == 400
    broken = {"content-type": "multipart/form-data; boundary=b"}
    assert post("/v1/classify", content=b"--b\r\nnonsense", headers=broken).status_code == 422
    assert post("/v1/classify", files={"photo": red}, data={"labels": "a"}).status_code == 422
    assert post("/v1/classify", data={"labels": "a"}, files={}).status_code == 415
    assert post("/v1/classify", files={"image": ("a.png", png(picture("red")))}).status_code == 422

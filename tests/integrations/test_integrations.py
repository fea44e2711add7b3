"""Meantime in the place of what people have: the same call, and with one view the same numbers."""

import http.server
import shutil
import threading

import numpy as np
import pytest
import transformers
from tiny_models import build, photo, save
from toy import ToyEncoder, picture

import meantime as mt
from meantime.encoders import EMBEDDED
from meantime.errors import ImageError, MeantimeError
from meantime.integrations import EmbeddingClassifier, mta_classifier, pipeline

LABELS = ["cat", "small dog", "red 7"]


@pytest.fixture(scope="module", params=["clip", "siglip"])
def directory(request, tmp_path_factory):
    return str(save(request.param, tmp_path_factory.mktemp(request.param)))


def test_one_view_gives_what_transformers_gives(directory):
    theirs = transformers.pipeline("zero-shot-image-classification", model=directory)
    ours = pipeline("zero-shot-image-classification", directory, method="clip", views=1)
    images = [photo(seed=0), photo(seed=1)]
    for expected, found in zip(
        theirs(images, candidate_labels=LABELS), ours(images, candidate_labels=LABELS), strict=True
    ):
        assert [set(row) for row in found] == [{"score", "label"}] * 3
        assert [row["label"] for row in found] == [row["label"] for row in expected]
        np.testing.assert_allclose([r["score"] for r in found], [r["score"] for r in expected], atol=1e-4)
    one = ours(images[0], candidate_labels=LABELS, hypothesis_template="{}")
    expected = theirs(images[0], candidate_labels=LABELS, hypothesis_template="{}")
    np.testing.assert_allclose([r["score"] for r in one], [r["score"] for r in expected], atol=1e-4)


def test_mta_by_the_same_call(directory, tmp_path):
    photo().save(tmp_path / "x.png")
    scores = pipeline(model=directory, views=6)(str(tmp_path / "x.png"), candidate_labels=LABELS)
    assert sorted(row["label"] for row in scores) == sorted(LABELS)
    assert [row["score"] for row in scores] == sorted((row["score"] for row in scores), reverse=True)


def test_images_from_an_address(tmp_path):
    photo().save(tmp_path / "x.png")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path))

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    classify = pipeline(model=ToyEncoder(), views=4)
    assert classify(f"{address}/x.png", ["red", "blue"]) == classify(str(tmp_path / "x.png"), ["red", "blue"])
    with pytest.raises(ImageError, match="cannot be fetched"):
        classify(f"{address}/nothing.png", ["red", "blue"], timeout=5)
    server.shutdown()


def test_mistakes_of_the_call(tmp_path):
    classify = pipeline(model=ToyEncoder(), views=4)
    with pytest.raises(MeantimeError, match="no image was given"):
        classify(candidate_labels=LABELS)
    with pytest.raises(MeantimeError, match="no labels were given"):
        classify(photo())
    with pytest.raises(MeantimeError, match="only 'zero-shot-image-classification'"):
        pipeline("text-generation")
    (tmp_path / "x.png").write_bytes(b"nothing")
    with pytest.raises(ImageError):
        classify(str(tmp_path / "x.png"), LABELS)


def test_a_loaded_model_is_a_classifier_in_one_call():
    clf = mta_classifier(*build("clip"), LABELS, views=6, seed=3)
    assert isinstance(clf, mt.Classifier)
    assert clf(photo()).label in LABELS


@pytest.fixture(scope="module")
def data():
    """Views of three colours, as the toy sees them."""
    encoder, names = ToyEncoder(), ["red", "green", "blue"]
    y = np.array(names * 4)
    views = [
        encoder.encode_images(np.stack([picture(c, 16, seed=10 * i + j) for j in range(5)])) for i, c in enumerate(y)
    ]
    return np.stack(views), y, encoder.encode_texts(names), names


def test_sklearn_style(data):
    X, y, classes, names = data
    clf = EmbeddingClassifier(classes, names, logit_scale=20.0).fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), y)
    assert clf.score(X, y) == 1
    p = clf.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)
    expected = mt.mta(X / np.linalg.norm(X, axis=-1, keepdims=True), classes, logit_scale=20.0)
    np.testing.assert_allclose(p, expected.probabilities, atol=1e-6)
    np.testing.assert_array_equal(clf.classes_, names)
    one = EmbeddingClassifier(classes, names, method="clip")
    np.testing.assert_array_equal(one.predict(X[:, 0]), one.predict(X))
    assert clf.predict(X[:0]).shape == (0,)
    assert EmbeddingClassifier(classes).predict(X).tolist() == [0, 1, 2] * 4


def test_sklearn_itself_accepts_it(data):
    from sklearn import base
    from sklearn.model_selection import GridSearchCV, cross_val_score

    X, y, classes, names = data
    clf = EmbeddingClassifier(classes, names, logit_scale=20.0)
    assert base.is_classifier(clf)
    assert base.clone(clf).get_params()["logit_scale"] == 20
    assert cross_val_score(clf, X, y, cv=2).tolist() == [1, 1]
    search = GridSearchCV(clf, {"method": ["clip", "mta", "mean"]}, cv=2).fit(X, y)
    assert search.best_score_ == 1


def test_sklearn_style_mistakes(data):
    X, _, classes, _ = data
    with pytest.raises(MeantimeError, match="2 labels given for 3"):
        EmbeddingClassifier(classes, ["a", "b"]).predict(X)
    with pytest.raises(MeantimeError, match=r"expected \(n, N, 3\) or \(n, 3\)"):
        EmbeddingClassifier(classes).predict(X[..., :2])
    with pytest.raises(MeantimeError, match="needs the head ensemble"):
        EmbeddingClassifier(classes, method="mta+e").predict(X)
    with pytest.raises(MeantimeError, match="there is no parameter 'x'"):
        EmbeddingClassifier(classes).set_params(x=1)


def test_labels_and_templates_as_transformers_takes_them():
    classify = pipeline(model=ToyEncoder(), views=4)
    assert classify(photo(), "red, blue") == classify(photo(), ["red", "blue"])
    assert classify(photo(), ["red", "blue"], hypothesis_template="a {c}") == classify(
        photo(), ["red", "blue"], hypothesis_template="a {}"
    )
    with pytest.raises(MeantimeError, match="has no place for the name"):
        classify(photo(), ["red", "blue"], hypothesis_template="a photo")
    for address in ("http://localhost:1/a b.png", "http://[bad/x.png"):
        with pytest.raises(ImageError, match="cannot be fetched"):
            classify(address, ["red", "blue"], timeout=1)


def test_an_exported_directory_is_a_model_too(tmp_path):
    shutil.copytree(EMBEDDED, tmp_path / "clip")
    assert pipeline(model=str(tmp_path / "clip")).encoder.dim == 384


def test_a_method_with_a_head_of_its_own_says_which():
    for method, head in (("coop", "coop"), ("mta+e", "ensemble")):
        with pytest.raises(MeantimeError, match=f"needs the head {head} beside the class embeddings"):
            EmbeddingClassifier(np.eye(2), method=method).predict(np.ones((1, 3, 2)))


def test_a_sigmoid_is_of_the_head_that_reads(tmp_path, monkeypatch):
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))
    directory = str(save("siglip", tmp_path / "siglip"))
    scores = {}
    for method in ("mta", "mta+e"):
        (rows,) = pipeline(model=directory, method=method, views=4)([photo()], candidate_labels=LABELS)
        scores[method] = sorted(row["score"] for row in rows)
    assert not np.allclose(scores["mta"], scores["mta+e"], rtol=1e-4)


def test_sklearn_style_takes_halves_for_what_they_are(data):
    views, _, classes, _ = data
    clf = EmbeddingClassifier(classes, method="clip")
    logits = clf.decision_function(views.astype(np.float16))  # of pixels: their squares pass what a float16 can hold
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, clf.decision_function(views), atol=0.2)

"""One answer, whoever asks: solved together or alone, and the plain one beside it."""

import numpy as np
import pytest
from toy import ToyEncoder, picture

import meantime as mt
from meantime import pipeline
from meantime.answers import answers

NAMES = ["red", "green", "blue"]


@pytest.fixture
def views():
    images = [picture(colour, noise=90, seed=i) for i, colour in enumerate([*NAMES, "red"])]
    return np.stack([e.embeddings for e in pipeline.encode(images, ToyEncoder(), mt.ViewSpec(n=8))])


@pytest.mark.parametrize("name", ["mta", "mean", "zero", "clip"])
def test_images_solved_together_answer_as_each_alone(views, name):
    clf = mt.Classifier(NAMES, ToyEncoder(), name, views=8)
    together = answers(views, clf.method, clf.heads)
    for i, answer in enumerate(together):
        (alone,) = answers(views[i : i + 1], clf.method, clf.heads)
        np.testing.assert_allclose(answer.probabilities, alone.probabilities, rtol=1e-3)
        np.testing.assert_allclose(answer.weights, alone.weights, atol=2e-3)  # 25 steps from float32 products
        assert (answer.mode is None) == (alone.mode is None) == (name == "zero")
        assert answer.settled == pytest.approx(alone.settled, abs=1e-6)
        assert answer.plain.argmax() == clf.heads["text"](views[i, 0]).argmax()


def test_an_answer_is_enough_where_it_is_settled():
    head = mt.TextHead(np.eye(3), 20.0)
    rng = np.random.default_rng(0)
    agreed = np.array([1.0, 0, 0]) + 0.1 * rng.standard_normal((8, 3))  # every view says the first
    split = np.eye(3)[[0, 1] * 4] + 0.1 * rng.standard_normal((8, 3))  # half of them another
    views = np.stack([agreed, split])
    views /= np.linalg.norm(views, axis=-1, keepdims=True)
    found = answers(views, mt.methods()["mta"], {"text": head})
    assert [answer.enough for answer in found] == [True, False]

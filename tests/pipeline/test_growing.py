"""Views that grow until an answer is decided: the same views, in order, within bounds, whatever the batches."""

import threading

import numpy as np
import pytest
from toy import ToyEncoder, picture

import meantime as mt
from meantime import pipeline
from meantime.anytime import LEVEL

NAMES = ["red", "green", "blue"]
GROUPS = (2, 4, 8)
SPEC = mt.ViewSpec(n=8)


def wanted(views):
    """How many views an image of these tests wants: told by the level of its first pixel, which all views share."""
    return GROUPS[int(np.argmax(views[0]))]


def decide(views, last):
    return [n if (n := wanted(v)) <= v.shape[0] else None for v in views]


@pytest.fixture
def images():
    colours = np.random.default_rng(0).choice(NAMES, 25)
    return [picture(c, seed=i) for i, c in enumerate(colours)], [GROUPS[NAMES.index(c)] for c in colours]


@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (7, 2), (64, 3)])
def test_each_image_gets_the_views_it_wants_and_they_are_those_of_a_plain_run(images, batch, threads):
    sources, counts = images
    encoder = ToyEncoder()
    plain = list(pipeline.encode(sources, ToyEncoder(), SPEC, seed=3))
    grown = list(pipeline.encode_until(sources, encoder, SPEC, GROUPS, decide, seed=3, batch=batch, threads=threads))
    assert [answer for _, answer in grown] == counts
    assert sum(encoder.batches) == sum(counts)
    for (encoded, n), whole in zip(grown, plain, strict=True):
        np.testing.assert_allclose(encoded.embeddings, whole.embeddings[:n], rtol=1e-5)
        np.testing.assert_allclose(encoded.norms, whole.norms[:n], rtol=1e-5)
        np.testing.assert_array_equal(encoded.places.boxes, whole.places.boxes[:n])
        np.testing.assert_array_equal(encoded.places.flips, whole.places.flips[:n])
        assert encoded.places.digest == whole.places.digest


def test_large_images_are_decoded_again_and_not_kept(images, monkeypatch):
    sources, _ = images
    expected = [e.embeddings for e, _ in pipeline.encode_until(sources, ToyEncoder(), SPEC, GROUPS, decide)]
    monkeypatch.setattr(pipeline.flight, "KEPT", 0)
    loads = []
    flight = pipeline.Flight(sources[0], ToyEncoder(), SPEC, load=lambda source: loads.append(1) or source)
    for stop in GROUPS:
        views = flight.crop(stop)
        flight.add(ToyEncoder().encode_images(views.pixels), views.places)
    assert len(loads) == len(GROUPS)
    got = [e.embeddings for e, _ in pipeline.encode_until(sources, ToyEncoder(), SPEC, GROUPS, decide)]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_batches_stay_full_although_images_leave(images):
    sources, _ = images
    encoder = ToyEncoder()
    list(pipeline.encode_until(sources * 8, encoder, SPEC, GROUPS, decide, batch=16))
    assert np.mean(encoder.batches[:-3]) >= 16


def test_batches_stay_full_behind_an_image_that_takes_long():
    encoder = ToyEncoder()
    sources = [picture("blue"), *[picture("red", seed=i) for i in range(63)]]  # 8 views, then 2 each
    list(pipeline.encode_until(sources, encoder, SPEC, GROUPS, decide, batch=8, threads=1))
    assert sum(encoder.batches) == 8 + 63 * 2
    assert min(encoder.batches[:-2]) >= 8


def test_an_unreadable_image_has_its_error_in_its_place(images):
    sources, counts = images
    mixed = [*sources[:3], b"no image", *sources[3:]]
    grown = list(pipeline.encode_until(mixed, ToyEncoder(), SPEC, GROUPS, decide, batch=4))
    assert [answer for _, answer in grown] == [*counts[:3], None, *counts[3:]]
    assert isinstance(grown[3][0].error, mt.ImageError)


def test_few_images_are_in_flight_and_stopping_leaves_no_thread():
    before, taken = threading.active_count(), []

    def sources():
        for i in range(1000):
            taken.append(i)
            yield picture("red", seed=i)

    stream = pipeline.encode_until(sources(), ToyEncoder(), SPEC, GROUPS, decide, batch=8, threads=2)
    next(stream)
    assert len(taken) < 30
    stream.close()
    assert threading.active_count() == before


def test_an_error_of_the_encoder_or_of_the_decision_is_not_swallowed(images):
    def broken(*_):
        raise RuntimeError("out of memory")

    sources, _ = images
    with pytest.raises(RuntimeError, match="out of memory"):
        list(pipeline.encode_until(sources, ToyEncoder(), SPEC, GROUPS, broken))
    encoder = ToyEncoder()
    encoder.encode_images = broken
    with pytest.raises(RuntimeError, match="out of memory"):
        list(pipeline.encode_until(sources, encoder, SPEC, GROUPS, decide))


def test_a_classifier_with_auto_views_asks_more_of_hard_images():
    hard = np.concatenate([picture("red"), picture("blue")], axis=1)  # half and half
    clf = mt.Classifier(NAMES, ToyEncoder(), views="auto")
    easy, difficult = clf([picture("green"), hard])
    assert (easy.label, easy.n_views) == ("green", 8)
    assert easy.settled >= LEVEL
    assert difficult.n_views == 64
    for p, image in ((easy, picture("green")), (difficult, hard)):
        same = mt.Classifier(NAMES, ToyEncoder(), views=p.n_views)(image)
        np.testing.assert_allclose(p.probabilities, same.probabilities, rtol=1e-4)
        np.testing.assert_array_equal(p.boxes, same.boxes)
        assert p.settled == pytest.approx(same.settled, abs=1e-6)
    assert clf.with_labels(["red", "blue"]).auto


@pytest.mark.parametrize(
    "method", ["mta", "mean", "meanshift", "confidence", "zero", "clip", "mta+e", "mta-vision", "mta-exact"]
)
def test_every_method_can_have_auto_views(method):
    clf = mt.Classifier(NAMES, ToyEncoder(), method, views="auto")
    assert [p.label for p in clf([picture(c) for c in NAMES])] == NAMES


def test_other_words_for_views_are_refused():
    with pytest.raises(mt.MeantimeError, match="'many'"):
        mt.Classifier(NAMES, ToyEncoder(), views="many")

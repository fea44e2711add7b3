"""What goes into a store comes out of it."""

import json
import os

import numpy as np
import pytest
from toy import ToyEncoder, picture

import meantime as mt
from meantime import MeantimeError, ViewSpec, pipeline
from meantime.datasets import load_dataset
from meantime.engines import LocalEngine
from meantime.engines.images import encode_images
from meantime.labels import templates80
from meantime.registry import training_free
from meantime.store import merge_stores, open_store, verify_store
from meantime.store.encode import encode_dataset
from meantime.views import pixel_hash


def test_embeddings_boxes_labels_and_identities_come_back(encode, photos):
    store = encode()
    assert len(store) == 11
    assert store.complete
    batch = next(store.batches(100, extras=True))
    dataset = load_dataset(str(photos))
    encoded = [e for e in pipeline.encode([s.source for s in dataset.samples], ToyEncoder(), ViewSpec(n=5)) if e.places]
    np.testing.assert_allclose(batch.views, [e.embeddings for e in encoded], atol=5e-4)
    np.testing.assert_allclose(np.linalg.norm(batch.views, axis=-1), 1, atol=1e-3)
    np.testing.assert_array_equal(batch.boxes, [e.places.boxes for e in encoded])
    np.testing.assert_array_equal(batch.flips, [e.places.flips for e in encoded])
    np.testing.assert_allclose(batch.norms, [e.norms for e in encoded])
    assert batch.norms.min() > 10  # the toy encoder's own lengths, not 1
    assert batch.labels.tolist() == store.labels.tolist() == [0] * 4 + [1] * 3 + [2] * 4
    assert batch.keys[0] == "blue/0.png"
    assert int(batch.pixels[0], 16) == pixel_hash(picture("blue", seed=0))
    assert store.class_names == ("blue", "green", "red")


def test_an_unreadable_image_is_listed_and_the_others_keep_their_numbers(encode):
    store = encode()
    (error,) = store.errors
    assert (error["index"], error["key"]) == (6, "green/2.png")
    assert "not an image" in error["error"]
    index = np.concatenate([batch.index for batch in store.batches(2)])
    assert index.tolist() == [i for i in range(12) if i != 6]


def test_file_names_that_are_no_utf8_are_stored(encode, photos, tmp_path):
    odd = photos / "red" / os.fsdecode(b"caf\xe9.png")
    (photos / "red" / "0.png").rename(odd)
    (photos / "green" / "2.png").rename(photos / "green" / os.fsdecode(b"caf\xe9.png"))
    store = encode()
    assert r"red/caf\xe9.png" in next(store.batches(20)).keys
    assert store.errors[0]["key"] == r"green/caf\xe9.png"
    classifier = mt.Classifier(["red", "blue"], ToyEncoder(), views=2)
    (image,) = encode_images([odd], tmp_path / "images", classifier, LocalEngine())
    assert image.error is None
    assert next(open_store(tmp_path / "images" / "part-00001").batches(1)).keys[0].endswith(r"caf\xe9.png")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 50])
def test_batches_of_any_size_are_the_same_rows(encode, size):
    store = encode()
    batches = list(store.batches(size))
    assert [len(b) for b in batches[:-1]] == [size] * (len(batches) - 1)
    whole = next(store.batches(100))
    np.testing.assert_array_equal(np.concatenate([b.views for b in batches]), whole.views)
    assert sum((b.keys for b in batches), ()) == whole.keys


def test_fewer_views_are_those_of_a_smaller_run(encode):
    (few,) = encode().batches(100, views=2, extras=True)
    (small,) = encode("small", spec=ViewSpec(n=2)).batches(100, extras=True)
    for name in ("views", "boxes", "flips", "norms"):
        np.testing.assert_allclose(getattr(few, name), getattr(small, name), rtol=1e-3)
    with pytest.raises(MeantimeError, match="6 views were asked for"):
        next(encode("other").batches(1, views=6))
    with pytest.raises(MeantimeError, match="at least 1"):
        next(encode("again").batches(0))


def test_heads_of_every_method_come_from_the_store_alone(encode):
    store = encode(ensemble=True)
    heads = {
        "text": mt.TextHead(store.texts.single, store.logit_scale),
        "ensemble": mt.TextHead(store.texts.ensemble, store.logit_scale),
    }
    for batch in store.batches(4):
        for method in training_free().values():
            assert (method(batch.views, heads).logits.argmax(axis=-1) == batch.labels).all()
    grid = store.templates()
    assert grid.shape == (len(templates80()), 3, 3)
    mean = grid.astype(np.float32).mean(axis=0)
    np.testing.assert_allclose(store.texts.ensemble, mean / np.linalg.norm(mean, axis=1, keepdims=True), atol=1e-3)


def test_the_ensemble_can_be_added_later_and_encodes_no_image_again(encode):
    assert encode().texts.ensemble is None
    with pytest.raises(MeantimeError, match=r"templates.*--ensemble"):
        encode("bare").templates()
    encoder = ToyEncoder()
    store = encode(encoder=encoder, ensemble=True, resume=True)
    assert encoder.batches == []
    assert store.texts.ensemble.shape == (3, 3)


def test_the_manifest_says_how_the_store_was_made(encode, tmp_path):
    store = encode(seed=4)
    value = json.loads((tmp_path / "store" / "manifest.json").read_text())
    assert value["plan"]["encoder"] == "toy-1"
    assert value["plan"]["views"] == ViewSpec().identity
    assert (value["plan"]["seed"], value["plan"]["n_views"], value["plan"]["logit_scale"]) == (4, 5, 20.0)
    assert {"meantime", "numpy", "pyarrow"} <= value["versions"].keys()
    assert [s["rows"] for s in value["shards"]] == [5, 4, 2]
    assert "11 images of photos x 5 views x 3" in repr(store)


def test_a_store_of_nothing_but_unreadable_images(tmp_path):
    folder = tmp_path / "bad"
    for name in ("red", "green"):
        (folder / name).mkdir(parents=True)
        (folder / name / "x.jpg").write_bytes(b"?")
    store = encode_dataset(load_dataset(str(folder)), tmp_path / "out", ToyEncoder(), ViewSpec(n=2))
    assert len(store) == 0
    assert len(store.errors) == 2
    assert list(store.batches(3)) == []
    assert store.labels.tolist() == []
    verify_store(store)
    assert len(merge_stores(tmp_path / "merged", [store.path]).errors) == 2


def test_reading_keeps_one_row_group_in_memory(encode, tmp_path, monkeypatch):
    from meantime.store import shards

    encode()
    read = []
    original = shards.pq.ParquetFile.read_row_group
    monkeypatch.setattr(shards.pq.ParquetFile, "read_row_group", lambda *a, **k: read.append(a[1]) or original(*a, **k))
    stream = open_store(tmp_path / "store").batches(2)
    next(stream)
    assert len(read) == 1

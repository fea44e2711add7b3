"""Arrays that something else made, as a store."""

import numpy as np
import pytest
from shared import COCO, needs

import meantime as mt
from meantime import MeantimeError
from meantime.store import import_arrays, verify_store


def save(tmp_path, arrays):
    np.savez(tmp_path / "x.npz", **arrays)
    return tmp_path / "x.npz"


def test_arrays_come_back_with_unit_length(arrays, tmp_path):
    boxes = np.zeros((7, 4, 5), np.float32)
    boxes[:, 1, 4] = 1
    arrays |= {"boxes": boxes, "text_ensemble": arrays["text_single"] * 2, "keys": np.array(list("tuvwxyz"))}
    store = import_arrays(save(tmp_path, arrays), tmp_path / "s", logit_scale=50, shard_size=3, name="mine")
    (batch,) = store.batches(10, extras=True)
    expected = arrays["views"] / np.linalg.norm(arrays["views"], axis=-1, keepdims=True)
    np.testing.assert_allclose(batch.views, expected, atol=5e-4)
    np.testing.assert_allclose(batch.norms, np.linalg.norm(arrays["views"], axis=-1), rtol=1e-5)
    assert batch.flips[:, 1].all()
    assert batch.flips.sum() == 7
    assert batch.keys == tuple("tuvwxyz")
    assert (store.name, store.logit_scale, store.class_names) == ("mine", 50, ("a", "b", "c"))
    np.testing.assert_allclose(store.texts.single, store.texts.ensemble, atol=1e-6)
    verify_store(store)


def test_templates_give_the_ensemble_too(arrays, tmp_path):
    arrays["text_templates"] = np.random.default_rng(1).normal(size=(4, 3, 6))
    store = import_arrays(save(tmp_path, arrays), tmp_path / "s")
    assert store.templates().shape == (4, 3, 6)
    assert store.texts.ensemble.shape == (3, 6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.array([0, 1, 2, 3, 0, 1, 2])}, "image 3 has the label 3, but there are 3 names"),
        ({"labels": np.zeros(6, int)}, r"'labels' has the shape \(6,\); expected \(7,\)"),
        ({"labels": np.zeros(7)}, "expected integers"),
        ({"views": np.zeros((7, 6), np.float32)}, r"expected \(M, N, d\)"),
        ({"views": np.zeros((7, 4, 6), np.float32)}, r"view 0 of image 0 \('000000'\) is zero or not finite"),
        ({"views": np.full((7, 4, 6), np.nan, np.float32)}, "zero or not finite"),
        ({"text_single": np.ones((2, 6))}, r"'text_single' has the shape \(2, 6\); expected \(3, 6\)"),
        ({"text_ensemble": np.ones((3, 5))}, "'text_ensemble' has the shape"),
        ({"boxes": np.ones((7, 3, 4))}, "'boxes' has the shape"),
        ({"names": np.array(["a", None], object)}, r"'names' in .* is an array of Python objects"),
        ({"views": np.ones((7, 4, 6), np.int8)}, "'views' in .* holds int8; expected floating-point numbers"),
        ({"text_single": np.diag([1.0, 1, 0])[:, [0, 1, 2, 0, 1, 2]]}, "row 2 of 'text_single' in .* is zero"),
        ({"text_templates": np.full((2, 3, 6), np.nan)}, "row 0, 0 of 'text_templates' in"),
        ({"logit_scale": np.array(-3.0)}, "the logit scale is -3.0; expected a positive number"),
        ({"logit_scale": np.array([1.0, 2.0])}, "'logit_scale' in .* expected one number"),
    ],
)
def test_arrays_that_do_not_fit_together(arrays, tmp_path, change, message):
    with pytest.raises(MeantimeError, match=message):
        import_arrays(save(tmp_path, arrays | change), tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("scale", [-3, 0, float("nan"), float("inf")])
def test_a_logit_scale_is_positive(arrays, tmp_path, scale):
    with pytest.raises(MeantimeError, match="expected a positive number"):
        import_arrays(save(tmp_path, arrays), tmp_path / "s", logit_scale=scale)
    assert not (tmp_path / "s").exists()


def test_the_logit_scale_of_the_file_counts_unless_another_is_given(arrays, tmp_path):
    assert import_arrays(save(tmp_path, arrays), tmp_path / "a").logit_scale == 100
    file = save(tmp_path, arrays | {"logit_scale": np.float32(50)})
    assert import_arrays(file, tmp_path / "b").logit_scale == 50
    assert import_arrays(file, tmp_path / "c", logit_scale=20).logit_scale == 20


def test_images_without_labels_make_a_store_that_says_so(arrays, tmp_path):
    del arrays["labels"]
    store = import_arrays(save(tmp_path, arrays), tmp_path / "s", shard_size=3)
    verify_store(store)
    assert not store.plan.labelled
    assert (next(store.batches(10)).labels == -1).all()
    with pytest.raises(MeantimeError, match=r"has no labels, so nothing can be measured.*meantime predict"):
        _ = store.labels


def test_a_place_that_is_taken_is_not_gone_on_with(arrays, tmp_path):
    file = save(tmp_path, arrays)
    import_arrays(file, tmp_path / "s")
    with pytest.raises(MeantimeError, match=r"not empty; choose another place, or delete it first$"):
        import_arrays(file, tmp_path / "s")


def test_a_view_without_direction_is_named_and_nothing_is_left_behind(arrays, tmp_path):
    arrays["views"][5, 2] = np.nan
    with pytest.raises(MeantimeError, match=r"view 2 of image 5 \('000005'\)"):
        import_arrays(save(tmp_path, arrays), tmp_path / "s", shard_size=2)
    assert not (tmp_path / "s").exists()


def test_files_that_are_no_arrays(arrays, tmp_path):
    del arrays["names"]
    with pytest.raises(MeantimeError, match="has no array names; it has views"):
        import_arrays(save(tmp_path, arrays), tmp_path / "s")
    np.save(tmp_path / "x.npy", arrays["views"])
    with pytest.raises(MeantimeError, match=r"is a single array; expected an \.npz.*meantime predict"):
        import_arrays(tmp_path / "x.npy", tmp_path / "s")
    (tmp_path / "y.npz").write_bytes(b"PK\x03\x04")
    for name in ("y.npz", "none.npz"):
        with pytest.raises(MeantimeError, match="cannot be read"):
            import_arrays(tmp_path / name, tmp_path / "s")


@needs(COCO)
def test_real_clip_embeddings_give_the_published_answers(tmp_path):
    store = import_arrays(COCO, tmp_path / "coco", encoder="CLIP ViT-B/16")
    heads = {"text": mt.TextHead(store.texts.single, 100.0), "ensemble": mt.TextHead(store.texts.ensemble, 100.0)}
    correct = dict.fromkeys(("clip", "clip+e", "mta", "zero"), 0)
    for batch in store.batches(32):
        for name in correct:
            correct[name] += (mt.methods()[name](batch.views, heads).logits.argmax(axis=-1) == batch.labels).sum()
    assert correct == {"clip": 87, "clip+e": 88, "mta": 90, "zero": 88}
    np.testing.assert_array_equal(next(store.batches(5)).views, np.load(COCO)["views"][:5])

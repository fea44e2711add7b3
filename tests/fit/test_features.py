import numpy as np
import pytest
from toy import ToyEncoder

from meantime import MeantimeError, ViewSpec
from meantime.datasets import load_dataset
from meantime.fit import FreshViews, training_views
from meantime.pipeline import encode

SPEC = ViewSpec(n=6, resample="bicubic")


@pytest.fixture
def photos(make_photos):
    return load_dataset(str(make_photos()), split="train")


def test_features_are_crops_of_their_photos(photos, encoder, tmp_path):
    views = training_views(photos, [3, 0, 3], encoder, SPEC, tmp_path / "views")
    (expected,) = encode([photos.samples.sources[3]], encoder, SPEC)
    crops = expected.embeddings[1:]
    seen = set()
    for epoch in range(12):
        first, _, third = views(epoch, 0)
        for x in (first, third):
            distance = np.abs(crops - x).max(axis=1)
            assert distance.min() < 2e-3  # float16
            seen.add(int(distance.argmin()))
    assert len(seen) == 5
    np.testing.assert_allclose(views.originals[0], expected.embeddings[0], atol=2e-3)
    np.testing.assert_array_equal(views(1, 7), views(1, 7))


def test_crops_in_turn(photos, encoder, tmp_path):
    views = training_views(photos, [0, 1], encoder, SPEC, tmp_path / "views")
    features = views.in_turn(3)
    np.testing.assert_allclose(features(1, 0), views.views[:, 4], atol=1e-3)
    np.testing.assert_allclose(features(3, 0), views.views[:, 3], atol=1e-3)


def test_keys_are_the_mean_of_features_as_the_encoder_gave_them(photos, encoder, tmp_path):
    views = training_views(photos, [5, 9], encoder, SPEC, tmp_path / "views")
    (e,) = encode([photos.samples.sources[9]], encoder, SPEC)
    raw = (e.embeddings * e.norms[:, None])[1:4].mean(axis=0)
    np.testing.assert_allclose(views.keys(3)[1], raw / np.linalg.norm(raw), atol=1e-3)
    assert e.norms.std() > 0  # else the mean of unit vectors would do


def test_no_photo_is_encoded_twice(photos, tmp_path):
    def run(numbers, spec=SPEC):
        encoder = ToyEncoder()
        views = training_views(photos, numbers, encoder, spec, tmp_path / "views")
        return sum(encoder.batches), views

    assert run([0, 1, 1, 7])[0] == 3 * 6
    cost, views = run([7, 2, 0])
    assert cost == 6
    assert run([0, 1, 2, 7], ViewSpec(n=3, resample="bicubic"))[0] == 0
    again = run([7, 2, 0])[1]
    np.testing.assert_array_equal(again.views, views.views)
    assert run([0], ViewSpec(n=6, resample="bicubic", scale=(0.5, 1)))[0] == 6  # other crops


def test_a_folder_of_the_same_name_with_other_photos_is_found_out(make_photos, tmp_path):
    def run(noise):
        encoder = ToyEncoder()
        data = load_dataset(str(make_photos(noise=noise)), split="train")
        training_views(data, [0, 1], encoder, SPEC, tmp_path / "views")
        return sum(encoder.batches)

    assert run(60) == 12
    assert run(60) == 0
    with pytest.raises(MeantimeError, match="other pixels"):
        run(20)


def test_fresh_crops_differ_in_every_epoch_and_for_photos_drawn_twice(photos, encoder):
    features = FreshViews(photos, [4, 4, 8], encoder, ViewSpec(n=64, resample="bicubic"), seed=1)
    epochs = np.stack([features(epoch, 0) for epoch in range(20)])
    assert epochs.shape == (20, 3, 3)
    assert len(np.unique(epochs[:, 0].round(6), axis=0)) == 20
    assert (epochs[:, 0] != epochs[:, 1]).any(axis=1).all()
    np.testing.assert_allclose(np.linalg.norm(epochs, axis=-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(FreshViews(photos, [4, 4, 8], encoder, SPEC, seed=1)(3, 0), epochs[3])


def test_an_unreadable_photo_is_named(make_photos, encoder, tmp_path):
    folder = make_photos()
    (folder / "red/2.png").write_bytes(b"no image")
    data = load_dataset(str(folder), split="train")
    number = data.samples.keys.index("red/2.png")
    with pytest.raises(MeantimeError, match=r"drawn cannot be read.*2\.png"):
        training_views(data, [0, number], encoder, SPEC, tmp_path / "views")

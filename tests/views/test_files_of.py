"""Crops and made pictures together: the protocol of 1 + 64 crops + 63 diffusion views, and its edges."""

import numpy as np
import pytest
from PIL import Image
from toy import ToyEncoder, picture

from meantime import mta, pipeline
from meantime.bench import TABLES, Bench, Shelf
from meantime.datasets import load_dataset
from meantime.errors import MeantimeError
from meantime.images import load_image
from meantime.meanshift.head import TextHead
from meantime.preprocess import Preprocess
from meantime.store.encode import encode_dataset
from meantime.views import Places, ViewSpec, file_views, make_views, views_of

SMALL = Preprocess(size=16, resize=16)


@pytest.fixture
def photos(tmp_path):
    """Two images of one name in two classes, and 63 pictures made of each: the level tells which."""
    for colour, base in (("red", 0), ("blue", 100)):
        image = tmp_path / "data" / colour / "1.png"
        image.parent.mkdir(parents=True)
        Image.fromarray(picture(colour)).save(image)
        made = tmp_path / "made" / colour / "1"
        made.mkdir(parents=True)
        for i in range(63):
            Image.new("L", (20, 20), base + i).save(made / f"{i:03}.png")
    return tmp_path


def spec_of(root, n=65, n_files=63):
    return ViewSpec(n=n, files=str(root / "made"), n_files=n_files)


def test_the_protocol_of_128_views(photos):
    path = photos / "data" / "blue" / "1.png"
    views = views_of(path, spec_of(photos), SMALL, seed=3)
    assert len(views) == spec_of(photos).total == 128
    crops = make_views(picture("blue"), ViewSpec(n=65), SMALL, seed=3)
    np.testing.assert_array_equal(views.pixels[:65], crops.pixels)
    assert views.pixels[65:, 0, 0, 0].tolist() == [100 + i for i in range(63)]
    assert views.places.digest == crops.places.digest
    assert views.places.boxes[65:].tolist() == [[0, 0, 1, 1]] * 63


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 65), (60, 70), (65, 128), (100, 101), (128, 128)])
def test_any_part_is_that_part_of_the_whole(photos, start, stop):
    path = photos / "data" / "red" / "1.png"
    whole = views_of(path, spec_of(photos), SMALL)
    part = views_of(path, spec_of(photos), SMALL, 0, start, stop)
    np.testing.assert_array_equal(part.pixels, whole.pixels[start:stop])
    np.testing.assert_array_equal(part.places.boxes, whole.places.boxes[start:stop])
    np.testing.assert_array_equal(part.places.flips, whole.places.flips[start:stop])


def test_an_absolute_path_finds_its_own_pictures_among_equal_names(photos):
    first = {c: file_views(photos / "made", photos / "data" / c / "1.png", SMALL, n=1) for c in ("red", "blue")}
    assert [v.pixels[0, 0, 0, 0] for v in first.values()] == [0, 100]


def test_without_files_it_is_the_crops(photos):
    path = photos / "data" / "red" / "1.png"
    np.testing.assert_array_equal(
        views_of(path, ViewSpec(n=5), SMALL).pixels, make_views(picture("red"), ViewSpec(n=5), SMALL).pixels
    )


def test_an_image_without_a_path_can_only_be_cropped(photos):
    assert len(views_of(picture("red"), spec_of(photos), SMALL, 0, 0, 65)) == 65
    with pytest.raises(MeantimeError, match="found by the path of their image, and this one came as ndarray"):
        views_of(picture("red"), spec_of(photos), SMALL)


def test_a_missing_picture_stops_the_run_and_an_unreadable_image_does_not(photos):
    broken = photos / "data" / "red" / "1.png"
    broken.write_bytes(b"no image")
    good = photos / "data" / "blue" / "1.png"
    found = list(pipeline.encode([broken, good], ToyEncoder(), spec_of(photos, n=2, n_files=1)))
    assert [e.error is None for e in found] == [False, True]
    (photos / "made" / "blue" / "1" / "062.png").unlink()
    with pytest.raises(MeantimeError, match=r"holds 62 pictures of '.*' and 63 are needed"):
        list(pipeline.encode([good], ToyEncoder(), spec_of(photos)))


def test_a_range_that_is_not_there(photos):
    with pytest.raises(MeantimeError, match=r"views 3\.\.130 of 128"):
        views_of(photos / "data" / "red" / "1.png", spec_of(photos), SMALL, 0, 3, 130)


@pytest.mark.parametrize("arguments", [{"n_files": -1}, {"n_files": 2.0}, {"n_files": True}, {"n_files": 3}])
def test_impossible_counts(arguments):
    with pytest.raises(MeantimeError, match=r"n_files is|which folder"):
        ViewSpec(**arguments)


def test_identity_names_the_pictures_only_where_they_are_used(tmp_path):
    plain = ViewSpec(n=65).identity
    assert ViewSpec(n=65, files="made").identity == plain
    mixed = ViewSpec(n=65, files="made", n_files=63).identity
    assert mixed == plain + "-65+made"
    assert mixed == ViewSpec(n=65, files=str(tmp_path / "made"), n_files=10).identity  # a prefix, on another disk
    assert mixed != ViewSpec(n=64, files="made", n_files=63).identity  # view 64 is another picture


def test_a_store_holds_all_views(photos):
    data = load_dataset(str(photos / "data"))
    store = encode_dataset(data, photos / "store", ToyEncoder(), spec_of(photos))
    assert store.n_views == 128
    views = next(store.batches()).views
    assert views.shape == (2, 128, 3)
    grey = np.full(3, 1 / np.sqrt(3))
    np.testing.assert_allclose(views[:, 65:], np.broadcast_to(grey, (2, 63, 3)), atol=1e-3)
    assert not np.allclose(views[:, :65], grey, atol=1e-2)


def test_table3_reads_crops_from_one_store_and_diffusion_from_the_other(photos):
    """All answers are right here, so the calibration error is what is missing in confidence: it tells rows apart."""
    for colour, other in (("red", "blue"), ("blue", "red")):  # crops differ in their share of the other colour
        image = np.concatenate([picture(colour), picture(other)[:, :15]], axis=1)
        Image.fromarray(image).save(photos / "data" / colour / "1.png")
    encoder = ToyEncoder()
    encoder.logit_scale = 3.0
    data = load_dataset(str(photos / "data"))
    crops = encode_dataset(data, photos / "stores" / "crops", encoder, ViewSpec(n=128))
    mixed = encode_dataset(data, photos / "stores" / "mixed", encoder, spec_of(photos))

    def lack(store, rho):
        head = TextHead(store.texts.single, store.logit_scale)
        answer = mta(next(store.batches()).views.astype(np.float32), head, rho=rho)
        assert (answer.labels == store.labels).all()
        return 100 * float(np.mean(1 - answer.probabilities.max(axis=-1)))

    bench = Bench(Shelf.at([photos / "stores"]), photos / "out", seeds=1, metric="ece")
    (table,) = bench.tables([TABLES["table3"].on(["data"])])
    expected = {
        "mta, crops": lack(crops, 0.3),
        "mta, crops, rho 0.5": lack(crops, 0.5),
        "mta, diffusion": lack(mixed, 0.5),
    }
    assert len({round(value, 3) for value in (*expected.values(), lack(mixed, 0.3))}) == 4
    for row, value in expected.items():
        assert table.cells[row, "data"].mean == pytest.approx(value, abs=1e-3)


def test_an_image_that_is_decoded_already_is_not_read_again(photos):
    path = photos / "data" / "blue" / "1.png"
    image, whole = load_image(path), views_of(path, spec_of(photos, 5, 2), SMALL)
    path.unlink()
    again = views_of(path, spec_of(photos, 5, 2), SMALL, image=image)
    np.testing.assert_array_equal(again.pixels, whole.pixels)
    np.testing.assert_array_equal(again.places.boxes, whole.places.boxes)
    np.testing.assert_array_equal(again.places.flips, whole.places.flips)
    parts = [views_of(path, spec_of(photos, 5, 2), SMALL, 0, *part, image=image).places for part in ((0, 3), (3, 7))]
    both = Places.join(parts)
    np.testing.assert_array_equal(both.boxes, whole.places.boxes)
    assert (len(both), both.digest) == (7, whole.places.digest)

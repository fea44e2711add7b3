"""The raw releases of the six datasets whose test images CoOp chose, or that keep their labels in MATLAB files."""

import numpy as np
import pytest
from scipy.io import savemat
from trees import class_folders, coop, image, text

from meantime import MeantimeError, extras
from meantime.datasets import check_dataset, list_datasets, load_dataset
from meantime.datasets.part import draw, subset


def structs(*rows):
    """A MATLAB vector of structures with boxes, as Stanford Cars has."""
    kinds = [(name, object) for name in ("bbox_x1", "class", "fname")]
    return np.array([(1, label, name) for label, name in rows], kinds)


@pytest.fixture
def cars(tmp_path):
    titles = np.array(["AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Acura TL Sedan 2012"], object)
    (tmp_path / "devkit").mkdir()
    savemat(tmp_path / "devkit/cars_meta.mat", {"class_names": titles})
    savemat(tmp_path / "cars_test_annos_withlabels.mat", {"annotations": structs((3, "00001.jpg"), (1, "00002.jpg"))})
    savemat(tmp_path / "devkit/cars_train_annos.mat", {"annotations": structs((2, "00001.jpg"))})
    for path in ("cars_test/00001.jpg", "cars_test/00002.jpg", "cars_train/00001.jpg"):
        image(tmp_path / path)
    return tmp_path


def test_cars_has_the_papers_test_images_in_its_release(cars):
    dataset = load_dataset("cars", cars)
    assert dataset.class_names == ("2000 AM General Hummer SUV", "2012 Acura RL Sedan", "2012 Acura TL Sedan")
    assert [(s.key, s.label) for s in dataset.samples] == [("cars_test/00001.jpg", 2), ("cars_test/00002.jpg", 0)]
    assert check_dataset("cars", cars, images=2, classes=2).ok
    assert [(s.key, s.label) for s in load_dataset("cars", cars, "trainval").samples] == [("cars_train/00001.jpg", 1)]


def test_cars_by_coop_and_by_the_release_are_the_same(cars, tmp_path):
    rows = [("cars_test/00001.jpg", 2, "2012 Acura TL Sedan"), ("cars_test/00002.jpg", 0, "2000 AM General Hummer SUV")]
    coop(
        tmp_path / "other", "split_zhou_StanfordCars.json", ".", [*rows, ("cars_test/3.jpg", 1, "2012 Acura RL Sedan")]
    )
    raw, prepared = load_dataset("cars", cars), load_dataset("cars", tmp_path / "other")
    assert raw.class_names == prepared.class_names
    assert list(raw.samples.keys) == list(prepared.samples.keys)[:2]


def test_one_car_is_a_vector_too(cars):
    savemat(cars / "cars_test_annos_withlabels.mat", {"annotations": structs((3, "00002.jpg"))})
    assert [s.key for s in load_dataset("cars", cars).samples] == ["cars_test/00002.jpg"]


@pytest.mark.parametrize("content", [b"MATLAB 5.0 MAT-file, torn", b""])
def test_a_damaged_matlab_file(cars, content):
    (cars / "cars_test_annos_withlabels.mat").write_bytes(content)
    with pytest.raises(MeantimeError, match="is damaged, or not the file of the release"):
        load_dataset("cars", cars)


def test_matlab_files_of_something_else_or_missing(cars):
    savemat(cars / "cars_test_annos_withlabels.mat", {"labels": np.arange(3)})
    with pytest.raises(MeantimeError, match="annotations"):
        load_dataset("cars", cars)
    (cars / "devkit/cars_meta.mat").unlink()
    with pytest.raises(MeantimeError, match=r"cars_meta\.mat is missing"):
        load_dataset("cars", cars)


def test_without_scipy_the_extra_is_named(cars, monkeypatch):
    def absent(name):
        raise ImportError(name=name)

    monkeypatch.setattr(extras.importlib, "import_module", absent)
    with pytest.raises(MeantimeError, match=r"meantime\[matlab\]"):
        load_dataset("cars", cars)


def flowers(root):
    savemat(root / "imagelabels.mat", {"labels": np.array([[77, 1, 102, 1]], np.uint8)})
    savemat(root / "setid.mat", {"trnid": [[1]], "valid": [[2]], "tstid": [[4, 3]]})
    for i in range(1, 5):
        image(root / f"jpg/image_{i:05}.jpg")


def food(root):
    text(root / "meta/classes.txt", "apple_pie", "waffles")
    text(root / "meta/test.txt", "waffles/2", "apple_pie/1")
    text(root / "meta/train.txt", "apple_pie/3")
    for name in ("waffles/2", "apple_pie/1", "apple_pie/3"):
        image(root / f"images/{name}.jpg")


def textures(root):
    for name in ("banded/banded_0002.jpg", "zigzagged/zigzagged_0001.jpg"):
        image(root / "images" / name)
    text(root / "labels/test1.txt", "zigzagged/zigzagged_0001.jpg")
    text(root / "labels/val1.txt", "banded/banded_0002.jpg")


@pytest.mark.parametrize(
    ("name", "make", "samples"),
    [
        ("flowers102", flowers, [("image_00004.jpg", 0, "pink primrose"), ("image_00003.jpg", 101, "blackberry lily")]),
        ("food101", food, [("waffles/2.jpg", 1, "waffles"), ("apple_pie/1.jpg", 0, "apple_pie")]),
        ("dtd", textures, [("zigzagged/zigzagged_0001.jpg", 1, "zigzagged")]),
    ],
)
def test_a_release_that_divides_otherwise_than_the_paper(tmp_path, name, make, samples):
    make(tmp_path)
    with pytest.raises(MeantimeError, match=r"split file split_zhou_.* or ask for --split release: the release's own"):
        load_dataset(name, tmp_path)
    dataset = load_dataset(name, tmp_path, "release")
    assert [(s.key, s.label, dataset.class_names[s.label]) for s in dataset.samples] == samples
    assert all(s.source.is_file() for s in dataset.samples)
    assert check_dataset(name, tmp_path, "release", images=len(samples), classes=len(samples)).ok
    expected = check_dataset(name, tmp_path, "release").expected_images
    assert expected == {"flowers102": 6149, "food101": 25_250, "dtd": 1880}[name] != list_datasets()[name].test


def test_with_coops_file_both_divisions_are_there(tmp_path):
    textures(tmp_path)
    coop(tmp_path, "split_zhou_DescribableTextures.json", "images", [("banded/banded_0002.jpg", 0, "banded")])
    assert [s.key for s in load_dataset("dtd", tmp_path).samples] == ["banded/banded_0002.jpg"]
    assert [s.key for s in load_dataset("dtd", tmp_path, "release").samples] == ["zigzagged/zigzagged_0001.jpg"]


@pytest.mark.parametrize(
    ("name", "folder", "classes", "names"),
    [
        ("eurosat", "2750", ["SeaLake", "Forest", "AnnualCrop"], ("Annual Crop Land", "Forest", "Sea or Lake")),
        ("caltech101", "101_ObjectCategories", ["accordion", "Faces", "airplanes", "Faces_easy", "BACKGROUND_Google"],
         ("face", "accordion", "airplane")),
    ],
)  # fmt: skip
def test_a_release_that_is_not_divided(tmp_path, name, folder, classes, names):
    class_folders(tmp_path / folder, classes, images=1, extension="jpg")
    with pytest.raises(MeantimeError, match="or ask for --split all: all images, undivided"):
        load_dataset(name, tmp_path)
    dataset = load_dataset(name, tmp_path, "all")
    assert dataset.class_names == names
    assert dataset.samples.labels == [0, 1, 2]
    assert check_dataset(name, tmp_path, "all", images=3, classes=3).ok


def test_flowers_has_as_many_names_as_classes(tmp_path):
    flowers(tmp_path)
    names = load_dataset("flowers102", tmp_path, "release").class_names
    assert len(set(names)) == 102
    savemat(tmp_path / "setid.mat", {"tstid": [[5]]})
    with pytest.raises(MeantimeError, match="counts 5 images, imagelabels"):
        load_dataset("flowers102", tmp_path, "release")


def test_a_subset_is_the_same_in_every_run_and_grows(tmp_path):
    ten = draw(50, 10)
    assert ten == sorted(set(ten)) == draw(50, 10)
    assert len(ten) == 10
    assert set(ten) < set(draw(50, 20)) < set(range(50))
    assert ten != draw(50, 10, seed=1)
    assert draw(10, 10) == draw(10, 99) == list(range(10))
    with pytest.raises(MeantimeError, match="at least 1"):
        draw(50, 0)
    class_folders(tmp_path, ["a", "b"], images=3)
    every = load_dataset(str(tmp_path))
    two = subset(every, 2)
    assert [s in list(every.samples) for s in two.samples] == [True, True]
    assert two.class_names == every.class_names
    assert two.fingerprint != every.fingerprint

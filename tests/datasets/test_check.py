"""The classic mistakes are found before hours are spent."""

import csv
import json

import pytest
from trees import class_folders, coop, image, text

from meantime import MeantimeError
from meantime.datasets import ClassFolders, Declaration, add_dataset, check_dataset, list_datasets, load_dataset
from meantime.datasets import declarations as declarations_module
from meantime.datasets.wnids import wnid_names

WNIDS = list(wnid_names())[:3]


def problem(*arguments, **options):
    report = check_dataset(*arguments, **options)
    assert not report.ok
    return "; ".join(report.problems)


def test_published_sizes_are_compared(tmp_path):
    class_folders(tmp_path / "val", WNIDS)
    report = check_dataset("imagenet", tmp_path)
    assert (report.images, report.classes) == (6, 3)
    assert (report.expected_images, report.expected_classes) == (50_000, 1000)
    text_ = "; ".join(report.problems)
    assert "3 classes have images, published are 1000; none of tiger shark, " in text_
    assert "6 images, published are 50000 (-49994)" in text_


def test_more_classes_than_published_are_none_that_lack_images(tmp_path):
    class_folders(tmp_path, ["cat", "dog"])
    assert problem(str(tmp_path), images=4, classes=1) == "2 classes have images, published are 1"


@pytest.mark.parametrize("given", [f"val/{WNIDS[0]}", "val/extra/deeper"])
def test_a_root_one_folder_too_deep(tmp_path, given):
    class_folders(tmp_path / "val", WNIDS)
    (tmp_path / given).mkdir(parents=True, exist_ok=True)
    assert f"too deep; give '{tmp_path / 'val'}'" in problem("imagenet", tmp_path / given)


def test_a_root_one_folder_too_high(tmp_path):
    class_folders(tmp_path / "unzipped" / "val", WNIDS)
    assert f"one folder deeper; give '{tmp_path / 'unzipped'}'" in problem("imagenet", tmp_path)


def test_images_one_folder_too_deep_inside_their_class(tmp_path):
    for wnid in WNIDS:
        image(tmp_path / "val" / wnid / "images" / "0.JPEG")
    assert "one folder too deep" in problem("imagenet", tmp_path)
    image(tmp_path / "val" / WNIDS[0] / "0.JPEG")
    assert "2 folders" in problem("imagenet", tmp_path, images=1, classes=1)


def test_a_folder_inside_a_coop_dataset(tmp_path):
    coop(tmp_path / "dtd", "split_zhou_DescribableTextures.json", "images", [("banded/1.jpg", 0, "banded")])
    assert f"give '{tmp_path / 'dtd'}'" in problem("dtd", tmp_path / "dtd" / "images")


@pytest.mark.parametrize(
    ("name", "images", "file"),
    [
        ("dtd", "dtd/images/banded", "split_zhou_DescribableTextures.json"),
        ("cars", "stanford_cars/cars_test", "split_zhou_StanfordCars.json"),
        ("pets", "oxford_pets/images", "split_zhou_OxfordPets.json"),
    ],
)
def test_a_missing_split_file(tmp_path, name, images, file):
    image(tmp_path / images / "1.jpg")
    assert f"the split file {file} is missing" in problem(name, tmp_path)
    with pytest.raises(MeantimeError, match=file):
        load_dataset(name, tmp_path)


def test_another_dataset_in_its_place(tmp_path):
    class_folders(tmp_path / "imagenet-a", [*WNIDS, next(iter(wnid_names("A")))])
    said = problem("imagenet-a", tmp_path, images=2, classes=1)
    assert "is another dataset: 3 of its 4 classes are none of imagenet-a (n01440764, n01443537, n01484850)" in said


@pytest.mark.parametrize("given", [".", "val", "val/n01498041"])
def test_imagenet_given_for_imagenet_a_is_told_and_not_looked_for_further_inside(tmp_path, given):
    class_folders(tmp_path / "val", wnid_names(), images=1)
    said = problem("imagenet-a", tmp_path / given)
    expected = f"'{tmp_path / 'val'}' is ImageNet, or another dataset of all its classes: 800 of its 1000 classes are"
    assert f"{expected} none of imagenet-a" in said
    assert "; give the folder of ImageNet-A's own release" in said
    assert "folder deeper" not in said
    assert "too deep" not in said


def test_missing_repeated_and_misplaced_images(tmp_path):
    rows = [("banded/1.jpg", 0, "banded"), ("banded/1.jpg", 0, "banded")]
    coop(tmp_path, "split_zhou_DescribableTextures.json", "images", rows)
    assert "1 images are listed more than once (banded/1.jpg)" in problem("dtd", tmp_path, images=2, classes=1)
    (tmp_path / "images/banded").rename(tmp_path / "images/nested")
    assert "all of them, so the images are probably a folder off" in problem("dtd", tmp_path, images=2, classes=1)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"train": [], "val": []}, "has no split 'test'"),
        ({"test": [["1.jpg", 1, "b"]]}, "no image of class 0"),
        ({"test": [["1.jpg", 0, "b"], ["2.jpg", 0, "c"]]}, "names class 0 'b' and, at '2.jpg', 'c'"),
        ({"test": [["1.jpg", 0]]}, "is damaged"),
        ([1], "is damaged"),
    ],
)
def test_a_split_file_that_is_wrong(tmp_path, split, message):
    image(tmp_path / "images/1.jpg")
    text(tmp_path / "split_zhou_Food101.json", json.dumps(split))
    assert message in problem("food101", tmp_path)


def test_a_class_that_is_not_there(tmp_path):
    text(tmp_path / "variants.txt", "707-320")
    text(tmp_path / "images_variant_test.txt", "0000002 A300")
    image(tmp_path / "images/0000002.jpg")
    assert "names the class 'A300', which is not there" in problem("aircraft", tmp_path)
    (tmp_path / "variants.txt").unlink()
    assert "variants.txt' is missing" in problem("aircraft", tmp_path)


def test_classes_sorted_as_texts(tmp_path):
    folders = [str(i) for i in range(12)]
    class_folders(tmp_path, folders, images=1)
    for order, wrong in ((sorted(folders), True), (folders, False)):
        with (tmp_path / "v2.csv").open("w", newline="") as file:
            rows = [(f"{folder}/{folder}_0.JPEG", order.index(folder)) for folder in folders]
            csv.writer(file).writerows([("file", "label"), *rows])
        text(tmp_path / "classnames.txt", *(f"class {i}" for i in range(12)))
        report = check_dataset(str(tmp_path / "v2.csv"))
        assert ("order of texts (0, 1, 10, 100, …)" in "; ".join(report.problems)) is wrong


def test_names_that_are_no_dataset(tmp_path):
    assert "Did you mean 'imagenet-a'?" in problem("imagenet_a", tmp_path)
    assert "where does pets lie" in problem("pets")
    assert "there is no folder" in problem("pets", tmp_path / "none")
    assert "expected its release" in problem("pets", tmp_path)


def test_adding_a_dataset_is_one_declaration(tmp_path, monkeypatch):
    monkeypatch.setattr(declarations_module, "_DECLARED", list_datasets())
    layout = ClassFolders({"test": ("val",)}, subset=tuple(WNIDS))
    add_dataset(Declaration("imagenette", "Ten easy classes", 3, 6, ("imagenette2",), (layout,)))
    class_folders(tmp_path / "imagenette2" / "val", WNIDS)
    assert check_dataset("imagenette", tmp_path).ok
    assert load_dataset("imagenette", tmp_path).class_names == ("tench", "goldfish", "great white shark")
    add_dataset(Declaration("all", "Without a subset", 3, 6, ("imagenette2",), (ClassFolders({"test": ("val",)}),)))
    assert problem("all", tmp_path) == "1000 classes, published are 3"
    with pytest.raises(MeantimeError, match="'n1' is no wnid"):
        ClassFolders({"test": ("val",)}, subset=("n1",)).images_in(tmp_path / "imagenette2", "test")
    with pytest.raises(MeantimeError, match="already"):
        add_dataset(list_datasets()["pets"])

"""Each of the 15 datasets of the paper, from miniature trees in its real layouts."""

import pytest
from trees import class_folders, coop, image, text

from meantime.datasets import check_dataset, list_datasets, load_dataset
from meantime.datasets.wnids import wnid_names
from meantime.labels import imagenet_names

TENCH, GOLDFISH, STINGRAY, HEN = "n01440764", "n01443537", "n01498041", "n01514859"

# name -> its folder, CoOp's split file, the folder of images, rows of the split
COOP = {
    "sun397": ("sun397", "SUN397", "SUN397", ("a/abbey/sun_1.jpg", 0, "abbey")),
    "eurosat": ("eurosat", "EuroSAT", "2750", ("Forest/Forest_1.jpg", 0, "Forest")),
    "cars": ("stanford_cars", "StanfordCars", ".", ("cars_test/00001.jpg", 0, "2012 Suzuki Aerio Sedan")),
    "food101": ("food-101", "Food101", "images", ("apple_pie/1.jpg", 0, "apple_pie")),
    "pets": ("oxford_pets", "OxfordPets", "images", ("Abyssinian_201.jpg", 0, "abyssinian")),
    "flowers102": ("oxford_flowers", "OxfordFlowers", "jpg", ("image_06771.jpg", 0, "pink primrose")),
    "caltech101": ("caltech-101", "Caltech101", "101_ObjectCategories", ("Faces/image_0001.jpg", 0, "face")),
    "dtd": ("dtd", "DescribableTextures", "images", ("banded/banded_0001.jpg", 0, "banded")),
    "ucf101": ("ucf101", "UCF101", "UCF-101-midframes", ("Apply_Eye_Makeup/v_1.jpg", 0, "Apply_Eye_Makeup")),
}


def test_the_fifteen_are_there_with_their_published_sizes():
    sizes = {d.name: (d.classes, d.test) for d in list_datasets().values()}
    assert len(sizes) == 15
    assert sizes["imagenet"] == (1000, 50_000)
    assert sizes["imagenet-sketch"] == (1000, 50_889)
    assert sizes["food101"] == (101, 30_300)
    assert sizes["caltech101"] == (100, 2465)
    assert {d.prompt for d in list_datasets().values()} == {"a photo of a {}."}


def test_wnids_are_in_index_order_and_the_subsets_name_their_classes():
    names = wnid_names()
    assert list(names) == sorted(names)
    assert tuple(names.values()) == imagenet_names()
    assert list(names).index(HEN) == 8
    assert names[HEN] == "hen"
    for subset in "AR":
        assert wnid_names(subset).items() <= names.items()
    assert next(iter(wnid_names("A").values())) == "stingray"
    assert list(wnid_names("R").values())[:2] == ["goldfish", "great white shark"]


@pytest.mark.parametrize("name", COOP)
def test_coops_preparation(tmp_path, name):
    folder, split, images, row = COOP[name]
    second = (row[0].replace("1.jpg", "2.jpg"), 1, "another")
    coop(tmp_path / folder, f"split_zhou_{split}.json", images, [second, row])
    for root in (tmp_path, tmp_path / folder):  # the folder of all datasets, and its own
        dataset = load_dataset(name, root)
        assert dataset.class_names == (row[2], "another")
        assert [(s.label, s.key) for s in dataset.samples] == [(1, second[0]), (0, row[0])]
        assert all(s.source.is_file() for s in dataset.samples)
        assert check_dataset(name, root, images=2, classes=2).problems == []
    assert len(load_dataset(name, tmp_path, "train").samples) == 2


@pytest.mark.parametrize(
    "place", ["imagenet/images/val", "imagenet/val", "ILSVRC2012/ILSVRC/Data/CLS-LOC/val", "val", "."]
)
def test_imagenet_in_class_folders(tmp_path, place):
    class_folders(tmp_path / place, [HEN, TENCH])
    dataset = load_dataset("imagenet", tmp_path)
    assert len(dataset.class_names) == 1000
    assert [s.label for s in dataset.samples] == [0, 0, 8, 8]
    assert dataset.samples[0].key == f"{TENCH}/{TENCH}_0.JPEG"
    assert check_dataset("imagenet", tmp_path, images=4, classes=2).ok


def test_imagenet_in_one_folder_with_the_published_solution(tmp_path):
    base = tmp_path / "imagenet"
    for i in (1, 2):
        image(base / f"ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_0000000{i}.JPEG")
    rows = [f"ILSVRC2012_val_00000002,{HEN} 1 2 3 4 {HEN} 5 6 7 8", f"ILSVRC2012_val_00000001,{GOLDFISH} 1 2 3 4 "]
    text(base / "LOC_val_solution.csv", "ImageId,PredictionString", *rows)
    assert load_dataset("imagenet", tmp_path).samples.labels == [1, 8]
    assert check_dataset("imagenet", base, images=2, classes=2).ok


@pytest.mark.parametrize(
    ("name", "place", "labels"),
    [
        ("imagenet-a", "imagenet-adversarial/imagenet-a", {STINGRAY: 0, HEN: None}),
        ("imagenet-r", "imagenet-rendition/imagenet-r", {GOLDFISH: 0, STINGRAY: 4, HEN: 8}),
        ("imagenet-sketch", "imagenet-sketch/images", {TENCH: 0, HEN: 8}),
        ("imagenet-sketch", "sketch", {TENCH: 0, HEN: 8}),
    ],
)
def test_the_variants_with_wnid_folders(tmp_path, name, place, labels):
    labels = {wnid: label for wnid, label in labels.items() if label is not None}
    class_folders(tmp_path / place, labels, images=1)
    dataset = load_dataset(name, tmp_path)
    assert len(dataset.class_names) == list_datasets()[name].classes
    named = {s.key.split("/")[0]: dataset.class_names[s.label] for s in dataset.samples}
    assert named == {wnid: wnid_names()[wnid] for wnid in labels}
    assert check_dataset(name, tmp_path, images=len(labels), classes=len(labels)).ok


@pytest.mark.parametrize("by", ["number", "wnid"])
def test_imagenet_v2_counts_its_folders_as_integers(tmp_path, by):
    folders = [str(i) if by == "number" else list(wnid_names())[i] for i in range(12)]
    class_folders(tmp_path / "imagenetv2" / "imagenetv2-matched-frequency-format-val", folders, images=1)
    dataset = load_dataset("imagenet-v2", tmp_path)
    assert [(s.key.split("/")[0], s.label) for s in dataset.samples] == list(zip(folders, range(12), strict=True))
    assert check_dataset("imagenet-v2", tmp_path, images=12, classes=12).ok


@pytest.mark.parametrize("place", ["fgvc_aircraft", "fgvc-aircraft-2013b/data", "."])
def test_aircraft_with_its_own_lists(tmp_path, place):
    base = tmp_path / place
    text(base / "variants.txt", "707-320", "F/A-18", "A 300")
    text(base / "images_variant_test.txt", "0000002 A 300", "0000001 707-320")
    for i in (1, 2):
        image(base / f"images/000000{i}.jpg")
    dataset = load_dataset("aircraft", tmp_path)
    assert dataset.class_names == ("707-320", "F/A-18", "A 300")
    assert [(s.label, s.key) for s in dataset.samples] == [(2, "0000002.jpg"), (0, "0000001.jpg")]
    assert check_dataset("aircraft", tmp_path, images=2, classes=2).ok


def test_pets_from_the_release(tmp_path):
    text(tmp_path / "annotations/test.txt", "yorkshire_terrier_1 2 2 1", "Egyptian_Mau_201 1 1 1")
    for name in ("yorkshire_terrier_1", "Egyptian_Mau_201"):
        image(tmp_path / f"images/{name}.jpg")
    dataset = load_dataset("pets", tmp_path)
    assert dataset.class_names == ("egyptian_mau", "yorkshire_terrier")
    assert [(s.label, s.key) for s in dataset.samples] == [(1, "yorkshire_terrier_1.jpg"), (0, "Egyptian_Mau_201.jpg")]


def test_sun397_from_the_release(tmp_path):
    text(tmp_path / "ClassName.txt", "/a/abbey", "/a/apartment_building/outdoor")
    text(tmp_path / "Testing_01.txt", "/a/apartment_building/outdoor/sun_2.jpg", "/a/abbey/sun_1.jpg")
    dataset = load_dataset("sun397", _with_images(tmp_path, "SUN397", "a/abbey/sun_1.jpg"))
    assert dataset.class_names == ("abbey", "outdoor apartment_building")
    assert [(s.label, s.key) for s in dataset.samples] == [
        (1, "a/apartment_building/outdoor/sun_2.jpg"),
        (0, "a/abbey/sun_1.jpg"),
    ]
    report = check_dataset("sun397", tmp_path, images=2, classes=2)
    assert report.problems == ["1 of 2 listed images are missing (a/apartment_building/outdoor/sun_2.jpg)"]


def test_ucf101_from_the_release_and_frames(tmp_path):
    text(tmp_path / "ucfTrainTestlist/classInd.txt", "1 ApplyEyeMakeup", "2 YoYo")
    text(tmp_path / "ucfTrainTestlist/testlist01.txt", "YoYo/v_YoYo_g01_c01.avi")
    dataset = load_dataset("ucf101", _with_images(tmp_path, "UCF-101-midframes", "Yo_Yo/v_YoYo_g01_c01.jpg"))
    assert dataset.class_names == ("Apply_Eye_Makeup", "Yo_Yo")
    assert dataset.samples[0].source.is_file()


def test_both_layouts_of_one_release_have_the_same_fingerprint(tmp_path):
    text(tmp_path / "raw/annotations/test.txt", "Abyssinian_201 1 1 1")
    image(tmp_path / "raw/images/Abyssinian_201.jpg")
    coop(tmp_path / "coop", "split_zhou_OxfordPets.json", "images", [("Abyssinian_201.jpg", 0, "abyssinian")])
    prints = {load_dataset("pets", tmp_path / kind).fingerprint for kind in ("raw", "coop")}
    assert len(prints) == 1
    assert load_dataset("pets", tmp_path / "coop", "train").fingerprint not in prints


def _with_images(root, folder, *paths):
    for path in paths:
        image(root / folder / path)
    return root

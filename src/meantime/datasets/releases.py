"""The releases' own lists of images, one declaration each, for where CoOp's split file is not needed or not wanted.

Split "test" always means the paper's test images. Where a release divides its images otherwise, its own test images
are the split "release"; where it does not divide them, there is "all".
"""

from pathlib import Path

from meantime.datasets.layouts import ListFile, NamedFolders, lines, words_of

# EuroSAT's and Caltech101's folders, where CoOp calls the class by another name.
LAND = {
    "AnnualCrop": "Annual Crop Land",
    "HerbaceousVegetation": "Herbaceous Vegetation Land",
    "Highway": "Highway or Road",
    "Industrial": "Industrial Buildings",
    "Pasture": "Pasture Land",
    "PermanentCrop": "Permanent Crop Land",
    "Residential": "Residential Buildings",
    "SeaLake": "Sea or Lake",
}
SINGULAR = {"airplanes": "airplane", "Faces": "face", "Leopards": "leopard", "Motorbikes": "motorbike"}


def _pets_classes(base: Path) -> list[str]:
    numbered = {int(line.split()[1]): line.split()[0] for line in lines(base / "annotations/test.txt")}
    return [_breed(numbered[number]) for number in sorted(numbered)]


def _breed(image: str) -> str:
    return image.rpartition("_")[0].lower()  # Abyssinian_201 -> abyssinian


PETS = ListFile(
    {"test": "annotations/test.txt", "trainval": "annotations/trainval.txt"},
    ("images",),
    entry=lambda line: (f"{line.split()[0]}.jpg", _breed(line.split()[0])),
    classes=_pets_classes,
)
SUN = ListFile(
    {"test": "Testing_01.txt", "trainval": "Training_01.txt"},
    ("SUN397",),
    entry=lambda line: (line.removeprefix("/"), line.rpartition("/")[0]),  # /a/abbey/sun_x.jpg
    classes=lambda base: lines(base / "ClassName.txt"),
    name=lambda text: " ".join(reversed(text.split("/")[2:])),  # /a/apartment_building/outdoor: outdoor first
)
UCF = ListFile(
    {"test": "ucfTrainTestlist/testlist01.txt", "trainval": "ucfTrainTestlist/trainlist01.txt"},
    ("UCF-101-midframes",),  # the release is videos; CoOp's frames from their middle are what is classified
    entry=lambda line: (
        f"{words_of(line.split('/')[0])}/{line.split()[0].split('/')[1].removesuffix('.avi')}.jpg",
        line.split("/")[0],
    ),
    classes=lambda base: [line.split()[1] for line in lines(base / "ucfTrainTestlist/classInd.txt")],
    name=words_of,
)
AIRCRAFT = ListFile(
    {split: f"images_variant_{split}.txt" for split in ("train", "val", "test")},
    ("images",),
    entry=lambda line: (f"{line.split()[0]}.jpg", line.partition(" ")[2]),
    classes=lambda base: lines(base / "variants.txt"),
)
FOOD = ListFile(
    {"release": "meta/test.txt", "release-train": "meta/train.txt"},
    ("images",),
    entry=lambda line: (f"{line}.jpg", line.partition("/")[0]),  # apple_pie/1011328
    classes=lambda base: lines(base / "meta/classes.txt"),
)
DTD = ListFile(  # the first of its ten divisions
    {"release": "labels/test1.txt", "release-train": "labels/train1.txt", "release-val": "labels/val1.txt"},
    ("images",),
    entry=lambda line: (line, line.partition("/")[0]),  # banded/banded_0002.jpg
    classes=lambda base: sorted(path.name for path in (base / "images").iterdir() if path.is_dir()),
)
EUROSAT = NamedFolders(("2750", "EuroSAT_RGB", "EuroSAT"), renamed=LAND)
CALTECH = NamedFolders(
    ("101_ObjectCategories",), renamed=SINGULAR, ignored=frozenset({"BACKGROUND_Google", "Faces_easy"})
)

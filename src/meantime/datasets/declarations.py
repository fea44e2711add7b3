"""The 15 datasets of the paper, each one small declaration: sizes, where it lies, and in which layouts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from meantime.datasets import releases
from meantime.datasets.layouts import ClassFolders, CoopSplit, Layout, SolutionFile
from meantime.datasets.matlab import CarsRelease, FlowersRelease
from meantime.errors import MeantimeError
from meantime.labels import TEMPLATE


@dataclass(frozen=True)
class Declaration:
    """What Meantime knows of a dataset. The first layout that is found is read."""

    name: str
    title: str
    classes: int
    test: int  # images of the test split that the paper measures on
    folders: tuple[str, ...]  # names of its folder below a common root
    layouts: tuple[Layout, ...]
    prompt: str = TEMPLATE  # the paper's one prompt for all
    others: Mapping[str, int] = field(default_factory=dict)  # images of the release's own splits, where they are others


_TRAIN = ("images/train", "train", "ILSVRC/Data/CLS-LOC/train")
_VAL = ("images/val", "val", "ILSVRC/Data/CLS-LOC/val", ".")
_V2 = {"test": ("imagenetv2-matched-frequency-format-val", "imagenetv2-matched-frequency", "test", ".")}


def _coop(name: str, images: str, shown_by: str = ".") -> CoopSplit:
    return CoopSplit(f"split_zhou_{name}.json", images, shown_by)


# fmt: off
_ALL = (
    # ImageNet and its variants
    Declaration("imagenet", "ImageNet", 1000, 50_000, ("imagenet", "ILSVRC2012"), (
        ClassFolders({"test": _VAL, "train": _TRAIN}),
        SolutionFile("LOC_val_solution.csv", ("ILSVRC/Data/CLS-LOC/val", "val")))),
    Declaration("imagenet-a", "ImageNet-A", 200, 7_500, ("imagenet-adversarial", "imagenet-a"), (
        ClassFolders({"test": ("imagenet-a", ".")}, subset="A"),)),
    Declaration("imagenet-v2", "ImageNet-V2", 1000, 10_000, ("imagenetv2", "imagenet-v2"), (
        ClassFolders(_V2, by="number"), ClassFolders(_V2))),
    Declaration("imagenet-r", "ImageNet-R", 200, 30_000, ("imagenet-rendition", "imagenet-r"), (
        ClassFolders({"test": ("imagenet-r", ".")}, subset="R"),)),
    Declaration("imagenet-sketch", "ImageNet-Sketch", 1000, 50_889, ("imagenet-sketch",), (
        ClassFolders({"test": ("images", "sketch", ".")}),)),
    # Fine-grained
    Declaration("sun397", "SUN397", 397, 19_850, ("sun397",), (_coop("SUN397", "SUN397"), releases.SUN)),
    Declaration("aircraft", "FGVC Aircraft", 100, 3_333, ("fgvc_aircraft", "fgvc-aircraft-2013b/data", "data"), (
        releases.AIRCRAFT,)),
    Declaration("eurosat", "EuroSAT", 10, 8_100, ("eurosat",), (
        _coop("EuroSAT", "2750"), releases.EUROSAT), others={"all": 27_000}),
    Declaration("cars", "Stanford Cars", 196, 8_041, ("stanford_cars",), (
        _coop("StanfordCars", ".", "cars_test"), CarsRelease()), others={"trainval": 8_144}),
    Declaration("food101", "Food101", 101, 30_300, ("food-101",), (
        _coop("Food101", "images"), releases.FOOD), others={"release": 25_250, "release-train": 75_750}),
    Declaration("pets", "Oxford Pets", 37, 3_669, ("oxford_pets",), (_coop("OxfordPets", "images"), releases.PETS)),
    Declaration("flowers102", "Flowers102", 102, 2_463, ("oxford_flowers",), (
        _coop("OxfordFlowers", "jpg"), FlowersRelease()),
        others={"release": 6_149, "release-train": 1_020, "release-val": 1_020}),
    Declaration("caltech101", "Caltech101", 100, 2_465, ("caltech-101",), (
        _coop("Caltech101", "101_ObjectCategories"), releases.CALTECH), others={"all": 8_242}),
    Declaration("dtd", "Describable Textures", 47, 1_692, ("dtd",), (
        _coop("DescribableTextures", "images"), releases.DTD),
        others={"release": 1_880, "release-train": 1_880, "release-val": 1_880}),
    Declaration("ucf101", "UCF101", 101, 3_783, ("ucf101",), (_coop("UCF101", "UCF-101-midframes"), releases.UCF)),
)
# fmt: on
_DECLARED = {declaration.name: declaration for declaration in _ALL}


def list_datasets() -> dict[str, Declaration]:
    """Every dataset that has a name."""
    return dict(_DECLARED)


def add_dataset(declaration: Declaration) -> None:
    """Give a dataset of one's own a name, for Python and the command line."""
    if declaration.name in _DECLARED:
        raise MeantimeError(f"there is a dataset {declaration.name!r} already: choose another name")
    _DECLARED[declaration.name] = declaration

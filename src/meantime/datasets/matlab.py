"""The two releases that keep their labels in MATLAB files: Stanford Cars and Oxford Flowers. Read by SciPy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meantime.datasets.base import Samples
from meantime.datasets.layouts import Names, lines, samples_below
from meantime.errors import MeantimeError
from meantime.extras import optional


@dataclass(frozen=True)
class CarsRelease:
    """Images in ``cars_test`` and ``cars_train``, classes in ``cars_meta.mat``; the labelled test list came later."""

    def images_in(self, base: Path, split: str) -> Path | None:
        """The folder that holds the folder of this split's images, if its labels lie there too."""
        folder = _CARS.get(split, ("none", ()))[0]
        return base if (base / folder).is_dir() and self._list(base, split) else None

    def missing(self, base: Path) -> str | None:
        """Nothing more: the labels were found."""
        return None

    def read(self, base: Path, split: str) -> tuple[Names, Samples]:
        """In the order of the annotations, named as CoOp does: the year first."""
        meta = next((p for p in (base / "devkit/cars_meta.mat", base / "cars_meta.mat") if p.is_file()), None)
        annotations = self._list(base, split)
        if meta is None or annotations is None:
            raise MeantimeError(f"cars_meta.mat is missing in {str(base / 'devkit')!r}; it belongs to the release")
        folder = _CARS[split][0]
        rows = [
            (f"{folder}/{entry['fname']}", int(entry["class"]) - 1)
            for entry in read_mat(annotations, "annotations", ("fname", "class"))
        ]
        titles = [str(title) for title in read_mat(meta, "class_names")]
        names = tuple(" ".join([title.split()[-1], *title.split()[:-1]]) for title in titles)
        return names, samples_below(base, rows)

    def _list(self, base: Path, split: str) -> Path | None:
        files = _CARS.get(split, ("", ()))[1]
        return next((base / file for file in files if (base / file).is_file()), None)


_CARS: dict[str, tuple[str, tuple[str, ...]]] = {
    "test": ("cars_test", ("cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat")),
    "trainval": ("cars_train", ("devkit/cars_train_annos.mat", "cars_train_annos.mat")),
}


@dataclass(frozen=True)
class FlowersRelease:
    """Images in ``jpg``, their labels in ``imagelabels.mat``, the release's division in ``setid.mat``."""

    def images_in(self, base: Path, split: str) -> Path | None:
        """The folder of images, if labels and division lie beside it."""
        files = ("imagelabels.mat", "setid.mat")
        there = split in _FLOWERS and all((base / file).is_file() for file in files)
        return base / "jpg" if there and (base / "jpg").is_dir() else None

    def missing(self, base: Path) -> str | None:
        """Nothing more."""
        return None

    def read(self, base: Path, split: str) -> tuple[Names, Samples]:
        """In the order of the division; the release numbers its classes, the names are those that CoOp uses."""
        labels = [int(label) for label in read_mat(base / "imagelabels.mat", "labels")]
        chosen = [int(number) for number in read_mat(base / "setid.mat", _FLOWERS[split])]
        if chosen and max(chosen) > len(labels):
            raise MeantimeError(
                f"setid.mat counts {max(chosen)} images, imagelabels.mat {len(labels)}; copy them again"
            )
        rows = [(f"image_{number:05}.jpg", labels[number - 1] - 1) for number in chosen]
        names = tuple(lines(Path(__file__).parent / "flowers.txt"))
        return names, samples_below(base / "jpg", rows)


_FLOWERS = {"release": "tstid", "release-train": "trnid", "release-val": "valid"}


def read_mat(path: Path, variable: str, fields: tuple[str, ...] = ()) -> list[Any]:
    """The items of a MATLAB vector; those of a vector of structures as dicts of the given fields."""
    io = optional("scipy.io", f"reading {path.name}", "matlab")
    try:
        items = np.asarray(io.loadmat(path, squeeze_me=True)[variable]).reshape(-1)  # a vector of one is squeezed too
        return [{name: item[name] for name in fields} for item in items] if fields else items.tolist()
    except Exception as error:  # a foreign or torn file raises nearly anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MeantimeError(f"{str(path)!r} is damaged, or not the file of the release ({reason})") from error

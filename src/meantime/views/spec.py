"""Which N pictures of an image are encoded."""

from dataclasses import dataclass
from os.path import abspath, basename
from typing import Literal, get_args

import numpy as np

from meantime.errors import MeantimeError

Augment = Literal["crop", "augmix"]
Resample = Literal["bilinear", "bicubic"]
MOST = 2048  # views: 300 MB of pixels for each of the images in flight, at 224


@dataclass(frozen=True)
class ViewSpec:
    """View 0 is the original, views 1..n-1 are random resized crops, with or without AugMix on top.

    ``scale`` and ``ratio`` bound the area of a crop (as a share of the image) and its width / height.
    ``exact`` resamples every crop from the full resolution; without it large crops of large photos
    start from a reduced copy (see `meantime.views.crops`). ``resample`` is the filter of the crops: bilinear at
    test time, bicubic where the few-shot methods train.
    """

    n: int = 64
    augment: Augment = "crop"
    exact: bool = False
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    files: str | None = None
    n_files: int = 0
    resample: Resample = "bilinear"

    def __post_init__(self) -> None:
        for name in ("n", "n_files"):
            if isinstance(getattr(self, name), np.integer):
                object.__setattr__(self, name, int(getattr(self, name)))  # NumPy's integers are as good
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise MeantimeError(f"the number of views is {self.n!r}; expected an integer of at least 1")
        if self.n > MOST:
            raise MeantimeError(f"{self.n} views were asked for; expected at most {MOST}: 64 are the paper's")
        if self.augment not in get_args(Augment):
            raise MeantimeError(f"augment is {self.augment!r}; expected one of {', '.join(get_args(Augment))}")
        if self.resample not in get_args(Resample):
            raise MeantimeError(f"resample is {self.resample!r}; expected one of {', '.join(get_args(Resample))}")
        for name, limits, limit in (("scale", self.scale, 1.0), ("ratio", self.ratio, float("inf"))):
            if len(limits) != 2:
                raise MeantimeError(f"{name} is {limits!r}; expected two numbers, low and high")
            low, high = limits
            if not 0 < low <= high <= limit or high == float("inf"):
                raise MeantimeError(
                    f"{name} is ({low}, {high}); expected 0 < low <= high"
                    + (", and high at most 1" if limit == 1 else "")
                )
        if isinstance(self.n_files, bool) or not isinstance(self.n_files, int) or self.n_files < 0:
            raise MeantimeError(f"n_files is {self.n_files!r}; expected an integer of at least 0")
        if self.n_files and not self.files:
            raise MeantimeError(f"{self.n_files} views from files are asked for; say which folder holds them (files=)")

    @property
    def total(self) -> int:
        """All views of an image: ``n`` and those from files."""
        return self.n + self.n_files

    @property
    def identity(self) -> str:
        """What the pixels of a view depend on, for caches and manifests.

        The count is left out: the first 16 of 64 views are the 16 views of a smaller run.
        """
        low, high = self.scale
        narrow, wide = self.ratio
        path = "exact" if self.exact else "fast"
        filter_ = "" if self.resample == "bilinear" else f"-{self.resample}"  # stores made before keep their identity
        # A made picture is known by its place after the crops and by the name of its folder, wherever that lies.
        made = f"-{self.n}+{basename(abspath(self.files))}" if self.files and self.n_files else ""
        return f"{self.augment}-{path}-scale{low:.6g},{high:.6g}-ratio{narrow:.6g},{wide:.6g}{filter_}{made}"

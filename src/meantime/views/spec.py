"""Which N pictures of an image are encoded."""

from dataclasses import dataclass
from typing import Literal, get_args

from meantime.errors import MeantimeError

Augment = Literal["crop", "augmix"]


@dataclass(frozen=True)
class ViewSpec:
    """View 0 is the original, views 1..n-1 are random resized crops, with or without AugMix on top.

    ``scale`` and ``ratio`` bound the area of a crop (as a share of the image) and its width / height.
    ``exact`` resamples every crop from the full resolution; without it large crops of large photos
    start from a reduced copy (see `meantime.views.crops`).
    """

    n: int = 64
    augment: Augment = "crop"
    exact: bool = False
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise MeantimeError(f"the number of views is {self.n!r}; expected an integer of at least 1")
        if self.augment not in get_args(Augment):
            raise MeantimeError(f"augment is {self.augment!r}; expected one of {', '.join(get_args(Augment))}")
        for name, (low, high), limit in (("scale", self.scale, 1.0), ("ratio", self.ratio, float("inf"))):
            if not 0 < low <= high <= limit or high == float("inf"):
                raise MeantimeError(
                    f"{name} is ({low}, {high}); expected 0 < low <= high"
                    + (", and high at most 1" if limit == 1 else "")
                )

    @property
    def identity(self) -> str:
        """What the pixels of a view depend on, for caches and manifests.

        The count is left out: the first 16 of 64 views are the 16 views of a smaller run.
        """
        low, high = self.scale
        narrow, wide = self.ratio
        path = "exact" if self.exact else "fast"
        return f"{self.augment}-{path}-scale{low:.6g},{high:.6g}-ratio{narrow:.6g},{wide:.6g}"

"""ImageNet's 1000 classes by WordNet id, in index order, and which of them ImageNet-A and -R have."""

from functools import cache
from pathlib import Path

from meantime.errors import MeantimeError
from meantime.labels import imagenet_names


@cache
def wnid_names(subset: str | tuple[str, ...] = "") -> dict[str, str]:
    """Names by wnid, in the order of their labels: of all 1000, of the 200 of subset "A" or "R", or of those given.

    >>> len(wnid_names()), len(wnid_names("A")), len(wnid_names("R"))
    (1000, 200, 200)
    >>> wnid_names("R")["n01443537"]
    'goldfish'
    >>> wnid_names(("n02102040", "n01440764"))
    {'n02102040': 'English Springer Spaniel', 'n01440764': 'tench'}
    """
    if isinstance(subset, tuple):
        every = wnid_names()
        unknown = [wnid for wnid in subset if wnid not in every]
        if unknown:
            raise MeantimeError(f"{unknown[0]!r} is no wnid of ImageNet's 1000 classes; expected such as 'n01440764'")
        return {wnid: every[wnid] for wnid in subset}
    rows = (Path(__file__).parent / "wnids.txt").read_text(encoding="utf-8").splitlines()
    pairs = zip(rows, imagenet_names(), strict=True)
    return {row.split()[0]: name for row, name in pairs if not subset or subset in row.split()[1:]}

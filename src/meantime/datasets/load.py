"""A dataset by its name and where it lies, or anybody's own data by its path alone."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from meantime.datasets.base import Dataset
from meantime.datasets.declarations import Declaration, list_datasets
from meantime.datasets.generic import from_folder, from_table
from meantime.datasets.locate import locate
from meantime.datasets.webdataset import from_tars, tar_files
from meantime.errors import MeantimeError
from meantime.remote import as_path, is_url

TABLES = (".csv", ".parquet")


def declared(name: str) -> Declaration:
    """The declaration of that name."""
    known = list_datasets()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise MeantimeError(f"{name!r} is neither a dataset nor a path; there are {', '.join(known)}.{hint}")
    return known[name]


def load_dataset(
    name: str,
    root: str | Path | None = None,
    split: str = "test",
    *,
    class_names: Sequence[str] | None = None,
) -> Dataset:
    """Read a dataset; images are only listed, not opened.

    Parameters
    ----------
    name
        One of :func:`list_datasets`; or the path of a folder with one sub-folder for each class, of a CSV or
        Parquet table (or a folder with ``labels.csv``), of a WebDataset tar or a folder of them; or the URL of one.
    root
        Where a named dataset lies: its own folder, or one that holds many datasets.
    split
        "test", and for most datasets "train" and "val". The test split of ImageNet is its validation set.
    class_names
        The classes for one's own data, where they are not those that occur.
    """
    if name not in list_datasets() and as_path(name).exists():
        return _from_path(as_path(name), split, class_names)
    declaration = declared(name)
    if root is None:
        raise MeantimeError(f"where does {name} lie? Give its folder, as in --root DIR")
    if is_url(root):
        raise MeantimeError(
            f"{name} is read from local folders, but its root is {str(root)!r}; copy it to this machine"
        )
    if class_names is not None:
        raise MeantimeError(f"{name} has class names of its own; they cannot be replaced")
    found = locate(declaration, Path(root), split)
    names, samples = found.layout.read(found.base, split)
    if not samples:
        raise MeantimeError(
            f"{name} has no images in {str(found.images)!r}; are the images of each class one folder too deep?"
        )
    return Dataset(name, names, samples, split, declaration.prompt)


def _from_path(path: Path, split: str, class_names: Sequence[str] | None) -> Dataset:
    if path.suffix in TABLES:
        return from_table(path, split, class_names)
    if path.is_dir() and (path / "labels.csv").is_file():
        return from_table(path / "labels.csv", split, class_names)
    if path.suffix == ".tar" or (path.is_dir() and tar_files(path, split)[0]):
        return from_tars(path, split, class_names)
    if path.is_dir():
        return from_folder(path, split, class_names)
    raise MeantimeError(f"{str(path)!r} is no dataset; expected a folder, a .csv or .parquet table, or a .tar")

"""Finding a declared dataset below the folder that the user gave; and if it is not there, saying what is wrong."""

from dataclasses import dataclass
from pathlib import Path

from meantime.datasets.declarations import Declaration
from meantime.datasets.layouts import ClassFolders, Layout
from meantime.datasets.wnids import wnid_names
from meantime.errors import MeantimeError

MOST_CHILDREN = 100  # folders looked into when searching for a dataset one level down


@dataclass(frozen=True)
class Located:
    """A layout, and the folder in which it was found."""

    layout: Layout
    base: Path
    images: Path


def locate(declaration: Declaration, root: Path, split: str) -> Located:
    """The dataset in ``root`` itself or in its usual folder below; else an error that says what to do."""
    if not root.is_dir():
        raise MeantimeError(f"there is no folder {str(root)!r} to look for {declaration.name} in")
    found = _in(declaration, root, split)
    if found is not None:
        return found
    raise MeantimeError(f"{declaration.name} is not in {str(root)!r}: {_diagnosis(declaration, root, split)}")


def _bases(declaration: Declaration, root: Path) -> list[Path]:
    return [root, *(root / folder for folder in declaration.folders)]


def _in(declaration: Declaration, root: Path, split: str) -> Located | None:
    for base in _bases(declaration, root):
        for layout in declaration.layouts:
            if not base.is_dir() or layout.missing(base) is not None:
                continue
            images = layout.images_in(base, split)
            if images is not None:
                return Located(layout, base, images)
    return None


def _diagnosis(declaration: Declaration, root: Path, split: str) -> str:
    """The classic mistakes first: a folder off in either direction, then a split file that was not downloaded."""
    absolute = root.absolute()
    for parent in list(absolute.parents)[:2]:
        # Only the parent as the dataset's own folder: a common root would be found from anywhere near it.
        found = _in_itself(declaration, parent, split)
        if found is not None:
            return (
                another_dataset(declaration, found.layout, found.images)
                or f"this is one folder too deep; give {str(parent)!r}"
            )
    children = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    for child in children[:MOST_CHILDREN]:
        found = _in(declaration, child, split)
        if found is not None:
            return (
                another_dataset(declaration, found.layout, found.images)
                or f"it lies one folder deeper; give {str(child)!r}"
            )
    for base in _bases(declaration, root):
        for layout in declaration.layouts:
            file = layout.missing(base) if base.is_dir() else None
            if file is not None and layout.images_in(base, split) is not None:
                return (
                    f"the split file {file} is missing in {str(base)!r}; it defines the {split} images of the paper. "
                    f"Take it from CoOp's list of datasets and put it there{_instead(declaration, base)}"
                )
    files = {file for layout in declaration.layouts if (file := layout.missing(root)) is not None}
    expected = f"expected its release, or a folder {' or '.join(map(repr, declaration.folders))} with it"
    return expected + (f" and the split file {' or '.join(sorted(files))}" if files else "") + f", split {split!r}"


def _instead(declaration: Declaration, base: Path) -> str:
    """What the release offers by itself: other images than the paper's, which nobody should measure on unknowingly."""
    for split in declaration.others.keys() & {"release", "all"}:
        if any(layout.images_in(base, split) for layout in declaration.layouts):
            size = declaration.others[split]
            what = "all images, undivided" if split == "all" else "the release's own test images, which are others"
            return f"; or ask for --split {split}: {what} ({size:,})"
    return ""


def _in_itself(declaration: Declaration, base: Path, split: str) -> Located | None:
    for layout in declaration.layouts:
        images = layout.images_in(base, split) if layout.missing(base) is None else None
        if images is not None:
            return Located(layout, base, images)
    return None


def another_dataset(declaration: Declaration, layout: Layout, folder: Path) -> str | None:
    """Tell by its other classes that a folder is not that of a dataset which has only some of ImageNet's."""
    if not isinstance(layout, ClassFolders) or layout.by != "wnid":
        return None
    every, own = wnid_names(), wnid_names(layout.subset)
    there = {path.name for path in folder.iterdir() if path.name in every and path.is_dir()}
    strange = sorted(there - own.keys())
    if not strange:
        return None
    what = "ImageNet, or another dataset of all its classes" if len(there) == len(every) else "another dataset"
    shown = ", ".join(strange[:3]) + (", …" if len(strange) > 3 else "")
    return (
        f"{str(folder)!r} is {what}: {len(strange)} of its {len(there)} classes are none of {declaration.name} "
        f"({shown}); give the folder of {declaration.title}'s own release"
    )

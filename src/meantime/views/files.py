"""Views that lie in files: pictures of an image that something else made, such as a diffusion model.

The pictures of `bird.jpg` are FOLDER/bird/*.png (or any other kind of image), in the order of their names.
"""

from os import PathLike
from pathlib import Path, PurePath

import numpy as np

from meantime.errors import MeantimeError
from meantime.images import EXTENSIONS, load_image
from meantime.preprocess import Preprocess
from meantime.views.crops import Places, Views, make_views
from meantime.views.spec import ViewSpec
from meantime.views.torch_crops import joined


def file_views(
    folder: str | PathLike[str],
    image: str | PathLike[str],
    preprocess: Preprocess,
    n: int | None = None,
    *,
    start: int = 0,
) -> Views:
    """The first ``n`` (or all) pictures made of an image from the ``start``-th on, resized and cut like view 0.

    ``image`` is the image's path or name. It is looked for with as many of its folders as are there, since
    names repeat in some datasets: `DATA/cats/1.jpg` in FOLDER/DATA/cats/1/, FOLDER/cats/1/, then FOLDER/1/.
    The boxes are the whole image: a made picture shows no particular part of it.
    """
    where = _folder_of(Path(folder), PurePath(image))
    paths = sorted(p for p in where.iterdir() if p.suffix.lower() in EXTENSIONS and not p.name.startswith("."))
    wanted = len(paths) if n is None else n
    if wanted > len(paths) or not paths:
        raise MeantimeError(
            f"{str(where)!r} holds {len(paths)} pictures of {str(image)!r} and {max(wanted, 1)} are needed; "
            "make the missing ones, or ask for fewer"
        )
    views = [make_views(load_image(path), ViewSpec(n=1), preprocess).pixels for path in paths[start:wanted]]
    size = preprocess.size
    return Views(
        np.concatenate([np.empty((0, size, size, 3), np.uint8), *views]),  # (n - start, S, S, 3)
        Places(np.tile(np.array([0, 0, 1, 1], np.float32), (len(views), 1)), np.zeros(len(views), np.bool_)),
    )


def _folder_of(folder: Path, image: PurePath) -> Path:
    parts = picture_folder(image).parts[1:] if image.is_absolute() else picture_folder(image).parts
    candidates = [folder.joinpath(*parts[i:]) for i in range(len(parts))]
    for where in candidates:
        if where.is_dir():
            return where
    raise MeantimeError(
        f"there are no pictures of {str(image)!r}: {str(candidates[-1])!r} is not a folder; "
        "expected one folder for each image, named like it without the extension"
    )


def picture_folder(image: PurePath) -> PurePath:
    """Where the pictures made of an image lie, below the folder of all: its own path without the extension."""
    return image.with_suffix("") if image.suffix.lower() in EXTENSIONS else image


def join(first: Views, second: Views) -> Views:
    """All views of both, in this order: 1 + 64 crops, then 63 made by diffusion, are 128."""
    if first.pixels.shape[1:] != second.pixels.shape[1:]:
        raise MeantimeError(
            f"views of shape {first.pixels.shape[1:]} cannot be joined to views of shape "
            f"{second.pixels.shape[1:]}; make both for the same encoder"
        )
    return Views(joined([first.pixels, second.pixels]), Places.join([first.places, second.places]))

"""All views of one image, wherever they come from: crops of its pixels, then pictures made of it that lie in files."""

import os

from meantime.errors import MeantimeError
from meantime.images import ImageSource, Pixels, load_image
from meantime.preprocess import Preprocess
from meantime.views.crops import Views, make_views
from meantime.views.files import file_views, join
from meantime.views.spec import ViewSpec
from meantime.views.torch_crops import Cut


def views_of(
    source: ImageSource,
    spec: ViewSpec,
    preprocess: Preprocess,
    seed: int = 0,
    start: int = 0,
    stop: int | None = None,
    *,
    image: Pixels | None = None,
    cut: Cut | None = None,
) -> Views:
    """Views ``start``..``stop`` - 1 of an image; without them all ``spec.total``.

    ``image`` is the source where it is decoded already. Pictures made of it are found by its path, so an image without
    one (bytes, an array) can only be cropped.
    """
    stop = spec.total if stop is None else stop
    if not 0 <= start <= stop <= spec.total:
        raise MeantimeError(f"views {start}..{stop} of {spec.total} were asked; expected 0 <= start <= stop <= all")
    if image is None:
        image = load_image(source)  # first: an unreadable image is an error of its own, whatever was made of it
    first, last = min(start, spec.n), min(stop, spec.n)
    crops = make_views(image, spec, preprocess, seed, start=first, stop=last, cut=cut)
    if stop <= spec.n or spec.files is None:
        return crops
    if not isinstance(source, str | os.PathLike):
        raise MeantimeError(
            f"pictures in {spec.files!r} are found by the path of their image, and this one came as "
            f"{type(source).__name__}; give image files, or crops only"
        )
    made = file_views(spec.files, source, preprocess, n=stop - spec.n, start=max(start - spec.n, 0))
    return join(crops, made)

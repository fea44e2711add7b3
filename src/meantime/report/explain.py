"""One image explained in one picture, after the paper's Figure 1: which views count, and where the mode goes.

Left the photo and the best names, in the middle every view framed by its inlierness, right the path of
MTA's mode beside plain MeanShift's.
"""

import os
from pathlib import Path

from meantime.classifier import Classifier
from meantime.errors import MeantimeError, MissingExtraError
from meantime.images import ImageSource
from meantime.report.html import check_writable
from meantime.report.story import tell


def explain(image: ImageSource, classifier: Classifier, path: str | os.PathLike[str]) -> None:
    """Write a PNG that shows how MTA comes to its answer for one image.

    It is always MTA that is shown, with the classifier's encoder, names, views and seed, whatever its method.
    """
    if classifier.spec.n < 2:
        raise MeantimeError(
            f"explain shows how views are weighed and needs at least 2, but views={classifier.spec.n}; "
            "ask for more, such as 64"
        )
    if Path(path).suffix.lower() != ".png":
        raise MeantimeError(f"cannot write {os.fspath(path)!r}: the picture is a PNG, so its name must end in .png")
    check_writable(Path(path))
    try:
        from matplotlib import colormaps
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("explain", "plots") from error
    from meantime.report import panels

    story = tell(image, classifier)
    # Neither pyplot nor rcParams: a caller's notebook keeps its backend and its settings.
    figure = Figure(figsize=(20, 9.6), facecolor="white")
    FigureCanvasAgg(figure)
    photo = figure.add_axes((0.015, 0.36, 0.255, 0.54))
    bars = figure.add_axes((0.11, 0.07, 0.125, 0.23))
    grid = figure.add_axes((0.285, 0.03, 0.38, 0.87))
    plane = figure.add_axes((0.69, 0.135, 0.295, 0.765))
    frames = colormaps["Blues"]
    panels.draw_title(figure, story)
    panels.draw_photo(photo, story)
    panels.draw_bars(bars, story)
    panels.draw_grid(grid, story, frames)
    panels.draw_plane(plane, story, frames)
    figure.savefig(path, format="png", dpi=110)

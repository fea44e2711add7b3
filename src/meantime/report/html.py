"""The report: one HTML file over any number of images that needs nothing beside it.

Images whose answer the method changed come first. Each image becomes text as it arrives and goes to a part
file of its section, so memory does not grow; at the end the parts are joined and put in place at once.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import BinaryIO, Self

from meantime.errors import MeantimeError
from meantime.prediction import Prediction
from meantime.report.card import card, unreadable

# The sections of the page in their order: heading, and what it says below that.
SECTIONS = {
    "changed": ("Changed", "The method and plain zero-shot disagree."),
    "same": ("Same answer", "The method confirms plain zero-shot."),
    "abstained": ("Abstained", "The best name stayed below the score that was asked for."),
    "unreadable": ("Unreadable", "These files could not be read; the others were not affected."),
}
LEGEND = (
    "<b>Inlierness</b> is the share of the answer that each view of the image carries: views that agree "
    "with each other share nearly all of it, views that show something else get next to none."
)


class ReportWriter:
    """Writes the page as predictions come; use it in a ``with`` statement.

    If the block ends by an exception, what was finished is still written, and the page says that it is
    incomplete.

    Parameters
    ----------
    path
        The HTML file; one that exists is replaced, but only once the new page is complete.
    method, encoder
        Their names, for the heading and the bars.
    title
        The page's heading.
    views
        How many views each image has; by default it is seen from the predictions.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        method: str,
        encoder: str,
        title: str = "Meantime report",
        views: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.method = method
        self.encoder = encoder
        self.title = title
        self.views = views
        self._counts: Counter[str] = Counter()
        # Beside the page, because the system's temporary folder may be memory, and because only a file of
        # the same disk can be put in place at once.
        check_writable(self.path)
        self._folder = TemporaryDirectory(prefix=f".{self.path.name}.", dir=self.path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None or self._counts.total() > 0:  # a run that failed at once replaces nothing
                self._join(kind)
        finally:
            self._folder.cleanup()

    def add(self, prediction: Prediction) -> None:
        """Render one image into its section."""
        section = _section_of(prediction)
        number = self._counts.total() + 1
        if self.views is None and prediction.error is None:
            self.views = len(prediction.inlierness)
        text = unreadable(prediction, number) if section == "unreadable" else card(prediction, number, self.method)
        with self._part(section).open("ab") as part:
            part.write(_bytes(text))
        self._counts[section] += 1

    def _part(self, section: str) -> Path:
        return Path(self._folder.name) / section

    def _join(self, stopped_by: type[BaseException] | None) -> None:
        whole = Path(self._folder.name) / "page"
        with whole.open("wb") as page:
            page.write(_bytes(self._head(stopped_by)))
            for section, (heading, meaning) in SECTIONS.items():
                if self._counts[section]:
                    self._copy_section(page, section, heading, meaning)
            page.write(b"</main>\n</body>\n</html>\n")
        os.replace(whole, self.path)

    def _copy_section(self, page: BinaryIO, section: str, heading: str, meaning: str) -> None:
        count = self._counts[section]
        page.write(
            _bytes(
                f'<section id="{section}">\n<h2>{heading} <span class="count">{count:,}</span></h2>\n'
                f'<p class="meaning">{meaning}</p>\n<div class="cards">\n'
            )
        )
        with self._part(section).open("rb") as part:
            shutil.copyfileobj(part, page)
        page.write(b"</div>\n</section>\n")

    def _head(self, stopped_by: type[BaseException] | None) -> str:
        style = files("meantime.report").joinpath("style.css").read_text(encoding="utf-8")
        warning = ""
        if stopped_by is not None:
            how = "interrupted" if stopped_by is KeyboardInterrupt else f"stopped by {escape(stopped_by.__name__)}"
            warning = (
                f'<p class="warning">This report is incomplete: the run was {how}. '
                "The images below were finished before that.</p>\n"
            )
        tiles = [f"<li><b>{self._counts.total():,}</b> images</li>"]
        for section, word in (
            ("changed", "changed"),
            ("abstained", "abstained"),
            ("unreadable", "unreadable"),
        ):
            count = self._counts[section]
            inside = f"<b>{count:,}</b> {word}"
            tiles.append(f'<li><a href="#{section}">{inside}</a></li>' if count else f"<li>{inside}</li>")
        run = [f"method <b>{escape(self.method)}</b>", f"encoder <b>{escape(self.encoder)}</b>"]
        if self.views is not None:
            run.append(f"<b>{self.views:,}</b> view{'' if self.views == 1 else 's'} of each image")
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(self.title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{escape(self.title)}</h1>
<ul class="tiles">{"".join(tiles)}</ul>
<p class="run">{" · ".join(run)}</p>
<p class="legend">{LEGEND} Boxes on a photo: <span class="key trusted">most trusted views</span>
<span class="key doubted">least trusted views</span></p>
{warning}</header>
<main>
"""


def write_report(
    path: str | os.PathLike[str],
    predictions: Iterable[Prediction],
    *,
    method: str,
    encoder: str,
    title: str = "Meantime report",
    views: int | None = None,
) -> None:
    """Write the page of these predictions; a generator is read one by one."""
    with ReportWriter(path, method=method, encoder=encoder, title=title, views=views) as report:
        for prediction in predictions:
            report.add(prediction)


def check_writable(path: Path) -> None:
    """Raise before the work begins, rather than after it, if the file cannot be written there."""
    if path.is_dir():
        raise MeantimeError(f"{str(path)!r} is a folder; give the name of a file to write")
    if not path.parent.is_dir():
        raise MeantimeError(f"the folder {str(path.parent)!r} does not exist; create it, or write elsewhere")
    if not os.access(path.parent, os.W_OK):
        raise MeantimeError(f"the folder {str(path.parent)!r} cannot be written to; check its rights")


def _section_of(prediction: Prediction) -> str:
    if prediction.error is not None:
        return "unreadable"
    if prediction.abstained:
        return "abstained"
    return "changed" if prediction.changed else "same"


def _bytes(text: str) -> bytes:
    # File names need not be valid Unicode; such a byte is shown as its number.
    return text.encode("utf-8", errors="backslashreplace")

"""The report: one HTML file over any number of images that needs nothing beside it.

It stays of use for thousands: the least certain answers of each section are shown in full, all others small. Each
image becomes text as it arrives, and memory does not grow; at the end the page is joined and put in place at once.
"""

import os
from collections.abc import Iterable
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import BinaryIO, Self

from meantime.errors import ImageError, MeantimeError
from meantime.prediction import Prediction
from meantime.report.card import card
from meantime.report.head import head, script
from meantime.report.picture import CARD, TILE, Thumbnail, thumbnails
from meantime.report.place import Place, locate
from meantime.report.section import Section, as_bytes
from meantime.report.tally import Tally
from meantime.report.tile import tile, unreadable

# The sections of the page in their order: heading, and what it says below that.
SECTIONS = {
    "changed": ("Changed", "The method and plain zero-shot disagree."),
    "abstained": ("Abstained", "The best name stayed below the score that was asked for."),
    "same": ("Same answer", "The method confirms plain zero-shot."),
    "unreadable": ("Unreadable", "These files could not be read; the others were not affected."),
}


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
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        method: str,
        encoder: str,
        title: str = "Meantime report",
    ) -> None:
        self.path = Path(path)
        self.method = method
        self.encoder = encoder
        self.title = title
        self._tally = Tally()
        # Beside the page, because the system's temporary folder may be memory, and because only a file of
        # the same disk can be put in place at once.
        check_writable(self.path)
        self._folder = TemporaryDirectory(prefix=f".{self.path.name}.", dir=self.path.parent)
        self._sections = {name: Section(Path(self._folder.name, name)) for name in SECTIONS}
        self._home = Path(os.path.abspath(self.path.parent))  # links lead from here, wherever the process goes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None or self._tally.images:  # a run that failed at once replaces nothing
                self._join(kind)
        finally:
            self._folder.cleanup()

    def add(self, prediction: Prediction) -> None:
        """Render one image into its section."""
        section, number = self._sections[_section_of(prediction)], self._tally.images + 1
        place = locate(prediction.path, number, self._home)
        if prediction.error is not None:
            section.add(0.0, unreadable(prediction, place))
        else:
            self._render(prediction, section, place, number)
        self._tally.add(prediction)

    def _render(self, prediction: Prediction, section: Section, place: Place, number: int) -> None:
        label, in_full = self._tally.number(prediction.label), section.takes_in_full(prediction.score)
        small: Thumbnail | None = None
        large: Thumbnail | None = None
        note = ""
        if prediction.path is not None:
            try:
                *larger, small = thumbnails(prediction.path, *([CARD, TILE] if in_full else [TILE]))
                large = larger[0] if larger else None
            except ImageError as error:  # moved or deleted since it was classified
                note = str(error)
        full = None
        if in_full:
            full = card(prediction, place, label, large, number=number, method=self.method, note=note)
        section.add(prediction.score, tile(prediction, place, label, small), full)

    def _join(self, stopped_by: type[BaseException] | None) -> None:
        whole = Path(self._folder.name) / "page"
        counts = {name: section.count for name, section in self._sections.items()}
        warning = "" if stopped_by is None else _warning(stopped_by)
        top = head(
            self.title, method=self.method, encoder=self.encoder, tally=self._tally, counts=counts, warning=warning
        )
        with whole.open("wb") as page:
            page.write(as_bytes(top))
            for name in SECTIONS:
                if counts[name]:
                    self._write_section(page, name)
            page.write(as_bytes(f"</main>\n<script>{script()}</script>\n</body>\n</html>\n"))
        os.replace(whole, self.path)

    def _write_section(self, page: BinaryIO, name: str) -> None:
        section, (heading, meaning) = self._sections[name], SECTIONS[name]
        readable, more = name != "unreadable", section.small
        if readable and more:
            meaning += (
                f' <span class="jump">The {section.count - more} least certain come first, in full; '
                f'<a href="#{name}-more">{more:,} more</a> follow small.</span>'
            )
        page.write(
            as_bytes(
                f'<section id="{name}">\n<h2>{heading} <span class="count">{section.count:,}</span></h2>\n'
                f'<p class="meaning">{meaning}</p>\n'
            )
        )
        if readable:
            page.write(b'<div class="cards">\n')
            section.write_cards(page)
            page.write(b"</div>\n")
        if more:
            page.write(as_bytes(f'<div class="{"tiles" if readable else "rows"}" id="{name}-more">\n'))
            section.write_tiles(page)
            page.write(b"</div>\n")
        page.write(b"</section>\n")


def write_report(
    path: str | os.PathLike[str],
    predictions: Iterable[Prediction],
    *,
    method: str,
    encoder: str,
    title: str = "Meantime report",
) -> None:
    """Write the page of these predictions; a generator is read one by one."""
    with ReportWriter(path, method=method, encoder=encoder, title=title) as report:
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


def _warning(stopped_by: type[BaseException]) -> str:
    how = "interrupted" if stopped_by is KeyboardInterrupt else f"stopped by {escape(stopped_by.__name__)}"
    return (
        f'<p class="warning">This report is incomplete: the run was {how}. '
        "The images below were finished before that.</p>\n"
    )

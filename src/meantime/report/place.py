"""Where an image lies, as the page says it: a caption that tells it from the others, a link that opens it."""

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePath
from urllib.parse import quote

from meantime.remote import is_url


@dataclass(frozen=True)
class Place:
    """An image's file. ``link`` is None where a browser would find nothing."""

    caption: str
    path: str  # in full, as it was given
    link: str | None

    def line(self) -> str:
        """The caption on a line of its own, as a link if there is one."""
        inside = escape(self.caption)
        if self.link is not None:
            inside = f'<a href="{escape(self.link)}" target="_blank">{inside}</a>'
        return f'<p class="file" title="{escape(self.path)}">{inside}</p>'


def locate(path: str | None, number: int, folder: Path) -> Place:
    """Place an image on a page in ``folder``; what lies below that is called by its path from there."""
    if path is None:
        return Place(f"image {number}", "", None)
    if is_url(path):
        return Place(path, path, path if path.startswith(("http://", "https://")) else None)
    whole = os.path.abspath(path)
    try:
        relative = PurePath(os.path.relpath(whole, folder)).as_posix()
    except ValueError:  # on another drive of Windows
        return Place(path, path, Path(whole).as_uri())
    caption = path if relative.startswith("../") else relative
    # A colon is quoted too: no name can pass for a scheme such as "javascript:".
    link = quote(os.fsencode(relative)) if os.path.lexists(whole) else None
    return Place(caption, path, link)

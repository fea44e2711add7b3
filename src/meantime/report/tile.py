"""One image in small: a thumbnail, the answer, the file. Thousands of them still make a page that opens at once."""

from html import escape

from meantime.prediction import Prediction
from meantime.report.picture import Thumbnail
from meantime.report.place import Place
from meantime.report.trust import percent

LONGEST = 40  # characters of a caption; of a longer one the end, where names differ


def tile(prediction: Prediction, place: Place, label: int, picture: Thumbnail | None) -> str:
    """Return the tile of an image that was read; ``label`` is the number of its answer on this page."""
    best, score = prediction.top(1)[0]
    link = "" if place.link is None else f' href="{escape(place.link)}" target="_blank"'
    shown = '<i class="blank"></i>' if picture is None else f'<i><img alt="" src="{picture.url}"></i>'
    name = f'<span class="none">{escape(best)}?</span>' if prediction.abstained else f"<b>{escape(best)}</b>"
    was = ""
    if prediction.changed and not prediction.abstained:
        was = f'<span class="was">was {escape(prediction.plain_label or "")}</span>'
    return (
        f'<a class="tile" data-label="{label}"{link}>{shown}{name} <span class="score">{percent(score)}</span>{was}'
        f'<span class="file" title="{escape(place.path)}">{_caption(place.caption)}</span></a>\n'
    )


def _caption(text: str) -> str:
    """Cut a caption, and let its lines break, at folders where it can be."""
    if len(text) > LONGEST:
        end = text[-LONGEST:]
        text = "…" + end[max(end.find("/"), 0) :]
    return escape(text).replace("/", "/<wbr>")


def unreadable(prediction: Prediction, place: Place) -> str:
    """Return the line of an image that could not be read."""
    return f'<div class="row">{place.line()}<p class="note">{escape(prediction.error or "")}</p></div>\n'

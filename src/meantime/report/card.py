"""One image's card on the page: its picture with boxes, its names as bars, its views in order of trust.

The picture is embedded once, as an SVG image; every crop in the strip is a window onto it, so that a view
costs a hundred bytes instead of a file of its own.
"""

from html import escape

from meantime.prediction import Prediction
from meantime.report.picture import Thumbnail
from meantime.report.place import Place
from meantime.report.trust import compared, least_trusted, most_trusted, percent, ranked, shades

BOXES_TRUSTED, BOXES_DOUBTED = 3, 2
STRIP_FIRST, STRIP_LAST = 12, 4


def card(
    prediction: Prediction, place: Place, label: int, picture: Thumbnail | None, *, number: int, method: str, note: str
) -> str:
    """Return the card of an image that was read.

    ``label`` is the number of its answer on this page, ``number`` tells its picture from the others, and ``note``
    says why there is none.
    """
    shown = "" if picture is None else _photo(prediction, place, picture, number)
    strip = "" if picture is None else _strip(prediction, picture, number)
    said = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"""<article class="card{" bare" if picture is None else ""}" data-label="{label}">
{shown}<div class="facts">
{_heading(prediction, place)}{said}
{_bars(prediction, method)}
</div>
{strip}</article>
"""


def _heading(prediction: Prediction, place: Place) -> str:
    best, score = prediction.top(1)[0]
    if prediction.abstained:
        answer = '<span class="none">no answer</span>'
        mark = (
            f'<p class="mark doubt">abstained: the best name, {escape(best)}, has {percent(score)}, '
            f"less than the {100 * prediction.threshold:g} % asked for</p>"
        )
    else:
        answer = f'{escape(best)} <span class="score">{percent(score)}</span>'
        mark = ""
        if prediction.changed:
            was = escape(prediction.plain_label or "")
            mark = f'<p class="mark">changed: <s>{was}</s> → <b>{escape(best)}</b></p>'
    return f"{place.line()}\n<h3>{answer}</h3>\n{mark}"


def _photo(prediction: Prediction, place: Place, picture: Thumbnail, number: int) -> str:
    """The picture with the boxes of the views that count most and least."""
    boxes = []
    for kind, views in (
        ("doubted", least_trusted(prediction.inlierness, BOXES_DOUBTED)),
        ("trusted", most_trusted(prediction.inlierness, BOXES_TRUSTED)),
    ):
        for i in views:
            x, y, w, h = _place(prediction, picture, i)
            area = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"'
            # A dark line below the bright one is seen on any photo.
            boxes.append(
                f'<g class="{kind}"><title>{_describe(prediction, i)}</title>'
                f'<rect class="halo" {area}/><rect {area}/></g>'
            )
    width, height = picture.width, picture.height
    svg = f"""<svg class="photo" role="img" aria-label="{escape(place.caption)}" viewBox="0 0 {width} {height}">
<image id="p{number}" width="{width}" height="{height}" href="{picture.url}"/>
{"".join(boxes)}</svg>"""
    if place.link is not None:
        svg = f'<a href="{escape(place.link)}" target="_blank">{svg}</a>'
    return svg + "\n"


def _strip(prediction: Prediction, picture: Thumbnail, number: int) -> str:
    """The views in order of inlierness: the first ones, a gap, the last ones."""
    order = [int(i) for i in ranked(prediction.inlierness)]
    if len(order) < 2:  # a single view is the picture itself
        return ""
    shade = shades(prediction.inlierness)

    def view(i: int) -> str:
        x, y, w, h = _place(prediction, picture, i)
        flip = ' class="flip"' if prediction.flips[i] else ""
        return (
            f'<li style="--t:{shade[i]:.2f}" title="{_describe(prediction, i)}">'
            f'<svg{flip} viewBox="{x:.1f} {y:.1f} {w:.1f} {h:.1f}" preserveAspectRatio="none">'
            f'<use href="#p{number}"/></svg>{percent(float(prediction.inlierness[i]))}</li>'
        )

    hidden = len(order) - STRIP_FIRST - STRIP_LAST
    if hidden <= 0:
        views = "".join(view(i) for i in order)
    else:
        first = "".join(view(i) for i in order[:STRIP_FIRST])
        last = "".join(view(i) for i in order[-STRIP_LAST:])
        views = f'{first}<li class="gap">{hidden} more</li>{last}'
    return f'<ol class="strip" aria-label="views by inlierness">{views}</ol>\n'


def _bars(prediction: Prediction, method: str) -> str:
    whose = {"plain": "plain zero-shot", "ours": escape(method)}
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{_bar("plain", plain, whose)}{_bar("ours", ours, whose)}</td></tr>'
        for name, plain, ours in compared(prediction)
    )
    caption = " ".join(f'<span class="{kind}">{name}</span>' for kind, name in whose.items())
    return f'<table class="bars"><caption>{caption}</caption>{rows}</table>'


def _bar(kind: str, share: float, whose: dict[str, str]) -> str:
    # Whose bar it is, is seen by its colour; the hidden words are for those who listen.
    said = f'<b class="quiet">{whose[kind]}: </b>'
    return f'<div class="{kind}">{said}<i style="width:{100 * share:.1f}%"></i><span>{percent(share)}</span></div>'


def _place(prediction: Prediction, picture: Thumbnail, i: int) -> tuple[float, float, float, float]:
    """View i's x, y, width and height in pixels of the thumbnail; slivers stay a pixel wide."""
    left, top, right, bottom = (float(edge) for edge in prediction.boxes[i])
    width, height = max((right - left) * picture.width, 1.0), max((bottom - top) * picture.height, 1.0)
    return left * picture.width, top * picture.height, width, height


def _describe(prediction: Prediction, i: int) -> str:
    original = ", the original" if i == 0 else ", flipped" if prediction.flips[i] else ""
    return f"view {i}{original}: inlierness {float(prediction.inlierness[i]):.4g}"

"""One image's card on the page: its picture with boxes, its names as bars, its views in order of trust.

The picture is embedded once, as an SVG image; every crop in the strip is a window onto it, so that a view
costs a hundred bytes instead of a file of its own.
"""

from base64 import b64encode
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import PurePath

from PIL import Image

from meantime.errors import ImageError
from meantime.images import Pixels, load_image, quiet_pillow
from meantime.prediction import Prediction
from meantime.report.trust import compared, least_trusted, most_trusted, percent, ranked, shades

SIDE, QUALITY = 320, 82  # of the thumbnail: longest side in pixels, JPEG quality
BOXES_TRUSTED, BOXES_DOUBTED = 3, 2
STRIP_FIRST, STRIP_LAST = 12, 4


@dataclass(frozen=True)
class Thumbnail:
    """A small JPEG as base64."""

    data: str
    width: int
    height: int


def thumbnail(path: str) -> Thumbnail:
    """Read an image and shrink it."""
    picture = Image.fromarray(_reduced(path))
    picture.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=2.0)
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return Thumbnail(b64encode(buffer.getvalue()).decode("ascii"), *picture.size)


def _reduced(path: str) -> Pixels:
    """Read an image; a JPEG no larger than is of use, which saves most of its decoding."""
    try:
        with quiet_pillow(), Image.open(path) as image:
            image.draft("RGB", (2 * SIDE, 2 * SIDE))
            return load_image(image)
    except Exception:  # no file: a URL, or the reason why there is none
        return load_image(path)


def card(prediction: Prediction, number: int, method: str) -> str:
    """Return the card of an image that was read; ``number`` tells its picture from the others."""
    picture, note = None, ""
    if prediction.path is not None:
        try:
            picture = thumbnail(prediction.path)
        except ImageError as error:  # moved or deleted since it was classified
            note = f'<p class="note">{escape(str(error))}</p>'
    shown = "" if picture is None else _photo(prediction, picture, number)
    strip = "" if picture is None else _strip(prediction, picture, number)
    return f"""<article class="card{" bare" if picture is None else ""}">
{shown}<div class="facts">
{_heading(prediction, number)}{note}
{_bars(prediction, method)}
</div>
{strip}</article>
"""


def unreadable(prediction: Prediction, number: int) -> str:
    """Return the line of an image that could not be read."""
    return f"""<article class="card bare">
{_file_name(prediction, number)}
<p class="note">{escape(prediction.error or "")}</p>
</article>
"""


def _heading(prediction: Prediction, number: int) -> str:
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
    return f"{_file_name(prediction, number)}\n<h3>{answer}</h3>\n{mark}"


def _file_name(prediction: Prediction, number: int) -> str:
    if prediction.path is None:
        return f'<p class="file">image {number}</p>'
    name = PurePath(prediction.path).name or prediction.path
    return f'<p class="file" title="{escape(prediction.path)}">{escape(name)}</p>'


def _photo(prediction: Prediction, picture: Thumbnail, number: int) -> str:
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
    name, width, height = escape(prediction.path or ""), picture.width, picture.height
    return f"""<svg class="photo" role="img" aria-label="{name}" viewBox="0 0 {width} {height}">
<image id="p{number}" width="{width}" height="{height}" href="data:image/jpeg;base64,{picture.data}"/>
{"".join(boxes)}</svg>
"""


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

"""What stands above the images: what was run, what came of it, and where to go from there."""

from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files

from meantime.report.tally import Tally

LABELS = 24  # shown at once; those with fewer images are folded away
LEGEND = (
    "<b>Inlierness</b> is the share of the answer that each view of the image carries: views that agree "
    "with each other share nearly all of it, views that show something else get next to none."
)
# Shown by the script, which alone can make use of it.
BAR = """<form id="bar" autocomplete="off" hidden>
<input id="find" type="search" placeholder="Find a file" aria-label="Find a file">
<select id="label" aria-label="Label"><option value="">all labels</option></select>
<select id="sort" aria-label="Order"><option value="">least certain first</option><option value="path">by path</option>
</select>
</form>
"""


def head(title: str, *, method: str, encoder: str, tally: Tally, counts: dict[str, int], warning: str) -> str:
    """Return the page as far as its first section; ``counts`` are the images of each section."""
    run = [f"method <b>{escape(method)}</b>", f"encoder <b>{escape(encoder)}</b>", *_views(tally)]
    # Nothing may be fetched, and no script may run but the one below: whatever a name holds, it stays a name.
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src '{_fingerprint(script())}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{_file("style.css")}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
{_totals(tally.images, counts)}
<p class="run">{" · ".join(run)}</p>
{warning}{_labels(tally)}<p class="legend">{LEGEND} Boxes on a photo:
<span class="key trusted">most trusted views</span> <span class="key doubted">least trusted views</span></p>
</header>
{BAR}<main>
<p id="nothing" hidden>No image fits.</p>
"""


def script() -> str:
    """Return what the page does when it is asked to filter or sort."""
    return _file("page.js")


def _file(name: str) -> str:
    return files("meantime.report").joinpath(name).read_text(encoding="utf-8")


def _fingerprint(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode("ascii")


def _totals(images: int, counts: dict[str, int]) -> str:
    items = [f"<li><b>{images:,}</b> image{'' if images == 1 else 's'}</li>"]
    for section, count in counts.items():
        inside = f"<b>{count:,}</b> {section}"
        items.append(f'<li><a href="#{section}">{inside}</a></li>' if count else f"<li>{inside}</li>")
    return f'<ul class="totals">{"".join(items)}</ul>'


def _views(tally: Tally) -> list[str]:
    if tally.views == 0:  # nothing was read
        return []
    if tally.fewest == tally.most:
        return [f"<b>{tally.most:,}</b> view{'' if tally.most == 1 else 's'} of each image"]
    mean = tally.views / tally.labels.total()
    return [f"<b>{tally.fewest:,}</b> to <b>{tally.most:,}</b> views of an image, <b>{mean:,.1f}</b> on average"]


def _labels(tally: Tally) -> str:
    """Each answer and how many images got it, the most frequent first; by the script a button that shows these."""
    ordered = tally.labels.most_common()
    if not ordered:
        return ""

    def item(label: str | None, count: int) -> str:
        name = '<span class="none">no answer</span>' if label is None else f"<span>{escape(label)}</span>"
        return (
            f'<li><button type="button" disabled value="{tally.number(label)}">{name} <b>{count:,}</b>'
            f'<i style="width:{100 * count / ordered[0][1]:.1f}%"></i></button></li>'
        )

    first = "".join(item(*each) for each in ordered[:LABELS])
    text = f'<ul class="labels" aria-label="images of each label">{first}</ul>\n'
    if rest := ordered[LABELS:]:
        more = "".join(item(*each) for each in rest)
        text += f'<details><summary>{len(rest):,} more labels</summary><ul class="labels">{more}</ul></details>\n'
    return text

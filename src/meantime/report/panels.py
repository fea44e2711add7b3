"""The four panels of the picture that explains one image: photo, bars, grid of views, plane of the modes.

The only module that needs matplotlib as it is imported.
"""

import math
from collections import Counter
from pathlib import PurePath
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.patheffects import Normal, Stroke

from meantime.plane import Points
from meantime.report.story import Story
from meantime.report.trust import compared, least_trusted, most_trusted, percent, ranked, shades

BOXES = 3  # of the most and of the least trusted views
CELLS = 100  # at most in the grid of views
TRUSTED, DOUBTED = "#16a34a", "#e11d48"
MTA, PLAIN = "#f07f13", "#8a8f98"  # orange beside grey, as in the paper
INK, SOFT = "#1b1f27", "#667085"
MARKERS = "os^D"  # one for each of the classes that most views are taken for
OTHER = "X"


def draw_title(figure: Any, story: Story) -> None:
    """The answer, and what plain zero-shot says to it."""
    p = story.prediction
    was = f"plain zero-shot says {_short(p.plain_label or '', 36)}, {percent(float(p.plain.max()))}"
    headline = f"{_short(p.label or '', 36)}, {percent(p.score)}"
    figure.text(0.015, 0.95, _text(headline), size=24, weight="bold", color=INK, va="center")
    figure.text(
        0.985,
        0.95,
        _text(f"MTA changed the answer: {was}" if p.changed else f"MTA agrees: {was}"),
        size=16,
        color=MTA if p.changed else SOFT,
        weight="bold" if p.changed else "normal",
        va="center",
        ha="right",
    )


def draw_photo(axes: Any, story: Story) -> None:
    """The photo with the boxes of the views that count most and least."""
    height, width = story.photo.shape[:2]
    step = max(1, max(height, width) // 1200)  # more pixels than that are not seen
    axes.imshow(story.photo[::step, ::step], extent=(0, width, height, 0))
    y = story.prediction.inlierness
    for colour, dash, chosen in (
        (DOUBTED, (0, (4, 2.5)), least_trusted(y, BOXES)),
        (TRUSTED, "solid", most_trusted(y, BOXES)),
    ):
        for i in chosen:
            left, top, right, bottom = story.views.places.boxes[i] * (width, height, width, height)
            box = Rectangle(
                (left, top),
                right - left,
                bottom - top,
                fill=False,
                color=colour,
                lw=2.4,
                ls=dash,
                clip_on=False,
            )
            box.set_path_effects([Stroke(linewidth=4.4, foreground="black", alpha=0.4), Normal()])
            axes.add_patch(box)
    axes.set_axis_off()
    name = PurePath(story.prediction.path).name if story.prediction.path else "the photo"
    # Texts keep to the panel, not to the axes, which are as narrow or as flat as the photo.
    panel = axes.get_position(original=True)
    write = axes.figure.text
    write(panel.x0, panel.y1 + 0.01, _text(_short(name, 44)), size=12, color=INK)
    write(panel.x0, panel.y0 - 0.03, "— most trusted views", size=11, color=TRUSTED)
    write(panel.x1, panel.y0 - 0.03, "- - least trusted views", size=11, color=DOUBTED, ha="right")


def draw_bars(axes: Any, story: Story) -> None:
    """The best names, plain zero-shot beside MTA."""
    rows = compared(story.prediction)
    places = np.arange(len(rows))
    for offset, colour, label, column in ((-0.19, PLAIN, "plain zero-shot", 1), (0.19, MTA, "MTA", 2)):
        shares = [float(row[column]) for row in rows]
        axes.barh(places + offset, shares, height=0.34, color=colour, label=label)
        for place, share in zip(places, shares, strict=True):
            axes.text(share + 0.015, place + offset, percent(share), size=9, color=SOFT, va="center")
    axes.set_yticks(places, [_text(_short(name, 20)) for name, _, _ in rows], size=11, color=INK)
    axes.set_xlim(0, 1)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color("#c9ced6")
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.02), ncols=2, frameon=False, fontsize=11)


def draw_grid(axes: Any, story: Story, frames: Any) -> None:
    """Every view in order of inlierness; of very many, an even choice."""
    y = story.prediction.inlierness
    order = ranked(y)
    if len(order) > CELLS:
        order = order[np.linspace(0, len(order) - 1, CELLS).round().astype(int)]
    columns = math.ceil(math.sqrt(len(order)))
    shade = shades(y)
    size = 9 if columns <= 8 else 7
    for place, i in enumerate(order):
        row, column = divmod(place, columns)
        left, top = column * 1.0, row * 1.2  # a fifth of a cell for the text
        axes.add_patch(Rectangle((left + 0.02, top + 0.02), 0.96, 0.96, lw=0, color=frames(0.08 + 0.92 * shade[i])))
        extent = (left + 0.085, left + 0.915, top + 0.915, top + 0.085)
        axes.imshow(story.views.pixels[i], extent=extent, zorder=2, alpha=0.5 + 0.5 * shade[i])
        label = _short(story.own[i], 84 // columns + 2)
        agrees = story.own[i] == story.prediction.label
        axes.text(
            left + 0.5,
            top + 1.085,
            _text(label),
            size=size,
            ha="center",
            va="center",
            color=INK if agrees else DOUBTED,
        )
    rows = math.ceil(len(order) / columns)
    axes.set_xlim(0, columns)
    axes.set_ylim(rows * 1.2, 0)
    axes.set_aspect("equal", anchor="N")
    axes.set_axis_off()
    shown = "the views" if len(order) == len(y) else f"{len(order)} of {len(y)} views"
    most, least = percent(float(y.max())), percent(float(y.min()))
    axes.set_title(
        f"{shown} by inlierness (the darker the frame, the more it counts: {most} … {least})",
        size=12,
        color=INK,
        loc="left",
    )


def draw_plane(axes: Any, story: Story, frames: Any) -> None:
    """The views by what each is taken for, and the two paths from the original view."""
    x, shade = story.points, shades(story.prediction.inlierness)
    common = [name for name, _ in Counter(story.own).most_common(len(MARKERS))]
    group = np.array([common.index(own) if own in common else len(common) for own in story.own])
    markers = [*MARKERS[: len(common)], OTHER]
    for i, (name, marker) in enumerate(zip([*common, "another class"], markers, strict=True)):
        mine = group == i
        if mine.any():
            axes.scatter(
                *x[mine].T,
                s=90,
                marker=marker,
                c=frames(0.08 + 0.92 * shade[mine]),
                edgecolors="#3b4a63",
                lw=0.7,
                label=_text(_short(name, 20)),
                zorder=2,
            )
    shortest = 0.03 * float(np.ptp(x, axis=0).max())  # step that has room for an arrow head
    _draw_path(axes, story.shift_path, PLAIN, "MeanShift", 3, shortest)
    _draw_path(axes, story.mta_path, MTA, "MTA", 4, shortest)
    axes.scatter(*x[0], s=330, marker="o", facecolors="none", edgecolors="black", lw=2, zorder=5)
    # The note stands where there is more room sideways, and away from where MTA's path leads.
    side = -1 if x[0, 0] > (x[:, 0].min() + x[:, 0].max()) / 2 else 1
    level = -1 if story.mta_path[-1, 1] >= x[0, 1] else 1
    note = axes.annotate(
        "start: the original",
        x[0],
        (14 * side, 14 * level),
        textcoords="offset points",
        size=12,
        ha="right" if side < 0 else "left",
        va="top" if level < 0 else "bottom",
        zorder=7,
    )
    note.set_path_effects([Stroke(linewidth=4, foreground="white"), Normal()])
    axes.margins(0.12)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#c9ced6")
    axes.set_title(
        f"the way of the mode (PCA: {percent(story.seen)} of the views' variance)",
        size=12,
        color=INK,
        loc="left",
    )
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.005),
        ncols=3,
        frameon=False,
        fontsize=11,
        title="shape: what a view by itself is taken for; colour: its inlierness",
    )


def _draw_path(axes: Any, path: Points, colour: str, label: str, order: int, shortest: float) -> None:
    halo = [Stroke(linewidth=5.5, foreground="white"), Normal()]
    axes.plot(*path.T, color=colour, lw=3, label=label, zorder=order, path_effects=halo)
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    for begin, end, length in zip(path[:-1], path[1:], steps, strict=True):
        if length > shortest:
            middle = begin + 0.6 * (end - begin)
            arrow = {"arrowstyle": "-|>", "color": colour, "lw": 3, "mutation_scale": 22}
            axes.annotate("", middle, begin, arrowprops=arrow, zorder=order)
    axes.scatter(*path[-1], s=340, marker="*", color=colour, edgecolors="white", lw=1.5, zorder=order + 2)


def _text(text: str) -> str:
    """A name as it is: matplotlib takes what stands between two dollars for mathematics."""
    return text.replace("$", r"\$")


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"

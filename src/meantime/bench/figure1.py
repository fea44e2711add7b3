"""Figure 1: how inlierness spreads over the views of one image, and which way the mode goes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.bench.plots import BLUE, GREY, INK, ORANGE, new_figure, save
from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.meanshift import mean_shift, mta
from meantime.meanshift.affinity import text_affinity
from meantime.meanshift.density import bandwidth, gram, squared_distances
from meantime.meanshift.head import Head, TextHead
from meantime.meanshift.solver import solve, variant_named
from meantime.plane import Plane, Points
from meantime.store import Store

LOOPS = (0, 1, 2, 5)  # outer loops after which inlierness is shown; the released program stops after 5


@dataclass(frozen=True)
class Spreading:
    """Everything that the figure shows of one image, in the plane of its views' two main axes."""

    key: str
    label: str
    says: tuple[str, str]  # plain zero-shot, MTA
    points: Points  # (N, 2)
    inlierness: Points  # (L + 1, N), at the start and after every outer loop
    mta_path: Points  # (L + 1, 2)
    shift_path: Points  # (L' + 1, 2)
    seen: float  # share of the views' variance in this plane


def spreading(store: Store, image: int | None = None) -> Spreading:
    """Follow MTA on one image of a store; by default the first that it corrects, else the first."""
    head = TextHead(store.texts.single, store.logit_scale)
    chosen = None
    for batch in store.batches(32):
        if image is None:
            plain, ours = (
                np.asarray(x).argmax(axis=-1) for x in (head(batch.views[:, 0]), mta(batch.views, head).logits)
            )
            telling = np.flatnonzero((plain != batch.labels) & (ours == batch.labels))
            here = telling[:1]
        else:
            here = np.flatnonzero(batch.index == image)
        if chosen is None or len(here):
            place = int(here[0]) if len(here) else 0
            chosen = (batch.keys[place], int(batch.labels[place]), batch.views[place])
        if len(here):
            return _follow(store, head, *chosen)
    if image is not None or chosen is None:
        raise MeantimeError(f"the store of {store.name} has no image {image}; it has {len(store)}")
    return _follow(store, head, *chosen)


def _follow(store: Store, head: Head, key: str, label: int, views: NDArray[np.float32]) -> Spreading:
    x = views.astype(np.float64)
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    G = gram(x[None])
    states: list[Any] = []
    setting = (np.array([[4.0]]), np.array([[0.2]]))  # lambda and lambda_y
    W = text_affinity(head(x[None]))
    solve(G, W, bandwidth(squared_distances(G), 0.3), *setting, variant_named("official"), states.append)
    modes = np.stack([s.mode.a[0, 0] for s in states]) @ x
    plane = Plane(x)
    names = store.class_names
    first, last = (names[int(np.argmax(head(m)))] for m in (x[0], modes[-1] / np.linalg.norm(modes[-1])))
    return Spreading(
        key,
        names[label],
        (first, last),
        plane.points,
        np.exp(np.stack([s.log_y[0, 0] for s in states])),
        plane(modes),
        plane(np.asarray(mean_shift(x, trace=True).path)),
        plane.seen,
    )


def draw(s: Spreading, path: Path) -> Path:
    """Write the figure: (a) inlierness after some loops, (b) the ways of both modes."""
    figure = new_figure(15, 4.6)
    grid = figure.add_gridspec(1, 6, width_ratios=[1, 1, 1, 1, 0.06, 1.5])
    loops = [loop for loop in LOOPS if loop < len(s.inlierness)]
    # Inlierness falls off by orders of magnitude: the root keeps the middle apart from the bottom
    norm = optional("matplotlib.colors", "a figure", "plots").PowerNorm(0.5, 0, float(s.inlierness.max()))
    shown = None
    for place, loop in enumerate(loops):
        axes = figure.add_subplot(grid[0, place])
        order = np.argsort(s.inlierness[loop])
        shown = axes.scatter(
            *s.points[order].T, c=s.inlierness[loop][order], cmap="Blues", norm=norm, s=70, ec=GREY, lw=0.6
        )
        axes.scatter(*s.mta_path[loop], marker="*", s=240, color=ORANGE, ec="white", lw=1)
        title = "at the start" if loop == 0 else f"after loop {loop}"
        axes.set_title(("(a) inlierness " if place == 0 else "") + title, loc="left", size=11, color=INK)
        _bare(axes, s.points)
    figure.colorbar(shown, cax=figure.add_subplot(grid[0, 4])).outline.set_visible(False)
    axes = figure.add_subplot(grid[0, 5])
    axes.scatter(*s.points.T, c=s.inlierness[-1], cmap="Blues", norm=norm, s=60, ec=GREY, lw=0.6)
    for way, colour, name in ((s.shift_path, INK, "MeanShift"), (s.mta_path, ORANGE, "MTA")):
        axes.plot(*way.T, color="white", lw=4.5)
        axes.plot(*way.T, color=colour, lw=2.2, label=name, marker=".", ms=5)
        axes.scatter(*way[-1], marker="*", s=240, color=colour, ec="white", lw=1, zorder=4)
    axes.scatter(*s.points[0], s=170, facecolors="none", ec=BLUE, lw=2, zorder=5, label="view 0, the start")
    axes.set_title("(b) the way of the mode", loc="left", size=11, color=INK)
    axes.legend(frameon=False, fontsize=9, loc="best")
    _bare(axes, s.points)
    figure.suptitle(
        f"{s.label} ({s.key}): plain zero-shot says {s.says[0]}, MTA {s.says[1]}; "
        f"two main axes, {100 * s.seen:.0f} % of the views' variance",
        size=11,
        color=INK,
    )
    return save(figure, path)


def _bare(axes: Any, points: Points) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#d5d9e0")
    axes.margins(0.08)

"""Predictions in the terminal: a table to look at, lines for other programs."""

import os

from rich.markup import escape
from rich.table import Table

from meantime.prediction import Prediction

MOST_ROWS = 200  # of the table; a file holds all


def line(p: Prediction) -> str:
    """For other programs: key, label, score and plain label between tabs, cut to the width of no terminal."""
    score = f"{p.score:.4f}" if p.error is None else ""
    return "\t".join((p.path or "", p.label or "", score, p.plain_label or ""))


def table(predictions: list[Prediction], top: int, *, plain: bool) -> Table:
    """Each image's best names and, with ``plain``, where plain zero-shot says something else."""
    found = Table(box=None, pad_edge=False)
    found.add_column("image", overflow="fold")
    found.add_column("label", style="bold", no_wrap=True)
    found.add_column("score", justify="right", no_wrap=True)
    found.add_column("next", style="dim", overflow="fold")
    if plain:
        found.add_column("plain zero-shot", overflow="fold")
    folder = _shared_folder([p.path or "" for p in predictions])
    for p in predictions:
        name = escape(os.path.relpath(p.path, folder) if p.path and folder else p.path or "")
        if p.error is not None:
            found.add_row(name, "unreadable", style="red")
            continue
        following = escape(", ".join(f"{n} {s:.2f}" for n, s in p.top(top)[1:]))
        cells = [name, escape(p.label or "(no answer)"), f"{p.score:.2f}", following]
        if plain:
            cells.append(f"[yellow]{escape(p.plain_label or '')}[/]" if p.changed else "same")
        found.add_row(*cells)
    return found


def _shared_folder(paths: list[str]) -> str:
    """The folder that all paths lie in, which the table need not repeat."""
    try:
        return os.path.commonpath([os.path.dirname(path.rstrip("/")) for path in paths])
    except ValueError:  # absolute and relative paths together
        return ""

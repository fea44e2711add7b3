"""What is said of predictions in a terminal: a table; in a pipe a line for each as it comes; and what became of all."""

import os
import sys
from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from meantime.prediction import Prediction

MOST_ROWS = 200  # of the terminal table; a file holds all
OUTCOMES = ("classified", "without an answer", "unreadable")


def say(sentence: str) -> None:
    """Tell the user, not the program that reads the results."""
    print(f"meantime: {sentence}", file=sys.stderr, flush=True)


class Shown:
    """Shows predictions and counts them. ``closed`` tells that the reader of the pipe has had enough."""

    def __init__(self, top: int, plain: bool) -> None:
        self.top, self.plain = min(top, 3), plain
        self.piped = not sys.stdout.isatty()
        self.closed = False
        self.rows: list[Prediction] = []
        self.hidden = 0
        self.told: Counter[str] = Counter()

    @property
    def answered(self) -> int:
        """How many could be read, whether they have an answer or not."""
        return self.told["classified"] + self.told["without an answer"]

    @property
    def summary(self) -> str:
        """What became of all of them."""
        return ", ".join(f"{self.told[kind]} {kind}" for kind in OUTCOMES if self.told[kind] or kind == "classified")

    def add(self, prediction: Prediction) -> None:
        """Print it, or keep it for the table if there is room; what is wrong with it is said at once."""
        if prediction.error is not None:
            say(prediction.error)
            self.told["unreadable"] += 1
        else:
            self.told["without an answer" if prediction.abstained else "classified"] += 1
        if self.piped:
            self._print(_line(prediction))
        elif len(self.rows) < MOST_ROWS:
            self.rows.append(prediction)
        else:
            self.hidden += 1

    def end(self) -> None:
        """Print the table, if there is one."""
        if self.rows:
            Console().print(_table(self.rows, self.top, self.plain))

    def _print(self, line: str) -> None:
        if self.closed:
            return
        try:
            print(line, flush=True)
        except BrokenPipeError:
            self.closed = True
            # What is still in the buffer would fail once more when the interpreter flushes it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _line(p: Prediction) -> str:
    """For other programs: path, label, score and plain label between tabs, cut to the width of no terminal."""
    score = f"{p.score:.4f}" if p.error is None else ""
    return "\t".join((p.path or "", p.label or "", score, p.plain_label or ""))


def _table(predictions: list[Prediction], top: int, plain: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("image", overflow="fold")
    table.add_column("label", style="bold", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("next", style="dim", overflow="fold")
    if plain:
        table.add_column("plain zero-shot", overflow="fold")
    folder = _shared_folder([p.path or "" for p in predictions])
    for p in predictions:
        name = escape(os.path.relpath(p.path, folder) if p.path and folder else p.path or "")
        if p.error is not None:
            table.add_row(name, "unreadable", style="red")
            continue
        following = escape(", ".join(f"{n} {s:.2f}" for n, s in p.top(top)[1:]))
        cells = [name, escape(p.label or "(no answer)"), f"{p.score:.2f}", following]
        if plain:
            cells.append(f"[yellow]{escape(p.plain_label or '')}[/]" if p.changed else "same")
        table.add_row(*cells)
    return table


def _shared_folder(paths: list[str]) -> str:
    """The folder that all paths lie in, which the table need not repeat."""
    try:
        return os.path.commonpath([os.path.dirname(path.rstrip("/")) for path in paths])
    except ValueError:  # absolute and relative paths together
        return ""

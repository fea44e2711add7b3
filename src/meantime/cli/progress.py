"""How far a run is: a bar on a terminal; elsewhere, as under nohup or cron, a plain line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

EVERY = 30.0  # seconds between two lines
Tell: TypeAlias = Callable[[int, int | None], None]  # so many of so many are done; None: only the end tells


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{_number(task.speed)}/s")


class Lines:
    """Tells in plain lines; what was done before it was first told does not count for the rate."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.clock = what, clock
        self.start = self.told = clock()
        self.before: int | None = None

    def __call__(self, done: int, total: int | None) -> None:
        """Hear how far it is, and tell if it is time."""
        if self.before is None:
            self.before = done
        now = self.clock()
        if now - self.told < EVERY:
            return
        self.told = now
        rate = (done - self.before) / (now - self.start)
        left = f", {timedelta(seconds=round((total - done) / rate))} left" if rate and total is not None else ""
        of = "" if total is None else f" of {total}"
        print(f"meantime: {self.what}, {done}{of}, {_number(rate)}/s{left}", file=sys.stderr, flush=True)


@contextmanager
def progress(what: str) -> Iterator[Tell]:
    """Yield what is to be told how far it is."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(what)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    # Standard output is not the bar's: it may well be a pipe
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:

        def tell(done: int, total: int | None) -> None:
            if bar.tasks:
                bar.update(bar.tasks[0].id, completed=done, total=total)
            else:
                bar.add_task(what, completed=done, total=total)

        yield tell


def _number(rate: float) -> str:
    return f"{rate:.1f}" if rate >= 0.95 else f"{rate:.2g}"

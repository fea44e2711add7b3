"""`meantime models` and `meantime methods`: what there is."""

from typing import Literal

from rich.console import Console
from rich.table import Table

from meantime.encoders import list_encoders
from meantime.registry import methods as all_methods


def models() -> None:
    """List the encoders: installed, cached on this machine, or to be downloaded."""
    table = Table(box=None)
    for column in ("name", "MB", "dimension", "where", "what it is"):
        # A name must be there whole, to be copied; the others fold.
        justify: Literal["left", "right"] = "right" if column == "MB" else "left"
        table.add_column(column, justify=justify, no_wrap=column == "name", overflow="fold")
    for e in list_encoders():
        where = e.state if e.needs is None else f"{e.state}, needs meantime[{e.needs}]"
        table.add_row(e.name, f"{e.size_mb:g}" if e.size_mb else "", str(e.dim or ""), where, e.description)
    # Names and extras hold brackets and colons: no markup, no emoji.
    Console(markup=False, emoji=False).print(table)
    print("NAME:TAG takes every pair that open_clip lists, hf: every CLIP and SigLIP on the hub or in a directory.")


def methods() -> None:
    """List the methods: how views are aggregated, and by which prompts they are seen and read."""
    table = Table(box=None)
    for column in ("name", "seen by", "read by", "what it is", "needs"):
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for name, method in all_methods().items():
        reader = "" if method.reader == method.head else method.reader
        table.add_row(name, method.head, reader, method.summary, method.needs)
    Console().print(table)
    print("A@H puts a training-free method on any learned head: zero@coop; mta@DIR, a folder of `meantime fit`.")

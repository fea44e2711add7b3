"""`meantime models` and `meantime methods`: what there is."""

from rich.console import Console
from rich.table import Table

from meantime.encoders import list_encoders
from meantime.registry import methods as all_methods


def models() -> None:
    """List the encoders."""
    table = Table(box=None)
    for column in ("name", "MB", "dimension", "what it is"):
        table.add_column(column)
    for e in list_encoders():
        table.add_row(e.name, f"{e.size_mb:g}" if e.size_mb else "", str(e.dim or ""), e.description)
    Console().print(table)


def methods() -> None:
    """List the methods: how views are aggregated, and by which prompts they are seen and read."""
    table = Table(box=None)
    for column in ("name", "seen by", "read by", "what it is"):
        table.add_column(column)
    for name, method in all_methods().items():
        table.add_row(name, method.head, method.reader, method.summary)
    Console().print(table)

"""`meantime store`: look at a store, verify it, merge parts, import arrays."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from meantime.cli import options as o
from meantime.labels import TEMPLATE
from meantime.store import Store, import_arrays, merge_stores, open_store, verify_store

app = typer.Typer(help="Look at, verify, merge and import stores.", no_args_is_help=True, rich_markup_mode=None)
StoreArgument = Annotated[str, typer.Argument(help="The folder of a store, or its URL")]


@app.command()
def info(store: StoreArgument) -> None:
    """Say what a store holds and how it was made."""
    opened = open_store(store)
    plan = opened.plan
    table = Table(box=None, show_header=False)
    facts = {
        "dataset": f"{plan.dataset}, {plan.split}",
        "images": _images(opened),
        "classes": f"{len(plan.classes)}: {', '.join(plan.classes[:5])}{', …' if len(plan.classes) > 5 else ''}",
        "encoder": f"{plan.encoder_name} ({plan.encoder}), dimension {plan.dim}, logit scale {plan.logit_scale:g}",
        "views": f"{plan.n_views}: {plan.views}, seed {plan.seed}",
        "texts": f"{', '.join(opened.manifest.texts) or 'none'}; {plan.prompt}",
        "shards": f"{len(opened.manifest.shards)} of up to {plan.shard_size} images, {_megabytes(opened):.1f} MB",
        "fingerprint": plan.fingerprint[:16],
        "versions": ", ".join(f"{name} {number}" for name, number in opened.manifest.versions.items()),
    }
    for name, fact in facts.items():
        table.add_row(name, escape(fact))
    Console().print(table)
    for error in opened.errors:
        print(f"unreadable: {error['key']}: {error['error']}")


@app.command()
def verify(store: StoreArgument) -> None:
    """Read everything and compare it with the manifest: checksums, counts, labels, lengths."""
    opened = open_store(store)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verifying", total=None)
        verify_store(opened, lambda done, total: bar.update(task, completed=done, total=total))
    print(f"{_images(opened)}, {len(opened.manifest.shards)} shards: ok")


@app.command()
def merge(
    out: Annotated[str, typer.Argument(help="The new store: a folder or a URL")],
    stores: Annotated[list[str], typer.Argument(help="Stores that hold parts of one dataset")],
) -> None:
    """Put parts of one dataset together; nothing of the parts is changed. If interrupted, run it again."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("merging", total=None)
        merged = merge_stores(out, stores, lambda done, total: bar.update(task, completed=done, total=total))
    print(f"{_images(merged)} in {out}")


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help=".npz: views, names, text_single, and what else there is")],
    out: Annotated[str, typer.Option(help="The new store: a folder or a URL")],
    name: Annotated[str | None, typer.Option(help="Of the dataset; by default the file's")] = None,
    encoder: Annotated[str | None, typer.Option(help="What made the embeddings")] = None,
    logit_scale: Annotated[float | None, typer.Option(help="tau of that encoder; else the file's, or 100")] = None,
    seed: o.SeedOption = 0,
    template: o.TemplateOption = TEMPLATE,
) -> None:
    """Make a store of embeddings that something else made."""
    store = import_arrays(source, out, name=name, encoder=encoder, logit_scale=logit_scale, seed=seed, prompt=template)
    print(f"{_images(store)} x {store.n_views} views x {store.dim} in {out}, logit scale {store.logit_scale:g}")
    place = shlex.quote(out)
    print(f"answers: meantime predict {place}")
    print(f"accuracy: meantime bench rows --store {place}" if store.plan.labelled else "accuracy: it has no labels")


def _images(store: Store) -> str:
    total = store.plan.images
    unread = len(store.errors)
    open_ = total - len(store) - unread
    text = f"{len(store)} of {total} images"
    return text + (f", {unread} unreadable" if unread else "") + (f", {open_} not encoded yet" if open_ else "")


def _megabytes(store: Store) -> float:
    return sum(file.bytes for file in store.manifest.files) / 1e6

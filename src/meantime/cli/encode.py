"""`meantime encode`: the views of a whole dataset into a store, once."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from meantime.cli import engine as e
from meantime.cli import options as o
from meantime.datasets import list_datasets, load_dataset
from meantime.datasets.check import missing_files, problems, published_sizes
from meantime.datasets.part import subset as take
from meantime.encoders import load_encoder
from meantime.errors import MeantimeError
from meantime.labels import as_labels
from meantime.store.encode import encode_dataset
from meantime.views import ViewSpec


def encode(
    dataset: Annotated[str, typer.Argument(help="A name of `meantime datasets list`, a folder, a table, or tar files")],
    out: Annotated[str, typer.Option(help="The store: a new folder or URL, or one to go on with (--resume)")],
    root: Annotated[str | None, typer.Option(help="Where a named dataset lies")] = None,
    split: Annotated[str, typer.Option(help="test, train or val")] = "test",
    labels: Annotated[
        str | None, typer.Option(help="Class names for your own data: a,b | names.txt | imagenet")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a store that was interrupted")] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Go on, and make shards with unreadable images once more")
    ] = False,
    ensemble: Annotated[bool, typer.Option("--ensemble", help="Also keep the 80 prompts, for methods with +e")] = False,
    augment: Annotated[str, typer.Option(help="crop or augmix")] = "crop",
    diffusion: Annotated[
        Path | None, typer.Option(help="A folder of pictures made of the images (`meantime views diffuse`), as views")
    ] = None,
    diffused: Annotated[int, typer.Option(help="How many of these, after the views of --views")] = 63,
    subset: Annotated[int | None, typer.Option(help="Only so many images, the same in every run")] = None,
    part: Annotated[str, typer.Option(help="2/8: only the second of eight parts, for `meantime store merge`")] = "1/1",
    shard: Annotated[int, typer.Option(help="Images of a shard: what an interruption can cost at most")] = 256,
    unchecked: Annotated[bool, typer.Option("--unchecked", help="Encode although the dataset has problems")] = False,
    model: o.ModelOption = "embedded",
    views: o.ViewsOption = 64,
    seed: o.SeedOption = 0,
    device: o.DeviceOption = "auto",
    precision: o.PrecisionOption = "fp32",
    batch: o.BatchOption = None,
    threads: o.ThreadsOption = None,
    engine: e.EngineOption = "local",
    address: e.AddressOption = None,
    workers: e.WorkersOption = None,
) -> None:
    """Encode a dataset once; every table and every idea then reads the store."""
    names = None if labels is None else as_labels(labels).names
    data = load_dataset(dataset, root, split, class_names=names)
    if not unchecked:
        named = dataset in list_datasets()
        found = problems(data, *published_sizes(dataset, split)) if named else missing_files(data, remote=False)
        if found:
            raise MeantimeError("; ".join(found) + ". --unchecked encodes it all the same")
    if subset is not None:
        data = take(data, subset)
    if augment not in ("crop", "augmix"):
        raise MeantimeError(f"augment is {augment!r}; expected crop or augmix")
    spec = ViewSpec(n=views, augment="augmix" if augment == "augmix" else "crop")
    if diffusion is not None:
        spec = replace(spec, files=str(diffusion), n_files=diffused)
    encoder, chosen = e.choose_engine(
        engine, partial(load_encoder, model, precision=precision), device, address, workers
    )
    done = 0
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("encoding", total=None)

        def progress(images: int, total: int) -> None:
            nonlocal done
            done = images
            bar.update(task, completed=images, total=total)

        try:
            store = encode_dataset(
                data,
                out,
                encoder,
                spec,
                seed=seed,
                prompt=data.prompt,
                ensemble=ensemble,
                resume=resume or retry,
                retry=retry,
                shard_size=shard,
                part=_part(part),
                batch=batch,
                threads=threads,
                engine=chosen,
                progress=progress,
            )
        except KeyboardInterrupt:
            print(f"meantime: stopped after {done} images; go on with --resume", file=sys.stderr)
            raise typer.Exit(130) from None
    for error in store.errors:
        print(f"meantime: {error['error']}", file=sys.stderr)
    print(f"{len(store)} images in {out}" + (f", {len(store.errors)} unreadable" if store.errors else ""))
    if store.errors:
        print("meantime: once these can be read, --retry encodes them", file=sys.stderr)
        if not len(store):
            raise typer.Exit(1)


def _part(text: str) -> tuple[int, int]:
    first, slash, second = text.partition("/")
    if not slash or not first.isdecimal() or not second.isdecimal():
        raise MeantimeError(f"part is {text!r}; expected which of how many, as in 2/8")
    return int(first), int(second)

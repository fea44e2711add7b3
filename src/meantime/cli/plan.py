"""`meantime plan`: what a big run takes, before it is paid for."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from meantime.cli import options as o
from meantime.errors import MeantimeError


def plan(
    images: Annotated[float, typer.Option(help="How many, as in 1e9")],
    model: o.ModelOption = "ViT-B-16",
    views: o.ViewsOption = 64,
    device: Annotated[str, typer.Option(help="cpu (32 cores), t4, a10g, l4, v100, a100 or h100")] = "a100",
    hours: Annotated[float, typer.Option(help="In which the run is to be done")] = 168.0,
    anytime: Annotated[
        float | None, typer.Option(help="Views of the mean image with --views auto; by default 0.31 of all")
    ] = None,
    price: Annotated[float | None, typer.Option(help="Of an hour of one device")] = None,
    views_per_second: Annotated[float | None, typer.Option(help="Of one device, if you have measured it")] = None,
    dim: Annotated[int | None, typer.Option(help="Of an embedding, where the model is not known here")] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Measure the model on this machine first")] = False,
) -> None:
    """Say how many hours, machines and terabytes a run takes, and what fewer views save."""
    from meantime.plan import (
        ANYTIME,
        CROP,
        DEVICES,
        KEY,
        UTILISATION,
        RunPlan,
        assumed_rate,
        measured_rate,
        model_facts,
    )

    if images < 1 or views < 1 or hours <= 0:
        raise MeantimeError(f"{images:g} images, {views} views in {hours:g} hours; expected 1 or more of each")
    if views_per_second is not None and views_per_second <= 0:
        raise MeantimeError(f"--views-per-second is {views_per_second:g}; expected more than 0")
    if measure:
        from meantime.encoders import load_encoder
        from meantime.views import ViewSpec

        encoder = load_encoder(model)
        rate, dim, device = measured_rate(encoder, ViewSpec(n=views)), encoder.dim, "this machine"
        source = "measured here just now, on generated pictures of 500 x 375"
    elif views_per_second is not None:
        rate, dim = views_per_second, dim or model_facts(model)[1]
        source = "as given"
    else:
        gflops, known = model_facts(model)
        rate, dim = assumed_rate(gflops, device), dim or known
        source = (
            f"{gflops:g} GFLOPs a view at {UTILISATION:.0%} of a peak of {DEVICES[device]:g} TFLOPS; "
            "measure yours (--measure), it may be off by a factor of two"
        )
    whole = RunPlan(images, views, dim, rate, hours)
    table = Table(title=f"{images:,.0f} images by {model} on {device}")
    for column in ("views", "device hours", f"devices for {hours:g} h", "store, TB", "saves"):
        table.add_column(column, justify="right")
    if price is not None:
        table.add_column("costs", justify="right")
    kinds = {f"{n}": float(n) for n in sorted({views, views // 2, views // 4, 1} - {0}, reverse=True)}
    anytime = anytime or max(1.0, round(ANYTIME * views, 1))
    kinds[f"anytime, {anytime:g}"] = anytime
    for name, count in kinds.items():
        run = whole.with_views(count)
        cells = [name, f"{run.device_hours:,.1f}", f"{run.devices:,}", f"{run.terabytes:,.3g}"]
        cells.append("" if count == views else f"{1 - count / views:.0%}")
        table.add_row(*cells, *([] if price is None else [f"{run.device_hours * price:,.0f}"]))
    Console().print(table)
    print(f"Rate: {rate:,.0f} views/s, {rate / views:,.1f} images/s on one device ({source}).")
    if not measure and device != "cpu":
        print(
            f"Each device wants {whole.cores:,.0f} cores that decode and crop ({1e3 * CROP:g} ms of a core a view, "
            "photos of 500 x 375)."
        )
    print(
        f"Store: {whole.image_bytes:,.0f} bytes an image: {views} x ({dim} float16, norm, box, flip) and {KEY} for the "
        "rest. Solving takes about a thousandth of encoding. Not counted: starting machines, shards done twice on spot "
        "machines, reading from the object store. Anytime views are for `classify` on one machine: a store has as "
        "many of each image."
    )

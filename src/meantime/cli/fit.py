"""`meantime fit`: a head learned from a few photos of each class."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from meantime.cli import options as o
from meantime.datasets import load_dataset
from meantime.encoders import load_encoder
from meantime.fit import Fitted, fit_head, import_prompt
from meantime.heads.saved import KINDS, heads_folder
from meantime.labels import as_labels


def fit(
    kind: Annotated[str, typer.Argument(help=" | ".join(KINDS))],
    dataset: Annotated[str, typer.Argument(help="A name of `meantime datasets list`, a labelled folder, or a table")],
    root: Annotated[Path | None, typer.Option(help="Where a named dataset lies")] = None,
    labels: Annotated[str | None, typer.Option(help="Class names for your own data, if not those that occur")] = None,
    shots: Annotated[
        int | None, typer.Option(help="Photos of each class to train with (16), or that a published prompt saw")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Which photos are drawn; by default 0")] = None,
    m: Annotated[int, typer.Option(help="Tokens of a prompt: 4, or 16")] = 4,
    epochs: Annotated[int | None, typer.Option(help="Of a prompt; by default as published for so many shots")] = None,
    weights: Annotated[str, typer.Option(help="Texts of Tip-Adapter: ensemble (80 prompts) or text")] = "ensemble",
    views: Annotated[int, typer.Option(help="Views of a photo that a prompt is trained on, encoded once")] = 64,
    fresh: Annotated[bool, typer.Option("--fresh", help="Crop and encode anew in every epoch instead")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Let classes without a photo stand by their texts")
    ] = False,
    prompt_file: Annotated[
        Path | None, typer.Option(help="Do not train: take a published prompt, or a saved head's, for these classes")
    ] = None,
    store: Annotated[Path | None, typer.Option(help="Where encoded training views are kept and found again")] = None,
    out: Annotated[Path | None, typer.Option(help="The head's folder; by default one in heads/")] = None,
    model: o.ModelOption = "embedded",
    device: o.DeviceOption = "auto",
    precision: o.PrecisionOption = "fp32",
) -> None:
    """Fit a head on a few photos of each class; then `--method mta@DIR` everywhere."""
    encoder = load_encoder(model, device=device, precision=precision)
    if prompt_file is not None:
        names = None if labels is None else as_labels(labels).names
        data = load_dataset(dataset, root, class_names=names)
        place = out or heads_folder() / f"{kind}-{data.name}-{prompt_file.stem}"
        of: dict[str, Any] = {"dataset": data.name, "kind": kind, "shots": shots, "seed": seed}
        _tell(import_prompt(prompt_file, data.class_names, place, encoder=encoder, **of))
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks = {what: bar.add_task(what, total=None, visible=False) for what in ("encoding", "training")}
        fitted = fit_head(
            kind,
            dataset,
            root=root,
            labels=labels,
            encoder=encoder,
            shots=16 if shots is None else shots,
            seed=seed or 0,
            m=m,
            epochs=epochs,
            weights=weights,
            views=views,
            fresh=fresh,
            partial=partial,
            store=store,
            out=out,
            progress=lambda what, done, total: bar.update(tasks[what], completed=done, total=total, visible=True),
        )
    _tell(fitted)


def _tell(fitted: Fitted) -> None:
    info = fitted.info
    print(f"{info.title}, {len(info.classes)} classes, encoder {info.encoder_name}")
    for note in fitted.notes:
        print(note)
    for name, value in info.settings.items():
        facts = ", ".join(f"{key} {x:.4g}" for key, x in value.items()) if isinstance(value, dict) else str(value)
        print(f"{name}: {facts}")
    print(f"saved in {fitted.path}; use it by --method mta@{fitted.path}, or {fitted.path} alone without MTA")

"""`meantime explain`: the reason for one answer, as a picture."""

from pathlib import Path
from typing import Annotated

import typer

from meantime.classifier import Classifier
from meantime.cli import options as o
from meantime.encoders import load_encoder
from meantime.labels import TEMPLATE
from meantime.report import explain as draw


def explain(
    image: Annotated[Path, typer.Argument(help="One image")],
    labels: o.LabelsOption,
    out: Annotated[Path | None, typer.Option(help="The picture; by default IMAGE-explained.png here")] = None,
    model: o.ModelOption = "embedded",
    views: o.ViewsOption = 64,
    seed: o.SeedOption = 0,
    template: o.TemplateOption = TEMPLATE,
    device: o.DeviceOption = "auto",
    precision: o.PrecisionOption = "fp32",
) -> None:
    """Draw the views with their inlierness, and the path of the mode beside plain MeanShift's."""
    out = out or Path(f"{image.stem}-explained.png")
    encoder = load_encoder(model, device=device, precision=precision)
    draw(image, Classifier(labels, encoder, "mta", views=views, seed=seed, template=template), out)
    print(f"wrote {out}")

"""`--engine local|ray`, for the commands that encode."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from meantime.classifier import Classifier
from meantime.cli.progress import progress
from meantime.encoders import Encoder
from meantime.encoders.torch_towers import choose_device
from meantime.engines import Engine, LocalEngine, RayEngine
from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.images import ImageSource
from meantime.prediction import Prediction

EngineOption = Annotated[str, typer.Option("--engine", help="local, or ray: the workers of a Ray cluster")]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", help="Of the Ray cluster: auto, host:6379, ray://host:10001; without it one is started"),
]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Of Ray: how many share the cores or the GPUs")]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", help="Keep the embeddings there, for other runs, methods and names to go on with"),
]


def choose_engine(
    engine: str, load: Callable[..., Encoder], device: str, address: str | None, workers: int | None
) -> tuple[Encoder, Engine]:
    """The engine of that name, and the encoder as this process needs it."""
    if engine == "local":
        if address is not None or workers is not None:
            raise MeantimeError("--address and --workers belong to --engine ray; add it, or leave them out")
        return load(device=device), LocalEngine()
    if engine != "ray":
        raise MeantimeError(f"the engine is {engine!r}; expected local or ray")
    optional("ray", "--engine ray", "ray")  # before anything else that is missing: this extra brings it all
    gpu = None if device == "auto" else device.startswith("cuda")
    return load(device=_here(device)), RayEngine(address, workers, gpu, partial(load, device=device))


def _here(device: str) -> str:
    """The driver embeds texts only, and may well be a machine without the workers' GPU: its CPU gives the same."""
    if not device.startswith(("cuda", "mps")):
        return device
    try:
        return choose_device(device)
    except MeantimeError:
        return "cpu"


@contextmanager
def through_store(
    classifier: Classifier, sources: Sequence[ImageSource], engine: Engine, place: str | None
) -> Iterator[Iterator[Prediction]]:
    """Predictions by way of a store; if it is kept, it has all views, for other methods to come."""
    from meantime.engines.images import encode_images

    with TemporaryDirectory(prefix="meantime-") as temporary:
        with progress("encoding") as tell:
            spec, shard = (classifier.needed, 256) if place is None else (classifier.spec, None)
            images = encode_images(
                sources, place or temporary, classifier, engine, spec=spec, shard_size=shard, progress=tell
            )
        yield classifier.answers(images)

"""Pictures made of each image by a diffusion model (DiffTPT's views): made once, to a folder, then read as views.

A picture belongs to the seed, the image's pixels and its number, whatever the batch or the order, so a run can be
stopped anywhere and go on, here or on another machine.
"""

import inspect
import json
import os
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from PIL import Image

from meantime.datasets import Dataset, Sample
from meantime.encoders.torch_towers import DTYPES, check_precision, choose_device
from meantime.errors import ImageError, MeantimeError
from meantime.extras import optional
from meantime.images import load_image, quiet_pillow
from meantime.views.boxes import pixel_hash
from meantime.views.files import picture_folder

STREAM = 2  # of the seed, beside those of the boxes and of AugMix
TRIES = 5  # for a picture that the model's own safety checker blacks out
SETTINGS_FILE = "diffusion.json"


@dataclass(frozen=True)
class Settings:
    """What the pictures of one folder have in common; the defaults are DiffTPT's."""

    model: str
    guidance: float = 3.0
    steps: int = 50
    size: int = 224  # the whole image is squeezed into this square before the model sees it
    seed: int = 0


@dataclass
class Made:
    """What a run did."""

    pictures: int = 0
    kept: int = 0  # from an earlier run
    errors: list[str] = field(default_factory=list)


def load_variations(name: str, *, device: str = "auto", precision: str = "fp32") -> Any:
    """The image-variation pipeline of diffusers of that hub name, or in that folder."""
    diffusers = optional("diffusers", "making views by diffusion", "diffusion")
    torch = optional("torch", "making views by diffusion", "diffusion")
    check_precision(precision, DTYPES)
    where = choose_device(device)
    try:
        pipe = diffusers.DiffusionPipeline.from_pretrained(name)
    except Exception as error:  # what a missing, torn or foreign file raises has no common base
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise MeantimeError(
            f"the diffusion pipeline {name!r} cannot be loaded ({reason}); expected a hub name that can be reached, "
            "such as lambdalabs/sd-image-variations-diffusers, or a folder that diffusers' save_pretrained wrote"
        ) from error
    parameters = inspect.signature(pipe.__call__).parameters
    lacking = {"image", "generator", "guidance_scale", "num_inference_steps"} - parameters.keys()
    asks = [p.name for p in parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if lacking or asks != ["image"]:
        raise MeantimeError(
            f"{name!r} is a {type(pipe).__name__}, which does not make variations of an image alone: it asks for "
            f"{', '.join(asks) or 'nothing'}; expected an image-variation pipeline"
        )
    pipe.set_progress_bar_config(disable=True)
    return pipe.to(where, getattr(torch, DTYPES[precision]))


def diffuse(
    dataset: Dataset,
    out: str | Path,
    pipe: Any,
    settings: Settings,
    *,
    count: int = 63,
    batch: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> Made:
    """Make ``count`` pictures of every image: OUT/<path of the image without its extension>/000.png, 001.png, …

    Pictures that are there and whole are kept. An image that cannot be read is reported and the others go on.
    ``progress(done, total)`` hears of every image.
    """
    if count < 1 or batch < 1:
        raise MeantimeError(f"count is {count} and batch {batch}; expected at least 1 of each")
    folders = _folders(dataset, Path(out))
    _agree(Path(out), settings)
    made = Made()
    for done, (sample, folder) in enumerate(zip(dataset.samples, folders, strict=True), 1):
        try:
            _diffuse_one(sample, folder, pipe, settings, count, batch, made)
        except ImageError as error:
            made.errors.append(str(error))
        if progress is not None:
            progress(done, len(folders))
    return made


def _diffuse_one(
    sample: Sample, folder: Path, pipe: Any, settings: Settings, count: int, batch: int, made: Made
) -> None:
    torch = optional("torch", "making views by diffusion", "diffusion")
    paths = [folder / f"{i:03}.png" for i in range(count)]
    missing = [i for i, path in enumerate(paths) if not _whole(path)]
    made.kept += count - len(missing)
    if not missing:
        return
    pixels = load_image(sample.source)
    digest = pixel_hash(pixels)
    image = Image.fromarray(pixels).resize((settings.size, settings.size), Image.Resampling.BICUBIC)
    todo = deque((i, 0) for i in missing)  # number, try
    while todo:
        group = [todo.popleft() for _ in range(min(batch, len(todo)))]
        seeds = [picture_seed(settings.seed, digest, i, attempt) for i, attempt in group]
        with torch.inference_mode():
            result = pipe(
                image=[image] * len(group),
                generator=[torch.Generator().manual_seed(seed) for seed in seeds],  # on the CPU: alike on any device
                guidance_scale=settings.guidance,
                num_inference_steps=settings.steps,
            )
        refused = getattr(result, "nsfw_content_detected", None) or [False] * len(group)
        for (i, attempt), picture, black in zip(group, result.images, refused, strict=True):
            if not black:
                _save(picture, paths[i])
                made.pictures += 1
            elif attempt + 1 < TRIES:
                todo.append((i, attempt + 1))
            else:
                raise ImageError(f"the model's safety checker refused picture {i} of {sample.key!r} {TRIES} times")


def picture_seed(seed: int, digest: int, number: int, attempt: int = 0) -> int:
    """64 bits of a user's seed, an image's pixels and the number of its picture."""
    sequence = np.random.SeedSequence([seed, digest], spawn_key=(STREAM, number, attempt))
    return int(sequence.generate_state(1, np.uint64)[0])


def _folders(dataset: Dataset, out: Path) -> list[Path]:
    """Where the pictures of each image go; refused where they could not be found again, or only mixed up."""
    owners: dict[PurePath, str] = {}
    places = []
    for key in dataset.samples.keys:
        path = PurePath(key)
        place = picture_folder(path.relative_to(path.anchor))
        if ".." in place.parts:
            raise MeantimeError(f"the image {key!r} lies outside its dataset; give paths below it")
        if owners.setdefault(place, key) != key:
            raise MeantimeError(f"{key!r} and {owners[place]!r} differ only in their extension; rename one of them")
        places.append(out / place)
    if dataset.samples and not isinstance(dataset.samples[0].source, str | os.PathLike):
        raise MeantimeError(f"{dataset.name!r} is an archive, and made pictures are found by path; unpack it first")
    return places


def _agree(out: Path, settings: Settings) -> None:
    """Note the settings in a new folder; refuse to add pictures made otherwise to an old one."""
    wanted, path = asdict(settings), out / SETTINGS_FILE
    if path.is_file():
        try:
            there = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise MeantimeError(f"{str(path)!r} is damaged ({error}); remove it if you know its settings") from error
        other = [
            f"{name} {there.get(name)!r}, not {value!r}" for name, value in wanted.items() if there.get(name) != value
        ]
        if other:
            raise MeantimeError(f"the pictures in {str(out)!r} were made with {'; '.join(other)}; take another folder")
        return
    out.mkdir(parents=True, exist_ok=True)
    _write(path, lambda part: part.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8"))


def _whole(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with quiet_pillow(), Image.open(path) as image:
            image.verify()  # PNG has a checksum in every chunk
    except Exception:  # whatever is wrong with it, it is made again
        return False
    return True


def _save(picture: Image.Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, lambda part: picture.save(part, "PNG"))


def _write(path: Path, write: Callable[[Path], Any]) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")  # hidden, so that nobody takes it for a picture
    try:
        write(part)
        os.replace(part, path)
    except OSError as error:
        raise MeantimeError(f"cannot write {str(path)!r} ({error.strerror}); what is finished is kept") from error
    finally:
        part.unlink(missing_ok=True)

"""The baseline for MTA in `runtime.py`: the structure of the released program, written plainly.

One image at a time; crops one by one in Python, each made a tensor and normalised on its own; PyTorch eager; the class
texts, padded to the model's full context, encoded again for every image. Both towers run in batches that suit a CPU,
which is kinder than one batch of all.
"""

import math
import random
import time

import torch
from authors_mta import solve_one
from PIL import Image

from meantime.bench.backbones import make
from meantime.bench.isolated import forget_peak
from meantime.bench.systems import Task, Timing

BATCH = 16


def mta(task: Task) -> Timing:
    """Seconds an image of MTA in the authors' structure."""
    timing, encoder = Timing(), make(task.backbone)
    share = 1 / len(task.images)
    prompts = [f"a photo of a {name}." for name in task.names]
    with torch.inference_mode():
        size = encoder.preprocess.size
        encoder.image_tower(torch.zeros(BATCH, 3, size, size))
        forget_peak()
        start = time.perf_counter()
        for path in task.images:
            image = timing.stage("decode", lambda path=path: Image.open(path).convert("RGB"), share)
            pixels = timing.stage("crop", lambda image=image: crops(image, task, encoder), share)
            views = timing.stage("encode", lambda pixels=pixels: encode_images(encoder, pixels), share)
            classes = timing.stage("text", lambda: encode_texts(encoder, tokens(encoder, prompts)), share)
            timing.stage("solve", lambda v=views, c=classes: solve_one(v, c, encoder.logit_scale), share)
        timing.seconds = share * (time.perf_counter() - start)
    return timing


def crops(image: Image.Image, task: Task, encoder) -> torch.Tensor:
    """The image, then random resized crops of it: (N, 3, S, S), normalised."""
    size, draw = encoder.preprocess.size, random.Random(task.seed)
    short = encoder.preprocess.resize
    scale = short / min(image.size)
    whole = image.resize((int(image.width * scale), int(image.height * scale)), Image.Resampling.BICUBIC)
    left, top = round((whole.width - size) / 2), round((whole.height - size) / 2)
    views = [normalised(whole.crop((left, top, left + size, top + size)), encoder)]
    for _ in range(task.views - 1):
        cut = image.crop(random_box(image, draw)).resize((size, size), Image.Resampling.BILINEAR)
        if draw.random() < 0.5:
            cut = cut.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        views.append(normalised(cut, encoder))
    return torch.stack(views)


def random_box(image: Image.Image, draw: random.Random) -> tuple[int, int, int, int]:
    for _ in range(10):
        area = image.width * image.height * draw.uniform(0.08, 1)
        ratio = math.exp(draw.uniform(math.log(3 / 4), math.log(4 / 3)))
        width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if width <= image.width and height <= image.height:
            left, top = draw.randint(0, image.width - width), draw.randint(0, image.height - height)
            return left, top, left + width, top + height
    return 0, 0, image.width, image.height


def normalised(picture: Image.Image, encoder) -> torch.Tensor:
    pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).reshape(*picture.size[::-1], 3)
    tensor = pixels.permute(2, 0, 1).float() / 255
    mean, std = (torch.tensor(x).reshape(3, 1, 1) for x in (encoder.preprocess.mean, encoder.preprocess.std))
    return (tensor - mean) / std


def encode_images(encoder, pixels: torch.Tensor) -> torch.Tensor:
    """Unit embeddings (N, d)."""
    parts = [encoder.image_tower(pixels[i : i + BATCH]) for i in range(0, len(pixels), BATCH)]
    return torch.nn.functional.normalize(torch.cat(parts), dim=-1)


def tokens(encoder, prompts: list[str]) -> torch.Tensor:
    """(K, L) ids, padded to the full context as CLIP's own tokenizer does."""
    ids, _ = encoder.texts.tokenize(prompts)
    padded = torch.full((len(prompts), encoder.texts.context_length), encoder.texts.pad_id)
    padded[:, : ids.shape[1]] = torch.from_numpy(ids)
    return padded


def encode_texts(encoder, ids: torch.Tensor) -> torch.Tensor:
    """Unit embeddings (K, d)."""
    parts = [encoder.text_tower(ids[i : i + BATCH], None) for i in range(0, len(ids), BATCH)]
    return torch.nn.functional.normalize(torch.cat(parts), dim=-1)

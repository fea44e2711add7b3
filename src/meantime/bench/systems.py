"""What figure 2 times: CLIP, MTA and TPT on a few images, stage by stage, each in a process of its own."""

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from meantime import Classifier, load_encoder
from meantime.bench.backbones import Backbone, make
from meantime.bench.isolated import forget_peak
from meantime.errors import MeantimeError
from meantime.images import load_image
from meantime.pipeline import Encoded, encode
from meantime.views import ViewSpec, make_views

STAGES = ("decode", "crop", "encode", "text", "solve")
T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """What to time: a backbone, as weights in PyTorch and as an ONNX directory, on these images and names."""

    backbone: Backbone
    onnx: str
    images: tuple[str, ...]
    names: tuple[str, ...]
    views: int = 64
    seed: int = 0


@dataclass
class Timing:
    """Seconds an image: of the whole, and of its stages one after the other; and what is done once for all images."""

    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    once: float = 0.0
    note: str = ""

    def stage(self, name: str, work: Callable[[], T], share: float = 1.0) -> T:
        """Do the work and add a share of its time to a stage."""
        start = time.perf_counter()
        result = work()
        self.stages[name] += share * (time.perf_counter() - start)
        return result


def clip(task: Task) -> Timing:
    """Plain zero-shot: one view."""
    return _classify(task, "clip", 1)


def mta(task: Task) -> Timing:
    """MTA as `meantime classify` runs it."""
    return _classify(task, "mta", task.views)


def _classify(task: Task, method: str, views: int) -> Timing:
    timing, share = Timing(), 1 / len(task.images)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["MEANTIME_CACHE"] = cache  # else the texts of an earlier run would be found
        start = time.perf_counter()
        clf = Classifier(task.names, load_encoder(f"onnx:{task.onnx}"), method, views=views, seed=task.seed)
        timing.once = time.perf_counter() - start
    _warm_up(clf.encoder, views)
    start = time.perf_counter()
    list(clf.stream(task.images))
    timing.seconds = share * (time.perf_counter() - start)
    for path in task.images:
        embeddings = embed(task, clf.encoder, path, timing, views)
        timing.stage("solve", lambda x=embeddings: clf.method(x, clf.heads), share)  # type: ignore[misc]
    return timing


def tpt(task: Task) -> Timing:
    """TPT by our own head: features through the same pipeline as MTA's, the prompt tuned in PyTorch."""
    from meantime.heads.tpt import TPTHead
    from meantime.prompting import prompter

    timing, share = Timing(), 1 / len(task.images)
    encoder, towers = load_encoder(f"onnx:{task.onnx}"), make(task.backbone)
    start = time.perf_counter()
    head = TPTHead(prompter(towers, task.names), encoder.logit_scale)
    timing.once = time.perf_counter() - start
    if len(task.names) > head.prompter.piece:
        timing.note = f"prompts {head.prompter.piece} at a time"
    _warm_up(encoder, task.views)
    start = time.perf_counter()
    x = np.stack([_embeddings(e) for e in encode(task.images, encoder, ViewSpec(n=task.views), seed=task.seed)])
    tuned = timing.stage("text", lambda: head.adapt(x), share)  # together: their first forward is the same
    timing.stage("solve", lambda: tuned(x[:, 0]), share)
    timing.seconds = share * (time.perf_counter() - start)
    for path in task.images:
        embed(task, encoder, path, timing, task.views)
    return timing


def _embeddings(encoded: Encoded) -> Any:
    if encoded.embeddings is None:
        raise encoded.error or MeantimeError("an image to time on cannot be read")
    return encoded.embeddings


def embed(task: Task, encoder: Any, path: str, timing: Timing, views: int) -> Any:
    """Unit embeddings (1, N, d) of the views of one image, its stages timed."""
    share = 1 / len(task.images)
    image = timing.stage("decode", lambda: load_image(path), share)
    made = timing.stage("crop", lambda: make_views(image, ViewSpec(n=views), encoder.preprocess, task.seed), share)
    raw = timing.stage("encode", lambda: encoder.encode_images(made.pixels), share)
    return (raw / np.linalg.norm(raw, axis=-1, keepdims=True))[None]


def _warm_up(encoder: Any, views: int) -> None:
    """Load what so many views need: an ONNX encoder runs one view in another session than many."""
    size = encoder.preprocess.size
    encoder.encode_images(np.zeros((min(views, 16), size, size, 3), np.uint8))
    forget_peak()

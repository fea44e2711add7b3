"""Encoders that PyTorch runs: two towers, where they run, and how texts become tokens.

The libraries that make the towers (transformers, open_clip) have a file each; here is what they share.
"""

import hashlib
import json
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from meantime.encoders.base import Floats, Pixels, check_pixels, check_texts
from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.preprocess import Preprocess
from meantime.views.torch_crops import Cut, Feed, Tensor, reading

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "fp16", "bf16", "amp"]
Padding = Literal["longest", "max_length"]
Ints = NDArray[np.int64]

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}  # of the weights
AMP = "amp"  # weights of fp32, towers under torch.autocast
# On a CPU, big batches of activations cost more in page faults than they gain.
CPU_BATCH, GPU_BATCH = 16, 256
# Two models whose tokenizers agree on this are taken to have the same one.
PROBE = "a photo of two Tabby cats, naïve & 12 years old; (最)."


@dataclass(frozen=True)
class Texts:
    """How a model wants its texts."""

    tokenize: Callable[[list[str]], tuple[Ints, Ints | None]]  # ids and, if the model reads it, mask: (K, L)
    context_length: int  # tokens; the rest of a longer text is not read
    padding: Padding
    pad_id: int
    to_json: Callable[[], str]  # the tokenizer as a file of the `tokenizers` package, for export


def choose_device(device: str) -> str:
    """The device itself; ``"auto"`` is the first of cuda and mps that there is, else cpu."""
    torch = optional("torch", "this encoder", "torch")
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, available in there.items() if available)
    kind, colon, index = device.partition(":")  # cuda:1
    if kind not in there or (colon and not index.isdecimal()):
        raise MeantimeError(f"unknown device {device!r}; known: {', '.join(get_args(Device))}, and cuda:N")
    if not there[kind]:
        available = ", ".join(name for name in there if there[name])
        raise MeantimeError(f"the device {device!r} is not available to PyTorch here; available: {available}")
    if kind == "cuda" and index and int(index) >= torch.cuda.device_count():
        raise MeantimeError(
            f"there is no device {device!r}; PyTorch counts {torch.cuda.device_count()}, from cuda:0 on"
        )
    return device


def check_precision(precision: str, known: Collection[str] = get_args(Precision)) -> None:
    """Refuse what is not the name of a precision."""
    if precision not in known:
        raise MeantimeError(f"unknown precision {precision!r}; known: {', '.join(known)}")


class TorchEncoder:
    """An encoder made of a PyTorch model.

    ``image_tower`` takes normalised pixels (n, 3, S, S), ``text_tower`` ids and mask (k, L); both give (·, d).
    ``logit_bias`` is None unless the model was trained with a sigmoid (SigLIP): a pair's probability is then
    sigmoid(logit_scale · cosine + logit_bias).
    ``device`` and ``precision``: None leaves the model where and as it is. ``"fp16"`` and ``"bf16"`` cast the weights;
    ``"amp"`` keeps them in float32 and runs the towers under `torch.autocast`, which leaves the sensitive operations in
    float32. The model is set to evaluation mode.
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        description: str,
        image_tower: Callable[[Any], Any],
        text_tower: Callable[[Any, Any], Any],
        texts: Texts,
        preprocess: Preprocess,
        logit_scale: float,
        logit_bias: float | None = None,
        facts: str = "",
        device: str | None = None,
        precision: str | None = None,
        threads: int | None = None,
    ) -> None:
        torch = self._torch = optional("torch", "this encoder", "torch")
        if precision is not None:
            check_precision(precision)
            model = model.to(getattr(torch, DTYPES.get(precision, "float32")))
        if device is not None:
            model = model.to(choose_device(device))
        if threads is not None:
            torch.set_num_threads(threads)
        # Pixels come with the channels last, and convolutions take them so at half the time.
        self.model = model.eval().to(memory_format=torch.channels_last)
        self.name = name
        self.image_tower, self.text_tower = image_tower, text_tower
        self.texts = texts
        self.preprocess = preprocess
        self.logit_scale, self.logit_bias = logit_scale, logit_bias
        if not (logit_scale > 0 and math.isfinite(logit_scale)):
            raise MeantimeError(f"the model {name!r} has a logit scale of {logit_scale}; expected a positive number")
        self.description = description + (
            "; trained with a sigmoid: MTA's affinity uses a softmax" if logit_bias is not None else ""
        )
        self._facts = facts  # what embeddings depend on and weights do not show: activations, numbers of heads
        parameter = next(model.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        names = {dtype: short for short, dtype in DTYPES.items()}
        dtype = str(self.dtype).removeprefix("torch.")
        self.precision = AMP if precision == AMP else names.get(dtype, dtype)
        if precision == AMP and not torch.amp.is_autocast_available(self.device.type):
            raise MeantimeError(
                f"PyTorch has no autocast for the device {str(self.device)!r}, which precision 'amp' needs; "
                f"choose one of {', '.join(DTYPES)}"
            )
        self.batch = CPU_BATCH if self.device.type == "cpu" else GPU_BATCH
        # Once: made for every batch, they would each make the GPU wait.
        self._mean, self._std = (
            torch.tensor(values, device=self.device).reshape(3, 1, 1) * 255
            for values in (preprocess.mean, preprocess.std)
        )
        self._feed = Feed(self.device)
        # Views are cut where they are encoded: one processor core makes a thousand a second, a GPU takes many more.
        self.cut: Cut | None = self._feed.cut if self.device.type == "cuda" else None

    @cached_property
    def identity(self) -> str:
        """Of the weights, the tokenizer and the precision; the place they came from does not matter."""
        digest = hashlib.sha256()
        for key, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{key} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(self._torch.uint8).numpy())
        ids, _ = self.texts.tokenize([PROBE])
        rules = (asdict(self.preprocess), self.texts.context_length, self.texts.padding, ids.tolist(), self._facts)
        digest.update(json.dumps(rules, sort_keys=True).encode())
        if self.precision == AMP:
            digest.update(f"autocast {self._torch.get_autocast_dtype(self.device.type)}".encode())
        return f"torch-{digest.hexdigest()[:16]}"

    @cached_property
    def dim(self) -> int:
        """d, asked of the model itself."""
        return int(self._text_batch(["a"]).shape[1])

    def normalise(self, pixels: Any) -> Any:
        """Tensor (n, S, S, 3) of 0..255 -> (n, 3, S, S) as the image tower wants it."""
        return ((pixels.permute(0, 3, 1, 2).float() - self._mean) / self._std).to(self.dtype)

    def encode_images(self, pixels: Pixels | Tensor) -> Floats:
        """(n, S, S, 3) uint8 RGB in 0..255, an array or a tensor -> (n, d).

        Nothing here waits for the device but the last step. So the next part of an array is copied while the one before
        is computed, see `Feed`; tensors that ``cut`` made are there already.
        """
        torch = self._torch
        pixels = check_pixels(pixels, self.preprocess.size, torch.Tensor)
        with torch.inference_mode(), reading(self.device), self._autocast():
            rows = []
            for i in range(0, len(pixels), self.batch):
                part = pixels[i : i + self.batch]
                part = self._feed.upload(part) if isinstance(part, np.ndarray) else part.to(self.device)
                rows.append(self.image_tower(self.normalise(part)).float())
            embeddings: Floats = torch.cat(rows).cpu().numpy() if rows else np.empty((0, self.dim), np.float32)
        return embeddings

    def _autocast(self) -> AbstractContextManager[Any]:
        """Float16 on a GPU, bfloat16 on a CPU: PyTorch's own choice."""
        if self.precision != AMP:
            return nullcontext()
        mixed: AbstractContextManager[Any] = self._torch.autocast(self.device.type)
        return mixed

    def compile(self, **options: Any) -> Self:
        """Compile the image tower by `torch.compile`; pays on long runs, and the first batch takes a minute."""
        self.image_tower = self._torch.compile(self.image_tower, **options)
        return self

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """K whole prompts -> (K, d)."""
        texts = check_texts(texts)
        out = np.empty((len(texts), self.dim), np.float32)
        # Neighbours in length share a batch, so that little of it is padding.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), 2 * self.batch):
            rows = order[start : start + 2 * self.batch]
            out[rows] = self._text_batch([texts[i] for i in rows])
        return out

    def _text_batch(self, texts: list[str]) -> Floats:
        ids, mask = (None if part is None else self._tensor(part) for part in self.texts.tokenize(texts))
        with self._torch.inference_mode(), self._autocast():
            embeddings: Floats = self.text_tower(ids, mask).float().cpu().numpy()
        return embeddings

    def _tensor(self, part: Ints) -> Any:
        return self._torch.from_numpy(part).to(self.device)

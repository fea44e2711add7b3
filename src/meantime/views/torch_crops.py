"""All crops of an image cut and resized in one go by PyTorch, for encoders on a GPU: Pillow cannot feed one.

A crop is two matrix products, rows then columns, with the weights of Pillow's antialiased filter; the products of all
crops are one. Nothing of that depends on the device, and on the CPU it agrees with Pillow to within two levels (Pillow
rounds between the passes), but it is made for a GPU: most of the weights are zeros.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.extras import optional
from meantime.images import Pixels

Tensor: TypeAlias = Any
Cut: TypeAlias = Callable[[Pixels, npt.NDArray[np.int64], npt.NDArray[np.bool_], int], Tensor]

MOST = 64_000_000  # numbers between the two products, or in their weights: boxes are taken in groups that stay below
LARGEST = 24_000_000  # pixels of an image: the work grows with them, and reduced copies (Pillow) are better above


class Feed:
    """The way of pixels to a device, beside what the device computes.

    On CUDA, copies and crops have a stream of their own, so those of the next images run while the encoder computes.
    Arrays are copied from pinned memory, which PyTorch keeps until a copy is done, so no thread waits for the GPU. What
    was made here is read on the device's default stream, by everyone (`reading`): that stream waits for this one, and
    the memory is not used again before it has passed, also if the tensor is dropped earlier.
    """

    def __init__(self, device: Any) -> None:
        self._torch = optional("torch", "cutting views on a device", "torch")
        self.device = self._torch.device(device)
        self._aside = self._torch.cuda.Stream(self.device) if self.device.type == "cuda" else None

    def upload(self, array: npt.NDArray[Any]) -> Tensor:
        """Return a copy of an array on the device."""
        return self._made(lambda: _copy(self._torch, array, self.device))

    def cut(self, image: Pixels, boxes: npt.NDArray[np.int64], flips: npt.NDArray[np.bool_], size: int) -> Tensor:
        """Boxes (n, 4) of an image (H, W, 3) as (n, size, size, 3) uint8 on the device, mirrored where ``flips``."""
        torch = self._torch
        height, width = image.shape[:2]

        def crops() -> Tensor:
            picture = _copy(torch, image, self.device).to(torch.float32).reshape(height, width * 3)
            edges = _copy(torch, boxes.astype(np.float32), self.device)
            flip = _copy(torch, flips, self.device)
            some = max(1, MOST // (size * max(3 * width, height)))
            parts = [
                _some(torch, picture, edges[i : i + some], flip[i : i + some], size, width)
                for i in range(0, len(boxes), some)
            ]
            if not parts:
                return torch.empty((0, size, size, 3), dtype=torch.uint8, device=self.device)
            return torch.cat(parts)

        with torch.inference_mode():
            return self._made(crops)

    def _made(self, make: Callable[[], Tensor]) -> Tensor:
        if self._aside is None:
            return make()
        with self._torch.cuda.stream(self._aside):
            made = make()
        reader = self._torch.cuda.default_stream(self.device)
        reader.wait_stream(self._aside)
        made.record_stream(reader)
        return made


def reading(device: Any) -> AbstractContextManager[Any]:
    """Return the context in which pixels on a device may be read: on CUDA its default stream, see `Feed`."""
    if device.type != "cuda":
        return nullcontext()
    torch = optional("torch", "pixels on a device", "torch")
    reader = torch.cuda.default_stream(device)
    reader.wait_stream(torch.cuda.current_stream(device))  # where the caller may have made some of them
    stream: AbstractContextManager[Any] = torch.cuda.stream(reader)
    return stream


def joined(parts: Sequence[Pixels | Tensor]) -> Pixels | Tensor:
    """The pixels of several groups of views as one: an array, or a tensor if one of them lies on a device."""
    if len(parts) == 1:
        return parts[0]
    device = next((part.device for part in parts if not isinstance(part, np.ndarray)), None)
    if device is None:
        return np.concatenate(parts)
    torch = optional("torch", "pixels on a device", "torch")
    with reading(device), torch.inference_mode():
        return torch.cat([_copy(torch, p, device) if isinstance(p, np.ndarray) else p.to(device) for p in parts])


def _copy(torch: Any, array: npt.NDArray[Any], device: Any) -> Tensor:
    """Copy an array to a device, on the current stream; to CUDA without waiting for it."""
    pinned = device.type == "cuda"
    # Filled as an array: `from_numpy` would warn of those that may not be written to.
    staged = torch.empty(array.shape, dtype=getattr(torch, str(array.dtype)), pin_memory=pinned)
    staged.numpy()[...] = array
    return staged.to(device, non_blocking=pinned)


def _some(torch: Any, picture: Tensor, boxes: Tensor, flips: Tensor, size: int, width: int) -> Tensor:
    n, height = len(boxes), picture.shape[0]
    down = _weights(torch, boxes[:, 1], boxes[:, 3], size, height)  # (n, S, H)
    across = _weights(torch, boxes[:, 0], boxes[:, 2], size, width)  # (n, S, W)
    across = torch.where(flips[:, None, None], across.flip(1), across)
    rows = (down.reshape(n * size, height) @ picture).reshape(n, size, width, 3)
    out = torch.einsum("nxw,nywc->nyxc", across, rows)
    return out.round_().clamp_(0, 255).to(torch.uint8)


def _weights(torch: Any, low: Tensor, high: Tensor, size: int, length: int) -> Tensor:
    """(n, size, length): how much each source pixel of low..high counts in each pixel of the result."""
    scale = ((high - low) / size)[:, None, None]
    steps = torch.arange(size, device=low.device, dtype=low.dtype) + 0.5
    centre = low[:, None, None] + steps[None, :, None] * scale
    pixel = torch.arange(length, device=low.device, dtype=low.dtype) + 0.5
    weights = (1 - (pixel - centre).abs() / scale.clamp(min=1)).clamp_(min=0)
    inside = (pixel > low[:, None, None]) & (pixel < high[:, None, None])  # the filter does not look over the edge
    weights = weights * inside
    return weights / weights.sum(dim=-1, keepdim=True)

"""All crops of an image cut and resized in one go by PyTorch, for encoders on a GPU: Pillow cannot feed one.

A crop is two matrix products, rows then columns, with the weights of Pillow's antialiased filter; the products of all
crops are one. Nothing here depends on the device, and on the CPU it agrees with Pillow to within two levels (Pillow
rounds between the passes), but it is made for a GPU: most of the weights are zeros.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.extras import optional
from meantime.images import Pixels

Tensor: TypeAlias = Any
Cut: TypeAlias = Callable[[Pixels, npt.NDArray[np.int64], npt.NDArray[np.bool_], int], Pixels]

MOST = 64_000_000  # numbers between the two products: boxes are taken in groups that stay below


def cutter(device: Any) -> Cut:
    """Return what cuts boxes (n, 4) out of (H, W, 3) and gives (n, size, size, 3), computed on a device."""
    return partial(_cut, device=device)


def _cut(
    image: Pixels,
    boxes: npt.NDArray[np.int64],
    flips: npt.NDArray[np.bool_],
    size: int,
    *,
    device: Any,
) -> Pixels:
    torch = optional("torch", "cutting views on a device", "torch")
    height, width = image.shape[:2]
    with torch.inference_mode():
        picture = torch.tensor(image, device=device).to(torch.float32).reshape(height, width * 3)
        edges = torch.tensor(boxes, device=device, dtype=torch.float32)
        flip = torch.tensor(flips, device=device)
        some = max(1, MOST // (size * width * 3))
        parts = [
            _some(torch, picture, edges[i : i + some], flip[i : i + some], size, width)
            for i in range(0, len(boxes), some)
        ]
        pixels: Pixels = torch.cat(parts).cpu().numpy() if parts else np.empty((0, size, size, 3), np.uint8)
    return pixels


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

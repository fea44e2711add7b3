"""What there is to load: what is installed, what lies in the caches of the model hubs, what would be downloaded.

Only file names and sizes are read: nothing is imported and no network is asked.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

State = Literal["installed", "cached", "download"]
KINDS = {"clip": "CLIP", "siglip": "SigLIP", "siglip2": "SigLIP 2"}

# Well known models: name, millions of parameters, dimension, what it is. A download is 4 bytes a parameter.
OPEN_CLIP = (
    ("RN50:openai", 102.0, 1024, "CLIP ResNet-50"),
    ("RN101:openai", 119.7, 512, "CLIP ResNet-101"),
    ("ViT-B-32:openai", 151.3, 512, "CLIP ViT-B/32"),
    ("ViT-B-16:openai", 149.6, 512, "CLIP ViT-B/16: the paper's"),
    ("ViT-L-14:openai", 427.6, 768, "CLIP ViT-L/14"),
)
TRANSFORMERS = (
    ("hf:openai/clip-vit-base-patch32", 151.3, 512, "CLIP ViT-B/32"),
    ("hf:openai/clip-vit-base-patch16", 149.6, 512, "CLIP ViT-B/16: the paper's"),
    ("hf:openai/clip-vit-large-patch14", 427.6, 768, "CLIP ViT-L/14"),
    ("hf:google/siglip-base-patch16-224", 203.2, 768, "SigLIP ViT-B/16"),
    ("hf:google/siglip2-base-patch16-224", 375.2, 768, "SigLIP 2 ViT-B/16"),
)
# Where newer versions of open_clip find OpenAI's weights on the hub.
OPENAI = {
    "timm/resnet50_clip.openai": "RN50:openai",
    "timm/resnet101_clip.openai": "RN101:openai",
    "timm/vit_base_patch32_clip_224.openai": "ViT-B-32:openai",
    "timm/vit_base_patch16_clip_224.openai": "ViT-B-16:openai",
    "timm/vit_large_patch14_clip_224.openai": "ViT-L-14:openai",
}
PACKAGES = {"open-clip": "open_clip", "transformers": "transformers"}  # extra -> module


@dataclass(frozen=True)
class EncoderInfo:
    """One line of the list of encoders; what depends on the user's own files is None."""

    name: str
    description: str
    size_mb: float | None
    dim: int | None
    state: State = "installed"
    needs: str | None = None  # the extra that must be installed first

    @property
    def installed(self) -> bool:
        """Whether it loads with no network and nothing more to install."""
        return self.state != "download" and self.needs is None


def missing(extra: str) -> str | None:
    """The extra itself if its package is not there."""
    return None if find_spec(PACKAGES[extra]) else extra


def downloadable() -> Iterator[EncoderInfo]:
    """Well known models, those in the caches marked as such; then whatever else the caches hold."""
    cached = {info.name: info for info in in_caches()}
    for extra, models in (("open-clip", OPEN_CLIP), ("transformers", TRANSFORMERS)):
        for name, millions, dim, description in models:
            size, state = round(4 * millions), "download"
            if name in cached:
                size, state = round(cached.pop(name).size_mb or 0), "cached"
            yield EncoderInfo(
                name, description, size, dim, "cached" if state == "cached" else "download", missing(extra)
            )
    yield from cached.values()


def in_caches() -> Iterator[EncoderInfo]:
    """Models of a known kind in the hub's cache, and OpenAI's files."""
    for folder in sorted(_hub_cache().glob("models--*--*")):
        repository = folder.name.removeprefix("models--").replace("--", "/")
        size = round(sum(path.stat().st_size for path in (folder / "blobs").glob("*") if path.is_file()) / 1e6, 1)
        for snapshot in (folder / "snapshots").glob("*"):
            if repository in OPENAI and any(snapshot.glob("open_clip_*")):
                yield EncoderInfo(OPENAI[repository], "CLIP", size, None, "cached", missing("open-clip"))
            elif (snapshot / "open_clip_config.json").is_file():
                yield EncoderInfo(f"hf-hub:{repository}", "open_clip", size, None, "cached", missing("open-clip"))
            elif (kind := _kind(snapshot / "config.json")) is not None:
                yield EncoderInfo(f"hf:{repository}", kind, size, None, "cached", missing("transformers"))
            else:
                continue
            break
    for path in sorted((Path.home() / ".cache" / "clip").glob("*.pt")):
        size = round(path.stat().st_size / 1e6, 1)
        yield EncoderInfo(f"{path.stem}:openai", "CLIP", size, None, "cached", missing("open-clip"))


def _hub_cache() -> Path:
    if place := os.environ.get("HF_HUB_CACHE"):
        return Path(place)
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return Path(home) / "hub"


def _kind(config: Path) -> str | None:
    try:
        return KINDS.get(json.loads(config.read_text(encoding="utf-8"))["model_type"])
    except (OSError, ValueError, KeyError, TypeError):
        return None

"""What a big run takes: device hours, machines and storage, by arithmetic that states what it assumes."""

import time
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

from meantime import pipeline
from meantime.encoders import Encoder
from meantime.errors import MeantimeError
from meantime.views import ViewSpec

# GFLOPs of one view through the image tower (a multiplication and an addition are two) and d. Those of open_clip are
# in its table docs/model_profile.csv; of the embedded one they are EfficientNet-Lite0's 0.41 billion multiplications.
MODELS = {
    "embedded": (0.81, 384),
    "RN50": (12.2, 1024),
    "RN101": (19.5, 512),
    "ViT-B-32": (8.8, 512),
    "ViT-B-16": (35.1, 512),
    "ViT-B-16-SigLIP": (35.4, 768),
    "ViT-L-14": (162.0, 768),
    "ViT-L-14-336": (381.9, 768),
    "ViT-H-14": (334.6, 1024),
    "ViT-bigG-14": (967.5, 1280),
}
SAME = {
    "openai/clip-vit-base-patch32": "ViT-B-32",
    "openai/clip-vit-base-patch16": "ViT-B-16",
    "openai/clip-vit-large-patch14": "ViT-L-14",
    "google/siglip-base-patch16-224": "ViT-B-16-SigLIP",
}
# Published peaks in TFLOPS: of GPUs 16-bit floats on tensor cores without sparsity, of the CPU 32 cores of 80 GFLOPS
# in 32-bit floats (two AVX2 units of 2.5 GHz each).
DEVICES = {"cpu": 2.56, "t4": 65.0, "a10g": 70.0, "l4": 121.0, "v100": 125.0, "a100": 312.0, "h100": 989.0}
UTILISATION = 0.4  # of the peak that image towers of this size commonly reach
CROP = 1e-3  # core seconds to decode and crop a view: 64 of a photo of 500 x 375, benchmarks/classify.py
ANYTIME = 0.31  # of 64 views, on the two sets of `benchmarks/anytime.py`
KEY = 150  # bytes of an image's row that no view depends on: path, hash, numbers


@dataclass(frozen=True)
class RunPlan:
    """A run, and what follows from it."""

    images: float
    views: float  # of an image; a mean where runs stop early
    dim: int
    views_per_second: float  # of one device
    hours: float = 168.0  # in which it is to be done

    @property
    def device_hours(self) -> float:
        """Hours on one device."""
        return self.images * self.views / self.views_per_second / 3600

    @property
    def devices(self) -> int:
        """How many finish in time."""
        return max(1, int(np.ceil(self.device_hours / self.hours)))

    @property
    def cores(self) -> float:
        """Cores that decode and crop as fast as one device encodes."""
        return self.views_per_second * CROP

    @property
    def image_bytes(self) -> float:
        """A row of the store: float16 views, float32 norms, four float32 of a box, a bit of the flip."""
        return self.views * (2 * self.dim + 4 + 16 + 1 / 8) + KEY

    @property
    def terabytes(self) -> float:
        """The store."""
        return self.images * self.image_bytes / 1e12

    def with_views(self, views: float) -> "RunPlan":
        """The same with another number of views."""
        return replace(self, views=views)


def model_facts(name: str) -> tuple[float, int]:
    """GFLOPs of a view, and d."""
    plain = name.removeprefix("hf:")
    plain = SAME.get(plain, plain.partition(":")[0].removesuffix("-quickgelu"))
    if plain not in MODELS:
        raise MeantimeError(
            f"the cost of {name!r} is not known here; known: {', '.join(MODELS)}. Give --views-per-second and --dim, "
            "or --measure to try it on this machine"
        )
    return MODELS[plain]


def assumed_rate(gflops: float, device: str) -> float:
    """Views a second that a device is taken to encode."""
    if device not in DEVICES:
        raise MeantimeError(
            f"the device {device!r} is not known here; known: {', '.join(DEVICES)}. Give --views-per-second"
        )
    return DEVICES[device] * 1e3 * UTILISATION / gflops


def measured_rate(encoder: Encoder, spec: ViewSpec, seconds: float = 10.0) -> float:
    """Views a second of this machine through the whole pipeline, on generated pictures of 500 x 375."""
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (375, 500, 3), np.uint8) for _ in range(4)]

    encoded = pipeline.encode(cycle(pictures), encoder, spec)
    next(encoded)  # loads the model and fills the window
    done, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds or not done:
        next(encoded)
        done += 1
    return done * spec.total / passed

"""Prompters of the tiny models, in float64 where a gradient is compared, and images that they can be asked about."""

import numpy as np
import tiny_models
import torch

from meantime.encoders import load_encoder
from meantime.prompting import prompter

NAMES = ["cat", "big dog", "x", "tree 7", "owl-man"]
SCALE = 12.0
_ENCODERS = {}


def tiny_encoder(kind="clip", dtype=torch.float64):
    """CLIP, SigLIP or SigLIP 2; a model is made once."""
    if (kind, dtype) not in _ENCODERS:
        model, processor, tokenizer = tiny_models.build(kind)
        _ENCODERS[kind, dtype] = load_encoder(model.to(dtype), processor, tokenizer)
    return _ENCODERS[kind, dtype]


def tiny_prompter(kind="clip", dtype=torch.float64, names=NAMES, **options):
    """Its tokens are letters, so a context of four is a word of four."""
    return prompter(tiny_encoder(kind, dtype), names, **{"context": "abcd", **options})


def images(count, n=20, d=16, seed=0):
    """Unit views (count, n, d) in float64, each image's around a point of its own."""
    rng = np.random.default_rng(seed)
    views = rng.standard_normal((count, 1, d)) + rng.standard_normal((count, n, d))
    return views / np.linalg.norm(views, axis=-1, keepdims=True)

"""The heads of a list of names: their texts encoded, each once."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from meantime.encoders import Encoder, cached_texts
from meantime.heads.ensemble import ensemble_head
from meantime.labels import Labels, fill, templates80
from meantime.meanshift.head import Head, TextHead

HeadName = Literal["text", "ensemble"]


def make_heads(encoder: Encoder, labels: Labels, wanted: set[HeadName]) -> Mapping[HeadName, Head]:
    """Return the heads of these names that methods ask for; texts come from the cache where it has them."""
    heads: dict[HeadName, Head] = {}
    if "text" in wanted:
        texts = cached_texts(encoder, [p for prompts in labels.prompts for p in prompts])
        texts = texts / np.linalg.norm(texts, axis=-1, keepdims=True)
        ends = np.cumsum([len(prompts) for prompts in labels.prompts])
        classes = np.stack([part.mean(axis=0) for part in np.split(texts, ends[:-1])])
        heads["text"] = TextHead(classes, encoder.logit_scale)
    if "ensemble" in wanted:
        prompts = [fill(template, name) for template in templates80() for name in labels.names]
        grid = cached_texts(encoder, prompts).reshape(len(templates80()), len(labels.names), encoder.dim)
        heads["ensemble"] = ensemble_head(grid, encoder.logit_scale)
    return heads

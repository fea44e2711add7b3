"""What a method says of images whose views are encoded, be it one photo of a service or a folder of thousands."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meantime.aggregators import Aggregate
from meantime.anytime import LEVEL, settled
from meantime.heads import Head, HeadName
from meantime.meanshift import softmax
from meantime.meanshift.threads import on_one_core
from meantime.prediction import Floats
from meantime.registry import Method


@dataclass(frozen=True)
class Answer:
    """What a method says of one image."""

    probabilities: Floats  # (K,)
    plain: Floats  # (K,), by plain zero-shot: view 0 alone
    weights: Floats  # (N,)
    mode: Floats | None  # (d,)
    settled: float  # in 0..1

    @property
    def enough(self) -> bool:
        """Whether more views would hardly change it."""
        return self.settled >= LEVEL


def answers(views: Floats, method: Method, heads: Mapping[HeadName, Head]) -> list[Answer]:
    """Solve images with equally many unit views (M, N, d) together."""
    with on_one_core():  # the encoder is at work on the next images
        found: Aggregate = method(views, heads)
        logits = np.asarray(found.logits)
        probabilities, plain = softmax(logits), softmax(np.asarray(heads["text"](views[:, 0])))
        sure = settled(logits, np.asarray(heads[method.reader](views)))
    weights, mode = np.asarray(found.weights), None if found.mode is None else np.asarray(found.mode)
    return [
        Answer(probabilities[i], plain[i], weights[i], None if mode is None else mode[i], float(sure[i]))
        for i in range(len(views))
    ]

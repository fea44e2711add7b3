"""A drop-in for transformers' zero-shot image classification pipeline: the same call, the same output, by MTA."""

import os
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any

import numpy as np

from meantime.classifier import Classifier
from meantime.encoders import load_encoder
from meantime.errors import ImageError, MeantimeError
from meantime.images import ImageSource
from meantime.labels import Labels, place
from meantime.prediction import Prediction
from meantime.registry import Method
from meantime.views import ViewSpec

TASK = "zero-shot-image-classification"
TEMPLATE = "This is a photo of {}."  # transformers' own
Scores = list[dict[str, Any]]


def pipeline(
    task: str = TASK,
    model: Any = "embedded",
    *,
    image_processor: Any = None,
    tokenizer: Any = None,
    device: str = "auto",
    method: str | Method = "mta",
    views: int | ViewSpec = 64,
    seed: int = 0,
) -> "ZeroShotImageClassification":
    """As ``transformers.pipeline``; ``model`` is a name for :func:`meantime.load_encoder`, a hub name or a model.

    >>> classify = pipeline(model="hf:openai/clip-vit-base-patch32")  # doctest: +SKIP
    >>> classify("photo.jpg", candidate_labels=["cat", "dog"])  # doctest: +SKIP
    [{'score': 0.98, 'label': 'cat'}, {'score': 0.02, 'label': 'dog'}]
    """
    if task != TASK:
        raise MeantimeError(f"the task {task!r} was asked; only {TASK!r} is there")
    if isinstance(model, str) and "/" in model and ":" not in model and not os.path.isdir(model):
        model = f"hf:{model}"  # a bare hub name, as transformers takes it
    encoder = load_encoder(model, image_processor, tokenizer, device=device)
    return ZeroShotImageClassification(encoder, method=method, views=views, seed=seed)


class ZeroShotImageClassification:
    """Call it with images and ``candidate_labels``; each image gets a list of scores, best first.

    Scores are a softmax over the labels. For a model that was trained with a sigmoid (SigLIP) each is its own
    probability, as in transformers; MTA has then found the mode with a softmax.
    """

    def __init__(self, encoder: Any, **options: Any) -> None:
        self.encoder = encoder
        self.options = options

    def __call__(
        self,
        image: ImageSource | list[Any] | None = None,
        candidate_labels: str | Sequence[str] = (),
        *,
        hypothesis_template: str = TEMPLATE,
        timeout: float | None = None,
        images: ImageSource | list[Any] | None = None,
    ) -> Scores | list[Scores]:
        """Classify an image (path, http address, PIL image, array) or a list of them.

        Labels are a list or, as in transformers, a string of them with commas between.
        """
        image = images if image is None else image
        if image is None:
            raise MeantimeError("no image was given; expected a path, an address, a PIL image or a list of them")
        if isinstance(candidate_labels, str):
            candidate_labels = [label.strip() for label in candidate_labels.split(",") if label.strip()]
        prompts = tuple((place(hypothesis_template, label),) for label in candidate_labels)
        classifier = Classifier(Labels(tuple(candidate_labels), prompts), self.encoder, **self.options)
        sources = [_fetched(source, timeout) for source in (image if isinstance(image, list) else [image])]
        results = [self._scores(classifier, prediction) for prediction in classifier.stream(sources)]
        return results if isinstance(image, list) else results[0]

    def _scores(self, classifier: Classifier, prediction: Prediction) -> Scores:
        if prediction.error is not None:  # transformers raises too
            raise ImageError(prediction.error)
        pairs = prediction.scores
        bias = getattr(self.encoder, "logit_bias", None)
        if bias is not None:
            if prediction.embedding is None:
                raise MeantimeError("this method votes and gives no embedding for SigLIP's sigmoid: use mta or mean")
            reader = classifier.heads[classifier.method.reader]
            logits = np.asarray(reader(prediction.embedding[None]))[0] + bias
            scores = 1 / (1 + np.exp(-logits.astype(np.float64)))
            order = np.argsort(-scores, kind="stable")
            pairs = [(prediction.names[i], float(scores[i])) for i in order]
        return [{"score": score, "label": label} for label, score in pairs]


def _fetched(source: Any, timeout: float | None) -> Any:
    """The bytes behind an http address; anything else as it is."""
    if not isinstance(source, str) or not source.startswith(("http://", "https://")):
        return source
    try:
        with urllib.request.urlopen(source, timeout=timeout) as answer:
            return answer.read()
    except (OSError, HTTPException, ValueError) as error:  # an address with a space is no OSError
        raise ImageError(f"the image {source!r} cannot be fetched: {error}") from error

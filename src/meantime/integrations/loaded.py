"""A model that is loaded already, by open_clip or transformers, as a classifier: one call."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from meantime.classifier import Classifier
from meantime.encoders import load_encoder
from meantime.labels import Labels


def mta_classifier(
    model: Any,
    preprocess: Any,
    tokenizer: Any,
    labels: str | Path | Sequence[str] | Labels,
    **options: Any,
) -> Classifier:
    """The model as an MTA classifier; ``options`` are those of :class:`meantime.Classifier`.

    >>> name = "ViT-B-16-quickgelu"  # as OpenAI's weights were trained
    >>> model, _, preprocess = open_clip.create_model_and_transforms(name, "openai")  # doctest: +SKIP
    >>> clf = mta_classifier(model, preprocess, open_clip.get_tokenizer(name), ["cat", "dog"])  # doctest: +SKIP
    """
    return Classifier(labels, load_encoder(model, preprocess, tokenizer), **options)

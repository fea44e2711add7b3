"""Images and names in, predictions out."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from meantime import pipeline
from meantime.answers import Answer, answers
from meantime.anytime import groups
from meantime.encoders import Encoder, load_encoder
from meantime.errors import ImageError, MeantimeError
from meantime.evaluation import Evaluation, evaluate
from meantime.heads import make_heads
from meantime.images import ImageSource, find_images
from meantime.labels import TEMPLATE, Labels, as_labels
from meantime.prediction import Prediction, failure
from meantime.registry import Method, method_named
from meantime.views import Places, ViewSpec

# Images of a store that are solved together: enough for full matrix products, few enough to answer as one goes.
TOGETHER = 8


class Classifier:
    """Zero-shot classification by a named method.

    Parameters
    ----------
    labels
        Names, a comma list, a file of names, or the name of a label set (``"imagenet"``).
    encoder
        A name for :func:`meantime.load_encoder`, or an encoder.
    method
        One of :func:`meantime.methods`, or a :class:`~meantime.Method`.
    views
        How many views of each image, or a :class:`~meantime.views.ViewSpec`; 1 is plain zero-shot. ``"auto"``: 8,
        and twice as many up to 64 until the answer is settled (:mod:`meantime.anytime`).
    seed
        Of the random crops.
    template
        The prompt, with ``{}`` or ``{c}`` for the name.
    abstain
        Give no answer where the best probability is below this.
    batch, threads
        Views encoded in one call; threads that decode and crop. Chosen from the machine by default.

    Examples
    --------
    >>> clf = Classifier(["cat", "cup of coffee", "rocket"])  # doctest: +SKIP
    >>> clf("photo.jpg").label  # doctest: +SKIP
    'cat'
    """

    def __init__(
        self,
        labels: str | Path | Sequence[str] | Labels,
        encoder: str | Encoder = "embedded",
        method: str | Method = "mta",
        *,
        views: int | ViewSpec | Literal["auto"] = 64,
        seed: int = 0,
        template: str = TEMPLATE,
        abstain: float = 0.0,
        batch: int | None = None,
        threads: int | None = None,
    ) -> None:
        if not 0 <= abstain <= 1:
            raise MeantimeError(f"abstain is a probability and must lie in 0..1, but it is {abstain}")
        if any(number is not None and number < 1 for number in (batch, threads)):
            raise MeantimeError(f"batch and threads must be at least 1, but they are {batch} and {threads}")
        # What was typed twice is a slip; the places in a list of Python's may mean something to the caller
        self.labels = as_labels(labels, template, distinct=isinstance(labels, str | Path))
        self.encoder = load_encoder(encoder)
        self.method = method_named(method)
        if getattr(self.encoder, "logit_bias", None) is not None:  # Python shows a warning once
            warnings.warn(
                f"{self.encoder.name} was trained with a sigmoid; where views are weighed by what they say (MTA's "
                "affinity), a softmax over the labels is used",
                stacklevel=2,
            )
        self.auto = views == "auto"
        self.spec = _spec(views)
        self.seed = seed
        self.template = template
        self.abstain = abstain
        self.batch = batch
        self.threads = threads
        self.heads = make_heads(self.encoder, self.labels, self.method.heads | {"text"})

    @property
    def needed(self) -> ViewSpec:
        """The views that the method looks at: one is enough where it reads the original alone."""
        return replace(self.spec, n=1, files=None, n_files=0) if self.method.first_only else self.spec

    def with_labels(self, labels: str | Path | Sequence[str] | Labels) -> "Classifier":
        """Return the same classifier for other names; nothing is encoded but texts not seen before."""
        return Classifier(
            labels,
            self.encoder,
            self.method,
            views="auto" if self.auto else self.spec,
            seed=self.seed,
            template=self.template,
            abstain=self.abstain,
            batch=self.batch,
            threads=self.threads,
        )

    @overload
    def __call__(self, images: ImageSource) -> Prediction: ...
    @overload
    def __call__(self, images: list[Any]) -> list[Prediction]: ...
    def __call__(self, images: ImageSource | list[Any]) -> Prediction | list[Prediction]:
        """Classify one image, or a list of them; in a list, an unreadable one has its ``error`` set."""
        if isinstance(images, list):
            return list(self.stream(images))
        return self._one(images)

    def stream(self, images: str | PathLike[str] | Iterable[ImageSource]) -> Iterator[Prediction]:
        """Yield a prediction for each image, in order, as they come; memory does not grow.

        A folder or a glob stands for the images in it.
        """
        if isinstance(images, bytes | bytearray | memoryview):
            raise MeantimeError("the bytes of one image were given; expected several images: put it into a list")
        spec = self.needed
        decided = pipeline.encode_until(
            find_images(images) if isinstance(images, str | PathLike) else images,
            self.encoder,
            spec,
            groups(spec.n) if self.auto else (spec.total,),
            self._decide,
            seed=self.seed,
            batch=self.batch,
            threads=self.threads,
        )
        return (self._prediction(encoded, answer) for encoded, answer in decided)

    def answers(self, encoded: Iterable[pipeline.Encoded]) -> Iterator[Prediction]:
        """Yield a prediction for each image that is encoded already, in order; memory does not grow."""
        for chunk in pipeline.chunks(map(self._looked_at, encoded), TOGETHER):
            readable = [e.embeddings for e in chunk if e.embeddings is not None]
            found = iter(answers(np.stack(readable), self.method, self.heads) if readable else [])
            for e in chunk:
                yield self._prediction(e, None if e.embeddings is None else next(found))

    def embed(self, image: ImageSource) -> NDArray[np.float32]:
        """Return the mode itself, (d,), unit length: an embedding for search and clustering."""
        embedding = self._one(image).embedding
        if embedding is None:
            raise MeantimeError("this method votes and has no mode: use mta, mean or another that has one to embed")
        return np.asarray(embedding, np.float32)

    def evaluate(self, folder: str | Path, seeds: int = 1) -> Evaluation:
        """Measure on one's own labelled folder: this method (``"this"``) beside plain zero-shot (``"clip"``)."""
        return evaluate(self, folder, {"clip": "clip", "this": self.method}, seeds=seeds)

    def _one(self, image: ImageSource) -> Prediction:
        (prediction,) = self.stream([image])
        if prediction.error is not None:
            raise ImageError(prediction.error)
        return prediction

    def _looked_at(self, e: pipeline.Encoded) -> pipeline.Encoded:
        """Leave out what the method does not look at, so that an answer tells which views it rests on."""
        if not self.method.first_only or e.embeddings is None or e.norms is None or e.places is None:
            return e
        first = Places(e.places.boxes[:1], e.places.flips[:1], e.places.digest)
        return replace(e, embeddings=e.embeddings[:1], norms=e.norms[:1], places=first)

    def _decide(self, views: NDArray[np.float32], last: bool) -> list[Answer | None]:
        """Solve images whose views grow; None where more are wanted."""
        return [a if last or a.enough else None for a in answers(views, self.method, self.heads)]

    def _prediction(self, e: pipeline.Encoded, answer: Answer | None) -> Prediction:
        path = pipeline.source_name(e.source)
        if answer is None or e.places is None:
            return failure(path, self.labels.names, str(e.error))
        return Prediction(
            path=path,
            names=self.labels.names,
            probabilities=answer.probabilities,
            plain=answer.plain,
            inlierness=answer.weights,
            boxes=e.places.boxes,
            flips=e.places.flips,
            embedding=answer.mode,
            threshold=self.abstain,
            settled=answer.settled,
        )


def _spec(views: int | ViewSpec | str) -> ViewSpec:
    if isinstance(views, ViewSpec):
        return views
    if views == "auto":
        return ViewSpec()
    if isinstance(views, str):
        raise MeantimeError(f"views is {views!r}; expected a number, a ViewSpec or 'auto'")
    return ViewSpec(n=views)

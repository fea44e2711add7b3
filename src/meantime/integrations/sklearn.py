"""Embeddings that were computed before, classified in the way of scikit-learn: fit, predict, predict_proba.

scikit-learn itself is not needed; where it is, this works inside its tools (clone, cross validation, scoring).
"""

import importlib
import inspect
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meantime.errors import MeantimeError
from meantime.heads import TextHead
from meantime.meanshift import softmax
from meantime.meanshift.arrays import to_floats, unit
from meantime.registry import Method, method_named

TOGETHER = 64  # images solved in one step: memory stays flat


class EmbeddingClassifier:
    """Zero-shot classification of view embeddings by a named method.

    Parameters
    ----------
    class_embeddings
        (K, d), one text embedding for each class.
    labels
        K names or numbers; 0..K-1 by default.
    method
        One of :func:`meantime.methods` that needs no prompt ensemble.
    logit_scale
        The encoder's temperature; 100 is CLIP's.

    Examples
    --------
    >>> views = np.array([[[1.0, 0.1], [0.9, 0.2], [0.1, 1.0]]])  # one image, three views
    >>> EmbeddingClassifier(np.eye(2), ["cat", "dog"]).predict(views)
    array(['cat'], dtype='<U3')
    """

    def __init__(
        self,
        class_embeddings: ArrayLike,
        labels: Sequence[Any] | None = None,
        *,
        method: str | Method = "mta",
        logit_scale: float = 100.0,
    ) -> None:
        self.class_embeddings = class_embeddings
        self.labels = labels
        self.method = method
        self.logit_scale = logit_scale

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels in the order of ``predict_proba``'s columns."""
        k = len(np.asarray(self.class_embeddings))
        labels = np.arange(k) if self.labels is None else np.asarray(self.labels)
        if len(labels) != k:
            raise MeantimeError(f"{len(labels)} labels given for {k} class embeddings; expected as many")
        return labels

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Return itself: nothing is learned."""
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Logits (n, K) of images with view embeddings (n, N, d); (n, d) is one view each."""
        method = method_named(self.method)
        if method.heads != {"text"}:
            more = ", ".join(sorted(map(str, method.heads - {"text"})))
            raise MeantimeError(
                f"the method {self.method!r} needs the head {more} beside the class embeddings; choose one that "
                "reads by these alone, such as mta, mean or clip"
            )
        head = TextHead(np.asarray(self.class_embeddings), self.logit_scale)
        views = np.asarray(X)
        views = views[:, None] if views.ndim == 2 else views
        if views.ndim != 3 or views.shape[-1] != head.dim:
            raise MeantimeError(f"X has shape {np.shape(X)}; expected (n, N, {head.dim}) or (n, {head.dim})")
        views = unit("X", to_floats(views if views.dtype.kind == "f" else views.astype(np.float64)))
        parts = [
            np.asarray(method(views[i : i + TOGETHER], {"text": head}).logits) for i in range(0, len(views), TOGETHER)
        ]
        return np.concatenate(parts) if parts else np.empty((0, head.n_classes))

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Probabilities (n, K)."""
        logits = self.decision_function(X)
        return np.asarray(softmax(logits)) if len(logits) else logits

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels (n,)."""
        found: NDArray[Any] = self.classes_[self.decision_function(X).argmax(axis=1)]
        return found

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy."""
        return float((self.predict(X) == np.asarray(y)).mean())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments: what scikit-learn copies estimators by."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change some of them."""
        for name, value in params.items():
            if name not in self.get_params():
                raise MeantimeError(f"there is no parameter {name!r}; there are {', '.join(self.get_params())}")
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        utils = importlib.import_module("sklearn.utils")  # only scikit-learn asks, so it is there
        return utils.Tags(
            estimator_type="classifier",
            target_tags=utils.TargetTags(required=False),
            classifier_tags=utils.ClassifierTags(),
            input_tags=utils.InputTags(three_d_array=True),
        )

"""What there is to tell about one image: its answer, what each view is taken for, the ways of the modes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meantime.classifier import Classifier
from meantime.errors import MeantimeError
from meantime.images import ImageSource, Pixels, load_image
from meantime.meanshift import mean_shift, mta, softmax
from meantime.pipeline import encode, source_name
from meantime.prediction import Prediction
from meantime.views import Views

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Story:
    """All that is drawn."""

    photo: Pixels
    views: Views
    prediction: Prediction
    own: list[str]  # N: the best name of each view by itself
    points: Points  # (N, 2), the views in their plane
    mta_path: Points  # (L + 1, 2)
    shift_path: Points  # (L' + 1, 2)
    seen: float  # share of the views' variance that the plane shows


def tell(image: ImageSource, classifier: Classifier) -> Story:
    """Encode, solve twice and lay everything into the plane."""
    photo = load_image(image)
    encoded = next(iter(encode([photo], classifier.encoder, classifier.spec, seed=classifier.seed)))
    if encoded.views is None or encoded.embeddings is None:
        raise encoded.error or MeantimeError("the image has no views")
    x, head, names = encoded.embeddings, classifier.heads["text"], classifier.labels.names
    result = mta(x, head, trace=True)
    shift = mean_shift(x, trace=True)
    by_view = softmax(head(x))  # (N, K)
    prediction = Prediction(
        path=source_name(image),
        names=names,
        probabilities=result.probabilities,
        plain=by_view[0],
        inlierness=result.inlierness,
        boxes=encoded.views.boxes,
        flips=encoded.views.flips,
    )
    points, centre, axes = _principal_plane(np.asarray(x, np.float64))
    spread = float(((x - centre) ** 2).sum())
    return Story(
        photo=photo,
        views=encoded.views,
        prediction=prediction,
        own=[names[int(k)] for k in by_view.argmax(axis=-1)],
        points=points,
        mta_path=(np.asarray(result.path, np.float64) - centre) @ axes,
        shift_path=(np.asarray(shift.path, np.float64) - centre) @ axes,
        seen=float((points**2).sum()) / spread if spread > 0 else 1.0,
    )


def _principal_plane(x: Points) -> tuple[Points, Points, Points]:
    """PCA of views (N, d): their places (N, 2), the centre (d,) and the two axes (d, 2)."""
    centre = x.mean(axis=0)
    axes = np.linalg.svd(x - centre, full_matrices=False)[2][:2].T
    # A singular vector's sign is the library's whim; this one is the same everywhere.
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    return (x - centre) @ axes, centre, axes

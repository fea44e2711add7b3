"""What there is to tell about one image: its answer, what each view is taken for, the ways of the modes."""

from dataclasses import dataclass, replace

import numpy as np

from meantime.classifier import Classifier
from meantime.images import ImageSource, Pixels, load_image
from meantime.meanshift import mean_shift, mta, softmax
from meantime.pipeline import Flight, source_name
from meantime.plane import Plane, Points
from meantime.prediction import Prediction
from meantime.views import Views


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
    flight = Flight(image, classifier.encoder, classifier.spec, classifier.seed, load=lambda _: photo)
    views = flight.crop(classifier.spec.total)
    flight.add(classifier.encoder.encode_images(views.pixels), views.places)
    if not isinstance(views.pixels, np.ndarray):  # cut on a GPU
        views = replace(views, pixels=views.pixels.cpu().numpy())
    x, head, names = flight.embeddings, classifier.heads["text"], classifier.labels.names
    result = mta(x, head, trace=True)
    shift = mean_shift(x, trace=True)
    by_view = softmax(head(x))  # (N, K)
    prediction = Prediction(
        path=source_name(image),
        names=names,
        probabilities=result.probabilities,
        plain=by_view[0],
        inlierness=result.inlierness,
        boxes=views.places.boxes,
        flips=views.places.flips,
    )
    plane = Plane(x)
    return Story(
        photo=photo,
        views=views,
        prediction=prediction,
        own=[names[int(k)] for k in by_view.argmax(axis=-1)],
        points=plane.points,
        mta_path=plane(np.asarray(result.path)),
        shift_path=plane(np.asarray(shift.path)),
        seen=plane.seen,
    )

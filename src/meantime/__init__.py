"""Meantime: MeanShift test-time augmentation for vision-language models.

import meantime as mt

mt.mta(views, classes)                       # embeddings in, prediction out
mt.Classifier(["cat", "dog"])("photo.jpg")   # images in, prediction out
"""

from meantime.classifier import Classifier
from meantime.encoders import Encoder, load_encoder
from meantime.errors import ImageError, MeantimeError, MissingExtraError
from meantime.fit import fit_head
from meantime.heads import Head, TextHead, ensemble_head
from meantime.meanshift import MTAResult, mean_shift, mta
from meantime.prediction import Prediction
from meantime.registry import Method, add_method, methods
from meantime.views import ViewSpec

__version__ = "0.1.0"
__all__ = [
    "Classifier",
    "Encoder",
    "Head",
    "ImageError",
    "MTAResult",
    "MeantimeError",
    "Method",
    "MissingExtraError",
    "Prediction",
    "TextHead",
    "ViewSpec",
    "add_method",
    "ensemble_head",
    "fit_head",
    "load_encoder",
    "mean_shift",
    "methods",
    "mta",
]

"""Meantime inside what people already have: transformers' pipeline, open_clip, scikit-learn."""

from meantime.integrations.loaded import mta_classifier
from meantime.integrations.pipelines import ZeroShotImageClassification, pipeline
from meantime.integrations.sklearn import EmbeddingClassifier

__all__ = ["EmbeddingClassifier", "ZeroShotImageClassification", "mta_classifier", "pipeline"]

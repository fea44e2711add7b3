"""Meantime: MeanShift test-time augmentation for vision-language models."""

from meantime.errors import MeantimeError
from meantime.meanshift import mean_shift, mta

__all__ = ["MeantimeError", "mean_shift", "mta"]

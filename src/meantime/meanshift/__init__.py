"""The mathematics of MTA. No I/O, no model, no torch: arrays of any library in, arrays out.

Algorithm 1 is :func:`mean_shift`, Algorithm 2 :func:`mta`, Algorithm 3 :func:`text_affinity`; their parts
are functions of their own, named and numbered as in the paper.
"""

from meantime.meanshift.affinity import text_affinity, vision_affinity, without_diagonal
from meantime.meanshift.arrays import log_softmax, softmax
from meantime.meanshift.density import bandwidth, gaussian_kernel, gram, neighbours, squared_distances
from meantime.meanshift.head import Head, TextHead
from meantime.meanshift.mode import MeanShiftResult, mean_shift
from meantime.meanshift.mta import MTAResult, mta
from meantime.meanshift.solver import VARIANTS, Variant
from meantime.meanshift.steps import inlierness_step, mode_step, objective

__all__ = [
    "VARIANTS",
    "Head",
    "MTAResult",
    "MeanShiftResult",
    "TextHead",
    "Variant",
    "bandwidth",
    "gaussian_kernel",
    "gram",
    "inlierness_step",
    "log_softmax",
    "mean_shift",
    "mode_step",
    "mta",
    "neighbours",
    "objective",
    "softmax",
    "squared_distances",
    "text_affinity",
    "vision_affinity",
    "without_diagonal",
]

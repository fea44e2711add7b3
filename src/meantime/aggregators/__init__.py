"""Aggregators turn the views of an image, seen through a head, into one answer. One file for each system."""

from meantime.aggregators.base import Aggregate, Aggregator, joined
from meantime.aggregators.confidence import confidence
from meantime.aggregators.first import first
from meantime.aggregators.mean import mean
from meantime.aggregators.meanshift import meanshift
from meantime.aggregators.mta import mta
from meantime.aggregators.zero import zero

__all__ = ["Aggregate", "Aggregator", "confidence", "first", "joined", "mean", "meanshift", "mta", "zero"]

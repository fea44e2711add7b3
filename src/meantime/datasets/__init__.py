"""Labelled images by name or path: the paper's 15 datasets, folders, tables, WebDataset shards."""

from meantime.datasets.base import Dataset, Sample, Samples
from meantime.datasets.check import Report, check_dataset
from meantime.datasets.declarations import Declaration, add_dataset, list_datasets
from meantime.datasets.layouts import ClassFolders, CoopSplit, Layout, ListFile, NamedFolders
from meantime.datasets.load import load_dataset
from meantime.datasets.part import draw, subset

__all__ = [
    "ClassFolders",
    "CoopSplit",
    "Dataset",
    "Declaration",
    "Layout",
    "ListFile",
    "NamedFolders",
    "Report",
    "Sample",
    "Samples",
    "add_dataset",
    "check_dataset",
    "draw",
    "list_datasets",
    "load_dataset",
    "subset",
]

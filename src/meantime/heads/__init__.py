"""Heads score embeddings. One file for each system, named as in the paper."""

from meantime.heads.ensemble import ensemble_head
from meantime.heads.named import HeadName, make_heads
from meantime.heads.saved import HeadInfo, head_info, load_head, save_head
from meantime.heads.tip_adapter import TipAdapterHead
from meantime.meanshift.head import Head, TextHead

__all__ = [
    "Head",
    "HeadInfo",
    "HeadName",
    "TextHead",
    "TipAdapterHead",
    "ensemble_head",
    "head_info",
    "load_head",
    "make_heads",
    "save_head",
]

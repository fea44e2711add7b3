"""Heads score embeddings. One file for each system, named as in the paper."""

from meantime.heads.ensemble import ensemble_head
from meantime.heads.named import HeadName, make_heads
from meantime.meanshift.head import Head, TextHead

__all__ = ["Head", "HeadName", "TextHead", "ensemble_head", "make_heads"]

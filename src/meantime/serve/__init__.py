"""Meantime over HTTP: an API for programs and a page for people."""

from meantime.serve.app import create_app
from meantime.serve.settings import Settings

__all__ = ["Settings", "create_app"]

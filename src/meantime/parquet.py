"""Parquet by pyarrow, the largest package that Meantime can use: an extra, imported when first needed."""

from typing import Any

from meantime.extras import optional


class _Lazy:
    """A module that is imported when the first of its names is asked for."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(optional(self._module, "Parquet (stores, manifests and results)", "parquet"), name)


pa: Any = _Lazy("pyarrow")
pq: Any = _Lazy("pyarrow.parquet")

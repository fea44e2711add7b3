"""What the extra `fast` adds: loops compiled by Numba, where it is installed."""

import functools
from types import ModuleType


@functools.cache
def compiled() -> ModuleType | None:
    """Return :mod:`~meantime.meanshift.compiled`; None without the extra, or where there is no place to keep it."""
    try:
        from meantime.meanshift import compiled
    except (ImportError, RuntimeError):  # Numba's own: of a NumPy that it does not know, or of no folder to write to
        return None
    return compiled

"""What the extra `fast` adds: loops compiled by Numba, where it is installed."""

import functools
import os
from threading import Lock
from types import ModuleType

# Held while it is loaded. A fork waits for it: the child would wait for ever for locks of Numba that nobody gives back.
_loading = Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


@functools.cache
def compiled() -> ModuleType | None:
    """Return :mod:`~meantime.meanshift.compiled`; None without the extra, or where it does not work.

    Numba has many reasons not to: a NumPy that it does not know, no place on disk, damaged files there.
    """
    with _loading:
        try:
            from meantime.meanshift import compiled

            compiled.try_out()
        except Exception:
            return None
        return compiled

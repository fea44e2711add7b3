"""A user's own file: run once, and the methods that it adds appear in every table."""

import runpy
from pathlib import Path

from meantime.errors import MeantimeError
from meantime.registry import methods


def load_plugin(path: str | Path) -> list[str]:
    """Run a Python file that calls ``mt.add_method`` and return the names that it added."""
    path = Path(path)
    if not path.is_file():
        raise MeantimeError(f"there is no plugin {str(path)!r}: give a Python file that calls meantime.add_method")
    before = set(methods())
    try:
        runpy.run_path(str(path), run_name="meantime_plugin")
    except MeantimeError:
        raise
    except Exception as error:
        raise MeantimeError(f"the plugin {str(path)!r} failed: {type(error).__name__}: {error}") from error
    added = [name for name in methods() if name not in before]
    if not added:
        raise MeantimeError(f"the plugin {str(path)!r} added no method: let it call meantime.add_method(name, method)")
    return added

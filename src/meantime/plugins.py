"""A user's own file: run once, and the methods and datasets that it adds are known to every command."""

import runpy
from pathlib import Path

from meantime.datasets import list_datasets
from meantime.errors import MeantimeError
from meantime.registry import methods


def load_plugin(path: str | Path) -> list[str]:
    """Run a Python file that calls ``mt.add_method`` or ``add_dataset``; return the names of the methods it added."""
    path = Path(path)
    if not path.is_file():
        raise MeantimeError(f"there is no plugin {str(path)!r}: give a Python file that calls meantime.add_method")
    before, datasets = set(methods()), set(list_datasets())
    try:
        runpy.run_path(str(path), run_name="meantime_plugin")
    except MeantimeError as error:
        raise MeantimeError(f"the plugin {str(path)!r} failed: {error}") from error
    except Exception as error:
        raise MeantimeError(f"the plugin {str(path)!r} failed: {type(error).__name__}: {error}") from error
    added = [name for name in methods() if name not in before]
    if not added and set(list_datasets()) == datasets:
        raise MeantimeError(
            f"the plugin {str(path)!r} added no method and no dataset: let it call meantime.add_method(name, method) "
            "or meantime.datasets.add_dataset(declaration)"
        )
    return added

"""Packages that the default install leaves out: imported when first needed, named by their extra if missing."""

import importlib
from typing import Any

from meantime.errors import MeantimeError, MissingExtraError


def optional(module: str, feature: str, extra: str) -> Any:
    """The module; ``feature`` is what needs it, ``extra`` what installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if (error.name or "").partition(".")[0] == module.partition(".")[0]:
            raise MissingExtraError(feature, extra) from error
        raise MeantimeError(f"{feature} needs {module}, which is installed but cannot be imported: {error}") from error

"""Packages that are not always installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensorcontrast.errors import MissingDependencyError


def optional(module: str, extra: str) -> Any:
    """Import a module of an optional package, or say which extra installs it.

    Examples
    --------
    >>> optional("math", "data").pi > 3
    True
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{module.split('.')[0]} is not installed ({error}): "
            f"pip install 'tensorcontrast[{extra}]'"
        ) from error

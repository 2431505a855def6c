"""Import the packages of the extra ``dask``, or say how to get them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensorcontrast.errors import MissingDependencyError


def package(name: str) -> Any:
    """Return a module of Dask, ``distributed`` or Zarr."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingDependencyError(
            f"{name.split('.')[0]} is not installed ({error}): pip install 'tensorcontrast[dask]'"
        ) from error

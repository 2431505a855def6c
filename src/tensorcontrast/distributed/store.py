"""Recordings in a Zarr store: windows in chunks, and what is known of them.

A store is a Zarr group with the array ``X`` [n, channel, time], where known ``y``, ``groups`` and
``start`` (n,), and the attribute ``tensorcontrast``: format, rate, names, and the files that the
windows came from. Groups and files are numbers whose names the attribute lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    NewerFileError,
)
from tensorcontrast.utils.optional import optional

Array = NDArray[Any]

FORMAT = 1
#: Name of the attribute.
ABOUT = "tensorcontrast"
#: Name of the attribute of a store that is not finished: how far its conversion is.
UNFINISHED = "conversion"


@dataclass(frozen=True)
class StoredRecordings:
    """Recordings whose signals stay in their store until a block of them is needed.

    ``ContrastiveFeatures.fit`` and ``transform`` take them in the place of ``Recordings``.

    Examples
    --------
    >>> import tempfile
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.distributed import convert, open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = make_synthetic(20, 2, 32, random_state=0).save(f"{folder}/a.npz")
    ...     rec = open_store(convert(path, f"{folder}/a.zarr"))
    ...     print(len(rec), rec.n_channels, rec.n_times, rec.fs, rec.X[:5].compute().shape)
    20 2 32 100.0 (5, 2, 32)
    """

    X: Any
    y: NDArray[np.intp] | None = None
    groups: Array | None = None
    fs: float | None = None
    channels: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    units: str | tuple[str, ...] | None = None
    name: str = ""
    columns: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def _repr_html_(self) -> str:
        """Return the table that notebooks show; no signal is read."""
        # By its name: what notebooks show is drawn by a later layer.
        return str(import_module("tensorcontrast.report.notebook").recordings_html(self))

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return int(self.X.shape[1])

    @property
    def n_times(self) -> int:
        """Points of a window."""
        return int(self.X.shape[2])


def is_store(path: str | Path) -> bool:
    """Whether a path is a Zarr store, by the files in it.

    Examples
    --------
    >>> import tempfile
    >>> import zarr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zarr.save(f"{folder}/x.zarr", np.zeros((4, 2, 8)))
    ...     is_store(f"{folder}/x.zarr"), is_store(folder)
    (True, False)
    """
    folder = Path(path).expanduser()
    return any((folder / name).is_file() for name in ("zarr.json", ".zgroup", ".zarray"))


def open_store(path: str | Path) -> StoredRecordings:
    """Open a store that :func:`convert` wrote, or any Zarr array [n, channel, time].

    Parameters
    ----------
    path : path
        The store. A group without our attribute must have an array ``X``; nothing is known of
        its windows then.

    Examples
    --------
    >>> import tempfile
    >>> import zarr
    >>> from tensorcontrast.distributed import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zarr.save(f"{folder}/x.zarr", np.zeros((4, 2, 8)))  # not by convert
    ...     rec = open_store(f"{folder}/x.zarr")
    >>> rec.name, rec.X.shape, rec.y
    ('x.zarr', (4, 2, 8), None)
    """
    zarr, array = optional("zarr", "dask"), optional("dask.array", "dask")
    folder = Path(path).expanduser()
    if not folder.exists():
        raise DataNotFoundError(f"{folder}: no such store")
    try:
        node = zarr.open(str(folder), mode="r")
    except Exception as error:
        raise ForeignFileError(f"{folder}: not a Zarr store ({error})") from error
    about: dict[str, Any] = {}
    signals = node
    if not hasattr(node, "shape"):
        if UNFINISHED in node.attrs:
            raise FileError(f"{folder}: the conversion was not finished; run it again")
        if "X" not in node:
            raise FileError(f"{folder}: the store has no array X")
        signals = node["X"]
        about = dict(node.attrs).get(ABOUT, {})
    if len(signals.shape) != 3 or 0 in signals.shape:
        raise FileError(f"{folder}: X has shape {signals.shape}; [n, channel, time] is needed")
    if not about:
        return StoredRecordings(array.from_zarr(signals), name=folder.name)
    if about.get("format", 0) > FORMAT:
        raise NewerFileError(
            f"{folder}: written by a newer version (format {about['format']}): "
            "update tensorcontrast"
        )
    try:
        return _described(folder, node, array.from_zarr(signals), about)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedFileError(
            f"{folder}: what the store says of itself does not fit ({error}); convert again"
        ) from error


def _described(folder: Path, node: Any, X: Any, about: dict[str, Any]) -> StoredRecordings:
    n, n_channels = int(X.shape[0]), int(X.shape[1])
    values = {}
    for key in ("y", "groups", "recording", "start"):
        if key in node:
            values[key] = np.asarray(node[key][:])
            if values[key].shape != (n,):
                raise ValueError(f"{key} has shape {values[key].shape} for {n} windows")
    channels = _names(about["channels"])
    if channels is not None and len(channels) != n_channels:
        raise ValueError(f"{len(channels)} names for {n_channels} channels")
    units = about["units"]
    columns = {}
    if "recording" in values:
        columns["recording"] = np.array(about["files"])[values["recording"]]
    if "start" in values:
        columns["start"] = values["start"]
    groups = np.array(about["groups"])[values["groups"]] if "groups" in values else None
    y = values.get("y")
    return StoredRecordings(
        X,
        y=None if y is None else y.astype(np.intp),
        groups=groups,
        fs=None if about["fs"] is None else float(about["fs"]),
        channels=channels,
        classes=_names(about["classes"]),
        units=tuple(units) if isinstance(units, list) else units,
        name=folder.name,
        columns=columns,
    )


def _names(values: Any) -> tuple[str, ...] | None:
    return None if values is None else tuple(str(value) for value in values)

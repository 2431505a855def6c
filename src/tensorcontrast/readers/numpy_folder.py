"""Recordings as a folder of NumPy files, in one of two layouts.

``X.npy`` (n, channel, time) with ``y.npy``, ``groups.npy``, any further ``<column>.npy`` and
``meta.json`` (``fs``, ``channels``, ``classes``, ``units``, ``scale``, ``name``, ``citation``,
``licence``), of which only ``X.npy`` is needed; or one folder a class with ``.npy`` files, each
one sample (channel, time) or several (n, channel, time), and ``meta.json`` next to them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import DamagedFileError, FileError, ForeignFileError
from tensorcontrast.readers.files import existing, file_errors, read_npy
from tensorcontrast.readers.npz import from_arrays
from tensorcontrast.recordings import Recordings
from tensorcontrast.recordings.checks import as_text

_META = frozenset("fs channels classes units scale name citation licence".split())


def read_numpy_folder(path: str | Path, *, allow_nan: bool = False) -> Recordings:
    """Read a folder of ``.npy`` files; see the module for the two layouts.

    Parameters
    ----------
    path : path
        The folder.
    allow_nan : bool
        Accept NaN in the signals.
    """
    folder = existing(path)
    with file_errors(folder, "a folder of NumPy files"):
        if not folder.is_dir():
            raise ForeignFileError(f"{folder}: not a folder")
        arrays = _meta(folder)
        if (folder / "X.npy").is_file():
            for file in sorted(folder.glob("*.npy")):
                if file.stem in arrays:
                    raise DamagedFileError(f"{file}: is in meta.json too; leave one of them out")
                arrays[file.stem] = _npy(file)
        else:
            arrays.update(_class_folders(folder))
        return from_arrays(Recordings, arrays, str(folder), allow_nan=allow_nan)


def _npy(file: Path) -> npt.NDArray[Any]:
    with file_errors(file, "a .npy array"), file.open("rb") as stream:
        return read_npy(stream, file.stat().st_size, str(file))


def _meta(folder: Path) -> dict[str, npt.NDArray[Any]]:
    file = folder / "meta.json"
    if not file.is_file():
        return {}
    with file_errors(file, "JSON"):
        meta = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(meta, dict):
            raise DamagedFileError(f"{file}: holds {type(meta).__name__}, not an object of names")
        unknown = sorted(set(meta) - _META)
        if unknown:
            raise FileError(
                f"{file}: does not know {unknown}; it may hold {sorted(_META)}, and arrays go to "
                "files of their own such as age.npy"
            )
        return {key: _value(key, value, file) for key, value in meta.items() if value is not None}


def _value(key: str, value: Any, where: Path) -> npt.NDArray[Any]:
    """One value or one list of ``meta.json`` as an array; nothing else is meant there."""
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, str) for item in items):
        text = as_text(key, items)
        return text if isinstance(value, list) else text[0:1].reshape(())
    if not all(type(item) in (int, float) for item in items):
        raise DamagedFileError(f"{where}: {key!r} is neither numbers nor text: {str(value)[:60]}")
    return np.asarray(value, dtype=np.float64)


def _class_folders(folder: Path) -> dict[str, npt.NDArray[Any]]:
    classes = sorted(d.name for d in folder.iterdir() if d.is_dir() and any(d.glob("*.npy")))
    if not classes:
        raise ForeignFileError(
            f"{folder}: has neither X.npy nor one folder a class with .npy files"
        )
    blocks: list[npt.NDArray[Any]] = []
    y: list[int] = []
    names: list[str] = []
    for code, name in enumerate(classes):
        for file in sorted((folder / name).glob("*.npy")):
            block = _npy(file)
            block = block[None] if block.ndim == 2 else block
            if block.ndim != 3:
                raise FileError(
                    f"{file}: has shape {block.shape}; (channel, time) or (n, channel, time) is "
                    "needed"
                )
            if blocks and block.shape[1:] != blocks[0].shape[1:]:
                raise FileError(
                    f"{file}: has {block.shape[1]} channels and {block.shape[2]} points, but the "
                    f"files before have {blocks[0].shape[1]} and {blocks[0].shape[2]}"
                )
            blocks.append(block)
            y += [code] * len(block)
            names += [file.stem] * len(block)
    return {
        "X": np.concatenate(blocks),
        "y": np.asarray(y),
        "classes": np.asarray(classes),
        "file": np.asarray(names),
    }

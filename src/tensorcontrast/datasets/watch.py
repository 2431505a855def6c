"""Smartwatch recordings of shoulder exercises, as the package seglearn ships them."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from tensorcontrast.datasets.registry import DATASETS, find_data
from tensorcontrast.errors import DamagedFileError, DataNotFoundError, FileError
from tensorcontrast.readers.files import existing
from tensorcontrast.recordings import Recordings

__all__ = ["load_watch"]

_FILE = "watch_dataset.npy"
_SIZE = 18118091
_SHA256 = "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537"
_FS = 50.0
_CHANNELS = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")


def load_watch(
    path: str | Path | None = None,
    *,
    data_home: str | Path | None = None,
    download: bool = True,
    window_s: float = 4.0,
    overlap: float = 0.5,
) -> Recordings:
    """Load smartwatch recordings of seven shoulder exercises by ten subjects.

    Each of 140 recordings is one set of repetitions of one exercise, with one arm of one subject,
    at 50 Hz, 19 to 52 s long for 20 repetitions. They are cut into windows; the default of 4 s
    holds at least one whole repetition.

    The file is a pickled array, so it is unpickled only after its size and SHA-256 have been
    found to be the known ones; any other file is refused. The package seglearn is not imported.

    Parameters
    ----------
    path : path, optional
        The file ``watch_dataset.npy`` or its folder; by default that of the installed seglearn.
    data_home : path, optional
        Cache folder that is searched besides.
    download : bool
        Has no effect: the data come with ``pip install 'tensorcontrast[data]'``.
    window_s : float
        Length of a window in seconds.
    overlap : float
        Fraction shared by neighbouring windows.

    Returns
    -------
    Recordings
        Six channels (acceleration, rotation), group = subject (1 to 10), and the columns ``side``
        (1 = right arm), ``recording`` (0 to 139) and ``start`` (first point of the window).
        Neighbouring windows overlap: split by group.

    Examples
    --------
    >>> rec = load_watch()
    >>> rec.X.shape, rec.classes
    ((2229, 6, 200), ('PEN', 'ABD', 'FEL', 'IR', 'ER', 'TRAP', 'ROW'))
    """
    data = _verified(_find(path, data_home))
    return Recordings.from_signals(
        [np.asarray(signal, dtype=np.float32) for signal in data["X"]],
        fs=_FS,
        window_s=window_s,
        overlap=overlap,
        time_axis=0,
        labels=np.asarray(data["y"], dtype=np.int64),
        groups=np.asarray(data["subject"], dtype=np.int64),
        columns={"side": np.asarray(data["side"], dtype=np.int64)},
        channels=_CHANNELS,
        classes=[str(name) for name in data["y_labels"]],
        units=("g",) * 3 + ("rad/s",) * 3,
        **DATASETS["watch"].credit,
    )


def _find(path: str | Path | None, data_home: str | Path | None) -> Path:
    if path is not None:
        file = existing(path)
        file = file / _FILE if file.is_dir() else file
        if file.is_file():
            return file
        raise DataNotFoundError(f"{file}: no such file")
    place = find_data("watch", data_home)
    if place is None:
        raise DataNotFoundError(
            "the smartwatch recordings come with the package seglearn: "
            "pip install 'tensorcontrast[data]', or pass the path of its data/watch_dataset.npy"
        )
    return place


def _verified(path: Path) -> Any:
    """Contents of the one file that is known; anything else is never unpickled."""
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size == _SIZE else b""
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error}") from error
    if size != _SIZE or hashlib.sha256(content).hexdigest() != _SHA256:
        raise DamagedFileError(
            f"{path}: is not the known file ({_SIZE} bytes, sha256 {_SHA256[:16]}…) but "
            f"{size} bytes of something else; it is a pickle and was not opened. Reinstall "
            "seglearn 1.2.5"
        )
    return np.load(io.BytesIO(content), allow_pickle=True).item()

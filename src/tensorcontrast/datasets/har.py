"""UCI HAR: activities of 30 subjects from the inertial sensors of a smartphone."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.datasets.download import fetch
from tensorcontrast.datasets.registry import DATASETS, find_or_fetch
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    ForeignFileError,
    TruncatedFileError,
)
from tensorcontrast.readers.files import check_expansion, existing, file_errors
from tensorcontrast.readers.npz import read_npz
from tensorcontrast.recordings import Recordings

__all__ = ["load_har"]

_CHANNELS = tuple(
    f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"
)
_UNITS = ("g",) * 3 + ("rad/s",) * 3 + ("g",) * 3
_WINDOW = 128
_MARK = "activity_labels.txt"

Array = npt.NDArray[Any]


def load_har(
    path: str | Path | None = None, *, data_home: str | Path | None = None, download: bool = True
) -> Recordings:
    """Load the UCI HAR windows (2.56 s at 50 Hz, 9 inertial channels, 6 activities).

    Parameters
    ----------
    path : path, optional
        The official folder ``UCI HAR Dataset`` (or the one above it), the official zip (read as
        it is, also the zip within a zip that UCI serves), or ``har.npz``. By default they are
        looked for as described in :mod:`tensorcontrast.datasets.registry`.
    data_home : path, optional
        Cache folder.
    download : bool
        Fetch the zip (61 MB) if it is not there.

    Returns
    -------
    Recordings
        Group = subject (1 to 30); column ``split`` is 0 for the official training subjects and 1
        for the official test subjects. Windows come in the official order, training first.
        Neighbouring windows overlap by half: split by group.

    Examples
    --------
    >>> rec = load_har()  # doctest: +SKIP
    >>> rec.X.shape, len(rec.classes)  # doctest: +SKIP
    ((10299, 9, 128), 6)
    """
    source = _source(path, data_home, download)
    credit = DATASETS["har"].credit
    if source.suffix == ".npz":
        rec = read_npz(source)
        if rec.channels != _CHANNELS or rec.n_times != _WINDOW or "split" not in rec.columns:
            raise ForeignFileError(f"{source}: does not hold UCI HAR windows")
        return rec._with(**credit, units=_UNITS)
    with file_errors(source, "UCI HAR"):
        root = _root(source)
        table = [line.split() for line in root.joinpath(_MARK).read_text("utf-8").splitlines()]
        if any(len(row) != 2 or row[0] != str(k) for k, row in enumerate(table, start=1)):
            raise DamagedFileError(f"{source} {_MARK}: is not a number and a name in each line")
        parts = [_split(root, split, len(table), source) for split in ("train", "test")]
        X, y, groups = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Recordings(
            X,
            y,
            groups=groups,
            fs=50.0,
            channels=_CHANNELS,
            classes=[name for _, name in table],
            units=_UNITS,
            columns={"split": np.repeat(np.array([0, 1], np.int8), [len(p[1]) for p in parts])},
            **credit,
        )


def _source(path: str | Path | None, home: str | Path | None, download: bool) -> Path:
    if path is None:
        remote = DATASETS["har"].files[0]
        return find_or_fetch(
            "har",
            home,
            download,
            lambda folder: fetch(remote.url, folder / remote.name, remote.sha256),
        )
    source = existing(path)
    if source.is_file() or any(source.glob(_MARK)) or any(source.glob(f"*/{_MARK}")):
        return source
    for name in DATASETS["har"].place:
        if (source / name).is_file():
            return source / name
    raise DataNotFoundError(f"{source}: holds no {_MARK}, so it is not 'UCI HAR Dataset'")


def _root(source: Path) -> Any:
    """Folder of the official files, on the disk or within the zip."""
    if source.is_dir():
        return source if (source / _MARK).is_file() else next(source.glob(f"*/{_MARK}")).parent
    archive = _opened(source.read_bytes(), source)
    for inner in archive.namelist():
        if inner.endswith("UCI HAR Dataset.zip"):
            archive = _opened(archive.read(inner), source)
    for name in archive.namelist():
        if name.endswith(_MARK) and not name.startswith("__MACOSX"):
            return zipfile.Path(archive, name.removesuffix(_MARK))
    raise ForeignFileError(f"{source}: holds no {_MARK}, so it is not the UCI HAR zip")


def _opened(content: bytes, source: Path) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except zipfile.BadZipFile as error:
        if content.startswith(b"PK"):
            raise TruncatedFileError(f"{source}: {error}; copy it again") from error
        raise ForeignFileError(f"{source}: neither a zip nor an .npz file") from error
    check_expansion(source, sum(m.file_size for m in archive.infolist()), len(content))
    return archive


def _split(root: Any, split: str, n_classes: int, source: Path) -> tuple[Array, Array, Array]:
    """Windows, classes and subjects of the training or the test subjects."""

    def table(name: str, dtype: Any, width: int = 1, rows: int | None = None) -> Array:
        file, where = root.joinpath(f"{split}/{name}_{split}.txt"), f"{source} {name}_{split}.txt"
        if not file.is_file():
            raise DataNotFoundError(f"{where}: no such file, but UCI HAR needs it")
        content = file.read_bytes()
        if not content.strip():
            raise TruncatedFileError(f"{where}: is empty")
        try:
            values = np.loadtxt(io.BytesIO(content), dtype, comments=None, ndmin=2)
        except ValueError as error:
            raise DamagedFileError(f"{where}: {str(error).partition(';')[0]}") from error
        shape = (len(values) if rows is None else rows, width)
        if values.shape != shape:
            raise TruncatedFileError(f"{where}: holds {values.shape} values, not {shape}")
        return values

    y = table("y", np.int64)[:, 0]
    if y.min() < 1 or y.max() > n_classes:
        raise DamagedFileError(
            f"{source} y_{split}.txt: labels from {y.min()} to {y.max()}, but there are activities "
            f"1 to {n_classes}"
        )
    subjects = table("subject", np.int64, rows=len(y))[:, 0]
    signals = [table(f"Inertial Signals/{name}", np.float32, _WINDOW, len(y)) for name in _CHANNELS]
    return np.stack(signals, axis=1), y - 1, subjects

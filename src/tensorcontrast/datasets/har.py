"""UCI HAR: activities of 30 subjects from the inertial sensors of a smartphone."""

from __future__ import annotations

import io
import threading
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tensorcontrast.datasets.download import fetch
from tensorcontrast.datasets.registry import DATASETS, data_home, find_data, not_found
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
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

# Filters of warnings belong to the process: two threads that set and reset them would mix them up.
_FILTERS = threading.Lock()

Reader = Callable[[str], bytes]


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
    source = _find(path, data_home, download)
    entry = DATASETS["har"]
    if source.suffix == ".npz":
        rec = read_npz(source)
        if rec.channels != _CHANNELS or rec.n_times != _WINDOW or "split" not in rec.columns:
            raise ForeignFileError(f"{source}: does not hold UCI HAR windows")
        return rec._with(
            name=entry.name, citation=entry.citation, licence=entry.licence, units=_UNITS
        )
    with file_errors(source, "UCI HAR"):
        if source.is_dir():
            contents = _read_all(_folder_reader(source), source)
        else:
            contents = _read_zip(source)
        X, y, groups, split, classes = contents
        return Recordings(
            X,
            y,
            groups=groups,
            fs=50.0,
            channels=_CHANNELS,
            classes=classes,
            units=_UNITS,
            columns={"split": split},
            name=entry.name,
            citation=entry.citation,
            licence=entry.licence,
        )


def _find(path: str | Path | None, home: str | Path | None, download: bool) -> Path:
    if path is not None:
        given = existing(path)
        if given.is_dir() and not any(given.glob(_MARK)) and not any(given.glob(f"*/{_MARK}")):
            inside = [given / name for name in DATASETS["har"].place if (given / name).is_file()]
            if not inside:
                raise DataNotFoundError(
                    f"{given}: holds no {_MARK}, so it is not the folder 'UCI HAR Dataset', and "
                    "none of " + ", ".join(DATASETS["har"].place)
                )
            return inside[0]
        return given
    found = find_data("har", home)
    if found is not None:
        return found
    if not download:
        raise not_found("har", home)
    remote = DATASETS["har"].files[0]
    try:
        return fetch(remote.url, data_home(home) / "har" / remote.name, remote.sha256)
    except DataNotFoundError as error:
        raise not_found("har", home, str(error)) from error


Contents = tuple[
    npt.NDArray[np.float32],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.int8],
    list[str],
]


def _folder_reader(folder: Path) -> Reader:
    root = folder if (folder / _MARK).is_file() else next(folder.glob(f"*/{_MARK}")).parent

    def read(name: str) -> bytes:
        file = root / name
        if not file.is_file():
            raise DataNotFoundError(f"{file}: no such file, but UCI HAR needs it")
        return file.read_bytes()

    return read


def _read_zip(source: Path) -> Contents:
    if not zipfile.is_zipfile(source):
        with source.open("rb") as stream:
            start = stream.read(2)
        if start == b"PK":
            raise TruncatedFileError(f"{source}: the end of the zip is missing; copy it again")
        raise ForeignFileError(f"{source}: neither a zip nor an .npz file")
    with zipfile.ZipFile(source) as archive:
        inner = [n for n in archive.namelist() if n.endswith("UCI HAR Dataset.zip")]
        if not inner:
            return _read_all(_zip_reader(archive, source), source)
        with zipfile.ZipFile(io.BytesIO(_member(archive, inner[0], source))) as nested:
            return _read_all(_zip_reader(nested, source), source)


def _zip_reader(archive: zipfile.ZipFile, source: Path) -> Reader:
    names = [n for n in archive.namelist() if not n.startswith("__MACOSX")]
    marks = [n for n in names if n.endswith(_MARK)]
    if not marks:
        raise ForeignFileError(f"{source}: holds no {_MARK}, so it is not the UCI HAR zip")
    root = marks[0].removesuffix(_MARK)

    def read(name: str) -> bytes:
        if root + name not in names:
            raise DamagedFileError(f"{source}: has no {root + name}")
        return _member(archive, root + name, source)

    return read


def _member(archive: zipfile.ZipFile, name: str, source: Path) -> bytes:
    size = archive.getinfo(name).file_size
    check_expansion(f"{source} member {name}", size, source.stat().st_size)
    try:
        return archive.read(name)
    except Exception as error:
        raise DamagedFileError(f"{source} member {name}: {error}; copy it again") from error


def _read_all(read: Reader, source: Path) -> Contents:
    classes: list[str] = []
    for number, line in enumerate(read(_MARK).decode("ascii", "replace").split("\n"), start=1):
        words = line.split()
        if words:
            if len(words) != 2 or words[0] != str(len(classes) + 1):
                raise DamagedFileError(f"{source} {_MARK} line {number}: {line[:60]!r}")
            classes.append(words[1])
    blocks, labels, subjects, splits = [], [], [], []
    for code, split in enumerate(("train", "test")):
        y = _table(read(f"{split}/y_{split}.txt"), 1, f"{source} {split}/y_{split}.txt")[:, 0]
        name = f"{split}/subject_{split}.txt"
        subject = _table(read(name), 1, f"{source} {name}")[:, 0]
        if len(subject) != len(y):
            raise TruncatedFileError(f"{source} {name}: {len(subject)} rows, but {len(y)} labels")
        if len(y) and not (1 <= y.min() and y.max() <= len(classes)):
            raise DamagedFileError(
                f"{source} {split}/y_{split}.txt: labels from {y.min():g} to {y.max():g}, but "
                f"there are activities 1 to {len(classes)}"
            )
        block = np.empty((len(y), len(_CHANNELS), _WINDOW), dtype=np.float32)
        for k, channel in enumerate(_CHANNELS):
            name = f"{split}/Inertial Signals/{channel}_{split}.txt"
            rows = _table(read(name), _WINDOW, f"{source} {name}")
            if len(rows) != len(y):
                raise TruncatedFileError(f"{source} {name}: {len(rows)} rows, but {len(y)} labels")
            block[:, k] = rows
        blocks.append(block)
        labels.append(y.astype(np.int64) - 1)
        subjects.append(subject.astype(np.int64))
        splits.append(np.full(len(y), code, dtype=np.int8))
    return (
        np.concatenate(blocks),
        np.concatenate(labels),
        np.concatenate(subjects),
        np.concatenate(splits),
        classes,
    )


def _table(text: bytes, width: int, where: str) -> npt.NDArray[np.float64]:
    """Numbers of a text table with ``width`` columns; a bad line is named."""
    rows = text.count(b"\n") + (0 if text.endswith(b"\n") or not text else 1)
    try:
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("error")
            values = np.fromstring(text.decode("ascii"), sep=" ")
    except (ValueError, DeprecationWarning, UnicodeDecodeError):
        values = np.empty(0)
    if values.size == rows * width and rows:
        return values.reshape(rows, width)
    for number, line in enumerate(text.split(b"\n")[:rows], start=1):
        words = line.split()
        if len(words) != width:
            raise TruncatedFileError(f"{where} line {number}: {len(words)} values, not {width}")
        for word in words:
            try:
                float(word)
            except ValueError:
                raise DamagedFileError(
                    f"{where} line {number}: {word[:20].decode('ascii', 'replace')!r} is not a "
                    "number"
                ) from None
    raise FileError(f"{where}: is empty" if not rows else f"{where}: cannot be read")

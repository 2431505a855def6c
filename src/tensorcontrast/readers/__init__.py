"""Readers of files: one module for each family of formats, and ``read`` that finds the right one.

========== ===================================== ===========================================
format     files                                 options beyond ``allow_nan``
========== ===================================== ===========================================
npz        ``.npz``
csv        ``.csv``, ``.csv.gz``, ``.tsv``,      ``sample``, ``time``, ``label``, ``group``,
           folder                                ``channels``, ``fs``, ``window_s``, ``overlap``
parquet    ``.parquet``, folder                  the same
edf        ``.edf``, ``.bdf``, folder            ``window_s``, ``overlap``, ``channels``,
                                                 ``labels``, ``annotations``
wfdb       ``.hea``, ``.dat``, record or folder  the same
ts         ``.ts`` of the UEA archive            ``fs``, ``channels``
========== ===================================== ===========================================
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorcontrast.errors import (
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
)
from tensorcontrast.readers.files import files_below, is_glob, matching_files
from tensorcontrast.readers.grouping import parts_by_name
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

__all__ = ["FORMATS", "read"]

FORMATS = ("npz", "csv", "parquet", "edf", "wfdb", "ts")
_SUFFIXES = {
    ".npz": "npz",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".edf": "edf",
    ".bdf": "edf",
    ".hea": "wfdb",
    ".dat": "wfdb",
    ".ts": "ts",
}
#: Formats of which many files can be one data set.
_CONTINUOUS = ("csv", "parquet", "edf", "wfdb")


def read(
    path: str | Path, *, format: str | None = None, groups: str | None = None, **options: Any
) -> Recordings:
    """Read recordings of any known format.

    Parameters
    ----------
    path : path
        File, WFDB record (with or without suffix), folder, or a pattern for names of files, such as
        ``"data/*.csv"``. Many continuous recordings (tables, EDF, BDF, WFDB) are one data set.
    format : str, optional
        One of ``FORMATS``; else it is found from the name and the contents of the folder.
    groups : str, optional
        Regular expression with a part named ``group``, such as ``(?P<group>S[0-9]+)``: what it
        matches in the name of a file is the group of its windows. Other named parts, such as
        ``(?P<session>...)``, become columns.
    **options
        Options of the reader, such as ``channels`` or ``window_s``.
    """
    source = Path(path).expanduser()
    kind = format or _format_of(source)
    if kind not in FORMATS:
        raise InvalidInputError(f"format={kind!r} is not known; there are {', '.join(FORMATS)}")
    reader = _reader(kind)
    unknown = sorted(set(options) - set(reader.__kwdefaults__ or {}))
    if unknown:
        raise InvalidInputError(
            f"the {kind} reader has no option {listed(unknown)}; it has "
            f"{', '.join(reader.__kwdefaults__)}"
        )
    recordings: Recordings = reader(source, **options)
    return recordings if groups is None else _grouped(recordings, groups, source)


def _grouped(rec: Recordings, pattern: str, source: Path) -> Recordings:
    """Take groups and columns from the names of files."""
    names = rec.columns.get("record", rec.columns.get("recording"))
    if names is None or names.dtype.kind != "U":
        names = np.full(len(rec), source.name)
    files, place = np.unique(names, return_inverse=True)
    parts = {part: found[place] for part, found in parts_by_name(pattern, files.tolist()).items()}
    return rec._with(groups=parts.pop("group"), columns={**rec.columns, **parts})


def _reader(kind: str) -> Any:
    # Imported here: some readers need optional packages, and recordings.py imports this module.
    if kind == "npz":
        from tensorcontrast.readers.npz import read_npz

        return read_npz
    if kind in ("csv", "parquet"):
        from tensorcontrast.readers.table import read_csv, read_parquet

        return read_csv if kind == "csv" else read_parquet
    if kind == "edf":
        from tensorcontrast.readers.edf import read_edf

        return read_edf
    if kind == "wfdb":
        from tensorcontrast.readers.wfdb_records import read_wfdb

        return read_wfdb
    from tensorcontrast.readers.ts import read_ts

    return read_ts


def _format_of(path: Path) -> str:
    from tensorcontrast.readers.label_table import holds_labels  # which needs scikit-learn

    if is_glob(path):
        return _one_format(path, matching_files(path)[1])
    if path.is_dir():
        if (path / "RECORDS").is_file() or next(path.rglob("*.hea"), None) is not None:
            return "wfdb"
        files = files_below(path, tuple(s for s, kind in _SUFFIXES.items() if kind in _CONTINUOUS))
        files = [file for file in files if not holds_labels(file)] or files
        if files:
            return _one_format(path, files)
        raise ForeignFileError(f"{path}: holds neither WFDB records, nor EDF files, nor tables")
    kind = _format_by_name(path)
    if kind is not None:
        return kind
    if path.with_name(path.name + ".hea").is_file():
        return "wfdb"
    if not path.exists():
        raise DataNotFoundError(f"{path}: no such file or folder")
    raise ForeignFileError(
        f"{path}: the name does not say which format it has; known are "
        f"{', '.join(_SUFFIXES)}, or pass format= one of {', '.join(FORMATS)}"
    )


def _format_by_name(path: Path) -> str | None:
    name = path.name.lower()
    ordered = sorted(_SUFFIXES.items(), key=lambda item: -len(item[0]))
    return next((kind for suffix, kind in ordered if name.endswith(suffix)), None)


def _one_format(where: Path, files: list[Path]) -> str:
    """Format of files that are one data set."""
    kinds = {_format_by_name(file) or file.name: file.name for file in files}
    if len(kinds) > 1:
        raise FileError(
            f"{where}: holds files of several formats ({listed(sorted(kinds.values()))}); pass "
            "format= the one to read, or a pattern such as '*.edf'"
        )
    kind = next(iter(kinds))
    if kind not in FORMATS or (len(files) > 1 and kind not in _CONTINUOUS):
        raise FileError(
            f"{where}: {len(files)} files such as {files[0].name} are not read as one data set; "
            "many files may be EDF, BDF, WFDB or continuous tables"
        )
    return kind

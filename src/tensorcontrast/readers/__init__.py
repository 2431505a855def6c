"""Readers of files: one module for each family of formats, and ``read`` that finds the right one.

========== ===================================== ===========================================
format     files                                 options beyond ``allow_nan``
========== ===================================== ===========================================
npz        ``.npz``
numpy      folder of ``.npy`` files
csv        ``.csv``, ``.csv.gz``, ``.tsv``       ``sample``, ``time``, ``label``, ``group``,
                                                 ``channels``, ``fs``
parquet    ``.parquet``                          the same
edf        ``.edf``, ``.bdf``                    ``window_s``, ``overlap``, ``channels``
wfdb       ``.hea``, ``.dat``, record or folder  ``window_s``, ``overlap``, ``channels``
ts         ``.ts`` of the UEA archive            ``fs``, ``channels``
========== ===================================== ===========================================
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorcontrast.errors import DataNotFoundError, ForeignFileError, InvalidInputError
from tensorcontrast.names import listed

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

__all__ = ["FORMATS", "read"]

FORMATS = ("npz", "numpy", "csv", "parquet", "edf", "wfdb", "ts")
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


def read(path: str | Path, *, format: str | None = None, **options: Any) -> Recordings:
    """Read recordings of any known format.

    Parameters
    ----------
    path : path
        File, WFDB record (with or without suffix) or folder.
    format : str, optional
        One of ``FORMATS``; else it is found from the name and the contents of the folder.
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
    return recordings


def _reader(kind: str) -> Any:
    # Imported here: some readers need optional packages, and recordings.py imports this module.
    if kind == "npz":
        from tensorcontrast.readers.npz import read_npz

        return read_npz
    if kind == "numpy":
        from tensorcontrast.readers.numpy_folder import read_numpy_folder

        return read_numpy_folder
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
    if path.is_dir():
        if (path / "X.npy").is_file():
            return "numpy"
        if (path / "RECORDS").is_file() or next(path.rglob("*.hea"), None) is not None:
            return "wfdb"
        if next(path.glob("*/*.npy"), None) is not None:
            return "numpy"
        raise ForeignFileError(
            f"{path}: holds neither X.npy, nor WFDB records, nor one folder a class with .npy files"
        )
    name = path.name.lower()
    for suffix, kind in sorted(_SUFFIXES.items(), key=lambda item: -len(item[0])):
        if name.endswith(suffix):
            return kind
    if path.with_name(path.name + ".hea").is_file():
        return "wfdb"
    if not path.exists():
        raise DataNotFoundError(f"{path}: no such file or folder")
    raise ForeignFileError(
        f"{path}: the name does not say which format it has; known are "
        f"{', '.join(_SUFFIXES)}, or pass format= one of {', '.join(FORMATS)}"
    )

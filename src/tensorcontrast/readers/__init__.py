"""Readers of files: one module for each family of formats, and ``read`` that finds the right one.

========== ================================================ ==================================
format     files                                            options beyond those of cutting
========== ================================================ ==================================
npz        ``.npz``
csv        ``.csv``, ``.tsv``, ``.txt``, also with ``.gz``,  those of tables, see :func:`read`
           many files or a folder
parquet    ``.parquet``, many files or a folder             the same
edf        ``.edf``, ``.bdf``, many files or a folder       ``channels``, ``labels``,
                                                            ``annotations``
wfdb       ``.hea``, ``.dat``, records or a folder          the same
mne        ``.vhdr``, ``.fif``, ``.set``, ``.gdf``          ``channels``, ``labels``
ts         ``.ts`` of the UEA archive                       ``fs``, ``channels``
========== ================================================ ==================================
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorcontrast.errors import (
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
)
from tensorcontrast.readers.files import (
    data_files,
    data_name,
    existing,
    file_errors,
    files_below,
    is_glob,
    matching_files,
)
from tensorcontrast.readers.grouping import parts_by_name
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings
    from tensorcontrast.recordings.continuous import Continuous

__all__ = ["FORMATS", "load", "options_of", "read", "read_windows"]

FORMATS = ("npz", "csv", "parquet", "edf", "wfdb", "mne", "ts")
#: Modules and their functions; all import the recordings, which import this module.
_LOADERS = {
    "npz": ("npz", "read_npz"),
    "ts": ("ts", "read_ts"),
    "csv": ("tables", "load"),
    "parquet": ("tables", "load"),
    "edf": ("edf", "load"),
    "wfdb": ("wfdb_records", "load"),
    "mne": ("mne_files", "load"),
}
_SUFFIXES = {
    ".npz": "npz",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".txt": "csv",
    ".txt.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".edf": "edf",
    ".bdf": "edf",
    ".hea": "wfdb",
    ".dat": "wfdb",
    ".vhdr": "mne",
    ".fif": "mne",
    ".fif.gz": "mne",
    ".set": "mne",
    ".gdf": "mne",
    ".ts": "ts",
}
#: Formats of which many files can be one data set.
_CONTINUOUS = ("csv", "parquet", "edf", "wfdb", "mne")
#: Text files of a folder are mostly notes; they are read by their name or a pattern.
_NOT_IN_FOLDERS = (".txt", ".txt.gz")


def read(
    path: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,
    groups: str | None = None,
    **options: Any,
) -> Recordings:
    r"""Read recordings of any known format, cut into windows.

    Parameters
    ----------
    path : path or list of paths
        File, WFDB record (with or without suffix), folder, or a pattern for names of files, such as
        ``"data/*.csv"``. Many continuous recordings (tables, EDF, BDF, WFDB) are one data set.
        Files and folders whose names begin with a dot are left out.
    format : str, optional
        One of ``FORMATS``; else it is found from the name and the contents of the folder.
    groups : str, optional
        Regular expression with a part named ``group``, such as ``(?P<group>S[0-9]+)``: what it
        matches in the name of a file is the group of its windows. A part named ``label`` is the
        label of its windows. Other named parts, such as ``(?P<session>...)``, become columns.
    **options
        Windows of continuous recordings: ``window_s`` or ``window`` (in samples), ``overlap`` (a
        share), ``label_share`` (0.5 by default: the label of a window is the one that covers most
        of it, if that is at least this share; else it has none), ``drop_unlabelled``,
        ``inside_annotations`` (cut each annotated segment on its own), ``resample`` (samples per
        second) and ``allow_nan``. Without a length, windows of 10 s are cut, with a warning;
        recordings shorter than 20 s, and all with ``window_s=math.inf``, stay whole.

        All but npz: ``channels``, the signals to read, in this order; in tables also patterns such
        as ``"acc*"``.

        Tables: ``time``, ``label``, ``group`` and ``sample`` (ids of windows, which make the table
        one of windows) name columns; ``ignore`` names columns that are left out; ``rename`` maps
        names of columns to others; ``units`` is the unit of all channels or maps columns to theirs,
        also the time to s, ms, µs or ns; ``fs`` is the rate where no column has the time;
        ``separator``, ``decimal``, ``skip_lines`` (before the table), ``comment`` (a sign) and
        ``header`` (whether a line names the columns) describe the text. What is not passed is found
        from the table; ``Recordings.understood`` says what was found.

        EDF, BDF, WFDB and files of MNE: ``labels`` says which annotations are labels.
        ``"annotations"`` takes all of them, with their texts as labels. A mapping takes the texts
        that are its keys, and its values are the labels. Any other text is a regular expression:
        annotations that it matches in full are taken, and the label is the part named ``label``
        where there is one, as in
        ``"Sleep stage (?P<label>.*)"``. Annotations of different labels must not overlap.
        ``annotations`` names the file with the annotations, or a pattern for these, such as
        ``"*-Hypnogram.edf"``; for WFDB it is their suffix, ``"atr"`` by default.

        All continuous recordings: ``annotations`` may be a table of labels (``.csv``, ``.tsv``,
        ``.txt``: see :mod:`tensorcontrast.readers.label_table`), or annotations of MNE (``.fif``);
        for tables also EDF+.
    """
    from tensorcontrast.recordings.continuous import Cutting

    cutting = {name: options.pop(name) for name in list(options) if name in vars(Cutting())}
    return read_windows(path, cutting, format=format, groups=groups, **options)


def read_windows(
    path: str | Path | Sequence[str | Path],
    cutting: dict[str, Any],
    *,
    format: str | None = None,
    groups: str | None = None,
    whole: bool = False,
    **options: Any,
) -> Recordings:
    """Read recordings as :func:`read` does, with the options of cutting apart from the others.

    With ``whole``, files that hold windows already are read as they are, whatever ``cutting`` says.
    """
    from tensorcontrast.recordings import Recordings
    from tensorcontrast.recordings.continuous import Cutting, windows_of

    sources, kind = _sources(path, format)
    where = sources[0]
    accepted = options_of(kind)
    for name in ("allow_nan", "resample"):
        if name in cutting and name in accepted:
            options[name] = cutting[name]
    notes = options.get("annotations")
    file = _label_file(notes, kind, where)
    drop = False
    if file is not None:
        del options["annotations"]
        cutting = dict(cutting)
        drop = cutting.pop("drop_unlabelled", False)
    elif cutting.get("inside_annotations") or notes is not None:
        if kind in ("edf", "wfdb", "mne") and options.get("labels") is None:
            raise InvalidInputError(
                "annotations= and inside_annotations= need labels= that says which annotations are "
                "labels; pass labels='annotations' (--labels annotations) for all"
            )
    loaded = load(path, format=kind, **options)
    if isinstance(loaded, Recordings):
        rec = loaded
        asked = sorted(set(cutting) - {"allow_nan", "resample"})
        if kind not in ("csv", "parquet") and asked:
            raise InvalidInputError(f"the {kind} reader has no option {listed(asked)}")
        if asked and not whole:
            raise FileError(
                f"{where}: holds windows, which are not cut again; leave {listed(asked)} out. If "
                "its column of window ids only counts rows, leave it out with ignore="
            )
        if cutting.get("resample") is not None:
            rec = rec.resample(cutting["resample"])
    else:
        if kind == "wfdb" and len(loaded) > 1:
            cutting = {"window_s": np.inf, **cutting}  # each record is a window
            if cutting.get("window") is not None:
                del cutting["window_s"]
        with file_errors(where, "recordings"):
            name = data_name(where) if kind != "wfdb" or is_glob(where) else where.name
            rec = windows_of(where, loaded, Cutting(**{"name": name, **cutting}))
        if kind == "wfdb":
            rec.columns["record"] = rec.columns["recording"]
    if file is not None:
        from tensorcontrast.readers.label_table import labelled_by_file  # which needs scikit-learn

        rec = labelled_by_file(rec, file, cutting.get("label_share", 0.5))
        rec = rec[rec.y >= 0] if drop and rec.y is not None else rec
    return rec if groups is None else _grouped(rec, groups, where)


def _label_file(annotations: Any, kind: str, where: Path) -> Path | None:
    """File of labels that ``annotations`` names, for recordings of any format; None for others."""
    if annotations is None or not _CONTINUOUS.count(kind):
        return None
    name = str(annotations).lower()
    tables = (".csv", ".tsv", ".txt", ".fif")
    if not name.endswith(tables + ((".edf", ".bdf") if kind in ("csv", "parquet") else ())):
        return None
    file = Path(annotations).expanduser()
    near = (where if where.is_dir() else where.parent) / file
    return file if file.is_file() or not near.is_file() else near


def load(
    path: str | Path | Sequence[str | Path], *, format: str | None = None, **options: Any
) -> Recordings | list[Continuous]:
    """Read files: continuous recordings as they are, or windows where files hold these.

    Parameters
    ----------
    path, format
        As in :func:`read`.
    **options
        Of the format, without those of cutting.
    """
    sources, kind = _sources(path, format)
    unknown = sorted(set(options) - options_of(kind))
    if unknown:
        raise InvalidInputError(
            f"the {kind} reader has no option {listed(unknown)}; it has "
            f"{', '.join(sorted(options_of(kind)))}"
        )
    loader = _loader(kind)
    if kind not in _CONTINUOUS:
        if len(sources) > 1:
            raise InvalidInputError(f"{kind} files are read one at a time; join them with concat")
        rec: Recordings = loader(sources[0], **options)
        return rec
    files = [file for source in sources for file in _files_of(source, kind)]
    if len(sources) > 1:
        several = len({file.name for _, file in files}) < len(files)
        files = [(str(file) if several else file.name, file) for _, file in files]
    loaded: Recordings | list[Continuous] = loader(files, **options)
    return loaded


def _sources(path: str | Path | Sequence[str | Path], format: str | None) -> tuple[list[Path], str]:
    """Paths that are read, and their format."""
    paths = [path] if isinstance(path, str | Path) else list(path)
    if not paths:
        raise InvalidInputError("there are no paths to read; pass at least one")
    sources = [Path(one).expanduser() for one in paths]
    kinds = {format} if format else {_format_of(source) for source in sources}
    if len(kinds) > 1:
        raise InvalidInputError(f"the paths have several formats ({listed(sorted(kinds))})")
    kind = str(next(iter(kinds)))
    if kind not in FORMATS:
        raise InvalidInputError(f"format={kind!r} is not known; there are {', '.join(FORMATS)}")
    return sources, kind


def _files_of(source: Path, kind: str) -> list[tuple[str, Path]]:
    """Files of one format that a path names."""
    if kind == "wfdb":
        return list(import_module("tensorcontrast.readers.wfdb_records").records_of(source))
    suffixes = tuple(s for s, k in _SUFFIXES.items() if k == kind)
    if existing_folder(source):
        suffixes = tuple(s for s in suffixes if s not in _NOT_IN_FOLDERS) or suffixes
    files = data_files(source, suffixes)
    if kind == "csv" and len(files) > 1:
        files = [(name, file) for name, file in files if not _is_no_recording(file)] or files
    return files


def existing_folder(source: Path) -> bool:
    """Whether a path is a folder."""
    return not is_glob(source) and existing(source).is_dir()


def _is_no_recording(file: Path) -> bool:
    """Whether a table among others holds labels or describes a session, by its name."""
    from tensorcontrast.readers.label_table import holds_labels  # which needs scikit-learn

    about = file.parent.name == "meta" and file.name in ("device.csv", "time.csv")  # Phyphox
    about = about or file.name in ("Metadata.csv", "Annotation.csv")  # Sensor Logger
    return about or holds_labels(file)


def options_of(kind: str) -> set[str]:
    """Names of the options of a format, without those of cutting."""
    parameters = inspect.signature(_loader(kind)).parameters.values()
    return {p.name for p in parameters if p.kind == inspect.Parameter.KEYWORD_ONLY}


def cuts(kind: str) -> bool:
    """Whether files of a format may be continuous, so that windows are cut from them."""
    return kind in _CONTINUOUS


def _loader(kind: str) -> Any:
    if kind not in _LOADERS:
        raise InvalidInputError(f"format={kind!r} is not known; there are {', '.join(FORMATS)}")
    module, function = _LOADERS[kind]
    return getattr(import_module(f"tensorcontrast.readers.{module}"), function)


def _grouped(rec: Recordings, pattern: str, source: Path) -> Recordings:
    """Take groups, labels and columns from the names of files."""
    names = rec.columns.get("record", rec.columns.get("recording"))
    if names is None or names.dtype.kind != "U":
        names = np.full(len(rec), source.name)
    files, place = np.unique(names, return_inverse=True)
    parts = {part: found[place] for part, found in parts_by_name(pattern, files.tolist()).items()}
    if "label" in parts:
        classes, y = np.unique(parts.pop("label"), return_inverse=True)
        rec = rec._with(y=y.astype(np.int64), classes=tuple(classes.tolist()))
    groups = parts.pop("group", rec.groups)
    return rec._with(groups=groups, columns={**rec.columns, **parts})


def _format_of(path: Path) -> str:
    from tensorcontrast.readers.label_table import holds_labels  # which needs scikit-learn

    if is_glob(path):
        return _one_format(path, matching_files(path)[1])
    if path.is_dir():
        if (path / "RECORDS").is_file() or next(path.rglob("*.hea"), None) is not None:
            return "wfdb"
        suffixes = [s for s, kind in _SUFFIXES.items() if kind in _CONTINUOUS]
        files = files_below(path, tuple(s for s in suffixes if s not in _NOT_IN_FOLDERS))
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

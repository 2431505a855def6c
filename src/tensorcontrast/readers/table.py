"""CSV and Parquet tables: windows in long form, and continuous recordings in wide form.

Long form has a column with the id of the window that a row belongs to. A table without one is
continuous: a column of time (or a rate that is given), and one column per channel.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import (
    DamagedFileError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    TruncatedFileError,
)
from tensorcontrast.readers.columns import ROLES, check_rate, column_of, numbers
from tensorcontrast.readers.continuous import Cutting, windows_of
from tensorcontrast.readers.continuous_table import continuous_frame, is_long_form
from tensorcontrast.readers.files import (
    MOST_CHANNELS,
    check_expansion,
    data_files,
    data_name,
    file_errors,
)
from tensorcontrast.readers.label_table import holds_labels
from tensorcontrast.recordings import Recordings
from tensorcontrast.recordings.checks import as_sampling_rate, as_text
from tensorcontrast.recordings.windows import MIN_LABEL_SHARE
from tensorcontrast.utils.names import from_csv_text, listed
from tensorcontrast.utils.optional import optional

__all__ = ["CSV_SUFFIXES", "PARQUET_SUFFIXES", "long_form_file", "read_csv", "read_parquet"]

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")


def read_csv(
    path: str | Path,
    *,
    sample: str | None = None,
    time: str | None = None,
    label: str | None = None,
    group: str | None = None,
    channels: Sequence[str] | None = None,
    fs: float | None = None,
    separator: str | None = None,
    window_s: float | None = None,
    window: int | None = None,
    overlap: float = 0.0,
    label_share: float = MIN_LABEL_SHARE,
    drop_unlabelled: bool = False,
    resample: float | None = None,
    allow_nan: bool = False,
) -> Recordings:
    """Read a CSV table in long form, or continuous recordings in wide form.

    A table with a column for ``sample`` is in long form: one row per sample in time of each window.
    Any other is continuous: one row per sample in time, cut into windows here. Gaps in time cut a
    recording; no window spans one, and a warning says how many windows that costs.

    Parameters
    ----------
    path : path
        The file; ``.tsv`` and a final ``.gz`` are understood. For continuous recordings also a
        pattern, such as ``"data/*.csv"``, or a folder, which is searched with its subfolders.
        Tables of labels among them (with the columns ``start_s`` and ``label``) are left out.
    sample, time, label, group : str, optional
        Names of columns: id of the window a row belongs to; time or position (rows of long form
        are sorted by it; without it their order in the file counts); class (empty cells for
        unknown); group. By default the first of the usual names that is there, see
        ``tensorcontrast.readers.columns.ROLES``; but a column ``y`` of a continuous table is a
        channel. In a continuous table, each value of the group column is a recording of its own;
        without that column, the name of the file is the group.
    channels : sequence of str, optional
        Columns with signals, in this order; by default all others.
    fs : float, optional
        Samples per second. A time column (in s, ms, µs, ns, or dates) whose rate differs by more
        than 1 % is an error; one that counts 0, 1, 2, … says nothing of the rate. For continuous
        recordings the rate of the time column is the default.
    separator : str, optional
        Between columns; by default a comma, or a tab for ``.tsv``.
    window_s, window, overlap
        Windows of continuous recordings, as in :meth:`Recordings.from_signals`. Without a length,
        windows of 10 s are cut, with a warning; recordings shorter than 20 s stay whole.
    label_share : float
        For continuous recordings: the label of a window is the one that most of its samples have,
        if that is at least this share of all; else the window has none.
    drop_unlabelled : bool
        Leave out windows of continuous recordings that have no label, with a warning.
    resample : float, optional
        Bring all recordings to this many samples per second before they are cut.
    allow_nan : bool
        Accept missing values, which become NaN.
    """
    roles = {"sample": sample, "time": time, "label": label, "group": group}
    how = Cutting(window_s, window, overlap, label_share, drop_unlabelled, False, allow_nan)
    how = replace(how, resample=resample)
    files = data_files(path, CSV_SUFFIXES)
    files = [(name, file) for name, file in files if not holds_labels(file)] or files
    frames = ((name, file, _csv_frame(file, separator)) for name, file in files)
    return _read_tables(Path(path), len(files), frames, roles, channels, fs, how, first_line=2)


def _csv_frame(source: Path, separator: str | None) -> Any:
    """Read a whole text table."""
    pandas = optional("pandas", "data")
    tab = ".tsv" in source.suffixes[-2:]
    between = separator or ("\t" if tab else ",")
    zipped = source.suffix.lower() == ".gz"
    with file_errors(source, "CSV"):
        try:
            _check_text(source, between, zipped)
            frame = pandas.read_csv(
                source, sep=between, compression="gzip" if zipped else None, low_memory=False
            )
        except pandas.errors.EmptyDataError:
            raise TruncatedFileError(f"{source}: is empty") from None
        except pandas.errors.ParserError as error:
            raise DamagedFileError(f"{source}: {error}") from error
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ForeignFileError(f"{source}: not a text table: {error}") from error
        if not isinstance(frame.index, pandas.RangeIndex):
            raise DamagedFileError(
                f"{source}: rows have more cells than the first line has names of columns"
            )
        _take_quotes_away(frame)
    return frame


def _read_tables(
    path: Path,
    n_files: int,
    frames: Iterable[tuple[str, Path, Any]],
    roles: dict[str, str | None],
    channels: Sequence[str] | None,
    fs: float | None,
    how: Cutting,
    first_line: int,
) -> Recordings:
    """Windows of one table in long form, or of continuous recordings in one or more tables."""
    recordings = []
    for name, file, frame in frames:
        with file_errors(file, "a table"):
            columns = [str(column) for column in frame.columns]
            if is_long_form(columns, roles["sample"]):
                _check_long_form(file, frame, columns, roles, n_files, how)
                rec = _from_frame(frame, file, roles, channels, fs, how.allow_nan, first_line)
                return rec if how.resample is None else rec.resample(how.resample)
            found = continuous_frame(
                frame,
                file,
                name if n_files > 1 else file.name,
                roles,
                channels=channels,
                fs=fs,
                allow_nan=how.allow_nan,
                first_line=first_line,
            )
        stem = name.removesuffix("".join(file.suffixes[-2:])).removesuffix(file.suffix)
        recordings += [r if r.group is not None else replace(r, group=stem) for r in found]
    if len({isinstance(r.group, str) for r in recordings}) > 1:
        recordings = [replace(r, group=str(r.group)) for r in recordings]
    with file_errors(path, "tables"):
        return windows_of(path, recordings, replace(how, about={"name": data_name(path)}))


def _check_long_form(
    file: Path,
    frame: Any,
    columns: list[str],
    roles: dict[str, str | None],
    n_files: int,
    how: Cutting,
) -> None:
    """Raise where a table in long form is asked for what only continuous tables have."""
    column = roles["sample"] or next(name for name in ROLES["sample"] if name in columns)
    if n_files > 1:
        raise FileError(
            f"{file}: has the column {column!r} with ids of windows (long form), which is read "
            "from one file at a time; for continuous recordings remove or rename the column"
        )
    if how.window_s is not None or how.window is not None or how.drop_unlabelled:
        counts = column in columns and bool(frame[column].is_unique)
        what = "counts rows" if counts else "says which window each row belongs to"
        raise FileError(
            f"{file}: the column {column!r} {what}, so that the table is read in long form and not "
            "cut into windows; leave window_s= and drop_unlabelled= out, or remove or rename the "
            "column"
        )


def long_form_file(path: str | Path, sample: str | None = None) -> bool:
    """Whether a file is a table in long form, by its columns alone; False for many files."""
    if sample is not None:
        return True
    source = Path(path).expanduser()
    if not source.is_file():
        return False
    try:
        if source.name.lower().endswith(PARQUET_SUFFIXES):
            columns = optional("pyarrow.parquet", "data").read_schema(source).names
        else:
            tab = ".tsv" in source.suffixes[-2:]
            with gzip.open(source) if source.suffix == ".gz" else source.open("rb") as stream:
                line = stream.readline(1 << 22).decode("utf-8-sig", "replace").strip()
            columns = [cell.strip('"') for cell in line.split("\t" if tab else ",")]
    except Exception:  # the reader then says what is wrong
        return True
    return is_long_form(columns)


def _take_quotes_away(frame: Any) -> None:
    """Give names and text cells back as they were before a quote made them safe in CSV."""
    frame.columns = from_csv_text([str(name) for name in frame.columns])
    for name in frame.columns:
        if frame[name].dtype.kind not in "iufb":
            texts = [text for text in frame[name].unique() if isinstance(text, str)]
            pairs = zip(texts, from_csv_text(texts), strict=True)
            changed = {old: new for old, new in pairs if old != new}
            if changed:
                frame[name] = frame[name].replace(changed)


def _check_text(path: Path, separator: str, zipped: bool) -> None:
    """Check how large a table is once unpacked, and its number of columns, before it is parsed."""
    stored = path.stat().st_size
    names = b""
    with gzip.open(path) if zipped else path.open("rb") as stream:
        while not names and (line := stream.readline(1 << 22)):
            names = line.strip()
        if names.count(separator.encode()) >= MOST_CHANNELS:
            raise FileError(
                f"{path}: the first line names more than {MOST_CHANNELS} columns; a table has one "
                "column a channel and one row a point in time"
            )
        size = stream.tell()
        while zipped and (part := stream.read(1 << 20)):
            size += len(part)
            check_expansion(path, size, stored)


def read_parquet(
    path: str | Path,
    *,
    sample: str | None = None,
    time: str | None = None,
    label: str | None = None,
    group: str | None = None,
    channels: Sequence[str] | None = None,
    fs: float | None = None,
    window_s: float | None = None,
    window: int | None = None,
    overlap: float = 0.0,
    label_share: float = MIN_LABEL_SHARE,
    drop_unlabelled: bool = False,
    resample: float | None = None,
    allow_nan: bool = False,
) -> Recordings:
    """Read Parquet tables; the parameters are those of :func:`read_csv`."""
    roles = {"sample": sample, "time": time, "label": label, "group": group}
    how = Cutting(window_s, window, overlap, label_share, drop_unlabelled, False, allow_nan)
    how = replace(how, resample=resample)
    files = data_files(path, PARQUET_SUFFIXES)
    frames = ((name, file, _parquet_file(file, roles, channels)) for name, file in files)
    return _read_tables(Path(path), len(files), frames, roles, channels, fs, how, first_line=0)


def _parquet_file(
    source: Path, roles: dict[str, str | None], channels: Sequence[str] | None
) -> Any:
    """Read a whole Parquet table, or the columns that are needed for some channels."""
    optional("pandas", "data")
    parquet = optional("pyarrow.parquet", "data")
    with file_errors(source, "Parquet"):
        with source.open("rb") as stream:
            start = stream.read(4)
        if start != b"PAR1":
            raise ForeignFileError(f"{source}: does not start like a Parquet file")
        wanted = None
        if channels is not None:  # other columns need not even be readable
            wanted = {*channels, *roles.values(), *(n for names in ROLES.values() for n in names)}
        return _parquet_frame(parquet, source, wanted)


def _parquet_frame(parquet: Any, path: Path, wanted: set[str | None] | None) -> Any:
    """Read columns of a Parquet file, all by default, after a look at what it states of itself."""
    stored = path.stat().st_size
    with parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
        about = file.metadata
        if about.num_columns > MOST_CHANNELS:
            raise FileError(f"{path}: has {about.num_columns} columns; one per channel is meant")
        check_expansion(path, 8 * about.num_rows * about.num_columns, stored)
        groups = [about.row_group(k) for k in range(about.num_row_groups)]
        check_expansion(path, sum(abs(group.total_byte_size) for group in groups), stored)
        if sum(group.num_rows for group in groups) != about.num_rows:
            raise DamagedFileError(f"{path}: states {about.num_rows} rows, but its parts others")
        # A named index is a column like others; a nameless one only counts rows.
        fields = [f for f in file.schema_arrow if not f.name.startswith("__index_level_")]
        fields = [f for f in fields if wanted is None or f.name in wanted]
        for field in fields:
            if field.type.num_fields:
                raise FileError(
                    f"{path}: the column {field.name!r} holds {field.type}, neither numbers nor "
                    "text; pass channels= without it"
                )
        table = file.read([field.name for field in fields], use_threads=False)
    table.validate(full=True)
    if table.num_rows != about.num_rows:
        raise DamagedFileError(f"{path}: states {about.num_rows} rows but has {table.num_rows}")
    return table.to_pandas(ignore_metadata=True, use_threads=False)


def _from_frame(
    frame: Any,
    where: Path,
    roles: dict[str, str | None],
    channels: Sequence[str] | None,
    fs: float | None,
    allow_nan: bool,
    first_line: int,
) -> Recordings:
    frame.columns = [str(column) for column in frame.columns]
    column = {role: column_of(frame, role, name, where) for role, name in roles.items()}
    assert column["sample"] is not None
    if not len(frame):
        raise TruncatedFileError(f"{where}: has a header but no rows")
    names = [c for c in frame.columns if c not in column.values()] if channels is None else channels
    missing = [c for c in names if c not in frame.columns]
    if missing or not names:
        raise FileError(f"{where}: no channel {listed(missing)}; there are {listed(frame.columns)}")
    place = "line" if first_line else "row"
    values = np.stack([numbers(frame, name, where, place, first_line) for name in names], axis=1)
    if not allow_nan and not np.isfinite(values).all():
        row, channel = (int(v) for v in np.argwhere(~np.isfinite(values))[0])
        raise FileError(
            f"{where} {place} {row + first_line}: {names[channel]!r} is {values[row, channel]}; "
            "fill or drop it, or pass allow_nan=True"
        )
    if frame[column["sample"]].isna().any():
        row = int(np.flatnonzero(frame[column["sample"]].isna())[0])
        raise DamagedFileError(
            f"{where} {place} {row + first_line}: {column['sample']!r} is missing"
        )
    codes, ids = frame[column["sample"]].factorize()
    counts = np.bincount(codes)
    usual = int(np.bincount(counts).argmax())
    if (counts != usual).any():
        odd = int(np.flatnonzero(counts != usual)[0])
        raise FileError(
            f"{where}: sample {ids[odd]!s} has {counts[odd]} points, but most have {usual}; "
            "unequal lengths need cutting or padding first"
        )
    order = _order(frame, codes, column["time"], ids, where)
    n, n_times = len(ids), usual
    if fs is not None and column["time"] is not None and n_times > 1:
        check_rate(frame[column["time"]].iloc[order], n, as_sampling_rate(fs), where)
    X = values[order].reshape(n, n_times, len(names)).transpose(0, 2, 1)
    y = _labels(frame, column["label"], order, n, ids, where)
    groups = None
    if column["group"] is not None:
        codes, uniques = _constant(frame, column["group"], order, n, ids, where)
        if (codes < 0).any():
            raise FileError(f"{where}: {column['group']!r} is missing in some rows")
        groups = _plain(uniques[codes])
    return Recordings(
        np.ascontiguousarray(X),
        y,
        groups=groups,
        fs=fs,
        channels=list(names),
        columns={"sample": _plain(np.asarray(ids))},
        name=where.stem,
        allow_nan=allow_nan,
    )


def _order(
    frame: Any, codes: npt.NDArray[Any], time: str | None, ids: Any, where: Path
) -> npt.NDArray[np.intp]:
    if time is None:
        return np.argsort(codes, kind="stable")
    times = frame[time]
    if times.isna().any():
        raise DamagedFileError(f"{where}: {time!r} is missing in {int(times.isna().sum())} rows")
    ranks, _ = times.factorize(sort=True)
    order: npt.NDArray[np.intp] = np.lexsort((ranks, codes))
    same = (np.diff(codes[order]) == 0) & (np.diff(ranks[order]) == 0)
    if same.any():
        row = order[int(np.flatnonzero(same)[0])]
        raise FileError(
            f"{where}: sample {ids[codes[row]]!s} has {time!r} {times.iloc[row]!s} more than once"
        )
    return order


def _constant(
    frame: Any, name: str, order: npt.NDArray[np.intp], n: int, ids: Any, where: Path
) -> tuple[npt.NDArray[np.intp], npt.NDArray[Any]]:
    """Values of a column that is the same through each sample: positions (-1 = none), values."""
    codes, uniques = frame[name].factorize()
    table = codes[order].reshape(n, -1)
    odd = np.flatnonzero((table != table[:, :1]).any(axis=1))
    if len(odd):
        raise FileError(
            f"{where}: {name!r} changes within sample {ids[int(odd[0])]!s}; it must have one value"
        )
    return table[:, 0], np.asarray(uniques)


def _labels(
    frame: Any, name: str | None, order: npt.NDArray[np.intp], n: int, ids: Any, where: Path
) -> npt.NDArray[Any] | None:
    """Labels of samples, None where the cells are empty."""
    if name is None:
        return None
    codes, uniques = _constant(frame, name, order, n, ids, where)
    return np.array([*_plain(uniques).tolist(), None], dtype=object)[codes]


def _plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers as they are, anything else as text."""
    if values.dtype.kind in "iufb":
        return values
    if values.dtype.kind not in "OUSM":
        raise InvalidInputError(f"a column of {values.dtype} cannot be used")
    return as_text("a column", [str(v) for v in values])

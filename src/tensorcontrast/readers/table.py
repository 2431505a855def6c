"""CSV and Parquet tables in long form: one row for each point in time of each sample."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast._recording_checks import as_sampling_rate, as_text
from tensorcontrast.errors import (
    DamagedFileError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    TruncatedFileError,
)
from tensorcontrast.names import from_csv_text, listed
from tensorcontrast.readers._files import (
    MOST_CHANNELS,
    check_expansion,
    existing,
    file_errors,
    optional,
)
from tensorcontrast.recordings import Recordings

# Names that are taken for the columns of a role when the caller names none, first match wins.
ROLES: dict[str, tuple[str, ...]] = {
    "sample": ("sample", "sample_id", "window", "window_id", "series", "series_id", "id"),
    "time": ("time", "t", "index", "step", "timestamp"),
    "label": ("label", "class", "target", "y"),
    "group": ("group", "subject", "subject_id", "patient", "patient_id"),
}

#: Largest difference between the rate of a time column and ``fs``, as a share of ``fs``.
RATE_TOLERANCE = 0.01


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
    allow_nan: bool = False,
) -> Recordings:
    """Read a CSV table in long form.

    Parameters
    ----------
    path : path
        The file; ``.tsv`` and a final ``.gz`` are understood.
    sample, time, label, group : str, optional
        Names of columns: id of the sample a row belongs to; time or position in the sample (rows
        are sorted by it; without it their order in the file counts); class (empty cells for
        unlabelled samples); group. By default the first of the usual names that is there, see
        ``ROLES``.
    channels : sequence of str, optional
        Columns with signals, in this order; by default all others.
    fs : float, optional
        Samples per second. A time column (in s, ms, µs, ns, or dates) whose rate differs by more
        than 1 % is an error; one that counts 0, 1, 2, … says nothing of the rate.
    separator : str, optional
        Between columns; by default a comma, or a tab for ``.tsv``.
    allow_nan : bool
        Accept missing values, which become NaN.
    """
    source = existing(path)
    pandas = optional("pandas")
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
        roles = {"sample": sample, "time": time, "label": label, "group": group}
        return _from_frame(frame, source, roles, channels, fs, allow_nan, first_line=2)


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
    allow_nan: bool = False,
) -> Recordings:
    """Read a Parquet table in long form; the parameters are those of :func:`read_csv`."""
    source = existing(path)
    optional("pandas")
    parquet = optional("pyarrow.parquet")
    with file_errors(source, "Parquet"):
        with source.open("rb") as stream:
            start = stream.read(4)
        if start != b"PAR1":
            raise ForeignFileError(f"{source}: does not start like a Parquet file")
        roles = {"sample": sample, "time": time, "label": label, "group": group}
        wanted = None
        if channels is not None:  # other columns need not even be readable
            wanted = {*channels, *roles.values(), *(n for names in ROLES.values() for n in names)}
        frame = _parquet_frame(parquet, source, wanted)
        return _from_frame(frame, source, roles, channels, fs, allow_nan, first_line=0)


def _parquet_frame(parquet: Any, path: Path, wanted: set[str | None] | None) -> Any:
    """Read columns of a Parquet file, all by default, after a look at what it states of itself."""
    stored = path.stat().st_size
    with parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
        about = file.metadata
        if about.num_columns > MOST_CHANNELS:
            raise FileError(f"{path}: has {about.num_columns} columns; one a channel is meant")
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
    column = {role: _column(frame, role, name, where) for role, name in roles.items()}
    if column["sample"] is None:
        raise FileError(
            f"{where}: has no column with the id of samples ({listed(ROLES['sample'])}); pass "
            f"sample= one of {listed(frame.columns)}"
        )
    if not len(frame):
        raise TruncatedFileError(f"{where}: has a header but no rows")
    names = [c for c in frame.columns if c not in column.values()] if channels is None else channels
    missing = [c for c in names if c not in frame.columns]
    if missing or not names:
        raise FileError(f"{where}: no channel {listed(missing)}; there are {listed(frame.columns)}")
    place = "line" if first_line else "row"
    values = np.stack([_numbers(frame, name, where, place, first_line) for name in names], axis=1)
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
        _check_rate(frame[column["time"]].iloc[order], n, as_sampling_rate(fs), where)
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


def _column(frame: Any, role: str, name: str | None, where: Path) -> str | None:
    if name is not None:
        if name not in frame.columns:
            raise FileError(
                f"{where}: no column {name!r} for {role}; there are {listed(frame.columns)}"
            )
        return name
    return next((n for n in ROLES[role] if n in frame.columns), None)


def _numbers(frame: Any, name: str, where: Path, place: str, first_line: int) -> npt.NDArray[Any]:
    column = frame[name]
    try:
        array = np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        pandas = optional("pandas")
        bad = np.asarray(pandas.to_numeric(column, errors="coerce").isna() & column.notna())
        row = int(np.flatnonzero(bad)[0]) if bad.any() else 0
        raise DamagedFileError(
            f"{where} {place} {row + first_line}: {name!r} is {str(column.iloc[row])[:40]!r}, "
            "not a number; pass channels= to leave out columns of text"
        ) from None
    if column.dtype == np.float64 and place == "row":  # Parquet says what it holds
        return array
    with np.errstate(all="ignore"):
        single = array.astype(np.float32)
    return array if (np.isinf(single) & np.isfinite(array)).any() else single


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


def _check_rate(times: Any, n: int, fs: float, where: Path) -> None:
    """Raise where the times of the windows contradict the sampling rate.

    Times are in s, ms, µs or ns, or dates. Steps of one count positions and say nothing of the
    rate. The rate of a window is its number of steps over its span, so that jitter and rounding
    of single times hardly matter; the median over the windows is compared.
    """
    seconds = _seconds(times)
    if seconds is None:
        return
    table = seconds.reshape(n, -1)
    step = float(np.median((table[:, -1] - table[:, 0]) / (table.shape[1] - 1)))
    if step == 1 or not 0 < step < np.inf:
        return
    rates = {"s": 1 / step, "ms": 1e3 / step, "µs": 1e6 / step, "ns": 1e9 / step}
    unit = min(rates, key=lambda name: abs(np.log(rates[name] / fs)))
    if abs(rates[unit] - fs) > RATE_TOLERANCE * fs:
        raise FileError(
            f"{where}: the column {times.name!r}, in {unit}, has {rates[unit]:.6g} samples per "
            f"second, but a rate of {fs:g} was given; they may differ by {RATE_TOLERANCE:.0%} at "
            "most. Pass fs= the rate of the file, or time= another column"
        )


def _seconds(times: Any) -> npt.NDArray[np.float64] | None:
    """Return times as numbers, dates in seconds; None for text that is neither."""
    pandas = optional("pandas")
    if times.dtype.kind not in "iufM":
        numbers = pandas.to_numeric(times, errors="coerce")
        times = (
            pandas.to_datetime(times.astype(str), errors="coerce", format="ISO8601", utc=True)
            if numbers.isna().any()
            else numbers
        )
        if times.isna().any():
            return None
    if times.dtype.kind == "M":
        times = (times - times.min()).dt.total_seconds()
    return np.asarray(times, dtype=np.float64)


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

"""Tables that hold windows: in long form, with lists in their cells, or with one window per row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import DamagedFileError, FileError, TruncatedFileError
from tensorcontrast.readers.annotations import class_names
from tensorcontrast.readers.dialects import Layout
from tensorcontrast.readers.times import read_clock
from tensorcontrast.recordings import Recordings
from tensorcontrast.recordings.checks import as_text, positions
from tensorcontrast.recordings.continuous import RATE_TOLERANCE
from tensorcontrast.utils.optional import optional

__all__ = ["from_lists", "from_long_form", "from_rows", "numbers"]

Array = npt.NDArray[Any]

#: Rounding to float32 must cost less than this share of how far the values of a channel vary.
MAX_ROUNDING = 1e-4


def numbers(frame: Any, name: str, where: Path, place: str, first_line: int) -> Array:
    """Values of a channel, in float32 where that keeps what varies; text names its row."""
    column = frame[name]
    try:
        values = np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        pandas = optional("pandas", "data")
        bad = np.asarray(pandas.to_numeric(column, errors="coerce").isna() & column.notna())
        row = int(np.flatnonzero(bad)[0]) if bad.any() else 0
        raise DamagedFileError(
            f"{where} {place} {row + first_line}: {name!r} is {str(column.iloc[row])[:40]!r}, "
            "not a number; correct it, or leave the column out with ignore= (--ignore)"
        ) from None
    if column.dtype == np.float64 and place == "row":  # Parquet says what it holds
        return values
    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
        lost = np.abs(single - values)
        there = np.isfinite(values)
        exact = not there.any() or lost[there].max() <= MAX_ROUNDING * values[there].std()
    return single if exact or not lost[there].any() else values


def _check_values(values: Array, names: list[str], where: Path, place: str, first: int) -> None:
    """Raise where a value of (row, channel) is missing."""
    if not np.isfinite(values).all():
        row, channel = (int(v) for v in np.argwhere(~np.isfinite(values))[0])
        raise FileError(
            f"{where} {place} {row + first}: {names[channel]!r} is {values[row, channel]}; fill or "
            "drop it, or pass allow_nan=True"
        )


def from_long_form(
    frame: Any,
    where: Path,
    roles: Mapping[str, str | None],
    layout: Layout,
    allow_nan: bool,
    first_line: int,
) -> Recordings:
    """Windows of a table with one row per sample, and a column with the id of its window."""
    for role, column in roles.items():
        if column is not None:
            positions(f"column for {role}:", [column], list(frame.columns))
    sample = str(roles["sample"])
    if not len(frame):
        raise TruncatedFileError(f"{where}: has a header but no rows")
    names = [c for c in frame.columns if c not in roles.values()]
    if layout.channels is not None:
        names = [frame.columns[k] for k in positions("channel", layout.channels, frame.columns)]
    if not names:
        raise FileError(f"{where}: no channel is left beside the columns of other roles")
    place = "line" if first_line else "row"
    values = np.stack([numbers(frame, name, where, place, first_line) for name in names], axis=1)
    if not allow_nan:
        _check_values(values, names, where, place, first_line)
    if frame[sample].isna().any():
        row = int(np.flatnonzero(frame[sample].isna())[0])
        raise DamagedFileError(f"{where} {place} {row + first_line}: {sample!r} is missing")
    codes, ids = frame[sample].factorize()
    counts = np.bincount(codes)
    usual = int(np.bincount(counts).argmax())
    if (counts != usual).any():
        odd = int(np.flatnonzero(counts != usual)[0])
        raise FileError(
            f"{where}: sample {ids[odd]!s} has {counts[odd]} points, but most have {usual}; "
            "unequal lengths need cutting or padding first. If the column only counts rows, pass "
            f"ignore={sample!r}"
        )
    time = roles.get("time")
    order = _order(frame, codes, time, ids, where)
    n = len(ids)
    if layout.fs is not None and time is not None and usual > 1:
        _check_rate(frame[time].iloc[order], n, layout, where)
    X = values[order].reshape(n, usual, len(names)).transpose(0, 2, 1)
    label, group = roles.get("label"), roles.get("group")
    y = groups = None
    if label is not None:
        at, values_of = _constant(frame, label, order, n, ids, where)
        y = np.array([*class_names(values_of.tolist()), None], dtype=object)[at]
    if group is not None:
        at, values_of = _constant(frame, group, order, n, ids, where)
        if (at < 0).any():
            raise FileError(f"{where}: {group!r} is missing in some rows")
        groups = _plain(values_of[at])
    return Recordings(
        np.ascontiguousarray(X),
        y,
        groups=groups,
        fs=layout.fs,
        channels=names,
        columns={"sample": _plain(np.asarray(ids))},
        name=where.stem,
        allow_nan=allow_nan,
    )


def _check_rate(times: Any, n: int, layout: Layout, where: Path) -> None:
    """Raise where the times of windows contradict the rate that was passed.

    The rate of a window is its number of steps over its span, so that jitter hardly matters.
    """
    fs = float(layout.fs or 0)
    try:
        clock = read_clock(times.reset_index(drop=True), where, str, None, fs)
    except FileError:  # text that is no time says nothing of the rate
        return
    table = clock.t.reshape(n, -1)
    step = float(np.median((table[:, -1] - table[:, 0]) / (table.shape[1] - 1)))
    counted = (
        times.dtype.kind in "iuf" and float(np.median(np.diff(times)[: table.shape[1] - 1])) == 1
    )
    if clock.counts or counted or not 0 < step < np.inf:
        return
    if abs(1 / step - fs) > RATE_TOLERANCE * fs:
        raise FileError(
            f"{where}: the column {times.name!r} has {1 / step:.6g} samples per second, but a rate "
            f"of {fs:g} was passed; they may differ by {RATE_TOLERANCE:.1%} at most"
        )


def _order(
    frame: Any, codes: Array, time: str | None, ids: Any, where: Path
) -> npt.NDArray[np.intp]:
    """Rows by window and time."""
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
) -> tuple[npt.NDArray[np.intp], Array]:
    """Values of a column that is the same through each window: positions (-1 = none), values."""
    codes, uniques = frame[name].factorize()
    table = codes[order].reshape(n, -1)
    odd = np.flatnonzero((table != table[:, :1]).any(axis=1))
    if len(odd):
        raise FileError(
            f"{where}: {name!r} changes within sample {ids[int(odd[0])]!s}; it must have one "
            "value. If rows are not of windows, leave the column of ids out with ignore="
        )
    return table[:, 0], np.asarray(uniques)


def from_lists(
    frame: Any, where: Path, roles: Mapping[str, str | None], layout: Layout, allow_nan: bool
) -> Recordings:
    """Windows of a Parquet table with one row per window, and a list of samples per channel."""
    lists = [c for c in frame.columns if isinstance(frame[c].iloc[0], np.ndarray)]
    if layout.channels is not None:
        lists = [lists[k] for k in positions("channel", layout.channels, lists)]
    sample = roles.get("sample")
    if sample is not None and not frame[sample].is_unique:
        raise FileError(
            f"{where}: {lists[0]!r} holds lists, but {sample!r} repeats, as where each row is one "
            "sample; leave one of them out with ignore="
        )
    lengths = {len(cell) for name in lists for cell in frame[name] if cell is not None}
    if len(lengths) != 1 or frame[lists].isna().any(axis=None):
        raise FileError(
            f"{where}: the lists of {lists[0]!r} and other channels have {min(lengths)} to "
            f"{max(lengths)} samples, or are missing; cut or pad them to one length"
        )
    X = np.stack([np.stack(frame[name].tolist()) for name in lists], axis=1)
    if X.dtype.kind not in "fiu":
        raise FileError(f"{where}: the lists of {lists[0]!r} hold {X.dtype}, not numbers")
    rest = {c: _plain(frame[c].to_numpy()) for c in frame.columns if c not in lists}
    label, group = roles.get("label"), roles.get("group")
    y = None if label is None else class_names(frame[label].tolist())
    columns = {name: values for name, values in rest.items() if name not in (label, group)}
    return Recordings(
        X,
        None if y is None else np.array(y, dtype=object),
        groups=None if group is None else rest[group],
        fs=layout.fs,
        channels=lists,
        columns=columns,
        name=where.stem,
        allow_nan=allow_nan,
    )


def from_rows(frame: Any, where: Path, fs: float | None, allow_nan: bool) -> Recordings:
    """Windows of a table of the UCR archive: the class first, then the samples of one channel."""
    values = np.stack([numbers(frame, c, where, "line", 1) for c in frame.columns], axis=1)
    classes = values[:, 0]
    if not (classes == np.round(classes)).all():
        raise FileError(
            f"{where}: the first column is not the class of each row, a whole number; rename the "
            "file where it is no file of the UCR archive (..._TRAIN.tsv, ..._TEST.tsv)"
        )
    X = values[:, None, 1:]
    if not allow_nan and not np.isfinite(X).all():
        row = int(np.flatnonzero(~np.isfinite(X).all(axis=(1, 2)))[0])
        raise FileError(
            f"{where} line {row + 1}: its window is shorter than others, or has missing values; "
            "cut or pad windows to one length, or pass allow_nan=True"
        )
    names = np.array([str(int(c)) for c in classes])  # -1 is a class here
    order = sorted(set(names.tolist()), key=int)
    y = np.array([order.index(name) for name in names.tolist()])
    return Recordings(X, y, fs=fs, classes=order, name=where.stem, allow_nan=allow_nan)


def _plain(values: Array) -> Array:
    """Numbers as they are, anything else as text."""
    if values.dtype.kind in "iufb":
        return values
    return as_text("a column", ["" if v is None or v != v else str(v) for v in values])

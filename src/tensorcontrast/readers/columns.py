"""Columns of tables: which role each has, numbers, times and their rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import DamagedFileError, FileError
from tensorcontrast.readers.continuous import RATE_TOLERANCE
from tensorcontrast.utils.names import listed
from tensorcontrast.utils.optional import optional

# Names that are taken for the columns of a role when the caller names none, first match wins.
ROLES: dict[str, tuple[str, ...]] = {
    "sample": ("sample", "sample_id", "window", "window_id", "series", "series_id", "id"),
    "time": (
        *("time", "t", "index", "step", "timestamp", "datetime", "seconds"),
        *("time_s", "time_ms", "time_us", "time_ns"),
    ),
    "label": ("label", "class", "target", "y"),
    "group": ("group", "subject", "subject_id", "patient", "patient_id"),
}

#: Units of time, per second.
UNITS = {"s": 1.0, "ms": 1e3, "µs": 1e6, "ns": 1e9}


def column_of(frame: Any, role: str, name: str | None, where: Path) -> str | None:
    """Column of a role: the one that is named, or the first usual name that is there."""
    if name is not None:
        if name not in frame.columns:
            raise FileError(
                f"{where}: no column {name!r} for {role}; there are {listed(frame.columns)}"
            )
        return name
    return next((n for n in ROLES[role] if n in frame.columns), None)


def numbers(frame: Any, name: str, where: Path, place: str, first_line: int) -> npt.NDArray[Any]:
    """Values of a channel; text is an error that names the row."""
    column = frame[name]
    try:
        array = np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        pandas = optional("pandas", "data")
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


def check_rate(times: Any, n: int, fs: float, where: Path) -> None:
    """Raise where the times of the windows contradict the sampling rate.

    Times are in s, ms, µs or ns, or dates. Steps of one count positions and say nothing of the
    rate. The rate of a window is its number of steps over its span, so that jitter and rounding
    of single times hardly matter; the median over the windows is compared.
    """
    found = seconds(times)
    if found is None:
        return
    table = found.reshape(n, -1)
    step = float(np.median((table[:, -1] - table[:, 0]) / (table.shape[1] - 1)))
    if step == 1 or not 0 < step < np.inf:
        return
    unit = nearest_unit(step, fs)
    compare_rates(UNITS[unit] / step, fs, unit, times.name, where)


def nearest_unit(step: float, fs: float) -> str:
    """Return the unit of time in which steps of this size come nearest to a rate."""
    return min(UNITS, key=lambda unit: abs(np.log(UNITS[unit] / step / fs)))


def compare_rates(found: float, fs: float, unit: str, name: str, where: Path) -> None:
    """Raise where the rate of a time column is not the one that was given."""
    if abs(found - fs) > RATE_TOLERANCE * fs:
        raise FileError(
            f"{where}: the column {name!r}, in {unit}, has {found:.6g} samples per "
            f"second, but a rate of {fs:g} was given; they may differ by {RATE_TOLERANCE:.0%} at "
            "most. Pass fs= the rate of the file, or time= another column"
        )


def seconds(times: Any) -> npt.NDArray[np.float64] | None:
    """Return times as numbers, dates in seconds; None for text that is neither."""
    pandas = optional("pandas", "data")
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

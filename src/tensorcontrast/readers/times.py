"""Columns of time: what they hold, in seconds, and the regular grid of samples behind them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import DamagedFileError, FileError, TruncatedFileError
from tensorcontrast.recordings.continuous import RATE_TOLERANCE, rounded_rate
from tensorcontrast.utils.optional import optional

__all__ = ["Clock", "Grid", "is_time_name", "read_clock", "regular_grid", "seconds_per", "words"]

Array = npt.NDArray[Any]

#: A step of more than so many usual ones is a gap, where steps are even.
GAP_STEPS = 1.5
#: Longest step between two samples that is bridged where steps are uneven; longer ones are gaps.
MAX_BRIDGED_STEPS = 4.0
#: Share of steps that may be gaps, or far too short, in a recording of constant rate.
MAX_IRREGULAR = 0.1
#: Largest difference between the rates of two parts of a recording, as a share.
MAX_RATE_CHANGE = 0.05
#: How far samples may be off an even grid, in samples, before they are interpolated.
MAX_OFF_GRID = 0.3
#: Steps that are averaged where the rate is compared along a recording.
RATE_BLOCK = 25

UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
_UNIT_NAMES = {"sec": "s", "secs": "s", "second": "s", "seconds": "s", "us": "µs", "μs": "µs"}
_UNIT_NAMES |= {"msec": "ms", "millis": "ms", "milliseconds": "ms", "micros": "µs", "nanos": "ns"}
_UNIT_NAMES |= {"microseconds": "µs", "nanoseconds": "ns", "minutes": "min", "hours": "h"}
_TIME_WORDS = {"time", "times", "timestamp", "timestamps", "datetime", "seconds", "ts", "t"}
_TIME_WORDS |= {"elapsed", "unixtime", "unixtimestamp", "clock", "utc", "date", "systime"}
_TIME_WORDS |= {"zeit", "temps", "tiempo", "tempo", "tijd", "tid", "czas", "aika", "uhrzeit"}
_TIME_NAMES = _TIME_WORDS | {"index", "step"}
#: Numbers of this size count from 1970, in the unit after it.
_EPOCHS = ((9e8, 5e9, "s"), (9e11, 5e12, "ms"), (9e14, 5e15, "µs"), (9e17, 5e18, "ns"))
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2}):(\d{2})(?:[.:,](\d+))?")
_MINUTES = re.compile(r"(\d+):(\d{2}\.\d+)")
_ZONE = re.compile(r"\s*\[[^]]*\]$")
_FORMATS = tuple(
    f"{day} {clock}"
    for day in ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%Y-%m-%d", "%Y/%m/%d")
    for clock in ("%H:%M:%S", "%H:%M:%S.%f", "%H:%M:%S:%f", "%I:%M:%S %p", "%I:%M:%S.%f %p")
)


def words(name: str) -> list[str]:
    """Words of the name of a column, in lower case: of ``sensorTime_ms (x)`` three and the unit."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", name)
    return [word for word in re.split(r"[^0-9a-zA-Zµμ]+", spaced.lower()) if word]


def is_time_name(name: str, *, alone: bool = True) -> bool:
    """Whether a column is named like a time; with ``alone``, whether nothing else is in the name.

    Examples
    --------
    >>> is_time_name("Time (s)"), is_time_name("loggingTime(txt)"), is_time_name("acc_x")
    (True, False, False)
    """
    parts = [
        w for w in words(name) if (w not in UNITS and w not in _UNIT_NAMES) or w in _TIME_WORDS
    ]
    if alone:
        return bool(parts) and all(part in _TIME_NAMES for part in parts)
    return any(part in _TIME_WORDS and len(part) > 1 for part in parts)


def seconds_per(word: str) -> float | None:
    """Return the seconds of a unit of time, None for any other word."""
    return UNITS.get(_UNIT_NAMES.get(word, word))


def unit_in_name(name: str) -> str | None:
    """Return the unit of time in the name of a column, such as ``ms`` of ``Time [ms]``."""
    parts = words(name)
    last = parts[-1] if len(parts) > 1 else ""
    if parts[:1] == ["seconds"]:
        return "s"
    unit = _UNIT_NAMES.get(last, last)
    return unit if unit in UNITS else None


@dataclass(frozen=True)
class Clock:
    """Times of the rows of a table.

    Attributes
    ----------
    t : (n,) float array
        Seconds from the first row; in samples where ``counts``.
    start : datetime, optional
        Date and time of the first row, where the column says it.
    counts : bool
        Whether the column only counts samples.
    """

    t: Array
    start: dt.datetime | None = None
    counts: bool = False


def read_clock(
    column: Any, where: Path, line: Callable[[int], str], unit: str | None, fs: float | None
) -> Clock:
    """Read a column of seconds, ms, µs, ns, dates or times of day.

    Parameters
    ----------
    column : pandas.Series
    where : path
    line : callable
        Name of the line of a row, for messages.
    unit : str, optional
        Unit of numbers; by default that of the name, or what their size says.
    fs : float, optional
        Rate, from which the unit is found where neither says it.
    """
    pandas = optional("pandas", "data")
    name = str(column.name)
    if column.isna().any():
        row = int(np.flatnonzero(column.isna())[0])
        raise DamagedFileError(
            f"{where} {line(row)}: {name!r} is missing in {int(column.isna().sum())} rows"
        )
    if len(column) < 2:
        raise TruncatedFileError(f"{where}: one row is no recording; there must be two at least")
    if column.dtype.kind in "mM" or isinstance(column.dtype, pandas.DatetimeTZDtype):
        return _from_dates(pandas, column)
    if column.dtype.kind not in "iuf":
        numbers = pandas.to_numeric(column, errors="coerce")
        if numbers.isna().any():
            return _from_text(pandas, column.astype(str), where, line)
        column = numbers
    values = column.to_numpy()
    if not np.isfinite(values).all():
        raise DamagedFileError(f"{where}: the column {name!r} holds infinity, which is no time")
    # Large integers are counted from the first: a float has 16 digits.
    shifted = np.asarray(values - values[0], dtype=np.float64)
    if values.dtype.kind == "u":
        shifted = np.asarray(values, dtype=np.float64) - float(values[0])
    epoch = next((u for low, high, u in _EPOCHS if low <= float(values[0]) < high), None)
    unit = _UNIT_NAMES.get(unit or "", unit)
    if unit is not None and unit not in UNITS:
        raise FileError(f"{where}: {unit!r} is no unit of time; there are {', '.join(UNITS)}")
    named = unit or unit_in_name(name)
    steps = np.diff(shifted)
    step = float(np.median(steps))
    if unit is None and epoch is not None and len(words(name)) < 3 + (named is None):
        start = dt.datetime.fromtimestamp(float(values[0]) * UNITS[epoch], dt.UTC)
        return Clock(shifted * UNITS[epoch], start)
    if named is not None:
        return Clock(shifted * UNITS[named])
    if (steps == 1).all():
        return Clock(shifted, counts=True)
    if fs is not None:
        positive = float(np.mean(steps[steps > 0])) if (steps > 0).any() else 1.0
        named = min(("s", "ms", "µs", "ns"), key=lambda u: abs(np.log(positive * UNITS[u] * fs)))
        return Clock(shifted * UNITS[named])
    if step < 1:
        return Clock(shifted)
    raise FileError(
        f"{where}: the column {name!r} has steps of {step:g}, which may be samples, s or ms; pass "
        f"its unit, as in units={{{name!r}: 'ms'}} (--units '{name}=ms'), or fs= the rate"
    )


def _from_dates(pandas: Any, column: Any) -> Clock:
    first = column.iloc[0]
    seconds = (column - first).dt.total_seconds().to_numpy(dtype=np.float64)
    start = first.to_pydatetime(warn=False) if isinstance(first, pandas.Timestamp) else None
    return Clock(seconds, start)


def _from_text(pandas: Any, texts: Any, where: Path, line: Callable[[int], str]) -> Clock:
    """Read times of the day, or dates in ISO or local form."""
    first = str(texts.iloc[0]).strip()
    if _TIME_OF_DAY.fullmatch(first):
        parts = texts.str.strip().str.extract(f"^{_TIME_OF_DAY.pattern}$")
        if not parts[0].isna().any():
            h, m, s = (parts[k].astype(np.float64).to_numpy() for k in range(3))
            fraction = ("0." + parts[3].fillna("0")).astype(np.float64).to_numpy()
            t = h * 3600 + m * 60 + s + fraction
            days = np.cumsum(np.diff(t, prepend=t[0]) < -43200)  # past midnight
            return Clock(t - t[0] + 86400.0 * days)
    if _MINUTES.fullmatch(first):
        parts = texts.str.strip().str.extract(f"^{_MINUTES.pattern}$").astype(np.float64)
        if not parts.isna().any(axis=None):
            t = (60 * parts[0] + parts[1]).to_numpy()
            return Clock(t - t[0])
    plain = texts.str.replace(_ZONE, "", regex=True).str.strip()
    dates = pandas.to_datetime(plain, errors="coerce", format="ISO8601", utc=True)
    if not dates.isna().any():
        clock = _from_dates(pandas, dates)
        start = pandas.Timestamp(plain.iloc[0]).to_pydatetime(warn=False)  # in its own zone
        return Clock(clock.t, start)
    readings = []
    for form in _FORMATS:
        try:
            pandas.to_datetime(plain.iloc[:1], format=form)
        except ValueError:
            continue
        dates = pandas.to_datetime(plain, errors="coerce", format=form)
        if not dates.isna().any():
            readings.append(_from_dates(pandas, dates))
    if not readings:
        bad = np.flatnonzero(np.asarray(dates.isna()))
        row = int(bad[0]) if len(bad) < len(texts) else 0
        raise FileError(
            f"{where} {line(row)}: the column {texts.name!r} holds {str(texts.iloc[row])[:40]!r}, "
            "which is no time; write seconds or dates such as 2024-03-01T12:00:00.02, or pass "
            "time= another column"
        )
    # Day and month may be either way round; then steps must agree, and the date stays open.
    forward = [clock for clock in readings if (np.diff(clock.t) >= 0).all()] or readings
    shortest = min(forward, key=lambda clock: float(clock.t[-1]))
    sure = len({clock.start for clock in forward}) == 1
    return Clock(shortest.t, shortest.start if sure else None)


@dataclass(frozen=True)
class Grid:
    """The even grid behind the times of rows.

    Attributes
    ----------
    fs : float
        Samples per second.
    edges : list of int
        Rows at which stretches without a gap begin, and the number of rows.
    offsets : list of int
        First sample of each stretch.
    t : (n,) float array, optional
        Times of the rows, where samples are interpolated between them; None where rows are samples.
    note : str
        What was done, for the account of the table.
    """

    fs: float
    edges: list[int]
    offsets: list[int]
    t: Array | None = None
    note: str = ""


def regular_grid(
    clock: Clock, name: str, where: Path, line: Callable[[int], str], fs: float | None
) -> Grid:
    """Find the rate and the gaps of times that go up; raise for times that do not tell them.

    Uneven times, as phones write them, are brought to an even grid by straight lines between
    samples; ``MAX_BRIDGED_STEPS`` says over how much time.
    """
    t = clock.t
    steps = np.diff(t)
    if (steps < 0).any():
        row = int(np.flatnonzero(steps < 0)[0]) + 1
        raise FileError(
            f"{where} {line(row)}: {name!r} goes back; sort the rows by time, name the column that "
            "tells recordings apart with group=, or leave the column out with ignore= and pass fs="
        )
    if clock.counts:
        if fs is None:
            raise FileError(
                f"{where}: the column {name!r} has steps of 1, which may be samples, s or ms; pass "
                f"fs= the rate (--fs), or its unit, as in units={{{name!r}: 's'}}"
            )
        return Grid(fs, [0, len(t)], [0])
    note = ""
    if (steps == 0).any():
        t, even = _without_repeats(t, name, where, line)
        if even:
            rate = _rate(1 / float(np.mean(np.diff(t))), len(t), fs, name, where)
            return Grid(rate, [0, len(t)], [0], note="times repeat and are taken as even")
        steps = np.diff(t)
    usual = float(np.median(steps))
    uneven = (steps > GAP_STEPS * usual) | (steps < usual / 2)
    jitter = int(uneven.sum()) > max(1, MAX_IRREGULAR * len(steps))
    gaps = steps > (MAX_BRIDGED_STEPS if jitter else GAP_STEPS) * usual
    _check_constant_rate(steps, gaps, name, where, line)
    if gaps.sum() > max(1, MAX_IRREGULAR * len(steps)):
        raise FileError(
            f"{where}: the steps of {name!r} are irregular ({int(gaps.sum())} of {len(steps)} are "
            f"far from the usual {usual:g} s); resample the signals to one rate first"
        )
    step = float(steps[~gaps].mean())
    edges = [0, *(np.flatnonzero(gaps) + 1).tolist(), len(t)]
    rate = _rate(1 / step, len(t), fs, name, where)
    offsets = [round((t[a] - t[0]) / step) for a in edges[:-1]]
    drifts = abs(step * rate - 1) * len(t) > 1  # from the rate that was passed
    if drifts or _off_grid(t, edges, step) > max(MAX_OFF_GRID, 0.75 * _resolution(steps) / step):
        note = f"brought to {rate:g} Hz by interpolation"
        return Grid(rate, edges, [round((t[a] - t[0]) * rate) for a in edges[:-1]], t, note)
    return Grid(rate, edges, offsets, note=note)


def _rate(rate: float, n: int, fs: float | None, name: str, where: Path) -> float:
    """Rate of a time column, which must be near the one that was passed."""
    if fs is None:
        return rounded_rate(rate, n)
    if abs(rate - fs) > RATE_TOLERANCE * fs:
        raise FileError(
            f"{where}: the column {name!r} has {rate:.6g} samples per second, but a rate of {fs:g} "
            f"was passed; they may differ by {RATE_TOLERANCE:.1%} at most. Leave fs= out, or pass "
            "time= another column"
        )
    return fs


def _without_repeats(
    t: Array, name: str, where: Path, line: Callable[[int], str]
) -> tuple[Array, bool]:
    """Spread rows that share a stamp up to the next one; tells whether that makes them even."""
    first = np.concatenate([[0], np.flatnonzero(np.diff(t) > 0) + 1])
    lengths = np.diff([*first.tolist(), len(t)])
    stamps = t[first]
    inner = lengths[1:-1]
    if not len(inner):
        row = int(np.flatnonzero(np.diff(t) == 0)[0]) + 1
        raise FileError(
            f"{where} {line(row)}: {name!r} stays the same; pass time= another column, or ignore= "
            "this one and fs= the rate"
        )
    apart = np.diff(stamps)
    usual = float(np.median(apart))
    same = inner.max() - inner.min() <= max(1, 0.1 * float(np.median(inner)))
    if same and (apart <= GAP_STEPS * usual).all():
        step = float(stamps[-1] - stamps[1]) / float(inner.sum())
        return t[0] + step * np.arange(len(t)), True
    if float(np.mean(np.diff(t) == 0)) > 0.5:
        row = int(first[1 + int(np.argmax(np.abs(inner - np.median(inner))))])
        raise FileError(
            f"{where} {line(row)}: values of {name!r} repeat {lengths.min()} to {lengths.max()} "
            "times, as when packets arrive in bursts; pass ignore= this column and fs= the rate"
        )
    ends = np.append(stamps[1:], stamps[-1] + usual)
    within = np.arange(len(t)) - np.repeat(first, lengths)
    share = np.minimum(ends - stamps, MAX_BRIDGED_STEPS * usual) / lengths
    return np.repeat(stamps, lengths) + within * np.repeat(share, lengths), False


def _check_constant_rate(
    steps: Array, gaps: Array, name: str, where: Path, line: Callable[[int], str]
) -> None:
    """Raise where the rate changes along a recording, with the place."""
    rows = np.flatnonzero(~gaps)
    size = max(RATE_BLOCK, len(rows) // 50)
    count = len(rows) // size
    if count < 2:
        return
    means = steps[rows[: count * size]].reshape(count, size).mean(axis=1)
    odd = np.flatnonzero(np.abs(means / means[0] - 1) > MAX_RATE_CHANGE)
    if len(odd) and abs(np.median(means) / means[0] - 1) <= MAX_RATE_CHANGE and len(odd) < 2:
        return  # one stretch that starts late is jitter
    if len(odd):
        row = int(rows[odd[0] * size])
        raise FileError(
            f"{where} {line(row)}: the rate of {name!r} changes from {1 / means[0]:.4g} Hz to "
            f"{1 / means[odd[0]]:.4g} Hz about here; split the file there, or resample it first"
        )


def _off_grid(t: Array, edges: list[int], step: float) -> float:
    """Largest distance of a row from an even grid through its stretch, in samples."""
    worst = 0.0
    for a, b in pairwise(edges):
        distance = (t[a:b] - t[a]) / step - np.arange(b - a)
        worst = max(worst, float(np.ptp(distance)) / 2)
    return worst


def _resolution(steps: Array) -> float:
    """Return the unit in which stamps were rounded; 0 where there is none."""
    sizes = np.unique(np.round(steps, 7))
    return float(np.diff(sizes).min()) if 1 < len(sizes) < 50 else 0.0

"""Continuous wide tables: a column of time, one column per channel, one row per sample in time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import DamagedFileError, FileError, TruncatedFileError
from tensorcontrast.readers.columns import (
    ROLES,
    UNITS,
    column_of,
    compare_rates,
    nearest_unit,
    numbers,
    seconds,
)
from tensorcontrast.readers.continuous import Continuous, rounded_rate
from tensorcontrast.recordings.checks import as_sampling_rate
from tensorcontrast.recordings.windows import Segment, label_segments
from tensorcontrast.utils.names import listed

__all__ = ["continuous_frame", "is_long_form"]

#: A step in time of more than so many usual ones is a gap.
GAP_STEPS = 1.5
#: Share of steps that may be gaps, or far too short, in a recording of constant rate.
MAX_IRREGULAR = 0.1

_UNIT = re.compile(r"(?:^|[\s_.(\[])(s|sec|seconds|ms|us|µs|ns)[)\]]?$", re.IGNORECASE)
_UNIT_NAMES = {"sec": "s", "seconds": "s", "us": "µs"}


def is_long_form(columns: Sequence[str], sample: str | None = None) -> bool:
    """Whether a table has a column with the id of the window of each row."""
    return sample is not None or any(name in columns for name in ROLES["sample"])


def continuous_frame(
    frame: Any,
    where: Path,
    name: str,
    roles: Mapping[str, str | None],
    *,
    channels: Sequence[str] | None = None,
    fs: float | None = None,
    allow_nan: bool = False,
    first_line: int = 0,
) -> list[Continuous]:
    """Read a continuous wide table as recordings: one, or one per value of the group column.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per sample in time.
    where : path
        What messages name.
    name : str
        Name of the recording. With a group column that has several values, the value is added.
    roles : mapping
        Names of the columns ``time``, ``label`` and ``group``, or None for the usual names. A
        column ``y`` is a channel here (as in x, y, z), unless it is named.
    channels : sequence of str, optional
        Columns with signals; by default all without a role.
    fs : float, optional
        Samples per second; by default the rate of the time column. It is an error where both are
        there and differ by more than 1 %.
    allow_nan : bool
        Accept missing values in channels.
    first_line : int
        Number of the first row in messages; 0 where the table is no text.
    """
    frame.columns = [str(column) for column in frame.columns]
    column = {
        role: column_of(frame, role, roles.get(role), where) for role in ("time", "label", "group")
    }
    if roles.get("label") is None and column["label"] == "y":
        column["label"] = None
    if not len(frame):
        raise TruncatedFileError(f"{where}: has a header but no rows")
    if column["time"] is None and fs is None:
        raise FileError(
            f"{where}: has no column with the id of samples ({listed(ROLES['sample'])}), and none "
            f"with the time ({listed(ROLES['time'])}). For windows in long form pass sample= one "
            f"of {listed(frame.columns)}; for a continuous recording pass time= a column, or fs="
        )
    names = [c for c in frame.columns if c not in column.values()] if channels is None else channels
    missing = [c for c in names if c not in frame.columns]
    if missing or not names:
        raise FileError(f"{where}: no channel {listed(missing)}; there are {listed(frame.columns)}")
    place = "line" if first_line else "row"
    values = np.stack([numbers(frame, c, where, place, first_line) for c in names])
    if not allow_nan and not np.isfinite(values).all():
        row, channel = (int(v) for v in np.argwhere(~np.isfinite(values.T))[0])
        raise FileError(
            f"{where} {place} {row + first_line}: {names[channel]!r} is {values[channel, row]}; "
            "fill or drop it, or pass allow_nan=True (--drop-nan leaves out its window)"
        )
    out = []
    for group, rows in _by_group(frame, column["group"], where):
        several = group is not None and len(rows) < len(frame)
        rate, edges, offsets = _timing(frame, column["time"], rows, fs, where, place, first_line)
        labels = None if column["label"] is None else frame[column["label"]].to_numpy(dtype=object)
        segments: list[Segment] = []
        pieces = []
        for (a, b), offset in zip(pairwise(edges), offsets, strict=True):
            pieces.append((offset, np.ascontiguousarray(values[:, rows[a:b]])))
            if labels is not None:
                found = label_segments(labels[rows[a:b]], name=repr(column["label"]))
                segments += [Segment(s.start + offset, s.stop + offset, s.label) for s in found]
        out.append(
            Continuous(
                name=f"{name}:{group}" if several else name,
                pieces=pieces,
                fs=rate,
                channels=tuple(names),
                segments=None if labels is None else segments,
                group=group,
            )
        )
    return out


def _by_group(frame: Any, name: str | None, where: Path) -> list[tuple[Any, npt.NDArray[np.intp]]]:
    """Rows of each group, in the order in which groups appear."""
    if name is None:
        return [(None, np.arange(len(frame)))]
    codes, uniques = frame[name].factorize()
    if (codes < 0).any():
        raise FileError(f"{where}: {name!r} is missing in some rows")
    values = np.asarray(uniques).tolist()
    return [(v, np.flatnonzero(codes == k)) for k, v in enumerate(values)]


def _timing(
    frame: Any,
    name: str | None,
    rows: npt.NDArray[np.intp],
    fs: float | None,
    where: Path,
    place: str,
    first_line: int,
) -> tuple[float, list[int], list[int]]:
    """Rate, edges of the stretches without gaps, and where each starts, in samples."""
    if name is None:
        assert fs is not None
        return as_sampling_rate(fs), [0, len(rows)], [0]
    times = frame[name].iloc[rows]
    if times.isna().any():
        raise DamagedFileError(f"{where}: {name!r} is missing in {int(times.isna().sum())} rows")
    t = seconds(times)
    if t is None or not np.isfinite(t).all():
        raise FileError(
            f"{where}: the column {name!r} holds {str(times.iloc[0])[:40]!r}, which is no time; "
            "write seconds or dates such as 2024-03-01T12:00:00.02, or pass time= another column"
        )
    if len(t) < 2:
        raise TruncatedFileError(f"{where}: one row is no recording; there must be two at least")
    steps = np.diff(t)
    back = np.flatnonzero(steps <= 0)
    if len(back):
        row = int(rows[back[0] + 1])
        what = "goes back" if steps[back[0]] < 0 else "stays the same"
        raise FileError(
            f"{where} {place} {row + first_line}: {name!r} {what}, at {times.iloc[back[0] + 1]!s}; "
            "sort the rows by time, name the column that tells recordings apart with group=, or "
            "remove the column and pass fs="
        )
    usual = float(np.median(steps))
    gaps = steps > GAP_STEPS * usual
    odd = int((gaps | (steps < usual / 2)).sum())
    if odd > max(1, MAX_IRREGULAR * len(steps)):
        raise FileError(
            f"{where}: the steps of {name!r} are irregular ({odd} of {len(steps)} are far from the "
            f"usual {usual:g}); resample the signals to one rate first"
        )
    step = float(steps[~gaps].mean())
    rate = _rate(frame[name], step, None if fs is None else as_sampling_rate(fs), where)
    edges = [0, *(np.flatnonzero(gaps) + 1).tolist(), len(t)]
    return rate, edges, [round((t[a] - t[0]) / step) for a in edges[:-1]]


def _rate(times: Any, step: float, fs: float | None, where: Path) -> float:
    """Find the samples per second, from the step of a time column and the rate that was given."""
    name = str(times.name)
    named = _UNIT.search(name)
    dates = times.dtype.kind not in "iuf" and not _are_numbers(times)
    if dates:
        unit = "s"
    elif named:
        unit = _UNIT_NAMES.get(named[1].lower(), named[1].lower())
    elif fs is not None:
        if abs(step - 1) < 1e-9:  # counts samples, which says nothing of the rate
            return fs
        unit = nearest_unit(step, fs)
    elif step < 1:
        unit = "s"
    else:
        raise FileError(
            f"{where}: the column {name!r} has steps of {step:g}, which may be samples, s or ms; "
            f"pass fs= the rate, or name its unit, as in {name + '_ms'!r}"
        )
    rate = UNITS[unit] / step
    if fs is None:
        return rounded_rate(rate)
    compare_rates(rate, fs, unit, name, where)
    return fs


def _are_numbers(times: Any) -> bool:
    try:
        float(times.iloc[0])
    except (TypeError, ValueError):
        return False
    return True

"""Labels of recordings in a table of their own: recording, start_s[, end_s], label.

A row with an end labels the windows that it covers by half or more. A row without an end labels
the one window that begins nearest to its start.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import DataNotFoundError, FileError, ForeignFileError
from tensorcontrast.recordings.windows import (
    MIN_LABEL_SHARE,
    Segment,
    check_segments,
    label_windows,
)
from tensorcontrast.utils import checks
from tensorcontrast.utils.names import from_csv_text, listed

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

__all__ = [
    "LabelRow",
    "holds_labels",
    "is_label_table",
    "label_recordings",
    "labels_by_time",
    "read_label_table",
]

SUFFIXES = {".csv": ",", ".tsv": "\t"}
COLUMNS = "recording, start_s, end_s (optional), label"


@dataclass(frozen=True)
class LabelRow:
    """One label: of a stretch, or of the window that begins at its start."""

    line: int
    recording: str | None
    start_s: float
    end_s: float | None
    label: str


def is_label_table(text: str | None) -> bool:
    """Whether text names a file of labels rather than a column.

    Examples
    --------
    >>> is_label_table("labels.csv"), is_label_table("activity"), is_label_table(None)
    (True, False, False)
    """
    return text is not None and PurePath(text).suffix.lower() in SUFFIXES


def holds_labels(path: Path) -> bool:
    """Whether a file is a table of labels or answers, by its name and its first line."""
    if not is_label_table(path.name):
        return False
    try:
        with path.open("rb") as stream:
            line = stream.readline(1 << 16).decode("utf-8-sig", "replace")
    except OSError:  # the reader then says what is wrong
        return False
    cells = line.split(SUFFIXES[path.suffix.lower()])
    return {"start_s", "label"} <= {cell.strip().strip('"').lower() for cell in cells}


def read_label_table(path: str | Path, *, empty: bool = False) -> list[LabelRow]:
    """Read a table of labels, ``.csv`` or ``.tsv``, with a header.

    Rows without a label are left out. Further columns are not used, so that a file of answers that
    was corrected by hand can be read.

    Parameters
    ----------
    path : path
    empty : bool, default=False
        Read the rows without a label instead, which may be none.

    Raises
    ------
    DataNotFoundError, FileError
        No such file, or a row that is no label; the message names the line.
    """
    path = Path(path).expanduser()
    if not is_label_table(path.name):
        raise ForeignFileError(f"{path}: labels are read from {' or '.join(SUFFIXES)} files")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataNotFoundError(f"{path}: no such file of labels") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read as text in UTF-8: {error}") from error
    try:
        lines = list(csv.reader(io.StringIO(text), delimiter=SUFFIXES[path.suffix.lower()]))
    except csv.Error as error:
        raise FileError(f"{path}: is not a table: {error}") from error
    if not lines:
        raise FileError(f"{path}: is empty; write a header and one label per line: {COLUMNS}")
    names = [name.strip().lower() for name in lines[0]]
    missing = [name for name in ("start_s", "label") if name not in names]
    if missing:
        raise FileError(
            f"{path}: has no column {listed(missing)}; there are {listed(lines[0])}, and needed "
            f"are {COLUMNS}"
        )
    cells: dict[str, list[str]] = {name: [] for name in ("recording", "start_s", "end_s", "label")}
    numbers = []
    for number, line in enumerate(lines[1:], start=2):
        if not any(cell.strip() for cell in line):
            continue
        row = dict(zip(names, (*line, *[""] * len(names)), strict=False))
        for name, values in cells.items():
            values.append(row.get(name, "").strip())
        numbers.append(number)
    texts = {name: from_csv_text(cells[name]) for name in ("recording", "label")}
    named = "recording" in names
    rows = [
        LabelRow(
            numbers[k],
            texts["recording"][k] if named else None,
            _seconds(path, numbers[k], "start_s", cells["start_s"][k]),
            _end(path, numbers[k], cells["start_s"][k], cells["end_s"][k]),
            texts["label"][k],
        )
        for k in range(len(numbers))
        if bool(texts["label"][k]) != empty
    ]
    if not rows and not empty:
        raise FileError(f"{path}: holds no label; write one per line: {COLUMNS}")
    return rows


def _seconds(path: Path, line: int, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FileError(f"{path}, line {line}: {name} is {text!r}, not a number of seconds")
    return value


def _end(path: Path, line: int, start: str, end: str) -> float | None:
    if not end:
        return None
    value = _seconds(path, line, "end_s", end)
    if value <= float(start):
        raise FileError(
            f"{path}, line {line}: end_s is {end}, which is not after start_s {start}; both count "
            "from the start of the recording"
        )
    return value


def label_recordings(
    rec: Recordings,
    rows: list[LabelRow],
    *,
    where: str = "labels",
    min_share: float = MIN_LABEL_SHARE,
) -> Recordings:
    """Return recordings with these labels in place of their own.

    Parameters
    ----------
    rec : Recordings
        With a rate and the columns ``recording`` and ``start``.
    rows : list of LabelRow
        Recordings are named as in the column, or by the name of their file with or without its
        suffix. Labels of recordings that are not there are left out with a warning.
    where : str
        What messages name: the file of the labels.
    min_share : float
        Share of a window that its label must cover.
    """
    y, classes = labels_by_time(rec, rows, where=where, min_share=min_share)
    return rec._with(y=y, classes=classes)


def labels_by_time(
    rec: Any, rows: list[LabelRow], *, where: str, min_share: float = MIN_LABEL_SHARE
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class of each window, −1 for unknown, and the classes, of recordings in memory or a store.

    Parameters as in :func:`label_recordings`.
    """
    start = rec.columns.get("start")
    if start is None or rec.fs is None:
        raise FileError(
            f"{where}: has labels by their time, but the windows do not say when they are from; "
            "use continuous recordings of a known rate, or name the column of their labels"
        )
    begin = np.asarray(start, dtype=np.float64) / rec.fs
    length = rec.n_times / rec.fs
    owner = np.asarray(rec.columns.get("recording", np.zeros(len(rec)))).astype(np.str_)
    y = np.full(len(rec), None, dtype=object)
    for name, own in _by_recording(rows, owner, where).items():
        at = np.flatnonzero(owner == name)
        y[at] = _labels_of(f"{where}, recording {name!r}", own, begin[at], length, min_share)
    if not any(label is not None for label in y):
        raise FileError(
            f"{where}: no label covers {min_share:.0%} of a window; take shorter windows, or "
            "longer stretches"
        )
    known = sorted({label for label in y if label is not None})
    codes = np.array([-1 if v is None else known.index(v) for v in y], dtype=np.int64)
    return codes, tuple(known)


def _by_recording(
    rows: list[LabelRow], owner: NDArray[np.str_], where: str
) -> dict[str, list[LabelRow]]:
    """Rows of each recording that is there, by the name that it has there."""
    there = list(dict.fromkeys(owner.tolist()))
    if rows[0].recording is None:
        if len(there) > 1:
            raise FileError(
                f"{where}: has no column 'recording', but there are {len(there)} recordings: "
                f"{listed(there)}; add it"
            )
        return {there[0]: rows}
    names: dict[str, set[str]] = {}
    for name in there:
        for alias in {name, PurePath(name).name, PurePath(name).stem}:
            names.setdefault(alias, set()).add(name)
    out: dict[str, list[LabelRow]] = {}
    absent: dict[str, int] = {}
    for row in rows:
        given = str(row.recording)
        options = {given} if given in there else names.get(given) or names.get(_stem(given), set())
        if len(options) > 1:
            raise FileError(
                f"{where}, line {row.line}: {given!r} may be {listed(sorted(options))}; write the "
                "whole name"
            )
        if options:
            out.setdefault(next(iter(options)), []).append(row)
        else:
            absent[given] = absent.get(given, 0) + 1
    if not out:
        raise FileError(
            f"{where}: labels recordings {listed(absent)}, but there are {listed(there)}; names "
            "must agree"
        )
    if absent:
        checks.warn(
            f"{where}: {sum(absent.values())} of {len(rows)} labels are of recordings that are not "
            f"there, such as {listed(absent, 3)}, and were left out"
        )
    return out


def _stem(name: str) -> str:
    return PurePath(name).stem


def _labels_of(
    where: str, rows: list[LabelRow], begin: NDArray[Any], length: float, min_share: float
) -> NDArray[np.object_]:
    """Label of each window of one recording; None for windows without one."""
    end = float(begin.max()) + length
    # What is left of a recording after its last window is shorter than a window.
    stretches = [
        Segment(r.start_s, end if end < r.end_s <= end + length else r.end_s, r.label)
        for r in rows
        if r.end_s is not None and not end <= r.start_s < end + length
    ]
    inside = check_segments(where, stretches, end)
    y = label_windows(begin, begin + length, inside, min_share=min_share)
    outside = 0
    line_of: dict[int, LabelRow] = {}
    points = [r for r in rows if r.end_s is None]
    for row in points:
        at = int(np.abs(begin - row.start_s).argmin())
        if abs(float(begin[at]) - row.start_s) > length / 2:
            outside += 1
            continue
        if y[at] is not None and y[at] != row.label:
            other = f" of line {line_of[at].line}" if at in line_of else ""
            raise FileError(
                f"{where}, line {row.line}: {row.label!r} at {row.start_s:g} s overlaps "
                f"{y[at]!r}{other}, in the window from {begin[at]:g} s; choose one"
            )
        y[at] = row.label
        line_of[at] = row
    if outside:
        message = (
            f"{where}: {outside} of {len(points)} labels are more than half a window from any "
            f"window (the recording has windows from {begin.min():g} to {end:g} s)"
        )
        if outside == len(points) and not inside:
            raise FileError(f"{message}; check that both count time from the same start")
        checks.warn(f"{message}, and were left out")
    return y

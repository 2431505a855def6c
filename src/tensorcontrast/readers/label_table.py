"""Labels of recordings in a file of their own: stretches, times, or one stage per line.

========================== ======================================================================
columns                    each row labels
========================== ======================================================================
start, end                 the windows that it covers by half or more
onset, duration            the same, as in the ``events.tsv`` of BIDS
start_s                    the one window that begins nearest
time                       what follows, until the next row
the label alone            30 s, or what the header says, as in ``stage (20 s)``
========================== ======================================================================

A column of recordings and one of labels go with these; further columns are not used. Times are
seconds from the start of the recording, other units where the name says so, dates, or times of day.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import DataNotFoundError, FileError, ForeignFileError
from tensorcontrast.readers.annotations import class_name
from tensorcontrast.readers.edf import open_edf, read_annotations, start_of
from tensorcontrast.readers.files import file_errors
from tensorcontrast.readers.times import seconds_per, words
from tensorcontrast.recordings.windows import (
    MIN_LABEL_SHARE,
    Segment,
    check_segments,
    label_windows,
)
from tensorcontrast.utils import checks
from tensorcontrast.utils.names import from_csv_text, listed
from tensorcontrast.utils.optional import optional

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

__all__ = [
    "LabelRow",
    "annotation_rows",
    "holds_labels",
    "is_label_table",
    "label_recordings",
    "labelled_by_file",
    "labels_by_time",
    "origin",
    "read_label_table",
]

SUFFIXES = {".csv": ",", ".tsv": "\t", ".txt": ","}
COLUMNS = "recording, start_s, end_s (optional), label"
#: Seconds of a stage, where a file has one per line.
STAGE_S = 30.0

#: Names of columns, without their unit.
_ROLES = {
    "recording": {"recording", "record", "file", "filename"},
    "start": {"start", "onset", "begin", "start time", "begin time", "starttime", "from"},
    "end": {"end", "stop", "offset", "end time", "stop time", "endtime", "to", "until"},
    "duration": {"duration", "dur", "length"},
    "time": {"time", "timestamp", "date", "datetime", "clock time"},
    "label": {
        *("label", "trial type", "class", "stage", "sleep stage", "activity", "state"),
        *("description", "annotation", "event", "behavior", "behaviour"),
    },
}
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")
#: In place of a date: times count from midnight.
MIDNIGHT = dt.datetime.min


@dataclass(frozen=True)
class LabelRow:
    """One label: of a stretch, or of the window that begins at its start.

    Attributes
    ----------
    line : int
    recording : str, optional
    start_s, end_s : float
        From the start of the recording, or from ``since``.
    label : str
    since : datetime, optional
        Date and time from which seconds count; ``MIDNIGHT`` for the day of the recording.
    """

    line: int
    recording: str | None
    start_s: float
    end_s: float | None
    label: str
    since: dt.datetime | None = None


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
    cells = [cell.strip().strip('"') for cell in re.split("[,;\t]", line)]
    roles = _roles(cells)
    alone = set(roles) == {"time", "label"} and len(cells) == 2
    return "label" in roles and ("start" in roles or alone)


def _roles(names: Sequence[str]) -> dict[str, int]:
    """Position of the column of each role; the first of several."""
    out: dict[str, int] = {}
    for k, name in enumerate(names):
        said = [w for w in words(name) if seconds_per(w) is None and not w.isdigit()]
        plain = " ".join(said)
        for role, known in _ROLES.items():
            if plain in known:
                out.setdefault(role, k)
    return out


def read_label_table(path: str | Path, *, empty: bool = False) -> list[LabelRow]:
    """Read a table of labels, ``.csv``, ``.tsv`` or ``.txt``.

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
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    sign = next((s for s in ("\t", ";") if s in first and "," not in first), None)
    sign = sign or SUFFIXES[path.suffix.lower()]
    try:
        cells = list(csv.reader(io.StringIO(text), delimiter=sign))
    except csv.Error as error:
        raise FileError(f"{path}: is not a table: {error}") from error
    table = [(k, [c.strip() for c in row]) for k, row in enumerate(cells, 1) if any(row)]
    table = [(k, row) for k, row in table if any(row)]
    comments = [row for row in table if row[1][0].startswith("#")]
    table = [row for row in table if not row[1][0].startswith("#")]
    if not table:
        raise FileError(f"{path}: is empty; write a header and one label per line: {COLUMNS}")
    header = table[0][1]
    if comments and not _roles(header):  # annotations of MNE have their header in a comment
        header = [cell.lstrip("# ") for cell in comments[-1][1]]
        table = [(0, header), *table]
    roles = _roles(header)
    if all(len(row) == 1 for _, row in table) and set(roles) <= {"label"}:
        rows = _stages(table, header[0] if roles else "", [row for _, row in comments], bool(roles))
    else:
        rows = _timed_rows(path, table[1:], header, roles)
    rows = [row for row in rows if bool(row.label) != empty]
    if not rows and not empty:
        raise FileError(f"{path}: holds no label; write one per line: {COLUMNS}")
    return rows


def annotation_rows(path: Path, recording: str | None = None) -> list[LabelRow]:
    """Labels of a file of annotations: EDF+, or a FIF file of MNE."""
    since = None
    if path.suffix.lower() == ".fif":
        mne = optional("mne", "mne")
        with file_errors(path, "annotations of MNE"):
            notes = mne.read_annotations(path)
            since = notes.orig_time
            marks = list(zip(notes.onset, notes.duration, notes.description, strict=True))
    else:
        edf = open_edf(path)
        marks, since = read_annotations(edf, path), start_of(edf)
    rows = [
        LabelRow(k, recording, float(a), float(a + d) if d > 0 else None, str(text), since)
        for k, (a, d, text) in enumerate(marks, 1)
        if class_name(str(text)) is not None
    ]
    if not rows:
        raise FileError(f"{path}: has no annotations to take labels from")
    return rows


def origin(rec: Recordings, window: int) -> tuple[dt.datetime | None, str]:
    """Start of the recording that a window is from, and the code of its patient."""
    starts = rec.columns.get("recording_start")
    text = "" if starts is None else str(starts[window])
    patient = "" if rec.groups is None else str(rec.groups[window])
    name = str(rec.columns["recording"][window]) if "recording" in rec.columns else ""
    own = patient in (PurePath(name).stem, str(PurePath(name).with_suffix("")) if name else "")
    return dt.datetime.fromisoformat(text) if text else None, "" if own else patient


def labelled_by_file(rec: Recordings, path: Path, min_share: float) -> Recordings:
    """Label recordings by a table or a file of annotations, next to where they are searched."""
    rows = read_label_table(path) if is_label_table(path.name) else annotation_rows(path)
    return label_recordings(rec, rows, where=str(path), min_share=min_share)


def _stages(
    table: list[tuple[int, list[str]]], header: str, comments: list[list[str]], named: bool
) -> list[LabelRow]:
    """Labels of a file with one per line, each as long as the header says."""
    said = re.search(
        r"(\d+(?:\.\d+)?)\s*s", " ".join([header, *(c for row in comments for c in row)])
    )
    length = float(said[1]) if said else STAGE_S
    return [
        LabelRow(line, None, k * length, (k + 1) * length, class_name(row[0]) or "")
        for k, (line, row) in enumerate(table[named:])
    ]


def _timed_rows(
    path: Path, table: list[tuple[int, list[str]]], header: list[str], roles: dict[str, int]
) -> list[LabelRow]:
    """Labels of a table with times."""
    start = "start" if "start" in roles else "time"
    missing = [name for name in (start, "label") if name not in roles]
    if missing:
        raise FileError(
            f"{path}: has no column {listed(['start_s' if m == 'time' else m for m in missing])}; "
            f"there are {listed(header)}, and needed are {COLUMNS}"
        )
    width = len(header)
    rows = [(line, (*row, *[""] * width)[:width]) for line, row in table]
    columns = dict(zip(range(width), zip(*(row for _, row in rows), strict=True), strict=False))
    labels = from_csv_text(list(columns.get(roles["label"], ())))
    names = from_csv_text(list(columns.get(roles["recording"], ()))) if "recording" in roles else []
    if not {"end", "duration"} & set(roles):
        _check_no_end(path, rows, header, roles, start)
    out = []
    for k, (line, row) in enumerate(rows):
        begin, since = _seconds(path, line, header[roles[start]], row[roles[start]])
        end = None
        if "end" in roles and row[roles["end"]]:
            end, other = _seconds(path, line, header[roles["end"]], row[roles["end"]])
            if since not in (None, MIDNIGHT) and other not in (None, MIDNIGHT):
                end += (_naive(other) - _naive(since)).total_seconds()
            if since == MIDNIGHT and end < begin:
                end += 86400
        elif "duration" in roles and class_name(row[roles["duration"]]) is not None:
            length, _ = _seconds(path, line, header[roles["duration"]], row[roles["duration"]])
            end = begin + length if length else None
        if end is not None and end <= begin:
            raise FileError(
                f"{path}, line {line}: {header[roles['end' if 'end' in roles else 'duration']]} "
                f"is {end:g}, which is not after start_s {begin:g}; both count from the start of "
                "the recording"
            )
        name = names[k] if names else None
        out.append(LabelRow(line, name, begin, end, class_name(labels[k]) or "", since))
    if start == "start":
        return out
    with file_errors(path, "labels"):
        return _until_next(out)


def _until_next(rows: list[LabelRow]) -> list[LabelRow]:
    """Labels that are valid until the next one of their recording."""
    out = []
    following: dict[str | None, LabelRow] = {}
    for row in reversed(rows):
        end = math.inf
        after = following.get(row.recording)
        if after is not None:
            end = after.start_s
            if row.since not in (None, MIDNIGHT) and after.since not in (None, MIDNIGHT):
                end += (_naive(after.since) - _naive(row.since)).total_seconds()
            elif end < row.start_s and row.since == MIDNIGHT:
                end += 86400
            if end <= row.start_s:
                raise FileError(f"line {after.line}: the time is not after that of line {row.line}")
        following[row.recording] = row
        out.append(replace(row, end_s=end))
    return out[::-1]


def _naive(moment: dt.datetime | None) -> dt.datetime:
    assert moment is not None
    return moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _check_no_end(
    path: Path,
    rows: list[tuple[int, tuple[str, ...]]],
    header: list[str],
    roles: dict[str, int],
    start: str,
) -> None:
    """Raise where a column without a role looks like the end of stretches."""
    for k, name in enumerate(header):
        ends = {"end", "stop", "duration", "ende", "finish", "offset"} & set(words(name))
        later = []
        if k not in roles.values() and not ends and len(rows) > 1:
            try:
                later = [float(row[k]) > float(row[roles[start]]) for _, row in rows]
            except ValueError:
                later = []
        if k not in roles.values() and (ends or (later and all(later))):
            raise FileError(
                f"{path}: the column {name!r} looks like the end of each label; name it end_s or "
                "duration_s, or remove it"
            )


def _seconds(path: Path, line: int, name: str, text: str) -> tuple[float, dt.datetime | None]:
    """Seconds of a cell, and from when they count where it is a date or a time of day."""
    unit = next((seconds_per(w) for w in reversed(words(name)) if seconds_per(w)), 1.0)
    try:
        value = float(text) * (unit or 1.0)
        if math.isfinite(value):
            if 9e8 < value < 5e9:  # since 1970
                return 0.0, dt.datetime.fromtimestamp(value, dt.UTC)
            return value, None
    except ValueError:
        clock = _TIME_OF_DAY.fullmatch(text)
        if clock:
            h, m, s = int(clock[1]), int(clock[2]), float(clock[3] or 0)
            return h * 3600.0 + m * 60.0 + s, MIDNIGHT
        try:
            return 0.0, dt.datetime.fromisoformat(text)
        except ValueError:
            pass
    raise FileError(f"{path}, line {line}: {name} is {text!r}, not a number of seconds")


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
        if any(row.since is not None for row in own):
            own = _from_start(where, name, own, rec.columns.get("recording_start"), int(at[0]))
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
        options = (
            {given}
            if given in there
            else names.get(given) or names.get(PurePath(given).stem, set())
        )
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


def _from_start(
    where: str, name: str, rows: list[LabelRow], starts: Any, at: int
) -> list[LabelRow]:
    """Rows whose dates and times of day are counted from the start of their recording."""
    text = "" if starts is None else str(starts[at])
    if not text and all(row.since not in (None, MIDNIGHT) for row in rows) and _is_edf(where):
        return [replace(row, since=None) for row in rows]  # both count from their own start
    if not text:
        raise FileError(
            f"{where}: has dates or times of day, but recording {name!r} does not say when it "
            "begins; write seconds from its start, as start_s and end_s"
        )
    start = dt.datetime.fromisoformat(text)
    day = start.hour * 3600 + start.minute * 60 + start.second + start.microsecond / 1e6
    out = []
    for row in rows:
        shift = 0.0
        if row.since == MIDNIGHT:
            shift = -day if row.start_s >= day - 1e-6 else 86400 - day
        elif row.since is not None:
            aware = row.since.tzinfo is not None and start.tzinfo is not None
            one, other = (
                (row.since, start)
                if aware
                else (row.since.replace(tzinfo=None), start.replace(tzinfo=None))
            )
            shift = (one - other).total_seconds()
        end = None if row.end_s is None else row.end_s + shift
        out.append(replace(row, start_s=row.start_s + shift, end_s=end, since=None))
    return out


def _is_edf(where: str) -> bool:
    """Whether labels are annotations of a file, which count from its start."""
    return where.partition(",")[0].lower().endswith((".edf", ".bdf", ".fif"))


def _labels_of(
    where: str, rows: list[LabelRow], begin: NDArray[Any], length: float, min_share: float
) -> NDArray[np.object_]:
    """Label of each window of one recording; None for windows without one."""
    end = float(begin.max()) + length
    # What is left of a recording after its last window is shorter than a window.
    stretches = [
        Segment(r.start_s, end if _is_rest(r.end_s, end, length) else r.end_s, r.label)
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


def _is_rest(stop: float, end: float, length: float) -> bool:
    """Whether a stretch ends in what is left after the last window, or with the recording."""
    return end < stop <= end + length or math.isinf(stop)

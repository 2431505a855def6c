"""Recordings from data frames of pandas and polars, by the functions that read tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorcontrast.errors import InvalidInputError, InvalidTypeError
from tensorcontrast.recordings.checks import as_sampling_rate
from tensorcontrast.recordings.continuous import windows_of
from tensorcontrast.recordings.conversion import cutting, input_errors
from tensorcontrast.utils.names import listed
from tensorcontrast.utils.optional import optional

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings


def from_dataframe(
    frame: Any,
    *,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    label: str | None = None,
    group: str | None = None,
    recording: str | None = None,
    sample: str | None = None,
    fs: float | None = None,
    ignore: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    units: str | Mapping[str, str] | None = None,
    window_s: float | None = None,
    step_s: float | None = None,
    label_share: float = 0.5,
    drop_unlabelled: bool = False,
    resample: float | None = None,
    name: str = "",
    allow_nan: bool = False,
) -> Recordings:
    """Make recordings of a data frame of pandas or polars.

    A frame with one row per sample in time is continuous: it is cut into windows here, as
    :func:`tensorcontrast.readers.read` does with files. Gaps in time cut a recording,
    and no window spans one. A frame with a column of window ids is in long form. The frame is not
    changed.

    Parameters
    ----------
    frame : pandas.DataFrame or polars.DataFrame
        A pandas index of dates or time differences, or one with a name, is a column like others.
    time : str, optional
        Column of time, in seconds or as dates or time differences. By default the first of the
        usual names (``time``, ``t``, ``timestamp``, …).
    channels : sequence of str, optional
        Columns with signals; by default all without a role.
    label, group : str, optional
        Columns with the class and the subject; by default the first of the usual names. Unknown
        classes are empty, None, NaN or -1.
    recording : str, optional
        Column that tells recordings apart; no window spans two of them.
    sample : str, optional
        Column with the id of the window, for frames in long form.
    fs : float, optional
        Samples per second. By default the rate of the time column; where both are there, they may
        differ by 0.5 %.
    ignore : sequence of str, optional
        Columns, or patterns for them, that are left out.
    rename : mapping, optional
        Names of columns, and what they are called instead.
    units : str or mapping, optional
        Unit of all channels, or of single columns; of the time s, ms, µs or ns.
    window_s, step_s : float, optional
        Length of windows in seconds, and the time from one to the next (by default the length).
        Without a length, windows of 10 s are cut, with a warning.
    label_share : float
        Share of a window that samples of its label must have; below it, and where two labels tie,
        the window is unlabelled.
    drop_unlabelled : bool
        Leave out windows without a label.
    resample : float, optional
        Bring all recordings to this many samples per second before they are cut.
    name : str
        Name of the recordings.
    allow_nan : bool
        Accept missing values in channels.

    Returns
    -------
    Recordings

    Examples
    --------
    >>> import numpy as np
    >>> import pandas
    >>> table = pandas.DataFrame({"time": np.arange(300) / 50, "x": np.zeros(300)})
    >>> table["activity"] = np.repeat(["rest", "walk"], [130, 170])
    >>> rec = from_dataframe(table, label="activity", window_s=2)
    >>> rec.fs, rec.y.tolist(), rec.columns["start"].tolist()
    (50.0, [0, 1, 1], [0, 100, 200])
    """
    from tensorcontrast.readers.dialects import Layout
    from tensorcontrast.readers.tables import of_frame, windows_of_frame

    table = _as_pandas(frame)
    columns = list(table.columns)
    named = {"time": time, "label": label, "group": group, "recording": recording, "sample": sample}
    missing = [
        f"{role}={given!r}" for role, given in named.items() if given not in (None, *columns)
    ]
    if missing:
        raise InvalidInputError(
            f"the frame has no column for {', '.join(missing)}; there are {listed(columns)}"
        )
    where = Path(name or "frame")
    layout = Layout(
        time=time, label=label, group=group, sample=sample, channels=channels, ignore=tuple(ignore),
        rename=rename, units=units, fs=None if fs is None else as_sampling_rate(fs),
    )  # fmt: skip
    how = cutting(window_s, step_s, label_share, drop_unlabelled, allow_nan, name)
    how = replace(how, resample=resample)
    with input_errors():
        rec = windows_of_frame(table, where, layout, allow_nan) if recording is None else None
        if rec is not None:
            if window_s is not None or drop_unlabelled:
                raise InvalidInputError(
                    "the frame holds windows (long form), which are not cut again; leave window_s= "
                    "and drop_unlabelled= out, or leave the column of ids out with ignore="
                )
            rec = rec._with(name=name)
            return rec if resample is None else rec.resample(resample)
        parts = []
        for value, part in _parts(table, recording):
            short = str(where) if recording is None else str(value)
            parts += of_frame(part, where, short, layout, allow_nan)
        return windows_of(where, parts, how)


def _parts(table: Any, recording: str | None) -> list[tuple[Any, Any]]:
    """Rows of each recording, in the order in which recordings appear."""
    if recording is None or not len(table):
        return [(None, table)]
    if table[recording].isna().any():
        raise InvalidInputError(
            f"the column {recording!r} is empty in {int(table[recording].isna().sum())} rows; name "
            "the recording of every row"
        )
    groups = table.groupby(recording, sort=False, observed=True)
    return [(value, part.drop(columns=recording).reset_index(drop=True)) for value, part in groups]


def _as_pandas(frame: Any) -> Any:
    """Return a new pandas frame with the same columns, named by text; time differences as dates."""
    pandas = optional("pandas", "data")
    if isinstance(frame, pandas.DataFrame):
        table = frame.copy(deep=False)
        dated = isinstance(table.index, pandas.DatetimeIndex | pandas.TimedeltaIndex)
        if dated and table.index.name is None:
            table.index.name = "time"
        if dated or table.index.name is not None:
            table = table.reset_index()
    elif type(frame).__module__.split(".")[0] == "polars" and hasattr(frame, "get_columns"):
        table = pandas.DataFrame({s.name: s.to_numpy() for s in frame.get_columns()})
    else:
        way = "call its collect() first" if hasattr(frame, "collect") else "make one of it first"
        raise InvalidTypeError(
            f"a {type(frame).__name__} is no data frame of pandas or polars; {way}"
        )
    table.columns = [str(column) for column in table.columns]
    if not table.columns.is_unique:
        twice = sorted(set(table.columns[table.columns.duplicated()]))
        raise InvalidInputError(f"the frame has the column {listed(twice)} twice; rename one")
    for column in table.columns:
        if table[column].dtype.kind == "m":
            table[column] = pandas.Timestamp(0) + table[column]
    return table

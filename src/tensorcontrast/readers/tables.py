"""Tables as text or Parquet: what each column is, and the recordings that they hold.

A table with a column of window ids (long form) is read by ``window_tables``. Any other is
continuous: one row per sample, with a column of time or a rate that is passed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import (
    DamagedFileError,
    FileError,
    ForeignFileError,
    TruncatedFileError,
)
from tensorcontrast.readers.annotations import class_names
from tensorcontrast.readers.dialects import Layout
from tensorcontrast.readers.files import MOST_CHANNELS, check_expansion, file_errors
from tensorcontrast.readers.layout import sniff, unit_of
from tensorcontrast.readers.times import Grid, is_time_name, read_clock, regular_grid, words
from tensorcontrast.readers.window_tables import from_lists, from_long_form, from_rows, numbers
from tensorcontrast.recordings import Recordings
from tensorcontrast.recordings.checks import as_sampling_rate, matches, positions
from tensorcontrast.recordings.continuous import Continuous
from tensorcontrast.recordings.windows import Segment, label_segments
from tensorcontrast.utils import checks
from tensorcontrast.utils.names import from_csv_text, listed
from tensorcontrast.utils.optional import optional

__all__ = ["CSV_SUFFIXES", "PARQUET_SUFFIXES", "load", "of_frame", "windows_of_frame"]

Array = npt.NDArray[Any]

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")

#: Names of the columns of a role, without their unit; the first that is there is taken.
SAMPLE_NAMES = ("sample", "sample_id", "window", "window_id", "series", "series_id", "id")
GROUP_NAMES = tuple(
    "group subject subject_id subjectid patient patient_id participant participant_id user "
    "user_id userid".split()
)
LABEL_NAMES = ("label", "class", "target")
#: Names of columns that are labels where they hold text or few whole numbers.
LIKELY_LABELS = tuple(
    "labels activity activity_id activity_label gesture stage sleep_stage state annotation "
    "behavior behaviour ground_truth condition".split()
)
#: Distinct whole numbers of a column that is hardly a signal, and rows from which that is judged.
FEW_VALUES, MANY_ROWS = 12, 50
#: Rows from which a column that only goes up is no signal.
MIN_ROWS_UP = 16


def load(
    files: Sequence[tuple[str, Path]],
    *,
    separator: str | None = None,
    decimal: str | None = None,
    skip_lines: int | None = None,
    comment: str | None = None,
    header: bool | None = None,
    time: str | None = None,
    ignore: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    units: str | Mapping[str, str] | None = None,
    sample: str | None = None,
    label: str | None = None,
    group: str | None = None,
    channels: Sequence[str] | None = None,
    fs: float | None = None,
    allow_nan: bool = False,
) -> list[Continuous] | Recordings:
    """Read tables; see :func:`tensorcontrast.readers.read` for the options."""
    layout = Layout(
        separator=separator, decimal=decimal, skip_lines=skip_lines, comment=comment,
        header=header, time=time, rename=rename, units=units, sample=sample, label=label,
        group=group, channels=channels, fs=None if fs is None else as_sampling_rate(fs),
        ignore=(ignore,) if isinstance(ignore, str) else tuple(ignore),
    )  # fmt: skip
    out: list[Continuous] = []
    sensors: dict[Path, list[Continuous]] = {}
    for name, file in files:
        with file_errors(file, "a table"):
            parquet = file.name.lower().endswith(PARQUET_SUFFIXES)
            frame, about, first_line = (_parquet if parquet else _text)(file, layout)
            windows = windows_of_frame(frame, file, about, allow_nan, first_line)
            if windows is not None and len(files) == 1:
                return windows
            if windows is not None:
                raise FileError(
                    f"{file}: holds windows (long form), of which one file at a time is read; for "
                    "continuous recordings leave the column of window ids out with ignore="
                )
            short = name if len(files) > 1 else file.name
            recordings = of_frame(frame, file, short, about, allow_nan, first_line)
        stem = name.removesuffix("".join(file.suffixes[-2:])).removesuffix(file.suffix)
        recordings = [r if r.group is not None else replace(r, group=stem) for r in recordings]
        if about.dialect == "Sensor Logger" and len(files) > 1:
            sensors.setdefault(file.parent, []).extend(recordings)
        out += recordings
    for folder, parts in sensors.items():
        if len(parts) > 1:
            joined = joined_sensors(folder, parts)
            out = [joined if r is parts[0] else r for r in out if r is parts[0] or r not in parts]
    if len({isinstance(r.group, str) for r in out}) > 1:
        out = [replace(r, group=str(r.group)) for r in out]
    return out


def windows_of_frame(
    frame: Any, where: Path, layout: Layout, allow_nan: bool, first_line: int = 0
) -> Recordings | None:
    """Windows of a table that holds windows; None for a continuous table."""
    if layout.dialect == "UCR archive":
        return from_rows(frame, where, layout.fs, allow_nan)
    if any(_is_list(frame[name]) for name in frame.columns):
        return from_lists(frame, where, _window_roles(frame, layout), layout, allow_nan)
    if _window_column(frame, layout) is None:
        return None
    roles = _window_roles(frame, layout)
    return from_long_form(frame, where, roles, layout, allow_nan, first_line)


def _is_list(column: Any) -> bool:
    return column.dtype == object and len(column) > 0 and isinstance(column.iloc[0], np.ndarray)


def _window_column(frame: Any, layout: Layout) -> str | None:
    """Return the column with the id of the window of each row, other than one that counts rows."""
    if layout.sample is not None:
        return layout.sample
    for name in SAMPLE_NAMES:
        if name in frame.columns and not any(matches(p, name) for p in layout.ignore):
            if layout.channels is None or name not in layout.channels:
                return None if _counts(frame[name]) else name
    return None


def _counts(column: Any) -> bool:
    """Whether a column counts rows, perhaps anew after some, as packets are counted."""
    if column.dtype.kind not in "iuf" or len(column) < MIN_ROWS_UP:
        return False
    steps = np.diff(column.to_numpy(dtype=np.float64))
    return bool(np.mean(steps == 1) >= 0.9)


def _window_roles(frame: Any, layout: Layout) -> dict[str, str | None]:
    """Columns of the roles of a table of windows: the named ones, or the first of usual names."""
    usual: dict[str, tuple[str, ...]] = {
        "sample": SAMPLE_NAMES,
        "label": (*LABEL_NAMES, "y"),
        "group": GROUP_NAMES,
    }
    roles: dict[str, str | None] = {
        role: next((n for n in names if n in frame.columns), None) for role, names in usual.items()
    }
    times = [name for name in frame.columns if is_time_name(name)]
    roles["time"] = times[0] if times else None
    named = {role: getattr(layout, role) for role in roles}
    return roles | {role: name for role, name in named.items() if name is not None}


# ----------------------------------------------------------------------------- files


def _text(file: Path, layout: Layout) -> tuple[Any, Layout, int]:
    """Read a text table: the frame, what is known of it, and the number of its first row."""
    pandas = optional("pandas", "data")
    ucr = re.search(r"_(TRAIN|TEST)\.(tsv|txt)$", file.name) and layout.header is None
    about = sniff(file, replace(layout, header=False) if ucr else layout)
    layout = about.layout
    if ucr:
        layout = replace(layout, dialect="UCR archive")
    empty = [f"(no column {k})" for k in range(about.trailing)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(
                file,
                sep=layout.separator,
                decimal=layout.decimal or ".",
                comment=layout.comment,
                header=None,
                names=[*about.names, *empty],
                index_col=False,
                quotechar=about.quote,
                skiprows=about.first_line - 1,
                skipinitialspace=True,
                na_values=["NaT", "none"],
                encoding=about.encoding,
                low_memory=False,
            )
    except pandas.errors.EmptyDataError:
        raise TruncatedFileError(f"{file}: has a header but no rows") from None
    except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
        raise DamagedFileError(
            f"{file}: rows have more cells than there are columns ({len(about.names)}, such as "
            f"{listed(about.names, 3)}): {error}"
        ) from error
    except UnicodeDecodeError as error:
        raise ForeignFileError(f"{file}: not a text table in UTF-8: {error}") from error
    if frame[empty].notna().any(axis=None):
        row = int(np.flatnonzero(frame[empty].notna().any(axis=1))[0])
        raise DamagedFileError(
            f"{file} line {row + about.first_line}: has more cells than there are columns "
            f"({len(about.names)}, such as {listed(about.names, 3)})"
        )
    frame = frame.drop(columns=empty)
    for name in frame.columns:
        if frame[name].dtype.kind not in "iufb":
            texts = [text for text in frame[name].unique() if isinstance(text, str)]
            both = zip(texts, from_csv_text(texts), strict=True)
            changed = {old: new for old, new in both if old != new}
            if changed:
                frame[name] = frame[name].replace(changed)
    said = about.units
    if isinstance(layout.units, Mapping):
        said = {**said, **layout.units}
    if not isinstance(layout.units, str):
        layout = replace(layout, units=said)
    if layout.dialect == "Mind Monitor":  # rows of events hold no samples
        frame = frame[frame[list(layout.channels or ())].notna().any(axis=1)]
        frame = frame.reset_index(drop=True)
    if not about.header and layout.names is None:
        layout = replace(layout, header=False)
    return frame, layout, about.first_line


def _parquet(file: Path, layout: Layout) -> tuple[Any, Layout, int]:
    """Read a Parquet table, after a look at what it states of itself."""
    optional("pandas", "data")
    parquet = optional("pyarrow.parquet", "data")
    with file.open("rb") as stream:
        if stream.read(4) != b"PAR1":
            raise ForeignFileError(f"{file}: does not start like a Parquet file")
    stored = file.stat().st_size
    with parquet.ParquetFile(file, pre_buffer=False, page_checksum_verification=True) as opened:
        about = opened.metadata
        if about.num_columns > MOST_CHANNELS:
            raise FileError(f"{file}: has {about.num_columns} columns; one per channel is meant")
        check_expansion(file, 8 * about.num_rows * about.num_columns, stored)
        groups = [about.row_group(k) for k in range(about.num_row_groups)]
        check_expansion(file, sum(abs(group.total_byte_size) for group in groups), stored)
        if sum(group.num_rows for group in groups) != about.num_rows:
            raise DamagedFileError(f"{file}: states {about.num_rows} rows, but its parts others")
        # A named index is a column like others; a nameless one only counts rows.
        fields = [f for f in opened.schema_arrow if not f.name.startswith("__index_level_")]
        if layout.channels is not None:  # other columns need not even be readable
            roles = {layout.time, layout.label, layout.group, layout.sample, *layout.channels}
            usual = {*SAMPLE_NAMES, *GROUP_NAMES, *LABEL_NAMES, *LIKELY_LABELS, "y"}
            fields = [f for f in fields if f.name in roles | usual or is_time_name(f.name)]
        table = opened.read([field.name for field in fields], use_threads=False)
    table.validate(full=True)
    if table.num_rows != about.num_rows:
        raise DamagedFileError(f"{file}: states {about.num_rows} rows but has {table.num_rows}")
    frame = table.to_pandas(ignore_metadata=True, use_threads=False)
    frame.columns = [str(column) for column in frame.columns]
    if not isinstance(layout.units, str):
        named = {name: unit for name in frame.columns if (unit := unit_of(name))}
        layout = replace(layout, units={**named, **(layout.units or {})})
    return frame, layout, 0


# ----------------------------------------------------------------------------- columns


@dataclass
class _Columns:
    """What the columns of a continuous table are."""

    channels: list[str]
    time: str | None = None
    label: str | None = None
    group: str | None = None
    date: str | None = None
    left_out: list[str] | None = None

    def leave_out(self, name: str, why: str) -> None:
        """Take a column for no channel, and say why in the account of the table."""
        self.channels.remove(name)
        self.left_out = [*(self.left_out or []), f'"{name}" ({why})']


def of_frame(
    frame: Any,
    where: Path,
    name: str,
    layout: Layout,
    allow_nan: bool,
    first_line: int = 0,
) -> list[Continuous]:
    """Read a continuous table as recordings: one, or one per value of the group column.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per sample in time.
    where : path
        What messages name.
    name : str
        Name of the recording. With a group column that has several values, the value is added.
    layout : Layout
        What is known of the columns.
    allow_nan : bool
        Accept missing values in channels.
    first_line : int
        Number of the first row in messages; 0 where the table is no text.
    """
    if not len(frame):
        raise TruncatedFileError(f"{where}: has a header but no rows")
    place = "line" if first_line else "row"

    def line(row: int) -> str:
        return f"{place} {row + first_line}"

    if layout.rename:
        positions("column", list(layout.rename), list(frame.columns))
        frame = frame.rename(columns=dict(layout.rename))
        if isinstance(layout.units, Mapping):
            units = {layout.rename.get(k, k): v for k, v in layout.units.items()}
            layout = replace(layout, units=units)
        if not frame.columns.is_unique:
            raise FileError(f"{where}: rename= gives two columns the same name")
    columns = _roles(frame, where, layout, line)
    values = np.stack([numbers(frame, c, where, place, first_line) for c in columns.channels])
    if not allow_nan and not np.isfinite(values).all():
        row, channel = (int(v) for v in np.argwhere(~np.isfinite(values.T))[0])
        raise FileError(
            f"{where} {line(row)}: {columns.channels[channel]!r} is {values[channel, row]}; fill "
            "or drop it, leave the column out with ignore=, or pass allow_nan=True (--drop-nan "
            "leaves out its window)"
        )
    return [
        _recording(frame, where, name, layout, columns, values, group, rows, line)
        for group, rows in _by_group(frame, columns.group, where)
    ]


def _recording(
    frame: Any,
    where: Path,
    name: str,
    layout: Layout,
    columns: _Columns,
    values: Array,
    group: Any,
    rows: npt.NDArray[np.intp],
    line: Callable[[int], str],
) -> Continuous:
    """Make the recording of the rows of one group."""

    def line_of(row: int) -> str:
        return line(int(rows[row]))

    start = layout.start
    if columns.time is None:
        assert layout.fs is not None
        grid = Grid(layout.fs, [0, len(rows)], [0])
    else:
        times = frame[columns.time].iloc[rows]
        unit = None
        if isinstance(layout.units, Mapping) and columns.time in layout.units:
            unit = layout.units[columns.time]
        clock = read_clock(times, where, line_of, unit, layout.fs)
        if layout.arrival:
            clock = replace(clock, t=_even(clock.t, where, line_of))
        grid = regular_grid(clock, columns.time, where, line_of, layout.fs)
        start = start or clock.start
    labels = None
    if columns.label is not None:
        labels = np.array(class_names(frame[columns.label].tolist()), dtype=object)
    pieces: list[tuple[int, Array]] = []
    segments: list[Segment] = []
    for a, b, offset in zip(grid.edges[:-1], grid.edges[1:], grid.offsets, strict=True):
        x = np.ascontiguousarray(values[:, rows[a:b]])
        y = None if labels is None else labels[rows[a:b]]
        if grid.t is not None:
            t = grid.t[a:b]
            at = t[0] + np.arange(int((t[-1] - t[0]) * grid.fs + 1e-6) + 1) / grid.fs
            x = np.stack([np.interp(at, t, row) for row in x]).astype(x.dtype)
            near = np.searchsorted((t[:-1] + t[1:]) / 2, at) if len(t) > 1 else np.zeros(1, int)
            y = None if y is None else y[near]
        if pieces and offset < pieces[-1][0] + pieces[-1][1].shape[1]:
            offset = pieces[-1][0] + pieces[-1][1].shape[1]
        pieces.append((offset, x))
        if y is not None:
            found = label_segments(y, name=repr(columns.label))
            segments += [Segment(s.start + offset, s.stop + offset, s.label) for s in found]
    several = group is not None and len(rows) < len(frame)
    units = _units(columns.channels, layout)
    return Continuous(
        name=f"{name}:{group}" if several else name,
        pieces=pieces,
        fs=grid.fs,
        channels=tuple(columns.channels),
        units=units,
        segments=None if labels is None else segments,
        group=group,
        start=start,
        understood=_account(columns, layout, grid, units),
    )


def _even(t: Array, where: Path, line: Callable[[int], str]) -> Array:
    """Even times of samples whose stamps are those of packets; raise where some were lost."""
    step = float(t[-1]) / max(1, len(t) - 1)
    late = np.abs(t - step * np.arange(len(t)))
    if step <= 0 or late.max() > 0.5:
        row = int(late.argmax())
        raise FileError(
            f"{where} {line(row)}: samples are {late.max():.2g} s from an even rate, as where "
            "packets were lost; split the file at gaps, or pass fs= and ignore= the time"
        )
    return step * np.arange(len(t))


def _units(channels: Sequence[str], layout: Layout) -> tuple[str, ...] | None:
    """Units of channels; None where none is known."""
    if isinstance(layout.units, str):
        return (layout.units,) * len(channels) if layout.units else None
    units = tuple((layout.units or {}).get(name, "") for name in channels)
    return units if any(units) else None


def _account(columns: _Columns, layout: Layout, grid: Grid, units: tuple[str, ...] | None) -> str:
    """How a table was read, in one line."""
    time = "no time" if columns.time is None else f'time in "{columns.time}"'
    n = len(columns.channels)
    parts = [f"{time} ({grid.fs:g} Hz)", f"{n} channel{'s' * (n > 1)}"]
    kinds = list(dict.fromkeys(unit or "unknown units" for unit in units or ()))
    if kinds:
        parts[-1] += f" in {' and '.join(kinds)}" if len(kinds) < 4 else " in several units"
    if columns.label is not None:
        parts.append(f'labels in "{columns.label}"')
    if columns.group is not None:
        parts.append(f'groups in "{columns.group}"')
    if grid.note:
        parts.append(grid.note)
    if columns.left_out:
        more = len(columns.left_out) - 4
        parts.append(
            "left out " + ", ".join(columns.left_out[:4]) + f" and {more} more" * (more > 0)
        )
    return (f"{layout.dialect}: " if layout.dialect else "") + ", ".join(parts)


def _by_group(frame: Any, name: str | None, where: Path) -> list[tuple[Any, npt.NDArray[np.intp]]]:
    """Rows of each group, in the order in which groups appear."""
    if name is None:
        return [(None, np.arange(len(frame)))]
    codes, uniques = frame[name].factorize()
    if (codes < 0).any():
        raise FileError(f"{where}: {name!r} is missing in some rows")
    values = np.asarray(uniques).tolist()
    return [(v, np.flatnonzero(codes == k)) for k, v in enumerate(values)]


def _roles(frame: Any, where: Path, layout: Layout, line: Callable[[int], str]) -> _Columns:
    """Decide what each column is."""
    names = [str(column) for column in frame.columns]
    for role in ("time", "label", "group"):
        column = getattr(layout, role)
        if column and column not in names:
            raise FileError(f"{where}: no column {column!r} for {role}; there are {listed(names)}")
    ignored = {name for name in names if any(matches(pattern, name) for pattern in layout.ignore)}
    left = [name for name in names if name not in ignored]
    columns = _Columns(left)
    by_words = {"_".join(words(name)): name for name in reversed(left)}
    columns.group = layout.group or next((by_words[n] for n in GROUP_NAMES if n in by_words), None)
    columns.label = layout.label or next((n for n in LABEL_NAMES if n in left), None)
    asked = set(layout.channels or ())
    if columns.label is None:
        usual = (*LABEL_NAMES, *LIKELY_LABELS)
        likely = [by_words[n] for n in usual if n in by_words and by_words[n] not in asked]
        columns.label = next((n for n in likely if _is_text(frame[n]) or _few(frame[n])), None)
    for name in (columns.group, columns.label):
        if name in left:
            left.remove(str(name))
    columns.time = layout.time or None
    if layout.time is None:
        columns.time = _time_column(frame, [n for n in left if n not in asked])
    if columns.time in left:
        left.remove(str(columns.time))
    if layout.channels is not None:
        columns.channels = [names[k] for k in positions("channel", layout.channels, names)]
    else:
        _leave_out_what_is_no_signal(frame, where, layout, columns)
    if columns.time is None and layout.fs is None:
        raise FileError(
            f"{where}: no column holds the time ({listed(names)}); pass time= a column, or fs= the "
            "samples per second (--fs). For windows in long form pass sample= the column with "
            "their ids"
        )
    if not columns.channels:
        raise FileError(f"{where}: no channel is left; there are {listed(names)}")
    return columns


def _time_column(frame: Any, names: list[str]) -> str | None:
    """Return the column that holds the time, by its name and its values."""
    named = [name for name in names if is_time_name(name)]
    others = [name for name in names if name not in named and is_time_name(name, alone=False)]
    rising = [name for name in (*named, *others) if _never_falls(frame[name])]
    if rising:  # the one with the finest steps that does not only count rows
        counting = {name: _counts(frame[name]) for name in rising}
        repeats = {name: int(frame[name].duplicated().sum()) for name in rising}
        return min(rising, key=lambda name: (counting[name], repeats[name] > len(frame) // 10))
    if named:
        return named[0]
    first = names[0] if names else None
    if first is not None and _is_text(frame[first]) and _looks_like_dates(frame[first]):
        return first
    return None


def _leave_out_what_is_no_signal(
    frame: Any, where: Path, layout: Layout, columns: _Columns
) -> None:
    """Leave out counters, second times, empty and constant text; raise for what must be decided."""
    several = columns.group is not None and frame[columns.group].nunique() > 1
    for name in list(columns.channels):
        column = frame[name]
        nameless = layout.header is False or name.startswith("Unnamed: ")
        if column.isna().all():
            columns.leave_out(name, "empty")
        elif name == "Unnamed: 0" and (_counts(column) or _only_rises(column)) and columns.time:
            columns.leave_out(name, "counts rows")
        elif _is_text(column):
            _leave_out_text(frame, where, name, columns)
        elif column.dtype.kind in "mM" or (is_time_name(name) and columns.time and len(column) > 1):
            columns.leave_out(name, "a second time")
        elif len(column) >= MIN_ROWS_UP and not several and _counts(column):
            columns.leave_out(name, "counts rows")
        elif len(column) >= MIN_ROWS_UP and not several and _only_rises(column):
            if columns.time is not None or layout.time == "":
                columns.leave_out(name, "only goes up")
            elif nameless and column.dtype.kind == "f" and np.median(np.diff(column)) < 1:
                columns.time = name
                columns.channels.remove(name)
            else:
                raise FileError(
                    f"{where}: the column {name!r} only goes up, like a time or a counter; pass "
                    f"time={name!r} (--time), ignore={name!r} with fs= (--ignore), or name it in "
                    "channels= if it is a signal"
                )
    wide = [n for n in columns.channels if frame[n].nunique() > MANY_ROWS]
    for name in list(columns.channels):
        if len(frame) >= MANY_ROWS and wide and name not in wide and _few(frame[name]):
            columns.leave_out(name, "a few whole numbers")
            checks.warn(
                f"{where}: the column {name!r} holds {frame[name].nunique()} whole numbers that "
                f"seldom change, and is taken neither for a channel nor for labels; pass "
                f"label={name!r} (--labels), ignore= it, or name it in channels="
            )


def _leave_out_text(frame: Any, where: Path, name: str, columns: _Columns) -> None:
    """Leave out dates and text that never changes; raise for text that may be labels."""
    column = frame[name]
    if column.nunique() == 1:
        columns.leave_out(name, f"always {str(column.dropna().iloc[0])[:20]!r}")
        return
    if _looks_like_dates(column):
        columns.leave_out(name, "a second time")
        return
    pandas = optional("pandas", "data")
    if pandas.to_numeric(column, errors="coerce").notna().mean() > 0.5:
        return  # numbers with a mistake, of which the line is reported
    text = column.dropna().iloc[0]
    raise FileError(
        f"{where}: the column {name!r} holds text, such as {str(text)[:40]!r}; pass label={name!r} "
        f"(--labels) if these are labels, sample={name!r} if they are ids of windows, "
        f"ignore={name!r} (--ignore), or channels= with the signals"
    )


def _is_text(column: Any) -> bool:
    return column.dtype.kind not in "iufmM" and not hasattr(column.dtype, "tz")


def _few(column: Any) -> bool:
    """Whether a column holds a few whole numbers that seldom change."""
    if column.dtype.kind == "b":
        return True
    if column.dtype.kind not in "iuf":
        return False
    values = column.dropna().to_numpy()
    if not len(values) or not 2 <= column.nunique() <= FEW_VALUES:
        return False
    return bool((values == np.round(values)).all() and np.mean(np.diff(values) != 0) < 0.05)


def _looks_like_dates(column: Any) -> bool:
    texts = column.dropna().astype(str)
    texts = texts.iloc[[0, len(texts) // 2, -1]]
    return bool(texts.str.match(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}:\d{2}:\d{2}").all())


def _never_falls(column: Any) -> bool:
    if _is_text(column):
        return _looks_like_dates(column) and column.nunique() > 1
    values = column.dropna()
    steps = values.diff().iloc[1:]
    zero = steps.iloc[0] * 0 if len(steps) else 0
    return bool(len(values) > 1 and (steps >= zero).all() and (steps > zero).any())


def _only_rises(column: Any) -> bool:
    if column.dtype.kind not in "iuf" or column.isna().any():
        return False
    return bool((np.diff(column.to_numpy(dtype=np.float64)) > 0).all())


# ----------------------------------------------------------------------------- sensors


def joined_sensors(folder: Path, parts: list[Continuous]) -> Continuous:
    """Join the sensors of one session, each in a file of its own, on the times of the fastest.

    Channels are named by file and axis. Sensors of less than a quarter of the fastest rate, such
    as the air pressure, are left out with a warning.
    """
    fastest = max(parts, key=lambda part: part.fs)
    slow = [part.name for part in parts if part.fs < fastest.fs / 4]
    if slow:
        checks.warn(
            f"{folder}: left out {listed(slow)}, of less than a quarter of the {fastest.fs:g} Hz "
            f"of {fastest.name}; read them apart"
        )
    parts = [part for part in parts if part.name not in slow]
    if any(part.start is None or len(part.pieces) > 1 for part in parts):
        gaps = [part.name for part in parts if part.start is None or len(part.pieces) > 1]
        raise FileError(
            f"{folder}: the sensors of one session cannot be joined, as {listed(gaps)} has gaps or "
            "no absolute time; read one file at a time"
        )
    begin = [part.start.timestamp() for part in parts if part.start is not None]
    low = max(begin)
    high = min(b + (p.n_times - 1) / p.fs for b, p in zip(begin, parts, strict=True))
    if high <= low:
        raise FileError(f"{folder}: its sensors were recorded at different times; read them apart")
    t = np.arange(int((high - low) * fastest.fs + 1e-6) + 1) / fastest.fs
    rows, names, units = [], [], []
    for b, part in zip(begin, parts, strict=True):
        own = np.arange(part.n_times) / part.fs
        rows += [np.interp(t + (low - b), own, x).astype(x.dtype) for x in part.pieces[0][1]]
        stem = Path(part.name).name.split(".")[0]
        names += [f"{stem} {channel}" for channel in part.channels]
        units += list(part.units or ("",) * len(part.channels))
    first = parts[int(np.argmax(begin))]
    return replace(
        fastest,
        name=folder.name,
        pieces=[(0, np.stack(rows))],
        channels=tuple(names),
        units=tuple(units) if any(units) else None,
        start=first.start,
        segments=None,
        group=folder.name,
        understood=f"{len(parts)} sensors of one session at {fastest.fs:g} Hz",
    )

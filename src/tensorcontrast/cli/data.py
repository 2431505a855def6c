"""DATA of the command line: any file the readers know, or the name of a built-in dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorcontrast.cli.failures import UsageFailure
from tensorcontrast.cli.options import DATASETS, complete_data
from tensorcontrast.cli.session import Session
from tensorcontrast.errors import DataNotFoundError, FileError, InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.recordings import Recordings

__all__ = ["Data", "Reading", "read"]

READING = "Reading DATA"

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="npz, CSV, Parquet, EDF/BDF, WFDB, .ts, a folder of NumPy files, or a built-in "
        f"dataset: {', '.join(DATASETS)}.",
        autocompletion=complete_data,
        show_default=False,
    ),
]


def _option(*names: str, metavar: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=READING, **more)


@dataclass(frozen=True)
class Reading:
    """How DATA is read: the options of all commands that read recordings."""

    fs: Annotated[
        float | None, _option("--fs", metavar="HZ", help="Samples per second, where unknown.")
    ] = None
    channels: Annotated[
        str | None, _option("--channels", metavar="A,B", help="Only these channels, in this order.")
    ] = None
    labels: Annotated[
        str | None, _option("--labels", metavar="COLUMN", help="Column with the classes.")
    ] = None
    groups: Annotated[
        str | None,
        _option("--groups", metavar="COLUMN", help="Column with the subjects, kept together."),
    ] = None
    sample: Annotated[
        str | None,
        _option("--sample", metavar="COLUMN", help="Column of a table with the id of the window."),
    ] = None
    time: Annotated[
        str | None, _option("--time", metavar="COLUMN", help="Column of a table with the time.")
    ] = None
    window: Annotated[
        str | None,
        _option("--window", metavar="S", help="Cut into windows of S seconds (128pt: points)."),
    ] = None
    step: Annotated[
        str | None,
        _option("--step", metavar="S", help="From window to window; at most, and by default, one."),
    ] = None
    data_format: Annotated[
        str | None,
        _option(
            "--data-format", metavar="NAME", help="Format, where the name of the file is unclear."
        ),
    ] = None
    drop_nan: Annotated[
        bool,
        typer.Option(
            "--drop-nan", help="Leave out windows with missing values.", rich_help_panel=READING
        ),
    ] = False

    @property
    def channel_names(self) -> list[str] | None:
        """Names of ``--channels``."""
        if self.channels is None:
            return None
        names = [name.strip() for name in self.channels.split(",")]
        if not all(names):
            raise UsageFailure(f"--channels {self.channels!r} has an empty name; write A,B,C")
        return names


@dataclass(frozen=True)
class _Windows:
    """Length and step of windows, each in seconds or in points."""

    length: float
    points: bool
    step: float | None
    step_points: bool

    def sizes(self, fs: float | None) -> tuple[int, float]:
        """Points of a window and share that neighbours have in common."""
        length = self._points("--window", self.length, self.points, fs)
        if self.step is None:
            return length, 0.0
        step = self._points("--step", self.step, self.step_points, fs)
        if step > length:
            raise UsageFailure(
                f"--step of {step} points is longer than --window of {length}; what lies between "
                "would be lost"
            )
        return length, 1.0 - step / length

    def for_reader(self) -> dict[str, Any] | None:
        """Options for readers that cut, whose rate is not known yet; None for mixed units."""
        if self.step is not None and self.points != self.step_points:
            return None
        length, overlap = self.length, 0.0
        if self.step is not None:
            if self.step > length:
                self.sizes(1.0)
            overlap = 1.0 - self.step / length
        return {"window" if self.points else "window_s": length, "overlap": overlap}

    @staticmethod
    def _points(option: str, value: float, points: bool, fs: float | None) -> int:
        if points:
            return int(value)
        if fs is None:
            raise UsageFailure(
                f"{option} is in seconds, but DATA does not say its rate; pass --fs, or points: "
                f"{option} 128pt"
            )
        return max(1, round(value * fs))


def _duration(option: str, text: str) -> tuple[float, bool]:
    """Return the number, and whether it counts points."""
    points = text.endswith("pt")
    number = text.removesuffix("pt").removesuffix("s").strip()
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9 or (points and value != int(value)):
        raise UsageFailure(
            f"{option} {text!r} is no length; write seconds, such as 2.5, or points, such as 128pt"
        )
    return value, points


def _windows(options: Reading) -> _Windows | None:
    if options.window is None:
        if options.step is not None:
            _duration("--step", options.step)
        return None
    length, points = _duration("--window", options.window)
    step, step_points = (None, False) if options.step is None else _duration("--step", options.step)
    return _Windows(length, points, step, step_points)


def read(
    session: Session, data: str, options: Reading, *, model: ContrastiveFeatures | None = None
) -> Recordings:
    """Read DATA; with a model, in the form that it was fitted on.

    The channels of the model are picked by name, and signals that are longer than its windows
    are cut, with a note of both.
    """
    names, windows = options.channel_names, _windows(options)
    if options.fs is not None and not options.fs > 0:
        raise UsageFailure(f"--fs {options.fs:g} is not above 0")
    if model is not None and windows is None:
        windows = _model_windows(model, options)
        asked = False
    else:
        asked = windows is not None
    with session.progress(f"reading {data}"):
        if _builtin(session, data):
            rec, cut = _load(data, options, windows)
            rec = _roles(rec, options, data)
        else:
            rec, cut = _read_file(data, options, names, windows, model)
        if options.fs is not None:
            rec = _with_rate(rec, options.fs, data)
        rec = _pick(session, rec, names, model)
        if windows is not None and not cut:
            rec = _cut(session, rec, windows, model if not asked else None)
        if options.drop_nan:
            rec = _drop_nan(session, rec, data)
    if model is not None and model.fs_ is not None and rec.fs is None:
        raise InvalidInputError(
            f"{data} does not say its sampling rate and the model was fitted at {model.fs_:g} Hz; "
            f"pass --fs {model.fs_:g} if that is its rate"
        )
    session.detail(repr(rec))
    return rec


def _builtin(session: Session, data: str) -> bool:
    if data not in DATASETS:
        return False
    if Path(data).exists():
        session.warn(f"{data} is read as the built-in dataset; for the file here write ./{data}")
    return True


def _load(data: str, options: Reading, windows: _Windows | None) -> tuple[Recordings, bool]:
    from tensorcontrast import datasets

    for option in ("sample", "time", "data_format"):
        if getattr(options, option) is not None:
            name = option.replace("_", "-")
            raise UsageFailure(f"--{name} is for files; {data} is a built-in dataset")
    if data == "synthetic":
        return datasets.make_synthetic(n_samples=300, random_state=0), False
    if data == "watch":
        if windows is None:
            return datasets.load_watch(download=False), True
        length, overlap = windows.sizes(50.0)
        return datasets.load_watch(download=False, window_s=length / 50.0, overlap=overlap), True
    loaders = {
        "har": datasets.load_har,
        "sleep-edf": datasets.load_sleep_edf,
        "ptb-xl": datasets.load_ptbxl,
    }
    try:
        return loaders[data](download=False), False
    except DataNotFoundError as error:
        raise DataNotFoundError(
            f"{error}\nOr, with a connection: tensorcontrast datasets fetch {data}"
        ) from error


def _read_file(
    data: str,
    options: Reading,
    names: list[str] | None,
    windows: _Windows | None,
    model: ContrastiveFeatures | None,
) -> tuple[Recordings, bool]:
    """Read a file with the options that its reader has; tells whether windows were cut."""
    from tensorcontrast import readers

    path = Path(data).expanduser()
    kind = options.data_format or readers._format_of(path)
    if kind not in readers.FORMATS:
        raise UsageFailure(
            f"--data-format {kind!r} is not known; there are {', '.join(readers.FORMATS)}"
        )
    accepted = set(readers._reader(kind).__kwdefaults__ or {})
    given: dict[str, Any] = {}
    for option, column in (("sample", options.sample), ("time", options.time)):
        if column is not None and option not in accepted:
            raise UsageFailure(f"--{option} is for CSV and Parquet tables; {data} is {kind}")
    wanted: dict[str, Any] = {
        "sample": options.sample,
        "time": options.time,
        "label": options.labels,
        "group": options.groups,
        "fs": options.fs,
        "channels": names,
        "allow_nan": options.drop_nan or None,
    }
    for keyword, value in wanted.items():
        if value is not None and keyword in accepted:
            given[keyword] = value
    named = kind in ("csv", "parquet", "edf", "wfdb")  # formats that name their channels
    if model is not None and names is None and named and model.channels_ is not None:
        given["channels"] = list(model.channels_)
    cut = windows.for_reader() if windows is not None and "window" in accepted else None
    rec = readers.read(path, format=kind, **given, **(cut or {}))
    return rec if "label" in accepted else _roles(rec, options, data), cut is not None


def _rebuilt(rec: Recordings, **changes: Any) -> Recordings:
    from tensorcontrast.recordings import Recordings

    keys = ("groups", "fs", "channels", "classes", "units", "columns", "name", "citation")
    about = {key: getattr(rec, key) for key in (*keys, "licence")}
    about |= {"y": rec.y, **changes}
    return Recordings(rec.X, allow_nan=True, **about)


def _roles(rec: Recordings, options: Reading, data: str) -> Recordings:
    """Take labels and groups from the columns that were named."""
    for option, column in (("labels", options.labels), ("groups", options.groups)):
        if column is None:
            continue
        own = {"labels": "y", "groups": "groups"}[option]
        if column == own and getattr(rec, own) is not None:
            continue
        if column not in rec.columns:
            there = ", ".join(rec.columns) or "none"
            raise FileError(f"{data}: no column {column!r} for --{option}; there are: {there}")
        values = rec.columns[column]
        rec = (
            _rebuilt(rec, y=values, classes=None)
            if option == "labels"
            else _rebuilt(rec, groups=values)
        )
    return rec


def _with_rate(rec: Recordings, fs: float, data: str) -> Recordings:
    if rec.fs is None:
        return _rebuilt(rec, fs=fs)
    if float(rec.fs) != float(fs):
        raise InvalidInputError(
            f"{data} says {rec.fs:g} samples a second, not --fs {fs:g}; leave --fs out"
        )
    return rec


def _pick(
    session: Session, rec: Recordings, names: list[str] | None, model: ContrastiveFeatures | None
) -> Recordings:
    if names is not None and (rec.channels is None or tuple(names) != rec.channels):
        return rec.select(channels=names)
    wanted = None if model is None else model.channels_
    if wanted is None or rec.channels is None or rec.channels == wanted:
        return rec
    missing = [name for name in wanted if name not in rec.channels]
    if missing:
        raise InvalidInputError(
            f"the model needs channel {_listed(missing)}, which {rec.name or 'DATA'} does not "
            f"have; it has {_listed(rec.channels)}"
        )
    session.note(f"using the {len(wanted)} channels of the model of {len(rec.channels)}")
    return rec.select(channels=wanted)


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _model_windows(model: ContrastiveFeatures, options: Reading) -> _Windows:
    """Windows as the model was fitted on, with the step asked for or that of its data."""
    length = int(model.n_times_in_)
    if options.step is not None:
        step, points = _duration("--step", options.step)
        return _Windows(length, True, step, points)
    step_points = (getattr(model, "fitted_on_", None) or {}).get("step")
    return _Windows(length, True, step_points, True)


def _cut(
    session: Session, rec: Recordings, windows: _Windows, model: ContrastiveFeatures | None
) -> Recordings:
    from tensorcontrast.recordings import Recordings

    if model is not None and rec.n_times <= windows.length:
        return rec  # windows already, or too short, of which the model tells
    length, overlap = windows.sizes(rec.fs)
    if length == rec.n_times:
        return rec
    columns = {k: v for k, v in rec.columns.items() if k not in ("recording", "start")}
    new = Recordings.from_signals(
        list(rec.X),
        fs=rec.fs,
        window=length,
        overlap=overlap,
        labels=rec.y,
        groups=rec.groups,
        columns=columns,
        classes=rec.classes,
        channels=rec.channels,
        units=rec.units,
        name=rec.name,
        citation=rec.citation,
        licence=rec.licence,
        allow_nan=True,
    )
    source = new.columns["recording"]
    if "start" in rec.columns:  # windows of windows: count from the start of the signal
        new.columns["start"] = rec.columns["start"][source] + new.columns["start"]
    if "recording" in rec.columns:
        new.columns["recording"] = rec.columns["recording"][source]
    seconds = "" if rec.fs is None else f" ({length / rec.fs:.4g} s)"
    session.note(f"cut {len(rec)} signals into {len(new)} windows of {length} points{seconds}")
    return new


def _drop_nan(session: Session, rec: Recordings, data: str) -> Recordings:
    whole = (rec.quality().non_finite == 0).all(axis=1)
    if whole.all():
        return rec
    if not whole.any():
        raise InvalidInputError(f"{data}: every window has missing values; fill them in first")
    session.warn(f"left out {int((~whole).sum())} of {len(rec)} windows with missing values")
    return rec[whole]

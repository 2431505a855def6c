"""DATA of the command line: any file the readers know, or the name of a built-in dataset."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tensorcontrast.cli.shared.options import DATASETS, complete_data
from tensorcontrast.cli.shared.session import Session, UsageFailure
from tensorcontrast.errors import DataNotFoundError, FileError, InvalidInputError
from tensorcontrast.readers.grouping import is_pattern
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.recordings import Recordings

__all__ = [
    "Data",
    "Reading",
    "Windows",
    "asked_windows",
    "channels_for",
    "check_rate",
    "read",
    "tell_cut",
    "windows_of_model",
]

READING = "Reading DATA"
#: Options that say how tables are read.
TABLE_OPTIONS = tuple("separator decimal skip_lines comment header ignore rename units".split())
#: Options that say how windows of continuous recordings get their labels.
LABELLING = ("annotations", "inside_annotations", "label_share", "drop_unlabelled")

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="npz, CSV, Parquet, EDF/BDF, WFDB, files of MNE, .ts, a folder, a pattern such as "
        "'data/*.csv', a Zarr store, or a "
        f"built-in dataset: {', '.join(DATASETS)}.",
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
        str | None,
        _option(
            "--labels",
            metavar="COLUMN",
            help="Column with the classes. EDF, WFDB: 'annotations' for all of these, or a pattern "
            "for their texts, such as 'Sleep stage (?P<label>.*)'.",
        ),
    ] = None
    annotations: Annotated[
        str | None,
        _option(
            "--annotations",
            metavar="FILES",
            help="EDF: file with the annotations, or pattern ('*-Hypnogram.edf'). WFDB: suffix.",
        ),
    ] = None
    inside_annotations: Annotated[
        bool,
        typer.Option(
            "--inside-annotations",
            help="Cut windows only inside the annotations of --labels.",
            rich_help_panel=READING,
        ),
    ] = False
    groups: Annotated[
        str | None,
        _option(
            "--groups",
            metavar="COLUMN",
            help=r"Column with the subjects, or their pattern in file names: '(?P<group>S\d+)'.",
        ),
    ] = None
    sample: Annotated[
        str | None,
        _option("--sample", metavar="COLUMN", help="Column of a table with the id of the window."),
    ] = None
    time: Annotated[
        str | None, _option("--time", metavar="COLUMN", help="Column of a table with the time.")
    ] = None
    ignore: Annotated[
        str | None,
        _option("--ignore", metavar="A,B", help="Columns of a table to leave out ('aux*')."),
    ] = None
    rename: Annotated[
        str | None,
        _option("--rename", metavar="OLD=NEW,…", help="Other names for columns of a table."),
    ] = None
    units: Annotated[
        str | None,
        _option(
            "--units",
            metavar="UNIT",
            help="Unit of all channels, or of columns: 'A=mV,B=µV'; of the time 'clock=ms'.",
        ),
    ] = None
    separator: Annotated[
        str | None,
        _option("--separator", metavar="SIGN", help="Sign between the columns of a table."),
    ] = None
    decimal: Annotated[
        str | None, _option("--decimal", metavar="SIGN", help="Decimal sign of a table.")
    ] = None
    comment: Annotated[
        str | None,
        _option("--comment", metavar="SIGN", help="Sign before comments in a table."),
    ] = None
    skip_lines: Annotated[
        int | None, _option("--skip-lines", metavar="N", help="Lines before a table.")
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of a table names its columns.",
            rich_help_panel=READING,
            show_default=False,
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        _option(
            "--where",
            metavar="NAME=A,B",
            help="Only windows whose group, label or column is one of these (!=: none).",
        ),
    ] = None
    window: Annotated[
        str | None,
        _option("--window", metavar="S", help="Cut into windows of S seconds (128pt: points)."),
    ] = None
    step: Annotated[
        str | None,
        _option("--step", metavar="S", help="From window to window; at most, and by default, one."),
    ] = None
    resample: Annotated[
        float | None,
        _option("--resample", metavar="HZ", help="Bring all recordings to this rate first."),
    ] = None
    data_format: Annotated[
        str | None,
        _option(
            "--data-format", metavar="NAME", help="Format, where the name of the file is unclear."
        ),
    ] = None
    label_share: Annotated[
        float | None,
        _option(
            "--label-share",
            metavar="SHARE",
            help="Share of a window that its label must cover (default 0.5); else it is unknown.",
        ),
    ] = None
    drop_unlabelled: Annotated[
        bool,
        typer.Option(
            "--drop-unlabelled",
            help="Leave out windows of continuous recordings without a label.",
            rich_help_panel=READING,
        ),
    ] = False
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

    def table_options(self) -> dict[str, Any]:
        """Return the options of the readers of tables that were passed."""
        out = {name: getattr(self, name) for name in TABLE_OPTIONS}
        if self.ignore is not None:
            out["ignore"] = [name.strip() for name in self.ignore.split(",")]
        if self.rename is not None:
            out["rename"] = _pairs("--rename", self.rename)
        if self.units is not None and "=" in self.units:
            out["units"] = _pairs("--units", self.units)
        if self.separator in ("tab", r"\t"):
            out["separator"] = "\t"
        return {name: value for name, value in out.items() if value is not None}

    def arguments(self) -> list[str]:
        """Return the options that were given, as words of a command."""
        words: list[str] = []
        for field in fields(self):
            value, option = getattr(self, field.name), f"--{field.name.replace('_', '-')}"
            if field.name == "header" and value is False:
                words.append("--no-header")
            elif value is True:
                words.append(option)
            elif value is not None and value is not False:
                for item in value if isinstance(value, list) else [value]:
                    text = repr(item) if isinstance(item, float) else str(item)
                    # A value that begins with a dash would be taken for an option.
                    words += [f"{option}={text}"] if text.startswith("-") else [option, text]
        return words


def _pairs(option: str, text: str) -> dict[str, str]:
    """Read pairs such as ``A=mV,B=µV``."""
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(name.strip() and sign and value.strip() for name, sign, value in pairs):
        raise UsageFailure(f"{option} {text!r} is not A=B, or several such as A=B,C=D")
    return {name.strip(): value.strip() for name, _, value in pairs}


def read(
    session: Session,
    data: str,
    options: Reading,
    *,
    model: ContrastiveFeatures | None = None,
    gaps: bool = False,
) -> Recordings:
    """Read DATA; with a model, in the form that it was fitted on.

    The channels of the model are picked by name, and signals that are longer than its windows
    are cut, with a note of both. Missing values are an error, unless there may be ``gaps`` or
    the model leaves them out.
    """
    gaps = gaps or (model is not None and model.missing == "mask")
    names, windows = options.channel_names, asked_windows(options.window, options.step)
    if options.fs is not None and not options.fs > 0:
        raise UsageFailure(f"--fs {options.fs:g} is not above 0")
    if options.resample is not None and not 0 < options.resample < math.inf:
        raise UsageFailure(f"--resample {options.resample:g} is not above 0")
    if model is not None and windows is None:
        windows = windows_of_model(model, options.step)
        longer_than = model
    else:
        longer_than = None
    with session.progress(f"reading {data}"):
        if _builtin(session, data):
            rec, cut = _load(data, options, windows)
            rec = _roles(rec, options, data)
        else:
            rec, cut = _read_file(
                session, data, options, names, windows, model, gaps or options.drop_nan
            )
        for condition in options.where or []:
            rec = _where(session, rec, condition, data)
        done = options.resample is not None and rec.fs == options.resample  # by the reader
        if options.fs is not None and not done:
            rec = _with_rate(rec, options.fs, data)
        if options.resample is not None:
            rec = _at_rate(rec, options.resample, data)
        rec = _pick(session, rec, names, model)
        if windows is not None and not cut:
            rec = cut_windows(session, rec, windows, longer_than)
        if options.drop_nan:
            rec = _drop_nan(session, rec, data)
    if model is not None:
        check_rate(rec, data, model)
    session.detail(repr(rec))
    return rec


def check_rate(rec: Any, data: str, model: ContrastiveFeatures) -> None:
    """Raise where recordings have another rate than the model, or do not tell theirs."""
    from tensorcontrast.recordings.continuous import RATE_TOLERANCE

    if model.fs_ is not None and rec.fs is None:
        raise InvalidInputError(
            f"{data} does not say its sampling rate and the model was fitted at {model.fs_:g} Hz; "
            f"pass --fs {model.fs_:g} if that is its rate"
        )
    if model.fs_ is not None and abs(rec.fs / model.fs_ - 1) > RATE_TOLERANCE:
        raise InvalidInputError(
            f"{data} has a sampling rate of {rec.fs:g} Hz, but the model was fitted at "
            f"{model.fs_:g} Hz; pass --resample {model.fs_:g}"
        )


def _builtin(session: Session, data: str) -> bool:
    if data not in DATASETS:
        return False
    if Path(data).exists():
        session.warn(f"{data} is read as the built-in dataset; for the file here write ./{data}")
    return True


def _load(data: str, options: Reading, windows: Windows | None) -> tuple[Recordings, bool]:
    from tensorcontrast import datasets

    if is_pattern(options.groups):
        raise UsageFailure(f"--groups {options.groups!r} is for names of files; {data} is built in")
    for option in ("sample", "time", "data_format", *LABELLING):
        if getattr(options, option):
            name = option.replace("_", "-")
            raise UsageFailure(f"--{name} is for files; {data} is a built-in dataset")
    if data == "synthetic":
        return datasets.make_synthetic(n_samples=300, random_state=0), False
    if data == "watch":
        if windows is None:
            return datasets.load_watch(download=False), True
        length, overlap = windows.sizes(50.0)
        return datasets.load_watch(download=False, window_s=length / 50.0, overlap=overlap), True
    try:
        return getattr(datasets, datasets.info(data)[0].loader)(download=False), False
    except DataNotFoundError as error:
        what = str(error).partition("\nor name the place")[0]
        raise DataNotFoundError(
            f"{what}\nor set TENSORCONTRAST_DATA to its folder; with a connection: "
            f" tensorcontrast datasets fetch {data}"
        ) from error


def _read_file(
    session: Session,
    data: str,
    options: Reading,
    names: list[str] | None,
    windows: Windows | None,
    model: ContrastiveFeatures | None,
    gaps: bool,
) -> tuple[Recordings, bool]:
    """Read a file with the options that its reader has; tells whether windows were cut."""
    from tensorcontrast import readers

    path = Path(data).expanduser()
    kind = options.data_format or readers._format_of(path)
    if kind not in readers.FORMATS:
        raise UsageFailure(
            f"--data-format {kind!r} is not known; there are {', '.join(readers.FORMATS)}"
        )
    accepted = readers.options_of(kind)
    continuous = readers.cuts(kind)
    for name in ("sample", "time", *TABLE_OPTIONS):
        if getattr(options, name) is not None and name not in accepted:
            option = name.replace("_", "-")
            raise UsageFailure(f"--{option} is for CSV and Parquet tables; {data} is {kind}")
    for name in LABELLING:
        able = (
            continuous and kind in ("edf", "wfdb", "mne") if "annotations" in name else continuous
        )
        if getattr(options, name) and not able:
            what = "EDF, BDF and WFDB" if "annotations" in name else "continuous recordings"
            raise UsageFailure(f"--{name.replace('_', '-')} is for {what}; {data} is {kind}")
    if options.label_share is not None and not 0 < options.label_share <= 1:
        raise UsageFailure(f"--label-share {options.label_share:g} is not above 0 and at most 1")
    given: dict[str, Any] = {
        "sample": options.sample,
        "time": options.time,
        "label": options.labels,
        "labels": options.labels,
        "annotations": options.annotations,
        "group": None if is_pattern(options.groups) else options.groups,
        "fs": options.fs,
        "channels": names,
        **options.table_options(),
    }
    given = {k: v for k, v in given.items() if v is not None and k in accepted}
    cutting: dict[str, Any] = {
        "inside_annotations": options.inside_annotations or None,
        "label_share": options.label_share,
        "drop_unlabelled": options.drop_unlabelled or None,
        "resample": options.resample if continuous else None,
        "allow_nan": gaps or None,
    }
    cutting = {k: v for k, v in cutting.items() if v is not None}
    if model is not None and names is None and continuous and model.channels_ is not None:
        given["channels"] = list(model.channels_)
    cut = None
    if windows is not None and continuous:
        cut = windows.for_reader()
        if cut is None and ("label" in given or "labels" in given or options.labels):
            raise UsageFailure(
                "--window and --step of continuous recordings must both be in seconds or both in "
                "points"
            )
        cutting |= cut or {"window_s": math.inf}  # cut later, at the rate that is then known
    groups = options.groups if is_pattern(options.groups) else None
    rec = readers.read_windows(path, cutting, format=kind, groups=groups, whole=True, **given)
    if rec.understood:
        session.note(f"{data}: {rec.understood}")
    if "labels" in accepted:  # taken from annotations
        options = replace(options, labels=None)
    done = cut is not None and "start" in rec.columns
    return rec if "label" in accepted else _roles(rec, options, data), done


def _rebuilt(rec: Recordings, **changes: Any) -> Recordings:
    from tensorcontrast.recordings import Recordings

    keys = ("groups", "fs", "channels", "classes", "units", "columns", "name", "citation")
    about = {key: getattr(rec, key) for key in (*keys, "licence")}
    about |= {"y": rec.y, **changes}
    return Recordings(rec.X, allow_nan=True, **about)


def _roles(rec: Recordings, options: Reading, data: str) -> Recordings:
    """Take labels and groups from the columns that were named."""
    for option, column in (("labels", options.labels), ("groups", options.groups)):
        if column is None or is_pattern(column):
            continue
        own = {"labels": "y", "groups": "groups"}[option]
        if column == own and getattr(rec, own) is not None:
            continue
        if column not in rec.columns:
            there = listed(rec.columns)
            raise FileError(f"{data}: no column {column!r} for --{option}; there are: {there}")
        values = rec.columns[column]
        rec = (
            _rebuilt(rec, y=values, classes=None)
            if option == "labels"
            else _rebuilt(rec, groups=values)
        )
    return rec


def _where(session: Session, rec: Recordings, condition: str, data: str) -> Recordings:
    """Keep the windows that a condition such as ``split=0`` or ``group!=3,4`` names."""
    name, sign, values = condition.partition("=")
    unlike = name.endswith("!")
    name = name.removesuffix("!").strip()
    wanted = [value.strip() for value in values.split(",")]
    if not sign or not name or not all(wanted):
        raise UsageFailure(f"--where {condition!r} is not NAME=A,B, such as group=1,2 or split=0")
    columns: dict[str, Any] = {k: v for k, v in rec.columns.items() if v.ndim == 1}
    if rec.groups is not None:
        columns.setdefault("group", rec.groups)
    if rec.y is not None:
        names = np.array([*(rec.classes or map(str, range(rec.n_classes))), "-1"])
        columns.setdefault("label", names[rec.y])
    if name not in columns:
        there = listed(columns)
        raise FileError(f"{data}: no column {name!r} for --where; there are: {there}")
    texts = columns[name].astype(np.str_)
    missing = sorted(set(wanted) - set(texts.tolist()))
    if missing:
        there = listed(sorted(set(texts.tolist())))
        raise InvalidInputError(f"{data}: no {name} is {missing[0]!r}; there are {there}")
    keep = np.isin(texts, wanted) != unlike
    if not keep.any():
        raise InvalidInputError(f"{data}: --where {condition} leaves no window")
    session.detail(f"{int(keep.sum())} of {len(rec)} windows have {condition}")
    return rec[keep]


def _at_rate(rec: Recordings, fs: float, data: str) -> Recordings:
    """Bring windows to another rate, where the reader has not done so with their recordings."""
    if rec.fs is None:
        raise InvalidInputError(
            f"{data} does not say its sampling rate, from which --resample {fs:g} could start; "
            "pass it with --fs"
        )
    return rec.resample(fs)


def _with_rate(rec: Recordings, fs: float, data: str) -> Recordings:
    if rec.fs is None:
        return _rebuilt(rec, fs=fs)
    if float(rec.fs) != float(fs):
        raise InvalidInputError(
            f"{data} says {rec.fs:g} samples per second, not --fs {fs:g}; leave --fs out"
        )
    return rec


def _pick(
    session: Session, rec: Recordings, names: list[str] | None, model: ContrastiveFeatures | None
) -> Recordings:
    if names is not None and (rec.channels is None or tuple(names) != rec.channels):
        return rec.select(channels=names)
    wanted = None if model is None else channels_for(session, rec, model)
    return rec if wanted is None else rec.select(channels=wanted)


def channels_for(session: Session, rec: Any, model: ContrastiveFeatures) -> tuple[str, ...] | None:
    """Channels of the model where recordings have others or another order, with a note."""
    wanted = model.channels_
    if wanted is None or rec.channels is None or rec.channels == wanted:
        return None
    missing = [name for name in wanted if name not in rec.channels]
    if missing:
        raise InvalidInputError(
            f"the model needs channel {listed(missing)}, which {rec.name or 'DATA'} does not "
            f"have; it has {listed(rec.channels)}"
        )
    session.note(f"using the {len(wanted)} channels of the model of {len(rec.channels)}")
    return wanted


def _drop_nan(session: Session, rec: Recordings, data: str) -> Recordings:
    whole = (rec.quality().non_finite == 0).all(axis=1)
    if whole.all():
        return rec
    if not whole.any():
        raise InvalidInputError(f"{data}: every window has missing values; fill them in first")
    session.warn(f"left out {int((~whole).sum())} of {len(rec)} windows with missing values")
    return rec[whole]


# ---------------------------------------------------------------------- windows


@dataclass(frozen=True)
class Windows:
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


def asked_windows(window: str | None, step_text: str | None) -> Windows | None:
    """Windows of ``--window`` and ``--step``; None where there is no ``--window``."""
    if window is None:
        if step_text is not None:
            _duration("--step", step_text)
        return None
    length, points = _duration("--window", window)
    step, step_points = (None, False) if step_text is None else _duration("--step", step_text)
    return Windows(length, points, step, step_points)


def windows_of_model(model: ContrastiveFeatures, step_text: str | None) -> Windows:
    """Windows as the model was fitted on, with the step asked for or that of its data."""
    length = int(model.n_times_in_)
    if step_text is not None:
        step, points = _duration("--step", step_text)
        return Windows(length, True, step, points)
    step_points = (model.fitted_on_ or {}).get("step")
    return Windows(length, True, step_points, True)


def cut_windows(
    session: Session, rec: Recordings, windows: Windows, model: ContrastiveFeatures | None
) -> Recordings:
    """Cut signals into windows; for a model, only those that are longer than its windows."""
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
    tell_cut(session, len(rec), len(new), length, rec.fs)
    return new


def tell_cut(session: Session, signals: int, windows: int, length: int, fs: float | None) -> None:
    """Note what was cut."""
    seconds = "" if fs is None else f" ({length / fs:.4g} s)"
    session.note(f"cut {signals} signals into {windows} windows of {length} points{seconds}")

"""Tables with marks of their own: how the exports of some devices and programs are laid out.

Each recogniser looks at the first lines of a file and its name, and gives the :class:`Layout` of
the table, or None. What a layout leaves open is found from the table itself.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tensorcontrast.errors import DamagedFileError, ForeignFileError

__all__ = ["Layout", "recognise"]


@dataclass(frozen=True)
class Layout:
    """How a table is laid out; None for what is found from the table.

    Attributes
    ----------
    separator, decimal, comment : str, optional
    skip_lines : int, optional
        Lines before the table.
    header : bool, optional
        Whether the first line of the table names the columns.
    names : sequence of str, optional
        Names of columns, where the table has none.
    time, label, group, sample : str, optional
        Columns of these roles; ``time`` is "" where no column is the time.
    channels, ignore : sequence of str, optional
        Columns, or patterns for them, that are signals or left out.
    rename : mapping, optional
        Names of columns, and what they are called instead.
    units : str or mapping, optional
        Unit of all channels, or of single columns.
    fs : float, optional
    start : datetime, optional
        Of the first row.
    dialect : str
        Name of the device or program.
    arrival : bool
        Whether times are those at which packets arrived, so that only their mean step counts.
    """

    separator: str | None = None
    decimal: str | None = None
    comment: str | None = None
    skip_lines: int | None = None
    header: bool | None = None
    names: Sequence[str] | None = None
    time: str | None = None
    label: str | None = None
    group: str | None = None
    sample: str | None = None
    channels: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    rename: Mapping[str, str] | None = None
    units: str | Mapping[str, str] | None = None
    fs: float | None = None
    start: dt.datetime | None = None
    dialect: str = ""
    arrival: bool = False


def recognise(lines: list[str], name: str) -> Layout | None:
    """Return the layout of a table by its first lines and the name of its file."""
    if not lines:
        return None
    return next((layout for check in RECOGNISERS if (layout := check(lines, name))), None)


def _numbers(line: str) -> list[float]:
    try:
        return [float(cell) for cell in re.split(r"[,;\t]\s*", line.strip())]
    except ValueError:
        return []


def _number_after(pattern: str, lines: list[str]) -> float | None:
    """Return the number that a pattern finds in the first line that it matches."""
    match = next((m for line in lines[:120] if (m := re.search(pattern, line, re.I))), None)
    return None if match is None else float(match[1].replace(",", "."))


def _date(text: str, *formats: str) -> dt.datetime | None:
    for form in formats:
        try:
            return dt.datetime.strptime(text.strip(), form)
        except ValueError:
            continue
    return None


def empatica(lines: list[str], name: str) -> Layout | None:
    """E4: the first row is the start in seconds since 1970, the second the rate; no header."""
    if len(lines) < 3:
        return None
    start, rate = _numbers(lines[0]), _numbers(lines[1])
    stem = PurePath(name).stem.upper()
    if re.fullmatch(r"\d{9,10}(\.\d+)?,\s*IBI", lines[0]):
        raise ForeignFileError(f"{name}: holds intervals between heart beats, not a signal")
    if len(start) != len(rate) or len(set(start)) != 1 or len(set(rate)) != 1:
        return None
    if not (9e8 < start[0] < 5e9 and 0.1 <= rate[0] <= 1000):
        return None
    names = ["x", "y", "z"] if stem == "ACC" and len(start) == 3 else None
    names = names or [stem if len(start) == 1 else f"{stem} {k}" for k in range(len(start))]
    unit = {"ACC": "1/64 g", "BVP": "nW", "EDA": "µS", "TEMP": "°C", "HR": "bpm"}.get(stem, "")
    return Layout(
        skip_lines=2, header=False, names=names, units=unit, fs=rate[0], time="",
        start=dt.datetime.fromtimestamp(start[0], dt.UTC), dialect="Empatica E4",
    )  # fmt: skip


def openbci(lines: list[str], name: str) -> Layout | None:
    """OpenBCI: lines of % before the table; times are those of packets."""
    if not re.match(r"%\s*OpenBCI", lines[0], re.I):
        return None
    fs = _number_after(r"Sample Rate\s*=\s*([\d.,]+)", lines)
    count = int(_number_after(r"Number of channels\s*=\s*(\d+)", lines) or 0)
    head = next((line for line in lines if line and not line.startswith("%")), "")
    if not count and any("followed by Accel" in line for line in lines[:9]):
        count = len(head.split(",")) - 4  # after a counter, and before three axes
    channels = [f"EXG Channel {k}" for k in range(count)]
    names = None
    if "Sample Index" not in head:  # older files have no header
        width = len(head.split(","))
        names = ["Sample Index", *channels, *(f"column {k}" for k in range(count + 1, width))]
        names = names[:width]
    elif "EXG Channel 0" not in head:
        return None
    if fs is None or not count:
        raise DamagedFileError(f"{name}: is of OpenBCI, but does not say its rate and channels")
    return Layout(
        separator=",", comment="%", names=names, header=names is None, channels=channels,
        units="µV", fs=fs, time="", dialect="OpenBCI",
    )  # fmt: skip


def opensignals(lines: list[str], name: str) -> Layout | None:
    """OpenSignals (BITalino, biosignalsplux): columns and rate as JSON in the second line."""
    if not lines[0].startswith("# OpenSignals"):
        return None
    try:
        devices = json.loads(lines[1].lstrip("# "))
        about = next(iter(devices.values()))
        names = list(about["column"])
        fs = float(about["sampling rate"])
        signals = list(about.get("label") or [n for n in names if re.fullmatch(r"(A|CH)\d+", n)])
    except (ValueError, KeyError, TypeError, StopIteration, IndexError, AttributeError) as error:
        raise DamagedFileError(
            f"{name}: the header of OpenSignals cannot be read: {error}"
        ) from None
    if len(devices) > 1:
        raise ForeignFileError(
            f"{name}: holds {len(devices)} devices; export one file for each, or pass skip_lines=, "
            "header=False and fs="
        )
    when = f"{about.get('date')} {about.get('time')}"
    signals = [signal for signal in signals if signal in names] or names[1:]
    return Layout(
        separator="\t", comment="#", header=False, names=names, channels=signals, fs=fs, time="",
        start=_date(when, "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S"), dialect="OpenSignals",
    )  # fmt: skip


def actigraph(lines: list[str], name: str) -> Layout | None:
    """ActiGraph: ten lines of header; the rate of raw data, or the epoch of counts."""
    if "Data File Created By ActiGraph" not in lines[0]:
        return None
    fs = _number_after(r"at\s+(\d+)\s*Hz", lines[:1])
    text = "\n".join(lines[:10])
    epoch = re.search(r"Epoch Period \(hh:mm:ss\)\s+(\d+):(\d+):(\d+)", text)
    hours, minutes, rest = (0, 0, 0) if epoch is None else map(int, epoch.groups())
    seconds = 3600 * hours + 60 * minutes + rest
    if seconds:
        fs = 1 / seconds
    if not fs:
        raise DamagedFileError(f"{name}: is of ActiGraph, but says neither a rate nor an epoch")
    day, clock = re.search(r"Start Date\s+(\S+)", text), re.search(r"Start Time\s+(\S+)", text)
    order = re.search(r"date format\s+(\S+)", lines[0])
    letters = order[1] if order else ""
    form = "%d{0}%m{0}%Y" if letters.startswith("d") else "%m{0}%d{0}%Y"
    form = "%Y{0}%m{0}%d" if letters.startswith("y") else form
    when = f"{day[1]} {clock[1]}" if day and clock else ""
    ends = [k for k, line in enumerate(lines[:20]) if k and line.startswith("-----")]
    return Layout(
        skip_lines=ends[-1] + 1 if ends else 10, fs=fs, time="", units=None if seconds else "g",
        ignore=("Timestamp", "Date", "Time", "date", "time", " epoch"),
        start=_date(when, *(form.format(sign) + " %H:%M:%S" for sign in "/-.")),
        dialect="ActiGraph",
    )  # fmt: skip


def labchart(lines: list[str], name: str) -> Layout | None:
    """LabChart text: the interval and the titles of channels before each block of rows."""
    if not lines[0].startswith("Interval="):
        return None
    about = dict(line.split("=", 1) for line in lines[:15] if "=" in line.partition("\t")[0])
    rate = re.match(r"\s*([\d.,]+)\s*(s|ms|µs|us)?", about.get("Interval", ""))
    titles = [t.strip() for t in about.get("ChannelTitle", "").split("\t") if t.strip()]
    if rate is None or not titles:
        raise DamagedFileError(f"{name}: the header of LabChart says no interval or no channels")
    interval = float(rate[1].replace(",", "."))
    interval *= {"ms": 1e-3, "µs": 1e-6, "us": 1e-6}.get(rate[2] or "s", 1.0)
    units = [u.strip() for u in about.get("UnitName", "").split("\t")[1:]]
    ranges = [r.strip().rpartition(" ")[2] for r in about.get("Range", "").split("\t")[1:]]
    units = units if len(units) >= len(titles) else ranges
    skip = next(k for k, line in enumerate(lines) if "=" not in line.partition("\t")[0])
    width = len(lines[skip].split("\t")) if skip < len(lines) else 0
    names = ["time (s)", *titles, *(f"comment {k}" for k in range(width - len(titles) - 1))]
    return Layout(
        separator="\t", skip_lines=skip, header=False, names=names, fs=1 / interval,
        channels=titles,
        units=dict(zip(titles, units, strict=False)) if len(units) >= len(titles) else None,
        dialect="LabChart",
    )  # fmt: skip


def mind_monitor(lines: list[str], name: str) -> Layout | None:
    """Mind Monitor: raw EEG of a Muse headset beside band powers; rows of events are empty."""
    head = lines[0].split(",")
    if "TimeStamp" not in head or "RAW_TP9" not in head:
        return None
    raw = [column for column in head if column.startswith("RAW_")]
    return Layout(
        separator=",", header=True, channels=raw, time="TimeStamp", units="µV", arrival=True,
        dialect="Mind Monitor",
    )  # fmt: skip


def muse(lines: list[str], name: str) -> Layout | None:
    """Muse, as muse-lsl writes it: times in seconds since 1970, microvolts."""
    head = [column.strip() for column in lines[0].split(",")]
    if head[:3] != ["timestamps", "TP9", "AF7"]:
        return None
    return Layout(separator=",", header=True, time="timestamps", units="µV", dialect="Muse")


def biobank(lines: list[str], name: str) -> Layout | None:
    """UK Biobank accelerometer analysis: start and rate stand in the name of the column."""
    match = re.match(
        r'"?acceleration \(mg\) - (\S+ \S+) - (\S+ \S+) - sampleRate = ([\d.]+) seconds', lines[0]
    )
    if match is None or not float(match[3]):
        return None
    width = len(lines[0].split(","))
    names = ["acceleration", "imputed", *(f"column {k}" for k in range(2, width))]
    return Layout(
        skip_lines=1, header=False, names=names[:width], channels=["acceleration"], units="mg",
        time="", fs=1 / float(match[3]), start=_date(match[1], "%Y-%m-%d %H:%M:%S"),
        dialect="UK Biobank",
    )  # fmt: skip


def geneactiv(lines: list[str], name: str) -> Layout | None:
    """GENEActiv: a hundred lines of header, then time, x, y, z, light, button, temperature."""
    if not lines[0].startswith("Device Type,GENEActiv"):
        return None
    fs = _number_after(r"Measurement Frequency,([\d.]+)", lines)
    rows = [k for k, line in enumerate(lines) if re.match(r"\d{4}-\d\d-\d\d \d\d:", line)]
    if fs is None or not rows:
        raise DamagedFileError(f"{name}: is of GENEActiv, but says no rate, or has no rows")
    names = ["time", "x", "y", "z", "light", "button", "temperature"]
    width = len(lines[rows[0]].split(","))
    names = [*names, *(f"column {k}" for k in range(7, width))][:width]
    return Layout(
        separator=",", skip_lines=rows[0], header=False, names=names, fs=fs,
        channels=["x", "y", "z"], units="g", dialect="GENEActiv",
    )  # fmt: skip


def emotiv(lines: list[str], name: str) -> Layout | None:
    """EMOTIV EPOC: title, rate and labels in the first line, counters beside the electrodes."""
    match = re.match(r"title:.*?sampling:\s*(\d+).*?labels:\s*(.*?)(?:,\s*\w+:|$)", lines[0])
    if match is None:
        return None
    names = match[2].replace(",", " ").split()
    width = len(lines[1].split(",")) if len(lines) > 1 else 0
    names = [*names, *(f"column {k}" for k in range(len(names), width))][:width]
    sensors = "AF3 F7 F3 FC5 T7 P7 O1 O2 P8 T8 FC6 F4 F8 AF4".split()
    return Layout(
        separator=",", skip_lines=1, header=False, names=names, fs=float(match[1]), units="µV",
        time="", channels=[sensor for sensor in sensors if sensor in names], dialect="EMOTIV",
    )  # fmt: skip


def xsens(lines: list[str], name: str) -> Layout | None:
    """Xsens MTw and DOT: lines of // before the table, or a time in µs beside packet counters."""
    head = next((line for line in lines[:30] if re.match(r'"?PacketCounter\b', line)), None)
    if head is None:
        return None
    fs = _number_after(r"(?:Update|Sample) Rate:?[\s,]*([\d.]+)", lines)
    if fs is None and "SampleTimeFine" not in head:
        return None
    counters = ("PacketCounter", "UTC_*", "Year", "Month", "Day", "Hour", "Minute", "Second")
    ignore = (*counters, "Status*", "RSSI")
    return Layout(
        skip_lines=lines.index(head), header=True, fs=fs, dialect="Xsens",
        time="SampleTimeFine" if fs is None else "",
        units={"SampleTimeFine": "µs"} if fs is None else None,
        ignore=ignore if fs is None else (*ignore, "SampleTimeFine"),
    )  # fmt: skip


def sensor_logger(lines: list[str], name: str) -> Layout | None:
    """Sensor Logger: ns since 1970 and elapsed seconds before the axes of one sensor."""
    head = [column.strip('" ') for column in lines[0].split(",")]
    if head[:2] != ["time", "seconds_elapsed"]:
        return None
    return Layout(separator=",", header=True, time="time", dialect="Sensor Logger")


#: In the order in which they are asked.
RECOGNISERS: tuple[Callable[[list[str], str], Layout | None], ...] = (
    empatica, openbci, opensignals, actigraph, labchart, mind_monitor, muse, biobank, geneactiv,
    emotiv, xsens, sensor_logger,
)  # fmt: skip

"""WFDB records, the format of PhysioNet: one record, or a folder of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    TruncatedFileError,
)
from tensorcontrast.readers.annotations import Labels, with_annotations
from tensorcontrast.readers.files import (
    MOST_CHANNELS,
    check_expansion,
    check_inside,
    file_errors,
    is_glob,
    matching_files,
)
from tensorcontrast.recordings.checks import as_sampling_rate, repeated
from tensorcontrast.recordings.continuous import Continuous
from tensorcontrast.utils.names import listed
from tensorcontrast.utils.optional import optional

# Bytes of one value in the formats of fixed size; the others are compressed as FLAC.
_BYTES = {"8": Fraction(1), "16": Fraction(2), "24": Fraction(3), "32": Fraction(4)}
_BYTES |= {"61": Fraction(2), "80": Fraction(1), "160": Fraction(2), "212": Fraction(3, 2)}
_BYTES |= {"310": Fraction(4, 3), "311": Fraction(4, 3)}
_FLAC = ("508", "516", "524")
# Names of files and records in the rules of the format; nothing that points to another folder.
_FILE_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+ -]*")
_LARGEST = 2**31  # of anything that stands in a header

# The most common kind of header, which is read here many times faster than by wfdb: one signal
# file of 16-bit numbers, one value a frame, no skew and no offset.
_RECORD_LINE = re.compile(r"[^/\s]+ +(\d+) +(\d+(?:\.\d+)?) +(\d+)(?: .*)?")
_SIGNAL_LINE = re.compile(
    r"(?P<file>\S+) +16 +(?P<gain>\d+(?:\.\d+)?)(?:\((?P<baseline>-?\d+)\))?(?:/(?P<unit>\S+))?"
    r" +\d+ +(?P<zero>-?\d+) +-?\d+ +(?P<checksum>-?\d+) +0 +(?P<name>\S.*)"
)


@dataclass(frozen=True)
class WfdbRecord:
    """One record: signals (channel, time) in physical units, float32."""

    signals: npt.NDArray[np.float32]
    fs: float
    channels: tuple[str, ...]
    units: tuple[str, ...]


def load(
    files: Sequence[tuple[str, Path]],
    *,
    channels: Sequence[str] | None = None,
    labels: Labels | None = None,
    annotations: str | None = None,
) -> list[Continuous]:
    """Read WFDB records; see :func:`tensorcontrast.readers.read` for the options.

    Annotations are the changes of rhythm, such as ``(AFIB`` (comments, where there is none). Each
    lasts until the next, or to the end of the record. The texts are without the bracket.
    """
    recordings = []
    for name, file in files:
        record = read_record(file, channels=channels)
        one = Continuous(
            name=name.removesuffix(".hea").removesuffix(".dat"),
            pieces=[(0, record.signals)],
            fs=record.fs,
            channels=record.channels,
            units=record.units,
        )
        recordings.append((one, file, partial(_annotations, file, annotations or "atr", record)))
    source = files[0][1] if len(files) == 1 else files[0][1].parent
    return with_annotations(source, recordings, labels)


def records_of(path: Path) -> list[tuple[str, Path]]:
    """Return the records that a path, a folder or a pattern names, with their names."""
    base = path if path.is_dir() else None
    with file_errors(path, "WFDB records"):
        if is_glob(path):
            base, files = matching_files(path)
            names = sorted({file.with_suffix("") for file in files if file.suffix == ".hea"})
            if not names:
                raise ForeignFileError(f"{path}: matches no headers of records (.hea)")
        else:
            names = [path] if base is None else _records_of(path)
    return [(n.name if base is None else n.relative_to(base).as_posix(), n) for n in names]


def _annotations(path: Path, suffix: str, record: WfdbRecord) -> list[tuple[float, float, str]]:
    """Read the changes of rhythm of a record: onset and duration in seconds, and text."""
    base = path.with_suffix("") if path.suffix in (".hea", ".dat") else path
    file = base.with_name(f"{base.name}.{suffix}")
    if not re.fullmatch(r"\w+", suffix) or not file.is_file():
        raise DataNotFoundError(
            f"{file}: no such file with annotations; pass annotations= the suffix of these files"
        )
    wfdb = optional("wfdb", "data")
    with file_errors(file, "WFDB annotations"):
        found = wfdb.rdann(str(base), suffix)
        notes = list(zip(found.sample.tolist(), found.symbol, found.aux_note, strict=True))
    for kind in ("+", '"'):
        chosen = [(at, str(note).strip("\0 ")) for at, symbol, note in notes if symbol == kind]
        chosen = [(at, note.removeprefix("(")) for at, note in chosen if note]
        if chosen:
            break
    ends = [*(at for at, _ in chosen[1:]), record.signals.shape[1]]
    return [
        (at / record.fs, (end - at) / record.fs, note)
        for (at, note), end in zip(chosen, ends, strict=False)
    ]


def read_record(
    path: str | Path, *, channels: Sequence[str] | None = None, verify: bool = True
) -> WfdbRecord:
    """Read one record and check sizes and checksums against its header."""
    base = Path(path).expanduser()
    if base.suffix in (".hea", ".dat"):
        base = base.with_suffix("")
    header_file = base.with_name(base.name + ".hea")
    with file_errors(header_file, "a WFDB header"):
        if not header_file.is_file():
            raise DataNotFoundError(f"{header_file}: no such file; a WFDB record needs its header")
        quick = _read_plain(header_file, channels, verify)
        if quick is not None:
            return quick
        wfdb = optional("wfdb", "data")
        if header_file.read_bytes().count(b"\n") > 2 * MOST_CHANNELS:
            raise FileError(f"{header_file}: is too long for the header of a record")
        header = wfdb.rdheader(str(base))
        if getattr(header, "n_seg", None) is not None:
            raise FileError(
                f"{header_file}: is a record of {header.n_seg} segments; read each on its own"
            )
        names = _signal_names(header, header_file)
        _check_fields(header, header_file)
        _check_sizes(header, header_file)
        picked = _picked(channels, names, header_file)
    with file_errors(base, "a WFDB record"):
        single = all((spf or 1) == 1 for spf in header.samps_per_frame)
        with np.errstate(all="ignore"):  # what a gain makes infinite is found by _single
            if not (verify and single):
                record = wfdb.rdrecord(str(base), channels=picked)
                signals = record.p_signal
            else:
                record = wfdb.rdrecord(str(base), channels=picked, physical=False)
                for k, said, found in zip(
                    picked, record.checksum, record.calc_checksum(), strict=True
                ):
                    if said is not None:
                        _check_sum(names[k], int(said), int(found), base)
                signals = record.dac()
        return WfdbRecord(
            signals=np.ascontiguousarray(_single(signals.T, [names[k] for k in picked], base)),
            fs=as_sampling_rate(record.fs),
            channels=tuple(names[k] for k in picked),
            units=tuple(str(unit) for unit in record.units),
        )


def _single(values: npt.NDArray[Any], names: list[str], where: Path) -> npt.NDArray[np.float32]:
    """Signals as float32; missing values are NaN, but nothing may become infinite."""
    with np.errstate(over="ignore"):
        out = values.astype(np.float32)
    if np.isinf(out).any():
        name = names[int(np.flatnonzero(np.isinf(out).any(axis=1))[0])]
        raise DamagedFileError(f"{where}: the gain of signal {name!r} makes its values infinite")
    return out


def _check_fields(header: Any, where: Path) -> None:
    """Check what a header says before wfdb acts on it: names of files and sizes of numbers."""
    if len(header.file_name) != header.n_sig:
        raise TruncatedFileError(
            f"{where}: says {header.n_sig} signals but describes {len(header.file_name)}"
        )
    for k, name in enumerate(header.file_name):
        _check_name(str(name), where)
        gain, rate = header.adc_gain[k], header.fs
        if not (np.isfinite(gain) and gain and np.isfinite(rate) and rate > 0):
            raise DamagedFileError(f"{where}: signal {k} has gain {gain} and rate {rate}")
        for field in ("baseline", "skew", "byte_offset", "samps_per_frame", "init_value"):
            value = getattr(header, field)[k] or 0
            low = -_LARGEST if field in ("baseline", "init_value") else 0
            if not low <= value < _LARGEST:
                raise DamagedFileError(f"{where}: signal {k} has {field} {value}")
        if header.samps_per_frame[k] == 0:
            raise DamagedFileError(f"{where}: signal {k} has no samples a frame")


def _check_name(name: str, where: Path) -> None:
    if not _FILE_NAME.fullmatch(name):
        raise DamagedFileError(
            f"{where}: names the file {name[:60]!r}; a record lies in one folder, so it is not read"
        )


def _signal_names(header: Any, where: Path) -> list[str]:
    """Names of signals; a line that ends too early, which wfdb accepts, is an error here."""
    names = list(header.sig_name or [])
    if not names or not header.n_sig:
        raise ForeignFileError(f"{where}: describes no signals")
    if len(names) > MOST_CHANNELS:
        raise FileError(f"{where}: describes {len(names)} signals, more than any record has")
    nameless = [k for k, name in enumerate(names) if name is None]
    if not nameless:
        return [str(name) for name in names]
    # Names may be left out, but not of some signals only, nor by a file cut within a line.
    if len(nameless) < len(names) or where.read_bytes()[-1:] != b"\n":
        raise TruncatedFileError(
            f"{where}: the line of signal {nameless[0]} ends too early; copy the record again"
        )
    return [f"signal {k}" for k in range(len(names))]


def _read_plain(
    header_file: Path, channels: Sequence[str] | None, verify: bool
) -> WfdbRecord | None:
    """Read a record of the most common kind; None if it is of any other."""
    lines = header_file.read_text(encoding="utf-8", errors="replace").splitlines()
    lines = [line.strip() for line in lines if line.strip() and line.strip()[0] != "#"]
    record = _RECORD_LINE.fullmatch(lines[0]) if lines else None
    if record is None or int(record[1]) != len(lines) - 1:
        return None
    signals = [match for line in lines[1:] if (match := _SIGNAL_LINE.fullmatch(line))]
    if not signals or len(signals) != len(lines) - 1 or len({s["file"] for s in signals}) > 1:
        return None
    gains = np.array([float(s["gain"]) for s in signals])
    fs, points = float(record[2]), int(record[3])
    if not (0 < fs < _LARGEST and points and gains.all()):
        return None
    zeros = np.array([int(s["baseline"] or s["zero"]) for s in signals])
    if np.abs(zeros).max() > _LARGEST:
        raise DamagedFileError(f"{header_file}: has a baseline of {max(zeros, key=abs)}")
    _check_name(signals[0]["file"], header_file)
    names = [s["name"] for s in signals]
    picked = _picked(channels, names, header_file)
    file = header_file.with_name(signals[0]["file"])
    _check_size(file, header_file, 2 * len(signals) * points, points)
    # d = digital values, (channel, time)
    d = np.fromfile(file, dtype="<i2", count=len(signals) * points).reshape(points, -1).T[picked]
    if verify:
        found = d.sum(axis=1, dtype=np.int64)
        for k, total in zip(picked, found.tolist(), strict=True):
            _check_sum(names[k], int(signals[k]["checksum"]), total, header_file.with_suffix(""))
    with np.errstate(over="ignore"):
        scaled = (d - zeros[picked, None]) / gains[picked, None]
    physical = _single(scaled, [names[k] for k in picked], header_file)
    physical[d == -32768] = np.nan  # how the format writes a missing value
    return WfdbRecord(
        signals=physical,
        fs=fs,
        channels=tuple(names[k] for k in picked),
        units=tuple(signals[k]["unit"] or "mV" for k in picked),
    )


def _check_sum(name: str, said: int, found: int, where: Path) -> None:
    if (said - found) % 65536:
        raise DamagedFileError(
            f"{where}: the checksum of signal {name!r} is {found % 65536}, but the header says "
            f"{said % 65536}; copy the record again (or pass verify=False)"
        )


def _check_there(file: Path, header: Path) -> None:
    if not file.is_file():
        raise DataNotFoundError(f"{file}: no such file, but {header.name} names it")


def _check_size(file: Path, header: Path, expected: int, points: int) -> None:
    _check_there(file, header)
    size = file.stat().st_size
    if size < expected or size > expected + 3:  # a writer may pad to a full word, never more
        raise TruncatedFileError(
            f"{file}: has {size} bytes, but {header.name} says {points} points = {expected} bytes; "
            "copy the record again"
        )


def _picked(channels: Sequence[str] | None, names: list[str], where: Path) -> list[int]:
    twice = repeated(names)
    if channels is None:
        if twice:
            raise FileError(f"{where}: signals {listed(twice)} are there more than once")
        return list(range(len(names)))
    missing = [c for c in channels if c not in names]
    if missing:
        raise FileError(f"{where}: no channel {listed(missing)}; there are {listed(names, 40)}")
    if set(channels) & set(twice):
        raise FileError(f"{where}: signals {listed(twice)} are there more than once")
    return [names.index(c) for c in channels]


def _check_sizes(header: Any, where: Path) -> None:
    """Compare the size of each signal file with what the header says."""
    values: dict[str, Fraction] = {}
    offsets: dict[str, int] = {}
    formats: dict[str, set[str]] = {}
    for name, fmt, spf, offset in zip(
        header.file_name, header.fmt, header.samps_per_frame, header.byte_offset, strict=True
    ):
        if fmt not in _BYTES and fmt not in _FLAC:
            raise FileError(f"{where}: has signals of format {fmt}, which is not read")
        values[name] = values.get(name, Fraction(0)) + _BYTES.get(fmt, Fraction(4)) * (spf or 1)
        offsets.setdefault(name, offset or 0)
        formats.setdefault(name, set()).add(fmt)
    points, skew = header.sig_len or 0, max(s or 0 for s in header.skew)
    for name, per_frame in values.items():
        file = where.with_name(name)
        expected = ceil(per_frame * points) + offsets[name]
        if formats[name] & set(_FLAC):
            _check_there(file, where)
            check_expansion(file, expected, file.stat().st_size)
        elif points:
            _check_size(file, where, expected, points)
        else:
            _check_there(file, where)
        if skew > (points or file.stat().st_size):
            raise DamagedFileError(f"{where}: has a skew of {skew} points, more than there are")


def _records_of(folder: Path) -> list[Path]:
    listing = folder / "RECORDS"
    if listing.is_file():
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
        listed_names = [line.strip() for line in lines if line.strip()]
        for name in listed_names:
            check_inside(name, listing)
        twice = repeated(listed_names)
        if twice:
            raise DamagedFileError(f"{listing}: names {listed(twice)} more than once")
        names = [folder / name for name in listed_names]
    else:
        names = [file.with_suffix("") for file in sorted(folder.rglob("*.hea"))]
    if not names:
        raise ForeignFileError(f"{folder}: holds no WFDB records (.hea files)")
    return names

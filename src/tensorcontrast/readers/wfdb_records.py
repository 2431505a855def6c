"""WFDB records, the format of PhysioNet: one record, or a folder of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast._recording_checks import listed
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    TruncatedFileError,
)
from tensorcontrast.readers._files import file_errors, optional
from tensorcontrast.recordings import Recordings

# Bytes of one value in the formats of fixed size; others (compressed) are left to wfdb.
_BYTES = {"8": Fraction(1), "16": Fraction(2), "24": Fraction(3), "32": Fraction(4)}
_BYTES |= {"61": Fraction(2), "80": Fraction(1), "160": Fraction(2), "212": Fraction(3, 2)}

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


def read_wfdb(
    path: str | Path,
    *,
    channels: Sequence[str] | None = None,
    window_s: float | None = None,
    window: int | None = None,
    overlap: float = 0.0,
    verify: bool = True,
    allow_nan: bool = False,
) -> Recordings:
    """Read a WFDB record or all records of a folder.

    Without a window every record is one sample, and records of a folder must have one length.
    The column ``record`` has the name of the record of each sample.

    Parameters
    ----------
    path : path
        A record, with or without ``.hea`` or ``.dat``, or a folder that is searched with its
        subfolders (the file ``RECORDS`` is followed where there is one).
    channels : sequence of str, optional
        Signals to read, in this order; all by default.
    window_s, window, overlap
        Windows, as in :meth:`Recordings.from_signals`.
    verify : bool
        Compare the checksums of the header with the signals.
    allow_nan : bool
        Accept missing values, which become NaN.
    """
    source = Path(path).expanduser()
    folder = source.is_dir()
    names = _records_of(source) if folder else [source]
    records = [read_record(name, channels=channels, verify=verify) for name in names]
    first = records[0]
    for name, record in zip(names, records, strict=True):
        for what in ("channels", "fs"):
            if getattr(record, what) != getattr(first, what):
                raise FileError(
                    f"{name}: has {what} {getattr(record, what)}, but {names[0]} has "
                    f"{getattr(first, what)}; read them apart, or pass channels="
                )
    with file_errors(source, "WFDB records"):
        labels = np.asarray([n.relative_to(source).as_posix() if folder else n.name for n in names])
        units = first.units if len(set(first.units)) > 1 else first.units[0]
        about: dict[str, Any] = {"channels": first.channels, "units": units, "name": source.name}
        if window_s is None and window is None:
            odd = [k for k, r in enumerate(records) if r.signals.shape != first.signals.shape]
            if odd:
                raise FileError(
                    f"{names[odd[0]]}: has {records[odd[0]].signals.shape[1]} points, but "
                    f"{names[0]} has {first.signals.shape[1]}; pass window_s= to cut windows"
                )
            X = np.stack([r.signals for r in records])
            columns = {"record": labels}
            return Recordings(X, fs=first.fs, columns=columns, allow_nan=allow_nan, **about)
        return Recordings.from_signals(
            [r.signals for r in records],
            fs=first.fs,
            window_s=window_s,
            window=window,
            overlap=overlap,
            columns={"record": labels},
            allow_nan=allow_nan,
            **about,
        )


def read_record(
    path: str | Path, *, channels: Sequence[str] | None = None, verify: bool = True
) -> WfdbRecord:
    """Read one record and check sizes and checksums against its header."""
    base = Path(path).expanduser()
    if base.suffix in (".hea", ".dat"):
        base = base.with_suffix("")
    header_file = base.with_name(base.name + ".hea")
    if not header_file.is_file():
        raise DataNotFoundError(f"{header_file}: no such file; a WFDB record needs its header")
    with file_errors(header_file, "a WFDB header"):
        quick = _read_plain(header_file, channels, verify)
        if quick is not None:
            return quick
        wfdb = optional("wfdb")
        header = wfdb.rdheader(str(base))
        names = _signal_names(header, header_file)
        plain = hasattr(header, "file_name") and hasattr(header, "fmt")
        if plain:
            _check_sizes(header, header_file)
        picked = _picked(channels, names, header_file)
    with file_errors(base, "a WFDB record"):
        single = plain and all((spf or 1) == 1 for spf in header.samps_per_frame)
        if not (verify and single):
            record = wfdb.rdrecord(str(base), channels=picked)
            signals = record.p_signal
        else:
            record = wfdb.rdrecord(str(base), channels=picked, physical=False)
            for k, said, found in zip(picked, record.checksum, record.calc_checksum(), strict=True):
                if said is not None:
                    _check_sum(names[k], int(said), int(found), base)
            signals = record.dac()
        return WfdbRecord(
            signals=np.ascontiguousarray(signals.T, dtype=np.float32),
            fs=float(record.fs),
            channels=tuple(names[k] for k in picked),
            units=tuple(str(unit) for unit in record.units),
        )


def _signal_names(header: Any, where: Path) -> list[str]:
    """Names of signals; a line that ends too early, which wfdb accepts, is an error here."""
    names = list(header.sig_name or [])
    if not names or not header.n_sig:
        raise ForeignFileError(f"{where}: describes no signals")
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
    if not (fs and points and gains.all()):
        return None
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
    zeros = np.array([int(s["baseline"] or s["zero"]) for s in signals])
    physical = ((d - zeros[picked, None]) / gains[picked, None]).astype(np.float32)
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


def _check_size(file: Path, header: Path, expected: int, points: int) -> None:
    if not file.is_file():
        raise DataNotFoundError(f"{file}: no such file, but {header.name} names it")
    size = file.stat().st_size
    if size < expected or size > expected + 3:  # a writer may pad to a full word, never more
        raise TruncatedFileError(
            f"{file}: has {size} bytes, but {header.name} says {points} points = {expected} bytes; "
            "copy the record again"
        )


def _picked(channels: Sequence[str] | None, names: list[str], where: Path) -> list[int]:
    twice = sorted({name for name in names if names.count(name) > 1})
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
    if not header.sig_len:
        return
    values: dict[str, Fraction] = {}
    for name, fmt, spf, offset in zip(
        header.file_name, header.fmt, header.samps_per_frame, header.byte_offset, strict=True
    ):
        if str(fmt) not in _BYTES or offset:
            return
        values[name] = values.get(name, Fraction(0)) + _BYTES[str(fmt)] * (spf or 1)
    for name, per_frame in values.items():
        expected = ceil(per_frame * header.sig_len)
        _check_size(where.with_name(name), where, expected, header.sig_len)


def _records_of(folder: Path) -> list[Path]:
    listing = folder / "RECORDS"
    if listing.is_file():
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
        names = [folder / line.strip() for line in lines if line.strip()]
    else:
        names = [file.with_suffix("") for file in sorted(folder.rglob("*.hea"))]
    if not names:
        raise ForeignFileError(f"{folder}: holds no WFDB records (.hea files)")
    return names

"""WFDB records, the format of PhysioNet: one record, or a folder of them."""

from __future__ import annotations

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
    wfdb = optional("wfdb")
    base = Path(path).expanduser()
    if base.suffix in (".hea", ".dat"):
        base = base.with_suffix("")
    header_file = base.with_name(base.name + ".hea")
    if not header_file.is_file():
        raise DataNotFoundError(f"{header_file}: no such file; a WFDB record needs its header")
    with file_errors(header_file, "a WFDB header"):
        header = wfdb.rdheader(str(base))
        names = [str(name) for name in header.sig_name or []]
        if not names or not header.n_sig:
            raise ForeignFileError(f"{header_file}: describes no signals")
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
            for name, said, found in zip(
                record.sig_name, record.checksum, record.calc_checksum(), strict=True
            ):
                if said is not None and (int(said) - int(found)) % 65536:
                    raise DamagedFileError(
                        f"{base}: the checksum of signal {name!r} is {found % 65536}, but the "
                        f"header says {said % 65536}; copy the record again (or pass verify=False)"
                    )
            signals = record.dac()
        return WfdbRecord(
            signals=np.ascontiguousarray(signals.T, dtype=np.float32),
            fs=float(record.fs),
            channels=tuple(str(name) for name in record.sig_name),
            units=tuple(str(unit) for unit in record.units),
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
        file = where.with_name(name)
        if not file.is_file():
            raise DataNotFoundError(f"{file}: no such file, but {where.name} names it")
        expected, size = ceil(per_frame * header.sig_len), file.stat().st_size
        # A writer may pad to a full word, never more.
        if size < expected or size > expected + 3:
            raise TruncatedFileError(
                f"{file}: has {size} bytes, but {where.name} says {header.sig_len} points "
                f"= {expected} bytes; copy the record again"
            )


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

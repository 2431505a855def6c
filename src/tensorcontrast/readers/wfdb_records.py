"""WFDB records, the format of PhysioNet, read by wfdb: one record, or a folder of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
from tensorcontrast.readers.signals import different_names, one_rate, picked
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
_NO_SEGMENT = "~"  # in place of the name of a segment: a gap


def load(
    files: Sequence[tuple[str, Path]],
    *,
    channels: Sequence[str] | None = None,
    labels: Labels | None = None,
    annotations: str | None = None,
    resample: float | None = None,
) -> list[Continuous]:
    """Read WFDB records; see :func:`tensorcontrast.readers.read` for the options.

    Signals of several samples per frame keep their own rate. Annotations are the changes of rhythm,
    such as ``(AFIB`` (comments, where there is none). Each lasts until the next, or to the end of
    the record. The texts are without the bracket.
    """
    recordings = []
    for name, file in files:
        one = read_record(
            file,
            channels=channels,
            resample=resample,
            name=name.removesuffix(".hea").removesuffix(".dat"),
        )
        recordings.append((one, file, partial(_annotations, file, annotations or "atr", one)))
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


def _annotations(path: Path, suffix: str, record: Continuous) -> list[tuple[float, float, str]]:
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
        frames = float(found.fs or wfdb.rdheader(str(base)).fs)  # annotations count frames
    for kind in ("+", '"'):
        chosen = [(at, str(note).strip("\0 ")) for at, symbol, note in notes if symbol == kind]
        chosen = [(at, note.removeprefix("(")) for at, note in chosen if note]
        if chosen:
            break
    ends = [*(at for at, _ in chosen[1:]), record.n_times / record.fs * frames]
    return [
        (at / frames, (end - at) / frames, note)
        for (at, note), end in zip(chosen, ends, strict=False)
    ]


def read_record(
    path: str | Path,
    *,
    channels: Sequence[str] | None = None,
    resample: float | None = None,
    name: str = "",
) -> Continuous:
    """Read one record, and check sizes and checksums against its header.

    A record of several segments is one recording, with gaps where a segment is missing; a channel
    that a segment does not have is NaN there.
    """
    base = Path(path).expanduser()
    if base.suffix in (".hea", ".dat"):
        base = base.with_suffix("")
    header = _header(base)
    name = name or base.name
    if getattr(header, "n_seg", None) is None:
        return _record(base, header, channels, resample, name)
    return _segments(base, header, channels, resample, name)


def _header(base: Path) -> Any:
    """Read and check the header of a record or of one with segments."""
    file = base.with_name(base.name + ".hea")
    with file_errors(file, "a WFDB header"):
        if not file.is_file():
            raise DataNotFoundError(f"{file}: no such file; a WFDB record needs its header")
        wfdb = optional("wfdb", "data")
        if file.read_bytes().count(b"\n") > 2 * MOST_CHANNELS:
            raise FileError(f"{file}: is too long for the header of a record")
        header = wfdb.rdheader(str(base))
        if getattr(header, "n_seg", None) is None:
            _check_fields(header, file)
        elif len(header.seg_name) != header.n_seg or sum(header.seg_len) != header.sig_len:
            raise DamagedFileError(f"{file}: its segments are not as many or as long as it says")
        else:
            for segment in header.seg_name:
                if segment != _NO_SEGMENT:
                    _check_name(segment, file)
    return header


def _record(
    base: Path, header: Any, channels: Sequence[str] | None, resample: float | None, name: str
) -> Continuous:
    """Read a record of one segment."""
    file = base.with_name(base.name + ".hea")
    with file_errors(file, "a WFDB header"):
        names = _signal_names(header, file)
        _check_sizes(header, file)
        rows = picked(names, channels, file)
    chosen = [names[k] for k in rows]
    with file_errors(base, "a WFDB record"), np.errstate(all="ignore"):
        wfdb = optional("wfdb", "data")
        record = wfdb.rdrecord(str(base), channels=rows, physical=False, smooth_frames=False)
        sums = record.calc_checksum(expanded=True)
        for label, said, total in zip(chosen, record.checksum, sums, strict=True):
            if said is not None and (int(said) - int(total)) % 65536:
                raise DamagedFileError(
                    f"{base}: the checksum of signal {label!r} is {int(total) % 65536}, but the "
                    f"header says {int(said) % 65536}; copy the record again"
                )
        signals = [values.astype(np.float32) for values in record.dac(expanded=True)]
        for label, values in zip(chosen, signals, strict=True):
            if np.isinf(values).any():
                raise DamagedFileError(
                    f"{base}: the gain of signal {label!r} makes its values infinite"
                )
        rates = [as_sampling_rate(record.fs * (spf or 1)) for spf in record.samps_per_frame]
        values, fs = one_rate(signals, rates, chosen, resample, base)
    return Continuous(
        name=name,
        pieces=[(0, values)],
        fs=fs,
        channels=tuple(chosen),
        units=tuple(str(unit) for unit in record.units),
        start=getattr(header, "base_datetime", None),
    )


def _segments(
    base: Path, header: Any, channels: Sequence[str] | None, resample: float | None, name: str
) -> Continuous:
    """Read a record of several segments as one recording."""
    parts: list[tuple[int, Continuous]] = []
    names: list[str] = []
    at = 0  # in frames
    for segment, length in zip(header.seg_name, header.seg_len, strict=True):
        if segment != _NO_SEGMENT:
            file = base.with_name(segment)
            own = _header(file)
            labels = _signal_names(own, file.with_name(segment + ".hea"))
            names += [label for label in labels if label not in names]
            if length:
                wanted = None if channels is None else [c for c in channels if c in labels]
                if wanted != []:
                    parts.append((at, _record(file, own, wanted, resample, segment)))
        at += length
    where = base.with_name(base.name + ".hea")
    rows = [names[k] for k in picked(names, channels, where)]
    if not parts:
        raise FileError(f"{where}: all of its segments are empty")
    first = parts[0][1]
    factor = first.fs / float(header.fs)
    units = dict.fromkeys(rows, "")
    pieces: list[tuple[int, npt.NDArray[Any]]] = []
    for start, part in parts:
        for channel, unit in zip(part.channels, part.units or (), strict=False):
            if units[channel] not in ("", unit):
                raise FileError(
                    f"{where}: {channel!r} is in {units[channel]!r} and in {unit!r}; read its "
                    "segments apart"
                )
            units[channel] = unit
        if part.fs != first.fs:
            raise FileError(
                f"{where}: segments have {first.fs:g} and {part.fs:g} Hz; pass resample="
            )
        values = np.full((len(rows), part.n_times), np.nan, dtype=np.float32)
        for k, channel in enumerate(part.channels):
            values[rows.index(channel)] = part.pieces[0][1][k]
        offset = round(start * factor)
        if pieces and pieces[-1][0] + pieces[-1][1].shape[1] == offset:
            before, x = pieces.pop()
            offset, values = before, np.concatenate([x, values], axis=1)
        pieces.append((offset, values))
    return Continuous(
        name=name,
        pieces=pieces,
        fs=first.fs,
        channels=tuple(rows),
        units=tuple(units.values()),
        start=getattr(header, "base_datetime", None),
    )


def _check_fields(header: Any, where: Path) -> None:
    """Check what a header says before wfdb acts on it: names of files and sizes of numbers."""
    if len(header.file_name or ()) != header.n_sig:
        raise TruncatedFileError(
            f"{where}: says {header.n_sig} signals but describes {len(header.file_name)}"
        )
    for k, name in enumerate(header.file_name or ()):
        if name != _NO_SEGMENT:  # of a layout, which has no signals
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
    # Names may be left out, but not of some signals only, nor by a file cut within a line.
    if nameless and (len(nameless) < len(names) or where.read_bytes()[-1:] != b"\n"):
        raise TruncatedFileError(
            f"{where}: the line of signal {nameless[0]} ends too early; copy the record again"
        )
    if nameless:
        return [f"signal {k}" for k in range(len(names))]
    return different_names([str(name) for name in names])


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
        names = _whole_records(sorted(folder.rglob("*.hea")))
    if not names:
        raise ForeignFileError(f"{folder}: holds no WFDB records (.hea files)")
    return names


def _whole_records(headers: list[Path]) -> list[Path]:
    """Leave out layouts and segments of other records."""
    segments: set[Path] = set()
    for header in headers:
        lines = header.read_text(encoding="utf-8", errors="replace").splitlines()
        lines = [line for line in lines if line.strip() and not line.startswith("#")]
        if lines and "/" in lines[0].split()[0]:
            names = [line.split()[0] for line in lines[1:] if line.split()]
            segments |= {header.with_name(f"{name}.hea") for name in names}
    return [header.with_suffix("") for header in headers if header not in segments]

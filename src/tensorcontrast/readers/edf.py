"""EDF, EDF+, BDF and BDF+ files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    TensorContrastWarning,
    TruncatedFileError,
)
from tensorcontrast.readers.annotations import (
    Labels,
    annotation_files,
    partners,
    with_annotations,
)
from tensorcontrast.readers.files import file_errors
from tensorcontrast.recordings.checks import as_sampling_rate, repeated
from tensorcontrast.recordings.continuous import Continuous
from tensorcontrast.recordings.sampling import resampled
from tensorcontrast.utils.names import listed
from tensorcontrast.utils.optional import optional

#: Code, sex, date of birth and name of a patient, as EDF+ has them; X where they are not known.
_PATIENT = re.compile(r"(\S+) [MFX] (?:X|\d\d-[A-Za-z]{3}-\d{4}) \S+(?: .*)?")

#: Seconds of a data record that are believed: a microsecond to four months.
MIN_RECORD_S, MAX_RECORD_S = 1e-6, 1e7


def load(
    files: Sequence[tuple[str, Path]],
    *,
    channels: Sequence[str] | None = None,
    labels: Labels | None = None,
    annotations: str | Path | None = None,
    resample: float | None = None,
) -> list[Continuous]:
    """Read EDF or BDF files; see :func:`tensorcontrast.readers.read` for the options.

    The group of a recording is the patient code of the header, in the form of EDF+ and BDF+, or
    the name of the file where there is none. Among many files, those that hold annotations only
    are the labels of the file whose name begins most like theirs.
    """
    source = files[0][1] if len(files) == 1 else files[0][1].parent
    opened = {file: open_edf(file) for _, file in files}
    paired: dict[Path, Path] = {}
    if len(files) > 1 or annotations is not None:
        only = [file for file, edf in opened.items() if _annotations_only(edf, file)]
        separate = only
        if annotations is not None:
            found = {p for _, file in files for p in annotation_files(annotations, file)}
            separate = sorted(found)
        files = [(name, file) for name, file in files if file not in {*only, *separate}]
        if not files:
            raise FileError(f"{source}: holds annotations only, no signals")
        if labels is not None:
            paired = partners([file for _, file in files], separate)
    recordings = [
        (
            _recording(opened[file], file, name, len(files) > 1, channels, resample),
            paired.get(file, file),
            partial(_texts, opened[file], file, paired.get(file), annotations is not None),
        )
        for name, file in files
    ]
    return with_annotations(source, recordings, labels)


def _recording(
    edf: Any,
    source: Path,
    name: str,
    many: bool,
    channels: Sequence[str] | None,
    resample: float | None,
) -> Continuous:
    """Signals of one file; signals of several rates are brought to ``resample``."""
    picked = pick_signals(edf, channels, source)
    with file_errors(source, "EDF"):
        rates = {_text(s.label): as_sampling_rate(s.sampling_frequency) for s in picked}
    several = len(set(rates.values())) > 1
    if several and resample is None:
        slowest = min(rates, key=lambda label: rates[label])
        fastest = max(rates, key=lambda label: rates[label])
        each = ", ".join(f"{listed([k])} {rates[k]:g} Hz" for k in (fastest, slowest))
        raise FileError(
            f"{source}: the signals have several sampling rates ({each}); pass channels= with "
            f"those of one rate, or resample={rates[fastest]:g} (--resample) to bring all to one"
        )
    with file_errors(source, "EDF signals"):
        with np.errstate(all="ignore"):
            each_signal = [np.asarray(s.data, dtype=np.float32) for s in picked]
        if several and resample is not None:
            each_signal = _one_rate(each_signal, list(rates.values()), resample)
        signals = np.stack(each_signal)
        if not np.isfinite(signals).all():
            bad = int(np.flatnonzero(~np.isfinite(signals).all(axis=1))[0])
            raise DamagedFileError(
                f"{source}: the scale of channel {list(rates)[bad]!r} takes it out of the range of "
                "float32; pass channels= without it"
            )
        # Files of one name in several folders are not of one subject.
        stem = Path(name).with_suffix("").as_posix() if many else source.stem
        return Continuous(
            name=name,
            pieces=[(0, signals)],
            fs=resample if several and resample is not None else next(iter(rates.values())),
            channels=tuple(rates),
            units=tuple(_text(s.physical_dimension) for s in picked),
            group=_patient_code(edf) or stem,
        )


def _one_rate(
    signals: list[npt.NDArray[np.float32]], rates: list[float], new: float
) -> list[npt.NDArray[np.float32]]:
    """Signals of several rates at one; the shortest ends all."""
    found = [
        x if old == new else resampled(x, old, new) for x, old in zip(signals, rates, strict=True)
    ]
    length = min(len(x) for x in found)
    return [x[:length] for x in found]


def annotations_only(path: Path) -> bool:
    """Whether a file is EDF or BDF without signals, by its header alone; damage is not reported."""
    if path.suffix.lower() not in (".edf", ".bdf"):
        return False
    with file_errors(path, "EDF"), path.open("rb") as stream:
        fixed = stream.read(256)
        count = fixed[252:256].strip()
        n = int(count) if count.isdigit() else 0
        labels = [stream.read(16).rstrip(b"\0 ") for _ in range(n)]
    return n > 0 and set(labels) <= {b"EDF Annotations", b"BDF Annotations"}


def _annotations_only(edf: Any, where: Path) -> bool:
    with file_errors(where, "EDF"):
        return not list(edf.signals)


def _texts(
    edf: Any, file: Path, partner: Path | None, needs_partner: bool
) -> list[tuple[float, float, str]]:
    """Annotations of a recording in seconds from its start, its own or those of its partner."""
    if partner is None:
        if needs_partner:
            raise DataNotFoundError(
                f"{file}: there is no file with its annotations; pass annotations= "
                "(--annotations) a pattern for these files"
            )
        return read_annotations(edf, file)
    other = open_edf(partner)
    shift = start_shift(edf, file, other, partner)
    found = read_annotations(other, partner)
    return [(onset + shift, duration, text) for onset, duration, text in found]


def start_shift(edf: Any, where: Path, other: Any, other_where: Path) -> float:
    """Seconds from the start of a recording to that of another file, such as a hypnogram."""
    try:
        return float((other.startdatetime - edf.startdatetime).total_seconds())
    except Exception:  # dates may be anonymised or not valid; times of day remain
        half, seconds = 12 * 3600, []
        for one, file in ((edf, where), (other, other_where)):
            with file_errors(file, "an EDF start time"):
                at = one.starttime
            seconds.append(at.hour * 3600 + at.minute * 60 + at.second + at.microsecond / 1e6)
        return float((seconds[1] - seconds[0] + half) % (2 * half) - half)


def open_edf(path: Path) -> Any:
    """Open an EDF or BDF file with edfio after checking header and size."""
    edfio = optional("edfio", "data")
    with file_errors(path, "EDF"):
        bdf, records = _check_header(path)
        content: Path | bytes = path
        if records is not None:  # the header leaves the number out, at which edfio would warn
            raw = path.read_bytes()
            content = raw[:236] + str(records).ljust(8).encode() + raw[244:]
        edf = edfio.read_bdf(content) if bdf else edfio.read_edf(content)
        if "+D" in str(edf.reserved) and not edf.is_continuous:
            raise FileError(
                f"{path}: the recording has gaps (EDF+D); joining its parts would be wrong. "
                "Split it into continuous files first"
            )
    return edf


def pick_signals(edf: Any, channels: Sequence[str] | None, where: Path) -> list[Any]:
    """Signals by label, in the order asked for; a missing one is an error that lists all."""
    with file_errors(where, "EDF"):
        signals = list(edf.signals)
        labels = [_text(s.label) for s in signals]
        if not signals:
            raise FileError(f"{where}: holds annotations only, no signals")
        wanted = labels if channels is None else list(channels)
        place = {label: k for k, label in enumerate(labels)}
        missing = [c for c in wanted if c not in place]
        if missing:
            raise FileError(
                f"{where}: no channel {listed(missing)}; there are {listed(labels, 40)}"
            )
        twice = sorted(set(wanted) & set(repeated(labels)) | set(repeated(wanted)))
        if twice:
            raise FileError(
                f"{where}: channel {listed(twice)} is there more than once; pass channels= "
                "without it"
            )
        picked = [signals[place[c]] for c in wanted]
        for signal in picked:
            _check_scale(signal, where)
        return picked


def _text(field: Any) -> str:
    """Text of a header; some recorders fill it up with zeros in place of blanks."""
    return str(field).rstrip("\0 ")


def _patient_code(edf: Any) -> str:
    """Patient code of the header, where the field has the form of EDF+; empty where it has not.

    Other than in EDF+, the field is free text, often a name.
    """
    found = _PATIENT.fullmatch(_text(edf.local_patient_identification))
    code = "" if found is None else found[1]
    return "" if code.upper() == "X" else code


def _check_scale(signal: Any, where: Path) -> None:
    """Raise where values cannot be brought to their unit; edfio would leave them as they are."""
    try:
        digital, physical = tuple(signal.digital_range), tuple(signal.physical_range)
        steps = digital[1] - digital[0]
        gain = (physical[1] - physical[0]) / steps
        good = steps > 0 and gain != 0 and bool(np.isfinite([*digital, *physical, gain]).all())
    except (ValueError, ZeroDivisionError, OverflowError):
        good = False
    if not good:
        raise DamagedFileError(
            f"{where}: the header does not say how to scale channel {_text(signal.label)!r} "
            "(digital and physical minimum and maximum); pass channels= without it"
        )


def read_annotations(edf: Any, where: Path) -> list[tuple[float, float, str]]:
    """Annotations of an EDF+ file: onset and duration in seconds, and text."""
    with file_errors(where, "EDF+ annotations"):
        return [(float(a.onset), float(a.duration or 0.0), str(a.text)) for a in edf.annotations]


def resample_hold(
    values: npt.NDArray[Any], rate: float, target: float, how: str
) -> npt.NDArray[np.float32]:
    """Bring a slow signal to a faster rate by repeating its values or by straight lines.

    The rates must be in a whole ratio. Nothing is filtered: a signal at 1 Hz stays what it is.
    """
    ratio = round(target / rate)
    if ratio < 1 or abs(ratio * rate - target) > 1e-6 * target:
        raise FileError(f"a signal at {rate:g} Hz cannot be brought to {target:g} Hz")
    if ratio == 1:
        return values.astype(np.float32)
    if how == "repeat":
        return np.repeat(values.astype(np.float32), ratio)
    at = np.arange(len(values) * ratio) / ratio
    return np.asarray(np.interp(at, np.arange(len(values)), values), dtype=np.float32)


def _check_header(path: Path) -> tuple[bool, int | None]:
    """Check that header and size agree.

    Returns whether the file is BDF, and the number of data records if the header leaves it out.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        fixed = stream.read(256)
        bdf = fixed[:8] == b"\xffBIOSEMI"
        if not bdf and fixed[:8] != b"0       ":
            raise ForeignFileError(f"{path}: does not start like an EDF or BDF file")
        if len(fixed) < 256:
            raise TruncatedFileError(f"{path}: ends within its header, after {size} bytes")
        header_bytes = _number(fixed[184:192], "the size of the header", path)
        records = _number(fixed[236:244], "the number of data records", path)
        signals = _number(fixed[252:256], "the number of signals", path)
        if signals < 1 or header_bytes != 256 * (signals + 1):
            raise DamagedFileError(
                f"{path}: the header says {signals} signals in {header_bytes} bytes of header"
            )
        rest = stream.read(256 * signals)
    if len(rest) < 256 * signals:
        raise TruncatedFileError(f"{path}: ends within its header, after {size} bytes")
    _check_rates(rest, fixed[244:252], signals, path)
    counts = rest[216 * signals : 224 * signals]
    points = 0
    for k in range(signals):
        count = _number(counts[8 * k : 8 * k + 8], f"the record length of signal {k}", path)
        if count < 1:
            raise DamagedFileError(f"{path}: signal {k} has {count} points a data record")
        points += count
    record_bytes = points * (3 if bdf else 2)
    if records == -1 and size > header_bytes and (size - header_bytes) % record_bytes == 0:
        records = (size - header_bytes) // record_bytes
        warnings.warn(
            f"{path}: was not closed by its recorder and does not say how long it is; all "
            f"{records} data records are read",
            TensorContrastWarning,
            stacklevel=2,
        )
        return bdf, records
    if records < 1:
        raise DamagedFileError(f"{path}: the header says {records} data records")
    expected = header_bytes + records * record_bytes
    if size != expected:
        raise TruncatedFileError(
            f"{path}: has {size} bytes, but its header says {records} data records = {expected} "
            "bytes; copy the file again"
        )
    return bdf, None


def _check_rates(rest: bytes, duration: bytes, signals: int, path: Path) -> None:
    """Raise where a data record does not last a time that makes a sampling rate.

    A file that holds annotations only may say 0.
    """
    labels = [rest[16 * k : 16 * k + 16].rstrip(b"\0 ") for k in range(signals)]
    if all(label in (b"EDF Annotations", b"BDF Annotations") for label in labels):
        return
    try:
        seconds = float(duration.decode("ascii"))
    except ValueError:
        seconds = float("nan")
    if not MIN_RECORD_S <= seconds <= MAX_RECORD_S:
        raise DamagedFileError(
            f"{path}: the duration of a data record is {duration!r}; {MIN_RECORD_S:g} to "
            f"{MAX_RECORD_S:g} seconds are read"
        )


def _number(field: bytes, what: str, path: Path) -> int:
    try:
        text = field.decode("ascii").strip()
        if "_" in text:  # which Python takes for a separator of digits
            raise ValueError(text)
        return int(text)
    except ValueError:
        raise DamagedFileError(f"{path}: {what} is {field!r}, not a number") from None

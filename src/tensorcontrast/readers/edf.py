"""EDF, EDF+, BDF and BDF+ files, read by edfio."""

from __future__ import annotations

import datetime as dt
import io
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
from tensorcontrast.readers.signals import different_names, one_rate, picked
from tensorcontrast.recordings.checks import as_sampling_rate
from tensorcontrast.recordings.continuous import Continuous
from tensorcontrast.recordings.windows import label_segments
from tensorcontrast.utils.optional import optional

#: Code, sex, date of birth and name of a patient, as EDF+ has them; X where they are not known.
_PATIENT = re.compile(r"(\S+) [MFX] (?:X|\d\d-[A-Za-z]{3}-\d{4}) \S+(?: .*)?")

#: Seconds of a data record that are believed: a microsecond to four months.
MIN_RECORD_S, MAX_RECORD_S = 1e-6, 1e7
#: The channel of triggers of BDF files; its lower 16 bits are codes of events.
STATUS = "Status"


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
    chosen = pick_signals(edf, channels, source)
    with file_errors(source, "EDF signals"):
        rates = [as_sampling_rate(s.sampling_frequency) for s in chosen.values()]
        lengths = [s.samples_per_data_record * edf.num_data_records for s in chosen.values()]
        fs = rates[0]
        if len(set(rates)) == 1:  # written in place, as recordings are long
            values = np.empty((len(lengths), lengths[0]), dtype=np.float32)
            for row, (label, signal) in zip(values, chosen.items(), strict=True):
                _write_physical(row, signal, label, source)
        else:
            signals = [
                _write_physical(np.empty(n, dtype=np.float32), signal, label, source)
                for n, (label, signal) in zip(lengths, chosen.items(), strict=True)
            ]
            values, fs = one_rate(signals, rates, list(chosen), resample, source)
    # Files of one name in several folders are not of one subject.
    stem = Path(name).with_suffix("").as_posix() if many else source.stem
    return Continuous(
        name=name,
        pieces=[(0, values)],
        fs=fs,
        channels=tuple(chosen),
        units=tuple(_text(s.physical_dimension) for s in chosen.values()),
        group=_patient_code(edf) or stem,
        start=start_of(edf),
    )


def _write_physical(
    out: npt.NDArray[np.float32], signal: Any, label: str, where: Path
) -> npt.NDArray[np.float32]:
    """Write the values of a signal in its unit: p = p₀ + (d − d₀) · gain, of digital values d."""
    (low, high), (bottom, top) = signal.digital_range, signal.physical_range
    gain = (top - bottom) / (high - low)
    digital = signal.digital
    with np.errstate(all="ignore"):
        reach = np.float32(abs(gain) * 2.0 ** (8 * digital.itemsize) + abs(bottom))
    if not np.isfinite(reach):
        raise DamagedFileError(
            f"{where}: the scale of channel {label!r} takes it out of the range of float32; pass "
            "channels= without it"
        )
    # 24 bits need more digits on the way.
    kind = np.float32 if digital.itemsize == 2 else np.float64
    np.multiply(digital, kind(gain), out=out, dtype=kind, casting="unsafe")
    out += np.float32(bottom - low * gain)
    return out


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
    half, seconds = 12 * 3600, []
    for one, file in ((edf, where), (other, other_where)):
        with file_errors(file, "an EDF start time"):
            at = one.starttime
        seconds.append(at.hour * 3600 + at.minute * 60 + at.second + at.microsecond / 1e6)
    starts = start_of(edf), start_of(other)
    if starts[1] is None and not seconds[1]:
        return 0.0  # annotations that do not say when they begin count from the recording
    if starts[0] is not None and starts[1] is not None:
        shift = (starts[1] - starts[0]).total_seconds()
        if abs(shift) < 7 * 86400:
            return shift
    # Dates may be anonymised or not valid; times of day remain.
    return float((seconds[1] - seconds[0] + half) % (2 * half) - half)


def annotations_file(
    annotations: Sequence[tuple[float, float, str]], start: dt.datetime | None, patient: str
) -> bytes:
    """Contents of an EDF+ file of annotations, with the start and the patient of the recording."""
    edfio = optional("edfio", "data")
    buffer = io.BytesIO()
    more: dict[str, Any] = {}
    if re.fullmatch(r"[!-~]{1,60}", patient):
        more["patient"] = edfio.Patient(code=patient)
    if start is not None and 1985 <= start.year < 2085:
        more["starttime"] = start.time().replace(tzinfo=None)
        more["recording"] = edfio.Recording(startdate=start.date())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fractions of a second in the start
        notes = [edfio.EdfAnnotation(*one) for one in annotations]
        edfio.Edf([], annotations=notes, **more).write(buffer)
    return buffer.getvalue()


def open_edf(path: Path) -> Any:
    """Open an EDF or BDF file with edfio; what it would only warn of is an error."""
    edfio = optional("edfio", "data")
    with file_errors(path, "EDF"):
        with path.open("rb") as stream:
            fixed = stream.read(256)
        if fixed[:8] not in (b"\xffBIOSEMI", b"0       "):
            raise ForeignFileError(f"{path}: does not start like an EDF or BDF file")
        records, count = (_number(fixed[a : a + b], path) for a, b in ((236, 8), (252, 4)))
        if len(fixed) < 256 or path.stat().st_size < 256 * (count + 1):
            raise TruncatedFileError(f"{path}: ends within its header")
        if count < 1 or _number(fixed[184:192], path) != 256 * (count + 1):
            raise DamagedFileError(f"{path}: the header has another size than {count} signals need")
        read = edfio.read_bdf if fixed[:1] == b"\xff" else edfio.read_edf
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            edf = read(path, header_encoding="latin-1")
        cut = any("Incomplete" in str(w.message) for w in caught)
        if records == -1 and not cut and edf.num_data_records:
            warnings.warn(
                f"{path}: was not closed by its recorder and does not say how long it is; all "
                f"{edf.num_data_records} data records are read",
                TensorContrastWarning,
                stacklevel=2,
            )
        elif cut or edf.num_data_records != records or not records:
            raise TruncatedFileError(
                f"{path}: its header says {records} data records, but the file has "
                f"{edf.num_data_records}{' and a part' if cut else ''}; copy the file again"
            )
        if list(edf.signals) and not MIN_RECORD_S <= edf.data_record_duration <= MAX_RECORD_S:
            raise DamagedFileError(
                f"{path}: the duration of a data record is {edf.data_record_duration:g}; "
                f"{MIN_RECORD_S:g} to {MAX_RECORD_S:g} seconds are read"
            )
        if "+D" in str(edf.reserved) and not edf.is_continuous:
            raise FileError(
                f"{path}: the recording has gaps (EDF+D); joining its parts would be wrong. "
                "Split it into continuous files first"
            )
    return edf


def _number(field: bytes, path: Path) -> int:
    """Return a whole number of the header, in plain digits."""
    text = field.decode("latin-1").strip()
    if not re.fullmatch(r"-?\d+", text, re.ASCII):
        raise DamagedFileError(f"{path}: the header says {field!r}, which is not a number")
    return int(text)


def pick_signals(edf: Any, channels: Sequence[str] | None, where: Path) -> dict[str, Any]:
    """Signals by label, in the order asked for; labels that repeat get numbers.

    The channel of triggers of BDF files holds events and is no signal, unless it is asked for.
    """
    with file_errors(where, "EDF"):
        signals = list(edf.signals)
        if not signals:
            raise FileError(f"{where}: holds annotations only, no signals")
        labels = different_names([_text(s.label) for s in signals])
        chosen = {labels[k]: signals[k] for k in picked(labels, channels, where)}
        if channels is None and type(edf).__name__ == "Bdf" and len(chosen) > 1:
            chosen.pop(STATUS, None)
        for label, signal in chosen.items():
            _check_scale(signal, label, where)
        return chosen


def _text(field: Any) -> str:
    """Text of a header; some recorders fill it up with zeros in place of blanks."""
    return str(field).rstrip("\0 ")


def _patient_code(edf: Any) -> str:
    """Patient code of the header, where the field has the form of EDF+; empty where it has not.

    Other than in EDF+, the field is free text, often a name.
    """
    field = _PATIENT.fullmatch(_text(edf.local_patient_identification))
    code = "" if field is None else field[1]
    return "" if code.upper() == "X" else code


def start_of(edf: Any) -> dt.datetime | None:
    """Date and time of the first sample, where the header says them."""
    try:
        start: dt.datetime = edf.startdatetime
    except Exception:  # dates may be anonymised or not valid
        return None
    return start


def _check_scale(signal: Any, label: str, where: Path) -> None:
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
            f"{where}: the header does not say how to scale channel {label!r} (digital and "
            "physical minimum and maximum); pass channels= without it"
        )


def read_annotations(edf: Any, where: Path) -> list[tuple[float, float, str]]:
    """Annotations of a file: onset and duration in seconds (0 for none), and text.

    Of a BDF file without annotations they are the codes of its triggers, as long as they last.
    """
    with file_errors(where, "EDF+ annotations"):
        notes = [(float(a.onset), float(a.duration or 0.0), str(a.text)) for a in edf.annotations]
        status = [s for s in edf.signals if type(edf).__name__ == "Bdf" and s.label == STATUS]
        if notes or not status:
            return notes
        codes = (status[0].digital & 0xFFFF).astype(np.int64)
        rate = float(status[0].sampling_frequency)
        return [
            (run.start / rate, (run.stop - run.start) / rate, str(run.label))
            for run in label_segments(np.where(codes == 0, -1, codes))
        ]

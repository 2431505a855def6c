"""Continuous recordings, as every reader of long signals gives them, and their windows."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import FileError, InvalidInputError, TensorContrastWarning
from tensorcontrast.recordings.checks import as_sampling_rate
from tensorcontrast.recordings.sampling import resampled
from tensorcontrast.recordings.windows import (
    MIN_LABEL_SHARE,
    Segment,
    cut,
    default_window_s,
    label_windows,
    window_points,
)
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

__all__ = [
    "RATE_TOLERANCE",
    "Continuous",
    "Cutting",
    "at_rate",
    "rounded_rate",
    "windows_of",
]

#: Largest difference between the rate of a file and the one that is asked for, as a share.
RATE_TOLERANCE = 0.005
#: Largest difference between the rates of two recordings that clocks explain, as a share.
CLOCK_TOLERANCE = 1e-3
#: Factors to volts and to m/s² of the units that are brought to each other.
_SAME_QUANTITY: tuple[dict[str, float], ...] = (
    {"V": 1.0, "mV": 1e-3, "uV": 1e-6, "µV": 1e-6, "μV": 1e-6, "nV": 1e-9},
    {"g": 9.80665, "mg": 9.80665e-3, "m/s²": 1.0, "m/s^2": 1.0, "m/s2": 1.0},
)


@dataclass(frozen=True)
class Continuous:
    """One continuous recording, in one piece or with gaps.

    Attributes
    ----------
    name : str
        Name of the recording, such as that of its file.
    pieces : list of (int, array of shape (channel, time))
        Stretches without a gap: the first sample, counted from the start of the recording, and the
        signals.
    segments : list of Segment, optional
        Labelled stretches in samples from the start of the recording; None where no labels are
        known.
    group : str or int, optional
        Subject.
    start : datetime, optional
        Date and time of the first sample.
    understood : str
        How a table was read, in one line.
    """

    name: str
    pieces: list[tuple[int, npt.NDArray[Any]]]
    fs: float
    channels: tuple[str, ...]
    units: tuple[str, ...] | None = None
    segments: list[Segment] | None = None
    group: Any = None
    start: dt.datetime | None = None
    understood: str = ""

    @property
    def n_times(self) -> int:
        """Samples from the first to the last, gaps included."""
        offset, signals = self.pieces[-1]
        return offset + signals.shape[1]


@dataclass(frozen=True)
class Cutting:
    """How recordings are cut into windows, and which windows are kept.

    Attributes
    ----------
    window_s, window, overlap
        As in :meth:`Recordings.from_signals`.
    label_share : float
        Share of a window that its label must cover; below it the window is unlabelled.
    drop_unlabelled : bool
        Leave out windows without a label.
    inside_annotations : bool
        Cut each labelled segment on its own, from its start, and nothing else.
    allow_nan : bool
        Accept missing values.
    resample : float, optional
        Bring all recordings to this rate before they are cut.
    name : str
        Name of the data set.
    """

    window_s: float | None = None
    window: int | None = None
    overlap: float = 0.0
    label_share: float = MIN_LABEL_SHARE
    drop_unlabelled: bool = False
    inside_annotations: bool = False
    allow_nan: bool = False
    resample: float | None = None
    name: str = ""


def _times(segments: Sequence[Segment], factor: float) -> list[Segment]:
    return [Segment(s.start * factor, s.stop * factor, s.label) for s in segments]


def at_rate(recording: Continuous, fs: float) -> Continuous:
    """Bring a recording to another rate; one that differs as clocks do is taken as it is."""
    new = as_sampling_rate(fs)
    if abs(recording.fs - new) <= CLOCK_TOLERANCE * new:
        return replace(recording, fs=new)
    factor = new / recording.fs
    try:
        pieces = [
            (round(offset * factor), resampled(signals, recording.fs, new))
            for offset, signals in recording.pieces
        ]
    except InvalidInputError as error:
        raise FileError(f"{recording.name}: {error}") from error
    segments = recording.segments
    return replace(
        recording,
        fs=new,
        pieces=pieces,
        segments=None if segments is None else _times(segments, factor),
    )


def windows_of(where: object, recordings: Sequence[Continuous], how: Cutting) -> Recordings:
    """Cut continuous recordings into windows.

    No window spans a gap, and none spans two recordings. The column ``recording`` has the name of
    the recording of each window, and ``start`` its first sample, counted from the start of the
    recording. Where recordings say when they began, ``recording_start`` has it in ISO form.
    """
    from tensorcontrast.recordings import Recordings  # which cuts signals by this module

    if how.resample is not None:
        recordings = [at_rate(recording, how.resample) for recording in recordings]
    first = recordings[0]
    _check_rates(where, recordings)
    alike = [_like(where, recording, first) for recording in recordings]
    rates = [recording.fs for recording in alike]
    fs = rates[0] if len(set(rates)) == 1 else rounded_rate(float(np.median(rates)), 0)
    window_s, window = how.window_s, how.window
    if window_s is None and window is None:
        longest = max(recording.n_times for recording in alike)
        window_s = default_window_s(where, longest, fs)
    if window is None and window_s == math.inf:
        points = alike[0].n_times
        for recording in alike:
            if len(recording.pieces) > 1 or recording.n_times != points:
                why = (
                    "has gaps in time"
                    if len(recording.pieces) > 1
                    else f"has {recording.n_times} samples, but {alike[0].name} has {points}"
                )
                raise FileError(
                    f"{where}: {recording.name} {why}; pass window_s= (--window) to cut windows"
                )
    else:
        points = window_points(fs, window_s, window)
    labelled = any(recording.segments is not None for recording in alike)
    if (how.inside_annotations or how.drop_unlabelled) and not labelled:
        raise InvalidInputError(
            f"{where}: only labelled windows were asked for, but no labels were named; name the "
            "column or the annotations that hold them"
        )
    step = max(1, round(points * (1 - how.overlap)))
    parts = [_pieces(recording, how.inside_annotations) for recording in alike]
    _check_lengths(where, alike, parts, points, how.inside_annotations)
    _tell_gaps(where, alike, points, step)
    signals = [signal for part in parts for _, signal in part]
    source = np.repeat(np.arange(len(alike)), [len(part) for part in parts])
    offsets = np.array([offset for part in parts for offset, _ in part], dtype=np.int64)
    found = cut(
        signals,
        fs=None,
        window_s=None,
        window=points,
        overlap=how.overlap,
        labels=None,
        label_rule="majority",
        time_axis=-1,
        short="drop",
        classes=None,
    )
    owner = source[found.recording]
    start = offsets[found.recording] + found.start
    y = np.full(len(start), None, dtype=object)
    for k, recording in enumerate(alike):
        if recording.segments is not None:
            own = owner == k
            y[own] = label_windows(
                start[own], start[own] + points, recording.segments, min_share=how.label_share
            )
    names = np.asarray([recording.name for recording in alike])
    groups = None if first.group is None else np.asarray([r.group for r in alike])[owner]
    units = None
    if first.units is not None:
        units = first.units if len(set(first.units)) > 1 else first.units[0]
    columns = {"recording": names[owner], "start": start}
    if any(recording.start is not None for recording in alike):
        began = ["" if r.start is None else r.start.isoformat() for r in alike]
        columns["recording_start"] = np.asarray(began)[owner]
    rec = Recordings(
        found.X,
        y if labelled else None,
        groups=groups,
        fs=fs,
        channels=first.channels,
        units=units,
        columns=columns,
        allow_nan=how.allow_nan,
        name=how.name,
    )
    rec.understood = _understood(alike)
    return _labelled(where, rec, how) if labelled else rec


def _labelled(where: object, rec: Recordings, how: Cutting) -> Recordings:
    assert rec.y is not None
    known = rec.y >= 0
    if not known.any():
        message = (
            f"{where}: no label covers {how.label_share:.0%} of a window, so that none of "
            f"{len(rec)} windows has a label; take shorter windows, or a smaller share"
        )
        if how.drop_unlabelled:
            raise FileError(message)
        warnings.warn(message, TensorContrastWarning, stacklevel=2)
    if how.drop_unlabelled and not known.all():
        warnings.warn(
            f"{where}: left out {int((~known).sum())} of {len(rec)} windows, of which no label "
            f"covers {how.label_share:.0%}",
            TensorContrastWarning,
            stacklevel=2,
        )
        return rec[known]
    return rec


def _check_rates(where: object, recordings: Sequence[Continuous]) -> None:
    """Raise where recordings have several sampling rates, with the names of those of each."""
    by_rate: dict[float, list[str]] = {}
    for recording in recordings:
        same = [r for r in by_rate if abs(recording.fs - r) <= CLOCK_TOLERANCE * r]
        by_rate.setdefault(same[0] if same else recording.fs, []).append(recording.name)
    if len(by_rate) > 1:
        each = "; ".join(f"{rate:g} Hz: {listed(names, 4)}" for rate, names in by_rate.items())
        raise FileError(
            f"{where}: the recordings have several sampling rates ({each}); pass "
            f"resample={min(by_rate):g} (--resample {min(by_rate):g}) to bring all to one rate, or "
            "read them apart"
        )


def _understood(recordings: Sequence[Continuous]) -> str:
    """How tables were read: the account of the first, and how many others were read otherwise."""
    accounts = [recording.understood for recording in recordings]
    odd = sum(account != accounts[0] for account in accounts)
    if not accounts[0] or not odd:
        return accounts[0]
    return f"{accounts[0]} (in {recordings[0].name}; {odd} of {len(accounts)} files differ)"


def _like(where: object, recording: Continuous, first: Continuous) -> Continuous:
    """Bring channels into the order and the units of the first recording."""
    if set(recording.channels) != set(first.channels):
        odd = sorted(set(recording.channels) ^ set(first.channels))
        raise FileError(
            f"{where}: {recording.name} has the channels {listed(recording.channels)}, but "
            f"{first.name} has {listed(first.channels)}; pass channels= with those that all have "
            f"(without {listed(odd)})"
        )
    if recording.channels != first.channels:
        order = [recording.channels.index(name) for name in first.channels]
        units = recording.units
        recording = replace(
            recording,
            channels=first.channels,
            units=None if units is None else tuple(units[k] for k in order),
            pieces=[(offset, signals[order]) for offset, signals in recording.pieces],
        )
    if recording.units == first.units or None in (recording.units, first.units):
        return recording
    factors = [
        _factor(f"{where}: {recording.name}, channel {name!r}", unit, to)
        for name, unit, to in zip(
            first.channels, recording.units or (), first.units or (), strict=True
        )
    ]
    scale = np.array(factors)[:, None]
    pieces = [(offset, (x * scale).astype(x.dtype)) for offset, x in recording.pieces]
    return replace(recording, units=first.units, pieces=pieces)


def _factor(where: str, unit: str, to: str) -> float:
    """Return the number of units ``to`` in one ``unit``."""
    if unit == to or not unit or not to:
        return 1.0
    for factors in _SAME_QUANTITY:
        if unit in factors and to in factors:
            return factors[unit] / factors[to]
    raise FileError(
        f"{where}: is in {unit!r}, but the first recording has {to!r}; read them apart, or pass "
        "units= where a file is mistaken"
    )


def _pieces(recording: Continuous, inside: bool) -> list[tuple[int, npt.NDArray[Any]]]:
    """Stretches that windows are cut from: those without gaps, or labelled segments of these."""
    if not inside:
        return recording.pieces
    out = []
    for segment in sorted(recording.segments or [], key=lambda s: s.start):
        # A sample belongs to a segment by its time; rounding of seconds must not decide.
        low, high = math.ceil(segment.start - 1e-6), math.ceil(segment.stop - 1e-6)
        for offset, signals in recording.pieces:
            a, b = max(low - offset, 0), min(high - offset, signals.shape[1])
            if b > a:
                out.append((offset + a, signals[:, a:b]))
    return out


def _check_lengths(
    where: object,
    recordings: Sequence[Continuous],
    parts: Sequence[Sequence[tuple[int, npt.NDArray[Any]]]],
    points: int,
    inside: bool,
) -> None:
    """Raise where a recording, or all labelled segments, are shorter than a window."""
    for recording, part in zip(recordings, parts, strict=True):
        longest = max((signals.shape[1] for _, signals in part), default=0)
        if longest < points and not inside:
            what = "the longest stretch without a gap" if len(part) > 1 else "it"
            raise FileError(
                f"{recording.name}: {what} has {longest} samples ({longest / recording.fs:g} s), "
                f"fewer than a window of {points} samples ({points / recording.fs:g} s); take a "
                "shorter window, or leave this recording out"
            )
    if inside and not any(s.shape[1] >= points for part in parts for _, s in part):
        raise FileError(
            f"{where}: no labelled segment is as long as a window of {points} samples; take a "
            "shorter window, or cut the whole recording"
        )


def _tell_gaps(where: object, recordings: Sequence[Continuous], points: int, step: int) -> None:
    """Warn of gaps in time, with the number of windows that they cost."""
    gaps = lost = 0
    for recording in recordings:
        gaps += len(recording.pieces) - 1
        lost += max(0, (recording.n_times - points) // step + 1)
        lost -= sum(max(0, (s.shape[1] - points) // step + 1) for _, s in recording.pieces)
    if gaps:
        warnings.warn(
            f"{where}: no window spans a gap in time; gaps: {gaps}, windows lost: {max(0, lost)}",
            TensorContrastWarning,
            stacklevel=2,
        )


def rounded_rate(rate: float, n_times: int) -> float:
    """Rate as it was probably meant: a whole number where samples stay at their times."""
    whole = round(rate)
    drift = abs(rate - whole)
    if whole and (drift <= 1e-5 * rate or (drift * n_times <= rate and drift <= 1e-3 * rate)):
        return float(whole)
    return float(f"{rate:.6g}")

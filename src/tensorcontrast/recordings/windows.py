"""Windows of long signals of unequal lengths, and the labels of windows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.recordings.checks import as_labels, as_names, as_sampling_rate
from tensorcontrast.utils.arrays import as_array
from tensorcontrast.utils.labels import label_array, read_labels

__all__ = [
    "DEFAULT_WINDOW_S",
    "MIN_LABEL_SHARE",
    "Segment",
    "Windows",
    "check_segments",
    "cut",
    "default_window_s",
    "label_segments",
    "label_windows",
    "window_points",
]

#: Length of windows, in seconds, of one continuous recording where the caller gives none.
DEFAULT_WINDOW_S = 10.0
#: Samples that such a window must hold; slower recordings need a length of their own.
MIN_DEFAULT_SAMPLES = 16
#: Share of a window that one label must cover, by default, to be the label of the window.
MIN_LABEL_SHARE = 0.5

AnyArray = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Windows:
    """Windows of several signals, with where each is from."""

    X: AnyArray
    y: IntArray | None
    recording: IntArray
    start: IntArray
    classes: tuple[str, ...] | None


def window_points(fs: float | None, window_s: float | None, window: int | None) -> int:
    """Length of a window in points, from seconds or points (one of the two must be given)."""
    if (window_s is None) == (window is None):
        raise InvalidInputError(
            "give the length of windows once: window_s in seconds or window in points"
        )
    if window_s is not None:
        if fs is None:
            raise InvalidInputError("window_s is in seconds and needs fs; or give window in points")
        points = round(as_sampling_rate(window_s) * as_sampling_rate(fs))
    else:
        points = int(window or 0)
        if points != window:
            raise InvalidInputError(f"window={window} must be a whole number of points")
    if points < 1:
        raise InvalidInputError(f"a window of {points} points is too short; take at least 1")
    return points


def default_window_s(where: object, n_times: int, fs: float) -> float:
    """Length of windows of one continuous recording for which none was given, in seconds.

    A recording that holds at least two windows of ``DEFAULT_WINDOW_S`` is cut by these, with a
    warning. A shorter one is left whole, and so is one so slow that a window would hold fewer than
    ``MIN_DEFAULT_SAMPLES``: the length is infinite.
    """
    samples = DEFAULT_WINDOW_S * fs
    if samples < MIN_DEFAULT_SAMPLES or n_times < 2 * samples:
        return math.inf
    warnings.warn(
        f"{where}: cut into windows of {DEFAULT_WINDOW_S:g} s, the default for one continuous "
        "recording; pass window_s= (--window) with the length that suits your data",
        TensorContrastWarning,
        stacklevel=2,
    )
    return DEFAULT_WINDOW_S


def cut(
    signals: Sequence[npt.ArrayLike],
    *,
    fs: float | None,
    window_s: float | None,
    window: int | None,
    overlap: float,
    labels: Sequence[Any] | npt.NDArray[Any] | None,
    label_rule: str,
    time_axis: int,
    short: str,
    classes: Sequence[str] | None,
) -> Windows:
    """Cut signals into windows; see :meth:`tensorcontrast.Recordings.from_signals`."""
    points = window_points(fs, window_s, window)
    if not 0 <= overlap < 1:
        raise InvalidInputError(f"overlap={overlap} must be a fraction from 0 to below 1")
    if label_rule not in ("majority", "drop"):
        raise InvalidInputError(f"label_rule={label_rule!r} is neither 'majority' nor 'drop'")
    if short not in ("error", "drop"):
        raise InvalidInputError(f"short={short!r} is neither 'error' nor 'drop'")
    step = max(1, round(points * (1 - overlap)))
    arrays = [_signal(k, signal, time_axis) for k, signal in enumerate(signals)]
    if not arrays:
        raise InvalidInputError("there are no signals")
    n_channels = arrays[0].shape[0]
    for k, array in enumerate(arrays):
        if array.shape[0] != n_channels:
            raise InvalidInputError(
                f"signals[{k}] has {array.shape[0]} channels, but signals[0] has {n_channels}; "
                "check time_axis"
            )
        if array.shape[1] < points and short == "error":
            raise InvalidInputError(
                f"signals[{k}] has {array.shape[1]} points in time, fewer than a window of "
                f"{points}; take a shorter window or pass short='drop'"
            )
    codes, names = _codes(labels, arrays, classes)

    starts, sources, chosen = [], [], []
    for k, array in enumerate(arrays):
        start = np.arange(0, array.shape[1] - points + 1, step, dtype=np.int64)
        if codes is not None:
            label, pure = _window_labels(codes[k], start, points)
            if label_rule == "drop":
                start, label = start[pure], label[pure]
            chosen.append(label)
        starts.append(start)
        sources.append(np.full(len(start), k, dtype=np.int64))
    total = sum(len(start) for start in starts)
    if total == 0:
        raise InvalidInputError(
            f"no window of {points} points is left of {len(arrays)} signals; take a shorter window "
            "or another label_rule"
        )
    return Windows(
        X=stack_windows(arrays, starts, points),
        y=np.concatenate(chosen) if codes is not None else None,
        recording=np.concatenate(sources),
        start=np.concatenate(starts),
        classes=names,
    )


def stack_windows(arrays: list[AnyArray], starts: list[IntArray], points: int) -> AnyArray:
    """Windows (n, channel, points) of signals (channel, time) that begin at the given samples."""
    total = sum(len(start) for start in starts)
    dtype = np.result_type(np.float32, *{array.dtype for array in arrays})
    X = np.empty((total, arrays[0].shape[0], points), dtype=dtype)
    row = 0
    for array, start in zip(arrays, starts, strict=True):
        if len(start):
            view = np.lib.stride_tricks.sliding_window_view(array, points, axis=1)
            step = int(start[1] - start[0]) if len(start) > 1 else 1
            even = bool((np.diff(start) == step).all())  # a slice is not copied twice
            chosen = view[:, start[0] : start[-1] + 1 : step] if even else view[:, start]
            X[row : row + len(start)] = chosen.transpose(1, 0, 2)
            row += len(start)
    return X


def _signal(k: int, signal: npt.ArrayLike, time_axis: int) -> AnyArray:
    array = as_array(signal, f"signals[{k}]")
    if array.dtype.kind not in "fiu":
        raise InvalidInputError(f"signals[{k}] holds {array.dtype}, not real numbers")
    if array.ndim == 1:
        array = array[None]
    elif array.ndim == 2 and time_axis in (-1, 0, 1):
        array = array.T if time_axis == 0 else array
    else:
        raise InvalidInputError(
            f"signals[{k}] has shape {array.shape} with time_axis={time_axis}; "
            "(channel, time) is needed, or (time, channel) with time_axis=0"
        )
    if 0 in array.shape:
        raise InvalidInputError(f"signals[{k}] has shape {array.shape}: it is empty")
    if array.dtype.kind in "iu":
        # float32 holds integers up to 2**24 exactly.
        largest = max(abs(int(array.min())), abs(int(array.max())))
        array = array.astype(np.float32 if largest <= 2**24 else np.float64)
    elif array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    return array


def _codes(
    labels: Sequence[Any] | npt.NDArray[Any] | None,
    arrays: list[AnyArray],
    classes: Sequence[str] | None,
) -> tuple[list[IntArray] | None, tuple[str, ...] | None]:
    """Labels of every point, as integers; one label for a signal has length 1."""
    names = as_names("classes", classes, None)
    if labels is None:
        return None, names
    if len(labels) != len(arrays):
        raise InvalidInputError(
            f"labels has {len(labels)} entries for {len(arrays)} signals; give one label or one "
            "array of labels a signal"
        )
    given = list(labels)
    each = [label_array(label if np.ndim(label) else [label]) for label in given]
    for k, (label, array) in enumerate(zip(each, arrays, strict=True)):
        scalar = np.ndim(given[k]) == 0
        if label.ndim != 1 or not (scalar or len(label) == array.shape[1]):
            raise InvalidInputError(
                f"labels[{k}] has shape {np.shape(given[k])}, but signals[{k}] has "
                f"{array.shape[1]} points in time"
            )
    if len({label.dtype.kind for label in each}) > 1:  # one array must not turn numbers into text
        each = [label.astype(object) for label in each]
    flat, names = as_labels(np.concatenate(each), None, names)
    ends = np.cumsum([len(label) for label in each])
    return [np.asarray(part) for part in np.split(flat, ends[:-1])], names


def _window_labels(
    codes: IntArray, start: IntArray, points: int
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Most frequent label of each window, and whether it is the only one."""
    if len(codes) == 1:
        return np.full(len(start), codes[0]), np.ones(len(start), dtype=bool)
    values, inverse = np.unique(codes, return_inverse=True)
    most, best = np.zeros(len(start), dtype=np.int64), np.zeros(len(start), dtype=np.intp)
    running = np.zeros(len(codes) + 1, dtype=np.int64)
    for v in range(len(values)):  # one label after the other: recordings are long
        np.cumsum(inverse == v, out=running[1:])
        count = running[start + points] - running[start]
        best[count > most] = v
        np.maximum(most, count, out=most)
    return values[best], most == points


# ---------------------------------------------------------------------- labels of windows


class Segment(NamedTuple):
    """A stretch of a recording with one label, from ``start`` to before ``stop``.

    The unit is free (seconds or samples), but the same for all segments and windows of a call.
    """

    start: float
    stop: float
    label: Any


def label_windows(
    start: npt.ArrayLike,
    stop: npt.ArrayLike,
    segments: Sequence[Segment],
    *,
    min_share: float = MIN_LABEL_SHARE,
) -> npt.NDArray[np.object_]:
    """Label of each window: the one that covers most of it.

    Parameters
    ----------
    start, stop : arrays of shape (n,)
        Where windows begin and end, in the unit of the segments.
    segments : sequence of Segment
        Labelled stretches in any order. Those of one label may overlap; their time counts once.
        One without a duration labels the window that it lies in, where no stretch does.
    min_share : float
        Share of the window, above 0 and at most 1, that the label must cover. Below it, and
        where two labels cover the window equally, it has no label.

    Returns
    -------
    array of objects of shape (n,)
        Labels, None for windows without one.

    Examples
    --------
    >>> night = [Segment(0, 45, "wake"), Segment(45, 70, "sleep")]
    >>> label_windows([0, 30, 50], [30, 60, 80], night).tolist()
    ['wake', None, 'sleep']
    """
    if not 0 < min_share <= 1:
        raise InvalidInputError(f"min_share={min_share} must be above 0 and at most 1")
    begin, end = np.asarray(start, dtype=np.float64), np.asarray(stop, dtype=np.float64)
    by_label: dict[Any, list[Segment]] = {}
    points = [segment for segment in segments if segment.stop == segment.start]
    for segment in segments:
        if segment.stop > segment.start:
            by_label.setdefault(segment.label, []).append(segment)
    labels = np.full(len(begin), None, dtype=object)
    # A little less than asked for, so that rounding of seconds does not decide.
    best = min_share * (end - begin) * (1 - 1e-9)
    taken = np.zeros(len(begin), dtype=bool)
    tied = np.zeros(len(begin), dtype=bool)
    for label in sorted(by_label, key=lambda value: (str(type(value)), value)):
        times, covered = _covered_time(by_label[label])
        amount = np.interp(end, times, covered) - np.interp(begin, times, covered)
        better = np.where(taken, amount > best * (1 + 1e-9), amount >= best) & (amount > 0)
        tied = ~better & (tied | (taken & (amount >= best * (1 - 1e-9))))
        labels[better] = label
        best[better] = amount[better]
        taken |= better
    labels[tied] = None
    free = ~taken
    for point in points:
        here = free & (begin <= point.start) & (point.start < end)
        other = here & (labels != None) & (labels != point.label)  # noqa: E711
        labels[here] = point.label
        labels[other] = None
        free &= ~other
    return labels


def _covered_time(segments: list[Segment]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Edges of the union of segments, and how much of it lies before each edge."""
    times: list[float] = []
    for segment in sorted(segments):
        if times and segment.start <= times[-1]:
            times[-1] = max(times[-1], segment.stop)
        else:
            times += [segment.start, segment.stop]
    edges = np.asarray(times, dtype=np.float64)
    lengths = np.diff(edges, prepend=edges[0])
    lengths[::2] = 0  # from the end of one stretch to the start of the next
    return edges, np.cumsum(lengths)


def label_segments(labels: Any, *, name: str = "labels") -> list[Segment]:
    """Stretches of equal labels, in samples, of an array with one label per sample.

    Unknown labels (-1, None, NaN, empty text) belong to no segment.

    Examples
    --------
    >>> label_segments(["a", "a", None, "b"])
    [Segment(start=0, stop=2, label='a'), Segment(start=3, stop=4, label='b')]
    """
    read = read_labels(labels, name=name)
    edges = np.flatnonzero(np.diff(read.codes, prepend=-2, append=-2)).tolist()
    values = read.classes.tolist()
    return [Segment(a, b, values[read.codes[a]]) for a, b in pairwise(edges) if read.codes[a] >= 0]


def check_segments(
    where: object, segments: Sequence[Segment], end: float, *, unit: str = "s"
) -> list[Segment]:
    """Segments of a recording in the order of time, without what lies outside of it.

    Segments outside the recording are left out with a warning. That all lie outside is an error,
    and so are segments of different labels that overlap.

    Parameters
    ----------
    where : object
        What messages name: a file, or a variable.
    segments : sequence of Segment
        Labelled stretches, counted from the start of the recording.
    end : float
        Length of the recording.
    unit : str
        Unit of all times, for messages.
    """
    inside = [
        Segment(max(0.0, s.start), min(end, s.stop), s.label)
        for s in segments
        if s.start < end and (s.stop > 0 if s.stop > s.start else s.start == s.stop >= 0)
    ]
    last: Segment | None = None
    for segment in sorted(inside, key=lambda s: (s.start, s.stop)):
        if segment.stop == segment.start:
            continue
        if last is not None and segment.label != last.label:
            # Onsets and durations are rounded in files; a millionth of the time is no overlap.
            if segment.start < last.stop - 1e-6 * max(1.0, last.stop):
                raise InvalidInputError(
                    f"{where}: {segment.label!r} at {segment.start:g} {unit} overlaps "
                    f"{last.label!r}, which lasts from {last.start:g} to {last.stop:g} {unit}; "
                    "choose labels that exclude each other"
                )
        if last is None or segment.stop > last.stop:
            last = segment
    if segments and not inside:
        first = min(s.start for s in segments)
        raise InvalidInputError(
            f"{where}: all {len(segments)} labelled segments lie outside the recording, which "
            f"lasts {end:g} {unit} (the first starts at {first:g} {unit}); check that labels and "
            "signals belong together and count time from the same start"
        )
    outside = sum(s.start < -1e-6 * end or s.stop > end * (1 + 1e-6) for s in segments)
    if outside:
        warnings.warn(
            f"{where}: {outside} of {len(segments)} labelled segments lie outside the recording "
            f"of {end:g} {unit}, or reach beyond it; what is outside was left out",
            TensorContrastWarning,
            stacklevel=2,
        )
    return sorted(inside, key=lambda s: (s.start, s.stop))

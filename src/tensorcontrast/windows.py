"""Windows of long signals of unequal lengths."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast._arrays import as_array
from tensorcontrast._recording_checks import as_labels, as_names, as_sampling_rate
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.labels import label_array

__all__ = ["DEFAULT_WINDOW_S", "Windows", "cut", "default_window_s", "window_points"]

#: Length of windows, in seconds, of one continuous recording where the caller gives none.
DEFAULT_WINDOW_S = 10.0
#: Samples that such a window must hold; slower recordings need a length of their own.
MIN_DEFAULT_SAMPLES = 16

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
        "recording; pass window_s= with the length that suits your data",
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
    dtype = np.result_type(np.float32, *{array.dtype for array in arrays})
    X = np.empty((total, n_channels, points), dtype=dtype)
    row = 0
    for array, start in zip(arrays, starts, strict=True):
        if len(start):
            view = np.lib.stride_tricks.sliding_window_view(array, points, axis=1)
            X[row : row + len(start)] = view[:, start].transpose(1, 0, 2)
            row += len(start)
    return Windows(
        X=X,
        y=np.concatenate(chosen) if codes is not None else None,
        recording=np.concatenate(sources),
        start=np.concatenate(starts),
        classes=names,
    )


def _signal(k: int, signal: npt.ArrayLike, time_axis: int) -> AnyArray:
    array = as_array(signal, f"signals[{k}]", missing=True)  # Recordings refuses NaN where asked to
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
    # counts[w, v] = points of window w with label values[v], from running sums over time
    running = np.zeros((len(codes) + 1, len(values)), dtype=np.int64)
    np.cumsum(inverse[:, None] == np.arange(len(values)), axis=0, out=running[1:])
    counts = running[start + points] - running[start]
    return values[counts.argmax(axis=1)], counts.max(axis=1) == points

"""Checks of signal arrays [n, channel, time], shared by what takes signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks
from tensorcontrast.utils.arrays import as_array

MAX_LEARNING_WINDOWS, MAX_LEARNING_VALUES = 1024, 2**24
"""Windows that spectrograms are learned from, at most, and values of all of them."""

MIN_SAMPLES_OF_A_WINDOW = 16
"""Windows have more samples than this; so many channels or fewer are never taken for samples."""

_BLOCK = 1 << 20
"""Values looked at in one go, so that the check needs little memory."""


def as_signals(X: Any) -> np.ndarray:
    """Return ``X`` as an array [n, channel, time] of real numbers, without a copy where possible.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_channels, n_times)
        Signals.

    Returns
    -------
    ndarray
        The same numbers.

    Raises
    ------
    InvalidInputError
        If it is not a three-way array of real numbers with at least one channel and time, or
        values are masked.
    InvalidTypeError
        If it is no dense array.
    """
    table = hasattr(X, "columns") and hasattr(X, "shape")
    array = as_array(X)
    check_shape(array.shape, array.dtype, table=table)
    return array


def check_shape(shape: tuple[int, ...], dtype: Any, *, table: bool = False) -> None:
    """Raise where an array of this shape and type cannot hold signals [n, channel, time]."""
    if np.dtype(dtype).kind not in "fiub":
        raise InvalidInputError(
            f"X holds {dtype}, but real numbers are needed; convert it with X.astype(float), or "
            "cut signals of unequal lengths into windows with Recordings.from_signals"
        )
    if len(shape) != 3:
        way = "for one window use X[np.newaxis], for one channel X[:, np.newaxis]"
        if table:
            way = "for a table use Recordings.from_signals, or X.to_numpy().reshape(n, channel, -1)"
        raise InvalidInputError(
            f"X has {len(shape)} dimensions {tuple(shape)}, but [n, channel, time] is needed; {way}"
        )
    if 0 in shape[1:]:
        raise InvalidInputError(
            f"X has shape {tuple(shape)}: no {'channel' if shape[1] == 0 else 'time sample'} to "
            "work on; check how the windows were cut"
        )


def warn_if_transposed(
    shape: tuple[int, ...], way: str = "pass the names of the channels as channels="
) -> None:
    """Warn of more channels than samples per window: mostly windows whose axes are swapped.

    ``way`` says how to tell the caller that the axes are right.
    """
    if shape[1] > max(shape[2], MIN_SAMPLES_OF_A_WINDOW):
        checks.warn(
            f"X has shape {tuple(shape)}: {shape[1]} channels of {shape[2]} samples per window. "
            "If the axes are (n, time, channel), pass X.transpose(0, 2, 1); if not, "
            f"{way} and this warning goes away"
        )


def check_finite(
    X: np.ndarray, first: int = 0, limit: float = np.inf, *, nan: bool = False, hint: str = ""
) -> None:
    """Raise for NaN, infinity or values too large, naming the first place that holds one.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_channels, n_times)
        Signals.
    first : int, default=0
        Number of the first sample, where ``X`` is part of a larger array.
    limit : float, default=inf
        Largest magnitude that the caller can work with.
    nan : bool, default=False
        Whether NaN are allowed, as missing values.
    hint : str, default=""
        A further way out for the message about NaN.
    """
    if X.dtype.kind != "f" or X.size == 0:
        return
    step = max(1, _BLOCK // (X.shape[1] * X.shape[2]))
    for start in range(0, len(X), step):
        block = X[start : start + step]
        largest = max(float(block.max()), -float(block.min()))  # NaN where there is one
        if nan and np.isnan(largest):
            largest = float(np.nan_to_num(np.fmax.reduce(np.abs(block), axis=None), posinf=np.inf))
        if not (largest <= limit and largest < np.inf):
            _raise_for(block, first + start, limit, nan, hint)


def _raise_for(block: np.ndarray, first: int, limit: float, nan: bool, hint: str) -> None:
    bad = np.isinf(block) if nan else ~np.isfinite(block)
    if not bad.any():
        size = np.nan_to_num(np.abs(block))
        sample, channel, _ = np.unravel_index(size.argmax(), block.shape)
        raise InvalidInputError(
            f"X[{first + int(sample)}] channel {int(channel)} reaches "
            f"{size[sample, channel].max():.3g}, more than the {limit:.3g} that can be "
            "worked with in this precision; rescale the signals or look for damaged ones"
        )
    sample, channel = np.argwhere(bad.any(axis=2))[0]
    row = block[sample, channel]
    counts = ((int(np.isnan(row).sum()), "NaN"), (int(np.isinf(row).sum()), "infinite"))
    what = " and ".join(f"{count} {name}" for count, name in counts if count)
    others = int(bad.any(axis=(1, 2)).sum()) - 1
    more = f" (as do {others} of the {len(block) - 1 - int(sample)} after it)" if others else ""
    hint = hint if np.isnan(block[bad]).all() else ""  # infinity is never a missing value
    raise InvalidInputError(
        f"X[{first + int(sample)}] channel {int(channel)} holds {what} of {row.size} "
        f"samples{more}; fill the gaps or drop the sample{hint}"
    )


def some_windows(X: Any) -> Any:
    """Return every k-th window, at most ``MAX_LEARNING_WINDOWS`` of them; fewer of very long ones.

    All that a spectrogram learns of signals, it learns of these. So signals in memory, in a mapped
    file and on Dask give the same, and applying it twice changes nothing.
    """
    most = min(MAX_LEARNING_WINDOWS, max(2, MAX_LEARNING_VALUES // (X.shape[1] * X.shape[2])))
    return X[:: max(1, -(-len(X) // most))]


def large_offsets(X: np.ndarray) -> np.ndarray | None:
    """Offsets (n, c, 1) in float64 of the channels of windows (n, c, t); None where all are 0.

    An offset is the mean where that is larger than the range of the values, else 0: a smaller one
    costs float32 no digits.
    """
    with np.errstate(invalid="ignore"):  # channels without any value
        return offsets_between(np.fmin.reduce(X, axis=2), np.fmax.reduce(X, axis=2))


def offsets_between(low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
    """Return what :func:`large_offsets` does, from the least and the largest values (n, c)."""
    low, high = low.astype(np.float64), high.astype(np.float64)
    # Values of one sign at least as far from 0 as from each other.
    large = np.minimum(np.abs(low), np.abs(high)) >= high - low
    large &= (low > 0) == (high > 0)
    large &= (low != 0) | (high != 0)
    if not large.any():
        return None
    # The middle of the range serves as well as the mean, and is there already.
    return np.where(large, low + (high - low) / 2, 0.0)[:, :, None]


def without_offset(
    X: np.ndarray, dtype: np.dtype[Any], unit: float = 1.0
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return windows (n, c, t) less their large offsets, and these; both divided by ``unit``.

    The difference is taken in float64 and only then rounded to ``dtype``. Windows without a large
    offset are not copied where type and unit are right.
    """
    return less_offset(X, large_offsets(X), dtype, unit)


def less_offset(
    X: np.ndarray, offset: np.ndarray | None, dtype: np.dtype[Any], unit: float = 1.0
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return what :func:`without_offset` does, where the offsets are known."""
    if offset is None and unit == 1.0:
        return X.astype(dtype, copy=False), None
    if offset is None:
        return np.divide(X, unit, dtype=np.float64).astype(dtype), None
    return ((X - offset) / unit).astype(dtype), offset / unit


def typical_spread(X: np.ndarray) -> float:
    """Median of the standard deviations of channels in windows (n, c, t), of those above 0."""
    found = []
    for window in X:
        signals = window.astype(np.float64)
        largest = np.fmax.reduce(np.abs(signals), axis=None)
        if largest > 0:  # squares must stay in range
            signals /= largest
            signals -= np.nan_to_num(_mean(signals))
            found.append(largest * np.sqrt(_mean(np.square(signals))[:, 0]))
    spreads = np.concatenate(found) if found else np.empty(0)
    spreads = spreads[spreads > 0]  # NaN, of a channel without a value, is not
    return float(np.median(spreads)) if len(spreads) else 1.0


def float32_unit(spread: float) -> float:
    """Return what signals of this standard deviation are divided by before float32 holds them.

    1, or the nearest power of 4 where their squares could leave the range of float32; dividing by a
    power of 4 changes no digit.
    """
    if 1e-12 < spread < 1e12:
        return 1.0
    return float(4.0 ** np.round(np.log2(spread) / 2))


def _mean(X: np.ndarray) -> np.ndarray:
    """Mean over time (c, 1) of what is there."""
    there = ~np.isnan(X)
    counts = there.sum(axis=1, keepdims=True)
    sums = np.where(there, X, 0).sum(axis=1, keepdims=True)
    return np.asarray(np.divide(sums, counts, out=np.full(counts.shape, np.nan), where=counts > 0))


def without_gaps(X: np.ndarray) -> np.ndarray:
    """Return signals [n, channel, time] with NaN interpolated linearly in time.

    The ends of a signal take the nearest value; a channel without any value becomes 0.

    Examples
    --------
    >>> without_gaps(np.array([[[np.nan, 1.0, np.nan, np.nan, 4.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 3.0, 4.0]]]
    """
    gaps = np.isnan(X)
    if not gaps.any():
        return X
    n_times = X.shape[-1]
    at = np.broadcast_to(np.arange(n_times), X.shape)
    before = np.maximum.accumulate(np.where(gaps, -1, at), axis=-1)
    behind = np.minimum.accumulate(np.where(gaps, n_times, at)[..., ::-1], axis=-1)[..., ::-1]
    left = np.where(before < 0, behind, before)
    right = np.where(behind == n_times, before, behind)
    known = (left < n_times) & (left >= 0)  # all or none of a channel
    left, right = np.where(known, left, 0), np.where(known, right, 0)
    share = np.divide(at - left, right - left, out=np.zeros(X.shape), where=right > left)
    low, high = np.take_along_axis(X, left, axis=-1), np.take_along_axis(X, right, axis=-1)
    interpolated = np.where(known, low + share.astype(X.dtype) * (high - low), 0)
    return np.where(gaps, interpolated, X).astype(X.dtype, copy=False)

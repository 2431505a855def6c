"""Checks of signal arrays [n, channel, time], shared by what takes signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorcontrast.errors import InvalidInputError, InvalidTypeError

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
        If it is not a three-way array of real numbers with at least one channel and time.
    InvalidTypeError
        If it is a sparse matrix or a masked array.
    """
    if hasattr(X, "toarray"):
        raise InvalidTypeError(
            f"signals are dense arrays [n, channel, time], not {type(X).__name__}; "
            "pass a NumPy array"
        )
    if isinstance(X, np.ma.MaskedArray):
        raise InvalidTypeError(
            "X is a masked array, whose mask would be lost; fill the gaps and pass X.data"
        )
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(
            f"X cannot be made an array [n, channel, time] ({error}); every sample needs the same "
            "channels and length: cut the signals into windows of one length first"
        ) from None
    if array.ndim != 3:
        raise InvalidInputError(
            f"X has {array.ndim} dimensions {array.shape} where [n, channel, time] is expected; "
            "for one sample use X[np.newaxis], for one channel X[:, np.newaxis]"
        )
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"X holds {array.dtype} where real numbers are expected; convert it first"
        )
    if 0 in array.shape[1:]:
        raise InvalidInputError(
            f"X has shape {array.shape}: no {'channel' if array.shape[1] == 0 else 'time sample'} "
            "to work on; check how the windows were cut"
        )
    return array


def check_finite(X: np.ndarray, first: int = 0, limit: float = np.inf) -> None:
    """Raise for NaN, infinity or values too large, naming the first place that holds one.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_channels, n_times)
        Signals.
    first : int, default=0
        Number of the first sample, where ``X`` is part of a larger array.
    limit : float, default=inf
        Largest magnitude that the caller can work with.
    """
    if X.dtype.kind != "f" or X.size == 0:
        return
    step = max(1, _BLOCK // (X.shape[1] * X.shape[2]))
    for start in range(0, len(X), step):
        block = X[start : start + step]
        largest = max(float(block.max()), -float(block.min()))  # NaN where there is one
        if not (largest <= limit and largest < np.inf):
            _raise_for(block, first + start, limit)


def _raise_for(block: np.ndarray, first: int, limit: float) -> None:
    bad = ~np.isfinite(block)
    if not bad.any():
        sample, channel, _ = np.unravel_index(np.abs(block).argmax(), block.shape)
        raise InvalidInputError(
            f"X[{first + int(sample)}] channel {int(channel)} reaches "
            f"{np.abs(block[sample, channel]).max():.3g}, more than the {limit:.3g} that can be "
            "worked with in this precision; rescale the signals or look for damaged ones"
        )
    sample, channel = np.argwhere(bad.any(axis=2))[0]
    row = block[sample, channel]
    counts = ((int(np.isnan(row).sum()), "NaN"), (int(np.isinf(row).sum()), "infinite"))
    what = " and ".join(f"{count} {name}" for count, name in counts if count)
    others = int(bad.any(axis=(1, 2)).sum()) - 1
    more = f" (as do {others} of the {len(block) - 1 - int(sample)} after it)" if others else ""
    raise InvalidInputError(
        f"X[{first + int(sample)}] channel {int(channel)} holds {what} of {row.size} "
        f"samples{more}; fill the gaps or drop the sample"
    )

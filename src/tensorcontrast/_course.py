"""Frames in the order of their size instead of time, where time within a window says nothing."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

N_LEVELS = 4
"""Levels of ``n_levels="auto"``."""

LOCKED = 0.005
"""Share of the variance of the rows that goes with the position in the window from which windows
count as aligned to something."""

WINDOWS, LEAST_WINDOWS = 512, 32
"""Windows that ``n_levels="auto"`` looks at; fewer tell nothing."""


@lru_cache(maxsize=256)
def shares(n_frames: int, n_levels: int) -> np.ndarray:
    """Weights (n_frames, n_levels) of the means over equal shares of ordered frames.

    A frame on the border of two shares counts for both, in parts.

    Examples
    --------
    >>> shares(3, 2).round(2).tolist()
    [[0.67, 0.0], [0.33, 0.33], [0.0, 0.67]]
    """
    first = np.arange(n_frames)[:, None]
    border = n_frames * np.arange(n_levels + 1) / n_levels
    inside = np.minimum(first + 1, border[1:]) - np.maximum(first, border[:-1])
    weights = np.maximum(inside, 0) * n_levels / n_frames
    weights.flags.writeable = False
    return np.asarray(weights)


def to_levels(tensors: np.ndarray, out: np.ndarray) -> None:
    """Order the frames of tensors (n, c, f, t) row by row, in place; write means of shares to out.

    Frames that are NaN are left out; a row without any other is NaN.
    """
    n, c, f, t = tensors.shape
    q = out.shape[3]
    tensors.sort(axis=3)  # NaN come last
    weights = shares(t, q).astype(tensors.dtype)
    # One product a sample, so that blocks of other sizes give the same numbers.
    np.matmul(tensors.reshape(n, c * f, t), weights, out=out.reshape(n, c * f, q))
    if not np.isnan(tensors[..., -1]).any():
        return
    counts = t - np.isnan(tensors).sum(axis=3)
    for count in np.unique(counts):
        if count == 0:
            out[counts == 0] = np.nan
        elif count < t:
            rows = counts == count
            # einsum adds every row by itself, whatever other rows there are
            part = shares(int(count), q).astype(tensors.dtype)
            out[rows] = np.einsum("rt,tq->rq", tensors[rows][:, :count], part)


def locked(tensors: np.ndarray) -> bool:
    """Whether rows of tensors (n, c, f, t) depend on the position in the window.

    As where windows begin at a stimulus, a beat or a movement. Windows that are cut anywhere have
    the same mean at every position, but for chance, which is 1 in n or less of the variance.
    """
    there = ~np.isnan(tensors)
    counts = there.sum(axis=0)
    seen = counts > 0  # positions that were observed in any window
    positions = np.maximum(seen.sum(axis=2, keepdims=True), 1)
    counts = np.maximum(counts, 1)
    course = np.where(there, tensors, 0).sum(axis=0, dtype=np.float64) / counts  # (c, f, t)
    rows = course.sum(axis=2, keepdims=True) / positions
    rest = np.where(there, tensors - rows.astype(tensors.dtype), 0)
    total = float((np.einsum("ncft,ncft->cft", rest, rest) / counts / positions).sum())
    by_position = float((seen * (course - rows) ** 2 / positions).sum())
    return by_position > (LOCKED + 2 / len(tensors)) * total

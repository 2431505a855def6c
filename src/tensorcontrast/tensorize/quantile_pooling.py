"""Quantile pooling over time: means of the smallest to the largest frames of each row."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


@lru_cache(maxsize=256)
def quantile_weights(n_frames: int, n_quantiles: int) -> np.ndarray:
    """Weights (n_frames, n_quantiles) of the means over equal shares of the sorted frames.

    A frame on the border of two shares counts for both, in proportion.

    Examples
    --------
    >>> quantile_weights(3, 2).round(2).tolist()
    [[0.67, 0.0], [0.33, 0.33], [0.0, 0.67]]
    """
    first = np.arange(n_frames)[:, None]
    border = n_frames * np.arange(n_quantiles + 1) / n_quantiles
    inside = np.minimum(first + 1, border[1:]) - np.maximum(first, border[:-1])
    weights = np.maximum(inside, 0) * n_quantiles / n_frames
    weights.flags.writeable = False
    return np.asarray(weights)


def pool_quantiles(tensors: np.ndarray, out: np.ndarray) -> None:
    """Sort the frames of tensors (n, c, f, t) row by row, in place; write means of shares to out.

    Frames that are NaN are left out; a row without any other is NaN.
    """
    n, c, f, t = tensors.shape
    q = out.shape[3]
    tensors.sort(axis=3)  # NaN come last
    weights = quantile_weights(t, q).astype(tensors.dtype)
    # One product per window, so that blocks of other sizes give the same numbers.
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
            part = quantile_weights(int(count), q).astype(tensors.dtype)
            out[rows] = np.einsum("rt,tq->rq", tensors[rows][:, :count], part)

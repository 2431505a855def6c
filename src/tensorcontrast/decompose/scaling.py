"""Mean tensor and scale of the data: learned, updated, applied in chunks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose import kernels
from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]

#: Values that a chunk of a streamed computation holds at most (64 MiB in float32).
CHUNK_VALUES = 2**24


def chunks(X: Array, center: Array, scale: float) -> Iterator[Array]:
    """Centred and scaled copies (m, i) of the samples of X (n, I_1, …), a few at a time."""
    flat, mean = X.reshape(len(X), -1), center.reshape(-1)
    step = max(1, CHUNK_VALUES // max(flat.shape[1], 1))
    for start in range(0, len(flat), step):
        chunk = flat[start : start + step] - mean
        if scale != 1.0:
            chunk *= chunk.dtype.type(1.0) / chunk.dtype.type(scale)
        yield chunk


def normalised(X: Array, center: Array, scale: float) -> Array:
    """X (n, I_1, …) as centred, scaled rows (n, i) in memory of their own."""
    out = np.empty((len(X), center.size), dtype=center.dtype)
    at = 0
    for chunk in chunks(X, center, scale):
        out[at : at + len(chunk)] = chunk
        at += len(chunk)
    return out


def _mean_squared_norm(X: Array, center: Array) -> float:
    """Mean over the samples of ‖x − center‖²."""
    parts = [kernels.row_norms_squared(chunk) for chunk in chunks(X, center, 1.0)]
    return float(np.concatenate(parts).mean())


def learn(X: Array, *, center: bool) -> tuple[Array, float]:
    """Mean tensor (zeros without ``center``), and root mean squared norm about it."""
    dims = X.shape[1:]
    exact = X.mean(axis=0, dtype=np.float64) if center else np.zeros(dims)
    mean = exact.astype(X.dtype)
    size = float(np.sqrt(_mean_squared_norm(X, mean)))
    check_spread(size, exact, X.shape, X.dtype, center=center)
    return mean, size


def check_spread(
    size: float, mean: Array, shape: tuple[int, ...], dtype: np.dtype[Any], *, center: bool
) -> None:
    """Raise where samples of root mean squared norm ``size`` about ``mean`` hold nothing."""
    # What is left of equal samples after centring is rounding, not signal.
    floor = 8 * np.finfo(dtype).eps * float(np.linalg.norm(mean))
    if not size > floor:
        what = "all samples are equal" if center else "all samples are zero"
        raise InvalidInputError(
            f"X of shape {shape} has nothing to decompose: {what}"
            + ("; pass center=False to decompose the mean itself" if center else "")
        )


def update(
    X: Array, mean: Array, size: float, seen: int, *, center: bool, scale: bool
) -> tuple[Array, float]:
    """Give the running mean and scale after ``seen`` samples and the batch X."""
    share = len(X) / (seen + len(X))
    if center:
        exact = (1 - share) * mean.astype(np.float64) + share * X.mean(axis=0, dtype=np.float64)
        mean = exact.astype(mean.dtype)
    if scale:
        size = float(np.sqrt((1 - share) * size**2 + share * _mean_squared_norm(X, mean)))
    return mean, size

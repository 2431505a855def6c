"""Mean tensor and scale of what the networks see, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]

#: Values that are converted at a time (64 MiB in float32).
CHUNK_VALUES = 2**24


def learn(X: Array) -> tuple[Array, float]:
    """Mean tensor of X (n, I_1, …, I_K), and the root mean square of a window's norm about it."""
    exact = X.mean(axis=0, dtype=np.float64)
    mean = exact.astype(X.dtype)
    total = sum(float(np.square(c, dtype=np.float64).sum()) for c in chunks(X, mean, 1.0))
    size = float(np.sqrt(total / len(X)))
    # What is left of equal windows after centring is rounding, not signal.
    if not size > 8 * np.finfo(X.dtype).eps * float(np.linalg.norm(exact)):
        raise InvalidInputError(
            f"X of shape {X.shape} has nothing to learn from: all windows are equal"
        )
    return mean, size


def chunks(X: Array, center: Array, scale: float) -> Iterator[Array]:
    """Centred and scaled copies (m, ∏I_k) of the windows of X, a few at a time."""
    flat, mean = X.reshape(len(X), -1), center.reshape(-1)
    step = max(1, CHUNK_VALUES // mean.size)
    for start in range(0, len(flat), step):
        chunk = flat[start : start + step] - mean
        chunk *= chunk.dtype.type(1.0 / scale)
        yield chunk


def normalised(X: Array, center: Array, scale: float) -> Array:
    """X as centred, scaled rows (n, ∏I_k) in memory of their own."""
    out = np.empty((len(X), center.size), dtype=center.dtype)
    at = 0
    for chunk in chunks(X, center, scale):
        out[at : at + len(chunk)] = chunk
        at += len(chunk)
    return out

"""Mean tensor and scale of the data: learned, updated, applied in chunks of bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorcontrast import threads
from tensorcontrast.decompose import kernels
from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]

#: Values that a chunk of a streamed computation holds at most (64 MiB in float32).
CHUNK_VALUES = 2**24
#: Values that are worked on at a time, so that they stay in the processor's cache.
TILE_VALUES = 2**17
#: Samples at the beginning that say what sums of the first pass are taken about.
HEAD = 256

T = TypeVar("T")


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
    return normalised_rows(X, center, scale)[0]


def normalised_rows(X: Array, center: Array, scale: float) -> tuple[Array, float]:
    """Do what :func:`normalised` does; the squared norm of the rows comes with them."""
    out = np.empty((len(X), center.size), dtype=center.dtype)
    flat, mean = X.reshape(out.shape), center.reshape(-1)
    factor = center.dtype.type(1.0) / center.dtype.type(scale)

    def work(at: slice) -> float:
        np.subtract(flat[at], mean, out=out[at])
        if scale != 1.0:
            out[at] *= factor
        return float(kernels.row_norms_squared(out[at]).sum())

    return out, sum(part for parts in _over_tiles(work, *out.shape) for part in parts)


def sums_about(X: Array, shift: Array, *, center: bool = True) -> tuple[Array, float]:
    """Σ(x − shift) over the samples (zeros without ``center``), and Σ‖x − shift‖², in float64."""
    flat, point = X.reshape(len(X), -1), shift.reshape(-1)
    total, squares = np.zeros(flat.shape[1]), 0.0

    def work(at: slice) -> tuple[Array | None, float]:
        rest = (flat[at] - point).astype(np.float64, copy=False)
        return rest.sum(axis=0) if center else None, float(np.vdot(rest, rest))

    for parts in _over_tiles(work, *flat.shape):
        for part, more in parts:
            if part is not None:
                total += part
            squares += more
    return total.reshape(shift.shape), squares


def rough_mean(head: Array, *, center: bool) -> Array:
    """Mean of the first samples: sums about a point among the data lose nothing to rounding."""
    if not center:
        return np.zeros(head.shape[1:], dtype=head.dtype)
    return np.asarray(head.mean(axis=0, dtype=np.float64).astype(head.dtype))


def from_sums(total: Array, squares: float, n: int, shift: Array) -> tuple[Array, float]:
    """Mean in float64, and root mean squared norm about it as it is rounded to the data's type.

    ``total`` and ``squares`` are what :func:`sums_about` gives for n samples.
    """
    away = total / n
    exact = shift + away
    moved = np.subtract(exact.astype(shift.dtype), shift, dtype=np.float64)
    squared = squares / n + float(np.sum(moved * (moved - 2 * away)))
    return exact, float(np.sqrt(max(squared, 0.0)))


def _over_tiles(work: Callable[[slice], T], n: int, size: int) -> Iterator[list[T]]:
    """Do some work on all rows of an array (n, i), a tile after another, in threads.

    Tiles stay in the processor's cache. What they give comes in order, some at a time.
    """
    step = max(4, TILE_VALUES // max(size, 1))
    group = max(1, CHUNK_VALUES // (4 * step * max(size, 1))) * step

    def several(start: int) -> list[T]:
        last = min(start + group, n)
        return [work(slice(a, min(a + step, last))) for a in range(start, last, step)]

    return threads.mapped(several, range(0, n, group))


def learn(X: Array, *, center: bool) -> tuple[Array, float]:
    """Mean tensor (zeros without ``center``), and root mean squared norm about it: one pass."""
    shift = rough_mean(X[:HEAD], center=center)
    exact, size = from_sums(*sums_about(X, shift, center=center), len(X), shift)
    check_spread(size, exact, X.shape, X.dtype, center=center)
    return exact.astype(X.dtype), size


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
        _, squares = sums_about(X, mean, center=False)
        size = float(np.sqrt((1 - share) * size**2 + share * squares / len(X)))
    return mean, size

"""Mean tensor and scale of the data: learned, updated, applied in chunks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import threads

Array = NDArray[Any]

#: Values that a chunk of a streamed computation holds at most (64 MiB in float32).
CHUNK_VALUES = 2**24
#: Values that are worked on at a time, so that they stay in the processor's cache.
TILE_VALUES = 2**17
#: Columns of a tile at most, where rows are long.
TILE_COLUMNS = 2**13
#: Windows at the beginning that say what sums of the first pass are taken about.
HEAD_WINDOWS = 256


def chunks(
    X: Array, center: Array, scale: float, *, max_values: int = CHUNK_VALUES
) -> Iterator[Array]:
    """Centred and scaled copies (m, i) of the windows of X (n, I_1, …), a few at a time."""
    flat, mean = X.reshape(len(X), -1), center.reshape(-1)
    step = max(1, max_values // max(flat.shape[1], 1))
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

    step = max(4, TILE_VALUES // max(center.size, 1))

    def work(rows: slice) -> list[float]:
        norms, room = [], np.empty((min(step, len(flat)), center.size))
        for start in range(rows.start, rows.stop, step):  # what fits into the processor's cache
            tile = out[start : min(start + step, rows.stop)]
            np.subtract(flat[start : start + len(tile)], mean, out=tile)
            if scale != 1.0:
                tile *= factor
            wide = room[: len(tile)]
            wide[...] = tile
            norms.append(float(np.vdot(wide, wide)))
        return norms

    with threads.single("blas"):
        found = list(threads.mapped(work, _groups(*out.shape, step)))
    return out, sum(n for norms in found for n in norms)


def sums_about(
    X: Array, shift: Array, *, center: bool = True, tile_values: int = TILE_VALUES
) -> tuple[Array, float]:
    """Σ(x − shift) over the windows (zeros without ``center``), and Σ‖x − shift‖², in float64."""
    flat, point = X.reshape(len(X), -1), shift.reshape(-1)
    total, squares = np.zeros(flat.shape[1]), 0.0
    width = min(flat.shape[1], TILE_COLUMNS)
    step = max(1, tile_values // width)
    ones = np.ones(step)

    def work(at: slice) -> tuple[Array | None, float]:
        sums, more = np.zeros(flat.shape[1]) if center else None, 0.0
        # Tiles in the same memory each time: new memory for each costs more than the sums where
        # what is freed goes back to the system at once, as on the workers of a cluster.
        near, room = np.empty(step * width, dtype=flat.dtype), np.empty(step * width)
        for left in range(0, flat.shape[1], width):
            columns = slice(left, left + width)
            for row in range(at.start, at.stop, step):
                part = flat[row : min(row + step, at.stop), columns]
                tile, rest = near[: part.size].reshape(part.shape), room[: part.size]
                np.subtract(part, point[columns], out=tile)
                rest = rest.reshape(part.shape)
                rest[...] = tile
                more += float(np.vdot(rest, rest))
                if sums is not None:
                    sums[columns] += ones[: len(rest)] @ rest
        return sums, more

    with threads.single("blas"):
        for part, more in threads.mapped(work, _groups(*flat.shape, step)):
            if part is not None:
                total += part
            squares += more
    return total.reshape(shift.shape), squares


def rough_mean(head: Array, *, center: bool) -> Array:
    """Mean of the first windows: sums about a point among the data lose nothing to rounding."""
    if not center:
        return np.zeros(head.shape[1:], dtype=head.dtype)
    return np.asarray(head.mean(axis=0, dtype=np.float64).astype(head.dtype))


def from_sums(total: Array, squares: float, n: int, shift: Array) -> tuple[Array, float]:
    """Mean in float64, and root mean squared norm about it as it is rounded to the data's type.

    ``total`` and ``squares`` are what :func:`sums_about` gives for n windows.
    """
    away = total / n
    exact = shift + away
    moved = np.subtract(exact.astype(shift.dtype), shift, dtype=np.float64)
    squared = squares / n + float(np.sum(moved * (moved - 2 * away)))
    return exact, float(np.sqrt(max(squared, 0.0)))


def _groups(n: int, size: int, step: int) -> list[slice]:
    """Rows of an array (n, i) that a thread works on at a time: multiples of ``step``."""
    rows = max(1, CHUNK_VALUES // (4 * step * max(size, 1))) * step
    return [slice(a, min(a + rows, n)) for a in range(0, n, rows)]


def learn(X: Array, *, center: bool, head_windows: int = HEAD_WINDOWS) -> tuple[Array, float]:
    """Mean tensor (zeros without ``center``), and root mean squared norm about it: one pass."""
    shift = rough_mean(X[:head_windows], center=center)
    exact, size = from_sums(*sums_about(X, shift, center=center), len(X), shift)
    check_spread(size, exact, X.shape, X.dtype, center=center)
    return exact.astype(X.dtype), size


def check_spread(
    size: float, mean: Array, shape: tuple[int, ...], dtype: np.dtype[Any], *, center: bool
) -> None:
    """Raise where windows of root mean squared norm ``size`` about ``mean`` hold nothing."""
    # What is left of equal windows after centring is rounding, not signal.
    floor = 8 * np.finfo(dtype).eps * float(np.linalg.norm(mean))
    if not size > floor:
        what = f"all windows are equal in {dtype}" if center else "all windows are zero"
        raise InvalidInputError(
            f"X of shape {shape} has nothing to decompose: {what}; pass windows that differ"
        )


def update(
    X: Array, mean: Array, size: float, seen: int, *, center: bool, scale: bool
) -> tuple[Array, float]:
    """Give the running mean and scale after ``seen`` windows and the batch X."""
    share = len(X) / (seen + len(X))
    if center:
        exact = (1 - share) * mean.astype(np.float64) + share * X.mean(axis=0, dtype=np.float64)
        mean = exact.astype(mean.dtype)
    if scale:
        _, squares = sums_about(X, mean, center=False)
        size = float(np.sqrt((1 - share) * size**2 + share * squares / len(X)))
    return mean, size

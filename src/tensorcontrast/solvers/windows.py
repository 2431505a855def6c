"""Windows as passes see them: rows (n, i), of which a pass adds something up or maps each block.

A fit knows nothing else of its data, so that arrays, files larger than memory and Dask arrays
(:class:`tensorcontrast.solvers.dask_windows.DaskWindows`) are fitted by the same code. Blocks are
cut at the same multiples of :data:`~tensorcontrast.utils.threads.STRIP_ROWS` in all of them, and
sums over them are taken in float64: a fit does not depend on where its windows are, nor on the
number of threads.

Shapes used throughout: n windows, m windows of a block, i values of a window.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks, threads

Array = NDArray[Any]
#: From a block (m, i), and what each of its windows has beside it, to numbers and small arrays.
Summand = Callable[..., Sequence[Any]]
#: From a block (m, i) to an array (m, …).
Mapping = Callable[..., Array]

BLOCK_VALUES = 2**24
"""Values of a block that is read from a file (64 MiB in float32)."""

PIECE_VALUES = 2**20
"""Values of which float64 copies are made at a time."""

_WORK_PER_VALUE = 32
"""Multiplications of a pass for each value, for the choice of threads."""


class Windows(Protocol):
    """Windows of a fit as rows (n, i)."""

    @property
    def n(self) -> int:
        """Number of windows."""
        ...

    @property
    def size(self) -> int:
        """Values of a window."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        ...

    def sum(self, f: Summand, *beside: Array) -> list[Array]:
        """Add up ``f(block)`` over all blocks, in float64; ``beside`` are arrays (n, …)."""
        ...

    def map(self, f: Mapping, *beside: Array) -> Array:
        """Return ``f(block)`` (n, …) of all blocks, one below the other."""
        ...

    def take(self, index: NDArray[np.intp]) -> Array:
        """Return some windows; the index increases."""
        ...

    def kept(self) -> Windows:
        """Return the same windows, computed once for all passes."""
        ...

    def scaled(self, center: Array, factor: Array) -> Windows:
        """Return the windows less ``center`` (i,), times ``factor`` (i,)."""
        ...


def add(parts: Iterable[Sequence[Any]]) -> list[Array]:
    """Sum of lists of numbers and arrays, entry by entry and in order, in float64."""
    out: list[Array] = []
    for part in parts:
        if out:
            for total, more in zip(out, part, strict=True):
                total += more
        else:
            out = [np.array(a, dtype=np.float64) for a in part]
    return out


def pieces(block: Array) -> Iterator[Array]:
    """Rows of a block in pieces whose copy in float64 is small, however long windows are."""
    step = max(1, PIECE_VALUES // max(1, block.shape[1]))
    return (block[start : start + step] for start in range(0, len(block), step))


@dataclass(frozen=True)
class ArrayWindows:
    """Windows in memory."""

    rows: Array

    @property
    def n(self) -> int:
        """Number of windows."""
        return len(self.rows)

    @property
    def size(self) -> int:
        """Values of a window."""
        return int(self.rows.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.rows.dtype

    def strips(self, f: Callable[..., Any], *beside: Array) -> Iterator[Any]:
        """Return ``f`` of each strip, in order, each made by one thread."""

        def strip(at: slice) -> Any:
            return f(self.rows[at], *(values[at] for values in beside))

        return threads.over_strips(strip, self.n, self.size * _WORK_PER_VALUE)

    def sum(self, f: Summand, *beside: Array) -> list[Array]:
        """Add up over strips."""
        return add(self.strips(f, *beside))

    def map(self, f: Mapping, *beside: Array) -> Array:
        """Map strip by strip."""
        mapped = list(self.strips(f, *beside))
        return mapped[0] if len(mapped) == 1 else np.concatenate(mapped)

    def take(self, index: NDArray[np.intp]) -> Array:
        """Return some windows."""
        return self.rows[index]

    def kept(self) -> ArrayWindows:
        """Return these windows."""
        return self

    def scaled(self, center: Array, factor: Array) -> ArrayWindows:
        """Return a scaled copy."""
        center, factor = center.astype(self.dtype), factor.astype(self.dtype)
        out = np.empty_like(self.rows)

        def strip(at: slice) -> None:
            np.subtract(self.rows[at], center, out=out[at])
            out[at] *= factor

        for _ in threads.over_strips(strip, self.n, self.size * _WORK_PER_VALUE):
            pass
        return ArrayWindows(out)


@dataclass(frozen=True)
class FileWindows:
    """Windows in files (``np.memmap``, Zarr, HDF5), of which some are in memory at a time.

    Parameters
    ----------
    blocks : sequence of array-likes (n, …)
        Coupled blocks of the same windows, or one tensor.
    dtype : float32 or float64
    nan : bool
        Whether NaN are missing values.
    center, factor : (i,) arrays, optional
        What is subtracted from a row, and what the rest is multiplied with.
    """

    blocks: tuple[Any, ...]
    dtype: np.dtype[Any]
    nan: bool = False
    center: Array | None = None
    factor: Array | None = None
    block_values: int = BLOCK_VALUES

    @property
    def n(self) -> int:
        """Number of windows."""
        return int(self.blocks[0].shape[0])

    @property
    def size(self) -> int:
        """Values of a window."""
        return sum(prod(block.shape[1:]) for block in self.blocks)

    def _read(self, start: int, stop: int) -> Array:
        parts = []
        for b, block in enumerate(self.blocks):
            part = np.asarray(block[start:stop])
            name = "X" if len(self.blocks) == 1 else f"X[{b}]"
            parts.append(checked_rows(part, name, self.dtype, first=start, nan=self.nan))
            forget_pages(block)
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if self.center is None:
            return rows
        rows = rows - self.center
        rows *= self.factor
        return rows

    def _step(self) -> int:
        """Windows that are read at a time: whole strips, or a part of one for very long windows."""
        most = max(1, self.block_values // self.size)
        if most >= threads.STRIP_ROWS:
            return most - most % threads.STRIP_ROWS
        return 1 << (most.bit_length() - 1)

    def _parts(self) -> Iterator[tuple[slice, ArrayWindows]]:
        step = self._step()
        for start in range(0, self.n, step):
            stop = min(start + step, self.n)
            yield slice(start, stop), ArrayWindows(self._read(start, stop))

    def sum(self, f: Summand, *beside: Array) -> list[Array]:
        """Add up strip by strip, block by block."""
        return add(
            summand
            for at, part in self._parts()
            for summand in part.strips(f, *(values[at] for values in beside))
        )

    def map(self, f: Mapping, *beside: Array) -> Array:
        """Map block by block."""
        return np.concatenate(
            [part.map(f, *(values[at] for values in beside)) for at, part in self._parts()]
        )

    def take(self, index: NDArray[np.intp]) -> Array:
        """Read the blocks that hold these windows."""
        step, out = self._step(), []
        for start in range(0, self.n, step):
            inside = index[(index >= start) & (index < start + step)]
            if len(inside):
                out.append(self._read(start, min(start + step, self.n))[inside - start])
        return np.concatenate(out)

    def kept(self) -> FileWindows:
        """Return these windows."""
        return self

    def scaled(self, center: Array, factor: Array) -> FileWindows:
        """Return the same files, scaled whenever they are read."""
        center, factor = center.astype(self.dtype), factor.astype(self.dtype)
        return FileWindows(self.blocks, self.dtype, self.nan, center, factor, self.block_values)


def checked_rows(
    block: Array, name: str, dtype: np.dtype[Any], *, first: int = 0, nan: bool = False
) -> Array:
    """Return windows (m, …) as rows (m, i) of floats; raise where they cannot be fitted."""
    checks.check_rounding(block, dtype, name, "dtype='float64' or ")
    checks.check_range(block, dtype, name)
    rows = np.ascontiguousarray(block, dtype=dtype).reshape(len(block), -1)
    checks.check_values(rows.reshape(block.shape), name, first=first, nan=nan)
    return rows


def is_dask(X: Any) -> bool:
    """Whether X is a ``dask.array``; Dask is not imported for that."""
    return (
        type(X).__module__.startswith("dask.") and hasattr(X, "to_delayed") and hasattr(X, "chunks")
    )


def forget_pages(X: Any) -> None:
    """Let go of the pages of a mapped file that were read: they would count as memory."""
    mapped = getattr(X, "_mmap", None)
    if (
        mapped is not None
        and getattr(X, "mode", "") in {"r", "r+", "w+"}
        and hasattr(mapped, "madvise")
    ):
        mapped.madvise(mmap.MADV_DONTNEED)


# ------------------------------------------------------------------------------ mean and scale


@dataclass(frozen=True)
class Scaling:
    """Mean of each value, and its variance about it, over the windows that have it."""

    center: Array
    variance: Array

    def size(self, columns: slice = slice(None)) -> float:
        """Root mean squared norm about the mean, of some of the values."""
        return float(np.sqrt(self.variance[columns].sum()))


def learn_scaling(windows: Windows, *, center: bool = True) -> Scaling:
    """Learn mean and variance of each value in one pass; missing values are left out.

    Without ``center`` the mean counts as zero.
    """
    head = windows.take(np.arange(min(256, windows.n, 2 + BLOCK_VALUES // windows.size)))
    head = head.astype(np.float64)
    seen = ~np.isnan(head)
    # Sums about a point among the data lose nothing to rounding.
    shift = np.where(seen, head, 0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    shift = shift.astype(windows.dtype) if center else np.zeros(windows.size, windows.dtype)
    total, squares, count, empty = windows.sum(_Moments(shift))
    never = int((count == 0).sum())
    if never == count.size:
        raise InvalidInputError("X holds no value at all: every entry is NaN")
    if empty:
        checks.warn(f"{int(empty)} windows of X hold nothing but NaN; drop them")
    if never:
        checks.warn(
            f"X: {never} of the {count.size} values of a window are NaN in every window (first: "
            f"value {int(np.argmin(count))}); nothing can be learned of them"
        )
    count = np.maximum(count, 1)
    away = total / count
    mean = shift + away if center else np.zeros(windows.size)
    variance = np.maximum(squares / count - (np.square(away) if center else 0), 0)
    scaling = Scaling(mean, variance)
    # What is left of equal windows after centring is rounding, not signal.
    floor = 8 * float(np.finfo(windows.dtype).eps) * float(np.linalg.norm(mean))
    if not scaling.size() > floor:
        what = f"all windows are equal in {windows.dtype}" if center else "all windows are zero"
        raise InvalidInputError(
            f"X of {windows.n} windows has nothing to decompose: {what}; pass windows that differ"
        )
    return scaling


@dataclass(frozen=True)
class _Moments:
    """Sums, squares and counts of the values of a block, about a point, and empty windows."""

    shift: Array

    def __call__(self, block: Array) -> list[Array]:
        return add(map(self._of_piece, pieces(block)))

    def _of_piece(self, piece: Array) -> list[Any]:
        rest = np.subtract(piece, self.shift, dtype=np.float64)
        gaps = np.isnan(rest)
        rest[gaps] = 0
        count = len(piece) - gaps.sum(axis=0)
        squares = np.einsum("ni,ni->i", rest, rest)
        return [rest.sum(axis=0), squares, count, int(gaps.all(axis=1).sum())]

"""Windows on Dask: a pass is one task per thread of a worker, and a sum over what these give.

Blocks of rows are made once and stay on the workers that made them. A pass sends a function, such
as the factors of a sweep, and brings back sums, so that its traffic does not grow with the windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError, InvalidTypeError
from tensorcontrast.solvers import dask_graph as graph
from tensorcontrast.solvers.windows import BLOCK_VALUES, ArrayWindows, checked_rows, is_dask
from tensorcontrast.utils import threads
from tensorcontrast.utils.arrays import as_array, as_float
from tensorcontrast.utils.optional import optional

Array = NDArray[Any]

MAX_GATHERED_VALUES = 2**27
"""Values that :meth:`DaskWindows.map` brings here at most."""


@dataclass(frozen=True)
class DaskWindows:
    """Windows as rows (n, i) in blocks, each a task or a result on a worker."""

    tasks: list[graph.Task] = field(repr=False)
    sizes: tuple[int, ...]
    size: int
    dtype: np.dtype[Any]

    @classmethod
    def from_arrays(
        cls, arrays: Sequence[Any], dtype: np.dtype[Any] | None, *, nan: bool
    ) -> DaskWindows:
        """Return windows that are a Dask array, or coupled blocks of which one is."""
        da = optional("dask.array", "dask")
        sized = [
            a.compute_chunk_sizes() if is_dask(a) and _has_unknown_chunks(a) else a for a in arrays
        ]
        for array in sized:
            if len(array.shape) < 2 or 0 in array.shape:
                raise InvalidInputError(
                    f"X has shape {tuple(array.shape)}; windows (n, I_1, …, I_K) of at least one "
                    "value are needed"
                )
        size = sum(prod(a.shape[1:]) for a in sized)
        chunks = next(a.chunks[0] for a in sized if is_dask(a))
        sizes = aligned(chunks, size)
        cut = []
        for array in sized:
            if not is_dask(array):
                array = da.from_array(array, chunks=(sizes, *(-1 for _ in array.shape[1:])))
            cut.append(array.rechunk({0: sizes, **dict.fromkeys(range(1, array.ndim), -1)}))
        kind = np.result_type(*(a.dtype for a in cut))
        if dtype is None and kind.kind not in "fiub":
            raise InvalidTypeError(f"X has dtype {kind}; numbers are needed")
        float_dtype = dtype or np.dtype(np.float64 if kind == np.float64 else np.float32)
        read = _Read(float_dtype, nan, len(cut) > 1)
        blocks = [array.to_delayed().ravel().tolist() for array in cut]
        return cls(graph.each(read, _starts(sizes), *blocks), sizes, size, float_dtype)

    @classmethod
    def from_signals(cls, signals: Any, blocks: Any, dtype: np.dtype[Any]) -> DaskWindows:
        """Return the rows of signals [n, channel, time], tensorized where they are."""
        signals, sizes = _cut_signals(signals, blocks.size)
        tasks = graph.each(
            _Tensorize(blocks, dtype), _starts(sizes), signals.to_delayed().ravel().tolist()
        )
        return cls(tasks, sizes, blocks.size, dtype)

    @property
    def n(self) -> int:
        """Number of windows."""
        return sum(self.sizes)

    def kept(self) -> DaskWindows:
        """Return the same windows, made once and left where they were made."""
        tasks = graph.persisted_evenly(self.tasks, self.sizes)
        return DaskWindows(tasks, self.sizes, self.size, self.dtype)

    @cached_property
    def _groups(self) -> graph.Groups | None:
        return graph.by_worker(self.tasks)

    def sum(self, f: Callable[..., Sequence[Any]], *beside: Array) -> list[Array]:
        """Add up on the workers, then over workers in a tree of fixed shape."""
        with graph.large_graphs():
            if not beside:
                return graph.total_over(_Sum(f), self.tasks, self._groups)
            return graph.tree_reduce(graph.each(_Sum(f), self.tasks, *map(self._cut, beside)))

    def map(self, f: Callable[..., Array], *beside: Array) -> Array:
        """Map on the workers, and bring what comes of it here."""
        with graph.large_graphs():
            parts = graph.each(_Map(f), self.tasks, *map(self._cut, beside))
            return np.concatenate(graph.computed(parts))

    def lazy_map(self, f: Callable[[Array], Array], width: int) -> Any:
        """Return ``f(block)`` (n, width) as a Dask array."""
        da = optional("dask.array", "dask")
        parts = graph.each(_Map(f), self.tasks)
        return da.concatenate(
            [
                da.from_delayed(part, (size, width), self.dtype)
                for part, size in zip(parts, self.sizes, strict=True)
            ]
        )

    def take(self, index: NDArray[np.intp]) -> Array:
        """Bring some windows here."""
        edges = np.cumsum([0, *self.sizes])
        places = [index[(index >= a) & (index < b)] - a for a, b in pairwise(edges)]
        some = [(task, at) for task, at in zip(self.tasks, places, strict=True) if len(at)]
        taken = graph.each(_take, [task for task, _ in some], [at for _, at in some])
        return np.concatenate(graph.computed(taken))

    def scaled(self, center: Array, factor: Array) -> DaskWindows:
        """Return the windows scaled, where they are."""
        scale = _Scale(center.astype(self.dtype), factor.astype(self.dtype))
        tasks = graph.each(scale, self.tasks, groups=self._groups)
        if self._groups is not None:  # they are kept: so are these, in their place
            tasks = graph.persisted(tasks)
            self.tasks.clear()
        return DaskWindows(tasks, self.sizes, self.size, self.dtype)

    def _cut(self, values: Array) -> list[Array]:
        return list(np.split(values, np.cumsum(self.sizes)[:-1]))


def map_signals(signals: Any, f: Callable[[Array], Array], width: int, dtype: Any) -> Any:
    """Features (n, width) of signals [n, channel, time] as a Dask array."""
    signals, sizes = _cut_signals(signals, prod(signals.shape[1:]))
    return signals.map_blocks(
        _Features(f, width, np.dtype(dtype)),
        dtype=dtype,
        meta=np.empty((0, 0), dtype=dtype),
        chunks=(sizes, (width,)),
        drop_axis=[2],
    )


def _cut_signals(signals: Any, size: int) -> tuple[Any, tuple[int, ...]]:
    if _has_unknown_chunks(signals):
        signals = signals.compute_chunk_sizes()
    if not len(signals):
        raise InvalidInputError("X holds no signals; at least one is needed")
    sizes = aligned(signals.chunks[0], max(size, prod(signals.shape[1:])))
    return signals.rechunk({0: sizes, 1: -1, 2: -1}), sizes


def _has_unknown_chunks(array: Any) -> bool:
    return any(np.isnan(size) for sizes in array.chunks for size in sizes)


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(sizes)[:-1].tolist()]


def aligned(sizes: Sequence[int], size: int) -> tuple[int, ...]:
    """Sizes of blocks of windows of ``size`` values that are whole strips, near to those given.

    Strips lie at the same windows in every fit, in memory or not, so that all take the same sums.
    """
    most = max(1, BLOCK_VALUES // max(1, size))
    most = most - most % threads.STRIP_ROWS if most >= threads.STRIP_ROWS else most
    step = min(most, threads.STRIP_ROWS)
    n = int(sum(sizes))
    near = (round(edge / step) * step for edge in np.cumsum(sizes).tolist() if edge < n)
    ordered = sorted({0, n, *(edge for edge in near if edge < n)})
    return tuple(min(most, b - at) for a, b in pairwise(ordered) for at in range(a, b, most))


# ------------------------------------------------------------------------ what runs on workers


@dataclass(frozen=True)
class _Read:
    """Rows of a block of windows, or of coupled blocks, checked."""

    dtype: np.dtype[Any]
    nan: bool
    coupled: bool

    def __call__(self, start: int, *blocks: Any) -> Array:
        rows = []
        for b, block in enumerate(blocks):
            name = f"X[{b}]" if self.coupled else "X"
            array = as_array(block, name, missing=self.nan, way="", first=start)
            rows.append(checked_rows(array, name, self.dtype, first=start, nan=self.nan))
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


@dataclass(frozen=True)
class _Tensorize:
    blocks: Any
    dtype: np.dtype[Any]

    def __call__(self, start: int, signals: Any) -> Array:
        nan = self.blocks.missing == "mask"
        windows = as_float(as_array(signals, missing=nan, way="", first=start))
        rows: Array = self.blocks.rows(windows).astype(self.dtype, copy=False)
        return rows


@dataclass(frozen=True)
class _Sum:
    f: Callable[..., Sequence[Any]]

    def __call__(self, rows: Array, *beside: Array) -> list[Array]:
        return ArrayWindows(rows).sum(self.f, *beside)


@dataclass(frozen=True)
class _Map:
    f: Callable[..., Array]

    def __call__(self, rows: Array, *beside: Array) -> Array:
        return ArrayWindows(rows).map(self.f, *beside)


@dataclass(frozen=True)
class _Scale:
    center: Array
    factor: Array

    def __call__(self, rows: Array) -> Array:
        return ArrayWindows(rows).scaled(self.center, self.factor).rows


@dataclass(frozen=True)
class _Features:
    f: Callable[[Array], Array]
    width: int
    dtype: np.dtype[Any]

    def __call__(self, signals: Any, block_info: Any = None) -> Array:
        if not len(signals):
            return np.empty((0, self.width), self.dtype)
        start = int(block_info[0]["array-location"][0][0]) if block_info else 0
        windows = as_array(signals, missing=True, way="", first=start)
        with threads.single("blas"):
            return np.asarray(self.f(as_float(windows)))


def _take(rows: Array, at: NDArray[np.intp]) -> Array:
    return np.array(rows[at])

"""Windows that are a ``dask.array``: read, changed and summed block by block, where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.distributed import blocks as on
from tensorcontrast.distributed.extra import package
from tensorcontrast.distributed.views import BlockViews
from tensorcontrast.distributed.work import CoreRows, WithView
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als
from tensorcontrast.solvers.prepare import Preparation
from tensorcontrast.sources.source import (
    BLOCK_SIZE,
    BlockSize,
    FreshSource,
    checked_block,
    samples_a_block,
    working_dtype,
)
from tensorcontrast.utils import checks, threads
from tensorcontrast.utils.arrays import as_array

Array = NDArray[Any]
#: Makes a block of another from the block and the number of its first window.
Change = Callable[[Array, int], Any]


@dataclass(frozen=True)
class Reader:
    """From a raw block to a checked one: what :func:`checked_block` asks of a source."""

    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    name: str
    n_samples: int
    change: Change | None = None
    #: Whether NaN stand for missing values.
    missing: bool = False

    def __call__(self, raw: Any, start: int) -> Array:
        """Check the block that begins with window ``start``, changed where that is asked for."""
        block = as_array(raw, self.name, missing=self.missing, way="", first=start)
        if self.change is None:
            return checked_block(block, self, start)
        block = checked_block(block, replace(self, name="X", change=None), start)
        changed = self.change(checks.read_only(block), start)
        changed = as_array(changed, self.name, missing=self.missing, way="", first=start)
        if changed.shape != block.shape:
            raise InvalidInputError(
                f"augment made windows of shape {changed.shape} from {block.shape}; "
                "it must keep the shape"
            )
        return checked_block(changed, self, start)

    def blocks(self) -> Iterator[Array]:
        """Nothing: a reader holds no windows."""
        return iter(())


class DaskSource:
    """A ``dask.array`` of windows (n, I_1, …, I_K), in blocks of windows.

    Blocks that are too large are cut, the modes of a window are brought together, and sizes that
    are not known are counted, which reads the data once.
    """

    def __init__(
        self,
        X: Any,
        dtype: np.dtype[Any] | None = None,
        name: str = "X",
        block_size: BlockSize = BLOCK_SIZE,
    ) -> None:
        if X.ndim < 2:
            raise InvalidInputError(
                f"{name} has shape {X.shape}; windows (n, I_1, …, I_K) are needed"
            )
        if any(np.isnan(size) for sizes in X.chunks for size in sizes):
            X = X.compute_chunk_sizes()
        if 0 in X.shape:
            raise InvalidInputError(
                f"{name} has shape {X.shape}; windows (n, I_1, …, I_K) of at least one value are "
                "needed"
            )
        X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
        most = samples_a_block(X.shape[1:], block_size)
        X = X.rechunk({0: aligned(X.chunks[0], most, block_size.strip_rows)})
        self.X, self.name, self.block_size = X, name, block_size
        self._kept: list[on.Task] | None = None
        self.reader = Reader(
            tuple(int(d) for d in X.shape[1:]),
            dtype or working_dtype(X.dtype, name),
            name,
            int(X.shape[0]),
        )

    @property
    def dims(self) -> tuple[int, ...]:
        """Shape of a window."""
        return self.reader.dims

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.reader.dtype

    @property
    def n_samples(self) -> int:
        """Number of windows."""
        return self.reader.n_samples

    @property
    def missing(self) -> bool:
        """Whether NaN stand for missing values."""
        return self.reader.missing

    @missing.setter
    def missing(self, allowed: bool) -> None:
        """Let blocks hold NaN."""
        self.reader = replace(self.reader, missing=allowed)

    @property
    def sizes(self) -> list[int]:
        """Windows of each block that has any."""
        return [int(size) for size in self.X.chunks[0] if size]

    @property
    def starts(self) -> list[int]:
        """First window of each block that has any."""
        return [0, *np.cumsum(self.sizes)[:-1].tolist()]

    def raw(self) -> list[on.Task]:
        """Tasks that give the raw blocks; empty ones are left out."""
        if self._kept is not None:
            return self._kept
        tasks = self.X.to_delayed().ravel().tolist()
        return [task for task, size in zip(tasks, self.X.chunks[0], strict=True) if size]

    def blocks(self) -> Iterator[Array]:
        """Bring one block after the other here."""
        for task, start in zip(self.raw(), self.starts, strict=True):
            yield self.reader(on.computed([task])[0], start)

    # ------------------------------------------------------------ what stays where the blocks are

    def keep(self) -> None:
        """Keep blocks where they are read until :meth:`views` has made its own of them.

        For data that is fitted as it is: it has to fit into the workers' memory anyway.
        """
        self._kept = self._persisted(self.raw())

    def _persisted(self, tasks: list[on.Task]) -> list[on.Task]:
        """Run one task per block, evenly over the workers; what is somewhere already stays."""
        if on.somewhere(self.X):
            return on.persisted(tasks)
        return on.persisted_evenly(tasks, self.sizes)

    def head(self, most: int) -> Array:
        """Return the first windows, at most so many."""
        if self._kept is None:
            return self.reader(on.computed([self.X[:most]])[0], 0)
        count = sum(start < most for start in self.starts)
        wanted = [
            min(size, most - start) for size, start in zip(self.sizes, self.starts, strict=True)
        ]
        first_rows = on.computed(on.each(_first, self._kept[:count], wanted[:count]))
        return self.reader(np.concatenate(first_rows), 0)

    def summed(self, function: Callable[..., list[Any]], *rows: Array) -> list[Array]:
        """Sum over blocks of what the function gives for each: numbers and arrays, in float64.

        It gets a block and what ``rows`` (n, …) hold for its windows.
        """
        work = _Read(self.reader, function)
        with on.large_graphs():
            return on.total(on.each(work, self.raw(), self.starts, *map(self.cut, rows)))

    def collected(self, function: Callable[[Array], Array]) -> Array:
        """Bring here the few numbers that the function gives for each window of a block."""
        work = _Read(self.reader, function)
        return np.concatenate(on.computed(on.each(work, self.raw(), self.starts)))

    def strided(self, step: int) -> Array:
        """Bring every ``step``-th window here, the first one included."""
        some = [
            (raw, start, -start % step)
            for raw, start, size in zip(self.raw(), self.starts, self.sizes, strict=True)
            if -start % step < size
        ]
        work = _Every(self.reader, step)
        return np.concatenate(on.computed(on.each(work, *zip(*some, strict=True))))

    def cut(self, rows: Array | None) -> list[Array | None]:
        """Return what rows (n, …) hold for the windows of each block."""
        if rows is None:
            return [None] * len(self.sizes)
        return list(np.split(rows, np.cumsum(self.sizes)[:-1]))

    def mapped(self, change: Change) -> DaskSource:
        """Return the view that the function makes of each block."""
        out = object.__new__(DaskSource)
        out.X, out.name, out._kept = self.X, "view", self._kept
        out.block_size = self.block_size
        out.reader = replace(self.reader, name="view", change=change)
        return out

    def matched(self, other: Any) -> DaskSource:
        """Return a view, as a Dask array or in memory, in the blocks of this source."""
        array = package("dask.array")
        if not hasattr(other, "dask"):
            shape = (self.n_samples, *self.dims)
            checked = checks.check_view(other, shape, self.dtype, nan=self.missing)
            other = array.from_array(checked, chunks=self.X.chunks)
        if any(np.isnan(size) for sizes in other.chunks for size in sizes):
            other = other.compute_chunk_sizes()
        if other.shape != self.X.shape:
            raise InvalidInputError(
                f"view has shape {other.shape} but X has {self.X.shape}: the view must hold the "
                "same windows, augmented, in the same order"
            )
        out = DaskSource(other.rechunk(self.X.chunks), self.dtype, "view", self.block_size)
        out.missing = self.missing
        return out

    def views(self, ready: Preparation, view: Any) -> BlockViews | als.FreshViews:
        """Both views as they are fitted, on the workers."""
        roots = self.cut(ready.root_weights)
        ready = replace(ready, root_weights=None)

        def pair(rows: list[on.Task], other: Any, groups: on.Groups | None = None) -> BlockViews:
            second = other if isinstance(other, DaskSource) else self.matched(_array(other))
            with_view = WithView(ready, second.reader)
            both = on.each(with_view, rows, second.raw(), self.starts, roots, groups=groups)
            both = on.persisted(both) if groups else self._persisted(both)
            self._kept = None  # what was kept goes as soon as its rows are there
            return BlockViews.from_blocks(both, self.sizes, ready, paired=True, groups=groups)

        plain = on.each(CoreRows(ready, self.reader), self.raw(), self.starts, roots)
        if view is not None and not isinstance(view, FreshSource):
            return pair(plain, view)
        rows = self._persisted(plain)
        self._kept = None
        del plain
        if view is None:
            return BlockViews.from_blocks(rows, self.sizes, ready, paired=False)
        groups = on.by_worker(rows)  # one way to part the windows for all views that are drawn
        return als.FreshViews(lambda: cast("als.Views", pair(rows, view.draw(), groups)))

    def transformed(
        self, features: Callable[[Array], Array], rank: int, dtype: np.dtype[Any]
    ) -> Any:
        """Lazy array (n, rank) of what a function gives for each block. Equation E12."""
        return self.X.map_blocks(
            _Encode(self.reader, features, rank, dtype),
            dtype=dtype,
            meta=np.empty((0, 0), dtype=dtype),
            chunks=(self.X.chunks[0], (rank,)),
            drop_axis=list(range(2, self.X.ndim)),
        )


@dataclass(frozen=True)
class _Read:
    """A function of a checked block."""

    reader: Reader
    function: Callable[..., Any]

    def __call__(self, raw: Any, start: int, *rows: Array) -> Any:
        return self.function(self.reader(raw, start), *rows)


@dataclass(frozen=True)
class _Every:
    """Every so many windows of a block, from one of them on."""

    reader: Reader
    step: int

    def __call__(self, raw: Any, start: int, first: int) -> Array:
        return np.array(self.reader(raw, start)[first :: self.step])


@dataclass(frozen=True)
class _Encode:
    """Features of a block."""

    reader: Reader
    features: Callable[[Array], Array]
    rank: int
    dtype: np.dtype[Any]

    def __call__(self, raw: Any, block_info: Any = None) -> Array:
        if not len(raw):
            return np.empty((0, self.rank), dtype=self.dtype)
        start = int(block_info[0]["array-location"][0][0]) if block_info else 0
        return np.asarray(self.features(self.reader(raw, start)))


def _first(block: Array, count: int) -> Array:
    return np.asarray(block[:count])


def _array(source: Any) -> Any:
    """Return the windows of another source as an array."""
    return getattr(source, "X", None) if hasattr(source, "X") else source


def aligned(
    sizes: Sequence[int], most: int, strip_rows: int = threads.STRIP_ROWS
) -> tuple[int, ...]:
    """Sizes of blocks of at most ``most`` windows that are whole strips, near to those given.

    Strips lie at the same windows in every fit, in memory or not, so that all take the same sums.
    """
    step = min(most, strip_rows)
    n = int(sum(sizes))
    near = (round(edge / step) * step for edge in np.cumsum(sizes).tolist() if edge < n)
    ordered = sorted({0, n, *(edge for edge in near if edge < n)})
    return tuple(min(most, b - at) for a, b in pairwise(ordered) for at in range(a, b, most))

"""Windows on Dask: a pass is one task per thread of a worker, and a sum over what these give.

Blocks of rows are made once and stay on the workers that made them. A pass sends a function, such
as the factors of a sweep, and brings back sums, so that its traffic does not grow with the windows.
Sums are taken in float64, in an order that does not depend on which worker is ready first.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from math import prod
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError, InvalidTypeError, TensorContrastError
from tensorcontrast.solvers.windows import BLOCK_VALUES, ArrayWindows, add, checked_rows, is_dask
from tensorcontrast.utils import threads
from tensorcontrast.utils.arrays import as_array, as_float
from tensorcontrast.utils.optional import optional

Array = NDArray[Any]
#: A task that is still to run, or whose result is on a worker (``dask.delayed.Delayed``).
Task = Any
#: A thread of a worker: its address and number; "" where there is no cluster.
Slot = tuple[str, int]

#: Names of the errors of ``distributed`` when its scheduler has gone.
_LOST = {
    "CancelledError",
    "FutureCancelledError",
    "FuturesCancelledError",
    "CommClosedError",
    "ClosedClientError",
}


@dataclass(frozen=True)
class DaskWindows:
    """Windows as rows (n, i) in blocks, each a task or a result on a worker."""

    tasks: list[Task] = field(repr=False)
    sizes: tuple[int, ...]
    size: int
    dtype: np.dtype[Any]
    #: The thread that has each block, once they are kept; blocks of one are next to each other.
    slots: tuple[Slot, ...] = ()

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
        return cls(each(read, _starts(sizes), *blocks), sizes, size, float_dtype)

    @classmethod
    def from_signals(cls, signals: Any, blocks: Any, dtype: np.dtype[Any]) -> DaskWindows:
        """Return the rows of signals [n, channel, time], tensorized where they are."""
        signals, sizes = _cut_signals(signals, blocks.size)
        tasks = each(
            _Tensorize(blocks, dtype), _starts(sizes), signals.to_delayed().ravel().tolist()
        )
        return cls(tasks, sizes, blocks.size, dtype)

    @property
    def n(self) -> int:
        """Number of windows."""
        return sum(self.sizes)

    def kept(self) -> DaskWindows:
        """Return the same windows, made once and left where they were made.

        Each thread of a cluster gets as many windows in a row. Left to itself a scheduler may give
        one of two workers five blocks of eight, for whose sums the other then waits in every pass.
        """
        slots = _even_slots(self.sizes)
        return replace(self, tasks=_persisted(self.tasks, slots), slots=slots)

    def sum(self, f: Callable[..., Sequence[Any]], *beside: Array) -> list[Array]:
        """Add up on the workers, over the blocks of each thread in one task, then here."""
        slots = self.slots or tuple(("", i) for i in range(len(self.tasks)))
        cut = [self._cut(values) for values in beside]
        jobs = []
        for slot, places in groupby(range(len(self.tasks)), key=slots.__getitem__):
            members = list(places)
            blocks = [self.tasks[i] for i in members]
            jobs.append((slot[0], [len(members), *blocks, *(c[i] for c in cut for i in members)]))
        tasks = _called(_SumOver(f), jobs)
        with large_graphs():
            return add(computed(tasks))

    def map(self, f: Callable[..., Array], *beside: Array) -> Array:
        """Map on the workers, and bring what comes of it here."""
        with large_graphs():
            parts = each(_Map(f), self.tasks, *map(self._cut, beside))
            return np.concatenate(computed(parts))

    def lazy_map(self, f: Callable[[Array], Array], width: int) -> Any:
        """Return ``f(block)`` (n, width) as a Dask array."""
        da = optional("dask.array", "dask")
        parts = each(_Map(f), self.tasks)
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
        return np.concatenate(computed(each(_take, *map(list, zip(*some, strict=True)))))

    def scaled(self, center: Array, factor: Array) -> DaskWindows:
        """Return the windows scaled, where they are."""
        scale = _Scale(center.astype(self.dtype), factor.astype(self.dtype))
        homes = [home for home, _ in self.slots] or [""] * len(self.tasks)
        tasks = _called(scale, [(h, [task]) for h, task in zip(homes, self.tasks, strict=True)])
        if self.slots:  # they are kept: so are these, in their place
            tasks = _persisted(tasks, self.slots)
            self.tasks.clear()
        return replace(self, tasks=tasks)

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


# ----------------------------------------------------------------------------- tasks


def each(function: Callable[..., Any], *lists: Sequence[Any]) -> list[Task]:
    """Tasks ``function(a, b, …)`` for the entries of some lists."""
    return _called(function, [("", list(arguments)) for arguments in zip(*lists, strict=True)])


def _called(function: Callable[..., Any], jobs: Sequence[tuple[str, list[Any]]]) -> list[Task]:
    """Tasks that call a function with some arguments, each on a worker where one is named.

    The function, which may hold the factors of a sweep, is one node of the graph: it is sent to a
    worker once, and made again where a worker is lost.
    """
    dask = optional("dask", "dask")
    call = dask.delayed(_call, pure=False)
    node = dask.delayed(function, name=f"shared-{uuid4().hex}", traverse=False)
    # Schedulers judge by its name how long a task takes.
    name = str(getattr(function, "__name__", type(function).__name__)).strip("_").lower()
    out = []
    for home, arguments in jobs:
        pinned = dask.annotate(workers=[home], allow_other_workers=True) if home else nullcontext()
        with pinned:
            out.append(call(node, *arguments, dask_key_name=f"{name}-{uuid4().hex}"))
    return out


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function as tasks do."""
    # What came over a network may lie anywhere in memory, where code has another rounding.
    aligned = (
        np.require(a, requirements="A") if isinstance(a, np.ndarray) else a for a in arguments
    )
    with threads.single("blas"):  # a worker has a thread a processor already
        return function(*aligned)


def computed(tasks: Sequence[Task]) -> list[Any]:
    """Run the tasks and bring their results here."""
    with cluster_errors():
        return list(optional("dask", "dask").compute(*tasks))


def _persisted(tasks: Sequence[Task], slots: Sequence[Slot]) -> list[Task]:
    """Run the tasks and leave their results on the workers of the slots."""
    dask, out = optional("dask", "dask"), []
    with cluster_errors():
        if not slots:
            return list(dask.persist(*tasks))
        for home, places in groupby(range(len(tasks)), key=lambda i: slots[i][0]):
            some = (tasks[i] for i in places)
            out += dask.persist(*some, workers=[home], allow_other_workers=True)
    return out


def _even_slots(sizes: Sequence[int]) -> tuple[Slot, ...]:
    """Return a thread of a worker for each block; none without a cluster."""
    if "distributed" not in sys.modules:
        return ()
    distributed = optional("distributed", "dask")
    scheduler = optional("dask.base", "dask").get_scheduler()
    client = getattr(scheduler, "__self__", None)
    if not isinstance(client, distributed.Client):
        return ()
    with cluster_errors():
        slots = [(home, k) for home, n in sorted(client.nthreads().items()) for k in range(n)]
    if not slots:
        return ()
    middle = (np.cumsum(sizes) - np.asarray(sizes) / 2) / sum(sizes)
    return tuple(slots[int(share * len(slots))] for share in middle)


@contextmanager
def large_graphs() -> Iterator[None]:
    """Send arrays with their tasks without a warning: they are meant to be sent."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Say what was lost where a scheduler or too many workers are."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        if kind == "KilledWorker":
            raise TensorContrastError(
                f"workers died again and again ({error}), most likely for want of memory: make "
                "the blocks of X smaller (rechunk) or give each worker more memory"
            ) from error
        if isinstance(error, MemoryError):
            raise TensorContrastError(
                "a worker ran out of memory: make the blocks of X smaller (rechunk) or give each "
                "worker more memory"
            ) from error
        if kind in _LOST:
            raise TensorContrastError(
                f"the Dask scheduler was lost ({kind}): with autosave=PATH, "
                "fit(X, init=load_model(PATH)) goes on with the same data on another cluster"
            ) from error
        raise


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
            array = as_array(block, name)
            rows.append(checked_rows(array, name, self.dtype, first=start, nan=self.nan))
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


@dataclass(frozen=True)
class _Tensorize:
    blocks: Any
    dtype: np.dtype[Any]

    def __call__(self, start: int, signals: Any) -> Array:
        windows = as_float(as_array(signals))
        rows: Array = self.blocks.rows(windows).astype(self.dtype, copy=False)
        return rows


@dataclass(frozen=True)
class _SumOver:
    """Sums over some blocks, one after the other; arrays beside them follow all blocks."""

    f: Callable[..., Sequence[Any]]

    def __call__(self, count: int, *arrays: Array) -> list[Array]:
        columns = (arrays[k : k + count] for k in range(0, len(arrays), count))
        return add(
            ArrayWindows(rows).sum(self.f, *beside) for rows, *beside in zip(*columns, strict=True)
        )


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

    def __call__(self, signals: Any) -> Array:
        if not len(signals):
            return np.empty((0, self.width), self.dtype)
        windows = as_array(signals)
        with threads.single("blas"):
            return np.asarray(self.f(as_float(windows)))


def _take(rows: Array, at: NDArray[np.intp]) -> Array:
    return np.array(rows[at])

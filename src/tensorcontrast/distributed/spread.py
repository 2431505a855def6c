"""Windows in partitions on many machines: what ``cp.partition.InMemory`` is for arrays in memory.

A partition is the blocks that one thread of one worker has. What a function gives for a partition
stays on its worker. Sums over partitions come to the caller, all that wait in one go, so that a
contrast costs as many round trips as it has sums that others depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp.partition import add
from tensorcontrast.distributed import blocks as on
from tensorcontrast.distributed.extra import package
from tensorcontrast.solvers.tuning import TUNING

Array = NDArray[Any]


@dataclass(eq=False)
class WorkerArrays:
    """An array, or more, of each partition: tasks whose results are on the workers."""

    tasks: list[Any]
    spread: Spread

    def brought(self) -> Array | None:
        """Bring the rows of all partitions here, in the order of the windows; None if too many."""
        self.spread.run()
        shapes = on.computed(self.spread.each(_shape, self.tasks))
        if sum(int(np.prod(shape)) for shape in shapes) > self.spread.max_gathered_values:
            return None
        pieces = [_plain(piece) for piece in on.computed(self.tasks)]
        out = np.empty((self.spread.n_samples, *shapes[0][1:]), dtype=pieces[0].dtype)
        for rows, piece in zip(self.spread.places(), pieces, strict=True):
            out[rows] = piece
        return out

    def times(self, gain: Array) -> WorkerArrays:
        """Return the same, each column multiplied with a number."""
        return self.spread.mapped(_Times(gain), self)

    def lazy(self, dtype: Any, *width: int) -> Any:
        """Return the rows of all partitions as a Dask array, in the order of the windows."""
        self.spread.run()
        array = package("dask.array")
        sizes = self.spread.sizes
        pieces: list[Any] = [None] * len(sizes)
        for task, group in zip(self.tasks, self.spread.groups.places, strict=True):
            edges = np.cumsum([0, *(sizes[i] for i in group)]).tolist()
            for i, a, b in zip(group, edges[:-1], edges[1:], strict=True):
                (piece,) = on.each(_Cut(a, b), [task])
                pieces[i] = array.from_delayed(piece, (sizes[i], *width), dtype)
        return array.concatenate(pieces)


@dataclass
class Spread:
    """Partitions on workers, for ``cp.partition``: blocks of so many windows, in groups."""

    sizes: list[int]
    #: Blocks of each partition, in the order of the windows.
    groups: on.Groups
    #: A block of each partition, which is large: what depends on it is not worth moving, so that
    #: no idle worker takes the work of another, and the features of a whole partition with it.
    anchors: list[on.Task] | None = None
    #: Values up to which the rows of all partitions are brought to the caller.
    max_gathered_values: int = TUNING.max_gathered_values
    _waiting: list[WorkerArrays | _Sum] = field(default_factory=list)

    @property
    def n_samples(self) -> int:
        """Number of windows of all partitions."""
        return sum(self.sizes)

    def places(self) -> list[NDArray[np.intp]]:
        """Return the windows of each partition."""
        edges = np.cumsum([0, *self.sizes])
        return [
            np.concatenate([np.arange(edges[i], edges[i + 1]) for i in group])
            for group in self.groups.places
        ]

    def of_blocks(self, tasks: Sequence[on.Task]) -> WorkerArrays:
        """Return the blocks of each partition as a list."""
        return WorkerArrays([[tasks[i] for i in group] for group in self.groups.places], self)

    def given(self, rows: Array) -> WorkerArrays:
        """Send the rows of an array to their partitions."""
        with on.large_graphs():
            tasks = on.persisted(self.each(_as_it_is, [rows[at] for at in self.places()]))
        return WorkerArrays(tasks, self)

    def mapped(self, function: Callable[..., Any], *arrays: WorkerArrays | None) -> WorkerArrays:
        """Return what the function gives for each partition; it runs when a sum is asked for."""
        out = WorkerArrays(self._tasks(function, on.kind(function), *arrays), self)
        self._waiting.append(out)
        return out

    def summed(
        self, function: Callable[..., list[Any]], *arrays: WorkerArrays | None
    ) -> Callable[[], list[Any]]:
        """Sum over partitions, once it is asked for."""
        return self._sum(self._tasks(function, on.kind(function), *arrays))

    def step(
        self, function: Callable[..., tuple[Any, list[Any]]], *arrays: WorkerArrays | None
    ) -> tuple[WorkerArrays, Callable[[], list[Any]]]:
        """Give what the function gives for each partition, and the sum of the lists next to it."""
        out = WorkerArrays(self._tasks(_Both(function), on.kind(function), *arrays), self)
        self._waiting.append(out)
        return out, self._sum(self.each(_sums, out.tasks))

    def _tasks(
        self, function: Callable[..., Any], name: str, *arrays: WorkerArrays | None
    ) -> list[on.Task]:
        none = [None] * len(self.groups.places)
        arguments = (none if value is None else value.tasks for value in arrays)
        return self.each(_Plain(function), *arguments, name=name)

    def each(
        self, function: Callable[..., Any], *lists: Sequence[Any], name: str = ""
    ) -> list[on.Task]:
        """Tasks ``function(…)``, arguments of each from ``lists``, on its own worker.

        Left to itself a scheduler may send a partition to where the function is.
        """
        call = package("dask").delayed(_anchored, pure=False)
        shared, name = on.shared(function), name or on.kind(function)
        anchors = self.anchors or [None] * len(self.groups.homes)
        out = []
        for home, anchor, *own in zip(self.groups.homes, anchors, *lists, strict=True):
            with on.at_home(home):
                out.append(call(anchor, shared, *own, dask_key_name=f"{name}-{uuid4().hex}"))
        return out

    def _sum(self, tasks: list[on.Task]) -> _Sum:
        out = _Sum(on.summits(tasks), self)
        self._waiting.append(out)
        return out

    def rows(self, array: WorkerArrays, index: NDArray[np.intp]) -> Array:
        """Bring some rows here; the index is sorted."""
        self.run()
        wanted = [np.searchsorted(rows, index) for rows in self.places()]
        found = [
            (rows[np.minimum(at, len(rows) - 1)] == index)
            for rows, at in zip(self.places(), wanted, strict=True)
        ]
        picked = [at[mask] for at, mask in zip(wanted, found, strict=True)]
        pieces = on.computed(self.each(_take, array.tasks, picked))
        out = np.empty((len(index), *pieces[0].shape[1:]), dtype=pieces[0].dtype)
        for mask, piece in zip(found, pieces, strict=True):
            out[mask] = piece
        return out

    def run(self) -> None:
        """Run all that waits; sums come here, the rest stays where it is."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        sums = [one for one in waiting if isinstance(one, _Sum)]
        if len(sums) < len(waiting):
            kept = iter(on.persisted([task for one in waiting for task in one.tasks]))
            for one in waiting:
                one.tasks = [next(kept) for _ in one.tasks]
        values = iter(on.computed([task for one in sums for task in one.tasks]))
        for one in sums:
            one.value, one.tasks = add(*(next(values) for _ in one.tasks)), []


@dataclass(eq=False)
class _Sum:
    """A sum over partitions that comes when it is asked for."""

    tasks: list[Any]
    spread: Spread
    value: list[Any] | None = None

    def __call__(self) -> list[Any]:
        if self.value is None:
            self.spread.run()
        assert self.value is not None
        return self.value


# ---------------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class _Both:
    """A function that gives a result and a list to be summed."""

    function: Callable[..., tuple[Any, list[Any]]]

    def __call__(self, *arguments: Any) -> _WithSums:
        return _WithSums(*self.function(*arguments))


@dataclass(frozen=True)
class _WithSums:
    """The result of a task, and a list next to it that is to be summed."""

    value: Any
    sums: list[Any]

    def __sizeof__(self) -> int:
        # Schedulers judge by it whether to move this.
        return int(getattr(self.value, "nbytes", 0))


def _sums(result: _WithSums) -> list[Any]:
    # On the worker that has it: the sums travel, the array does not.
    return result.sums


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, _WithSums) else value


@dataclass(frozen=True)
class _Plain:
    """A function of the results of tasks."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        plain = (_plain(value) for value in arguments)
        return self.function(*(on.aligned(value) for value in plain))


def _anchored(anchor: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    # Where the anchor is, is where the task is to run; that is all it is for.
    return on.called(function, *arguments)


def _as_it_is(value: Any) -> Any:
    return value


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(_plain(value).shape)


def _take(value: Any, rows: NDArray[np.intp]) -> Array:
    return np.asarray(_plain(value)[rows])


@dataclass(frozen=True)
class _Times:
    gain: Array

    def __call__(self, rows: Array) -> Array:
        return np.asarray(rows * self.gain.astype(rows.dtype))


@dataclass(frozen=True)
class _Cut:
    start: int
    stop: int

    def __call__(self, value: Any) -> Array:
        return np.asarray(_plain(value)[self.start : self.stop])

"""Windows in parts on many machines: what ``cp.partition.Whole`` is for arrays in memory.

A part is the blocks that one thread of one worker has. What is made of a part stays on its worker;
sums over parts come to the caller, all that wait in one go, so that a contrast costs as many round
trips as it has sums that others depend on.
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

Array = NDArray[Any]

#: Values up to which the features of a fit are brought to the caller (256 MiB in float32).
GATHERED_VALUES = 2**26


@dataclass(eq=False)
class Held:
    """An array, or more, of each part: tasks whose results are on the workers."""

    tasks: list[Any]
    spread: Spread

    def brought(self) -> Array | None:
        """Bring the rows of all parts here, in the order of the windows; None if too many."""
        self.spread.run()
        shapes = on.computed(self.spread.each(_shape, self.tasks))
        if sum(int(np.prod(shape)) for shape in shapes) > GATHERED_VALUES:
            return None
        parts = [_plain(part) for part in on.computed(self.tasks)]
        out = np.empty((self.spread.n_samples, *shapes[0][1:]), dtype=parts[0].dtype)
        for rows, part in zip(self.spread.places(), parts, strict=True):
            out[rows] = part
        return out

    def lazy(self, dtype: Any, *width: int) -> Any:
        """Return the rows of all parts as a Dask array, in the order of the windows."""
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
    """Parts on workers, for ``cp.partition``: blocks of so many windows, in groups."""

    sizes: list[int]
    #: Blocks of each part, in the order of the windows.
    groups: on.Groups
    #: A block of each part, which is large: what depends on it is not worth moving, so that no
    #: idle worker takes the work of another, and the features of a whole part with it.
    anchors: list[on.Task] | None = None
    _waiting: list[Held | _Sum] = field(default_factory=list)

    @property
    def n_samples(self) -> int:
        """Number of windows of all parts."""
        return sum(self.sizes)

    def places(self) -> list[NDArray[np.intp]]:
        """Return the windows of each part."""
        edges = np.cumsum([0, *self.sizes])
        return [
            np.concatenate([np.arange(edges[i], edges[i + 1]) for i in group])
            for group in self.groups.places
        ]

    def of_blocks(self, tasks: Sequence[on.Task]) -> Held:
        """Hold the blocks of each part as a list."""
        return Held([[tasks[i] for i in group] for group in self.groups.places], self)

    def given(self, rows: Array) -> Held:
        """Send the rows of an array to their parts."""
        with on.large_graphs():
            tasks = on.persisted(self.each(_as_it_is, [rows[at] for at in self.places()]))
        return Held(tasks, self)

    def made(self, function: Callable[..., Any], *held: Held | None) -> Held:
        """Return what the function gives for each part; made when a sum is asked for."""
        out = Held(self._tasks(function, on.kind(function), *held), self)
        self._waiting.append(out)
        return out

    def summed(
        self, function: Callable[..., list[Any]], *held: Held | None
    ) -> Callable[[], list[Any]]:
        """Sum over parts, once it is asked for."""
        return self._sum(self._tasks(function, on.kind(function), *held))

    def step(
        self, function: Callable[..., tuple[Any, list[Any]]], *held: Held | None
    ) -> tuple[Held, Callable[[], list[Any]]]:
        """Give what the function makes of each part, and the sum of the lists next to it."""
        out = Held(self._tasks(_Both(function), on.kind(function), *held), self)
        self._waiting.append(out)
        return out, self._sum(self.each(_sums, out.tasks))

    def _tasks(self, function: Callable[..., Any], name: str, *held: Held | None) -> list[on.Task]:
        none = [None] * len(self.groups.places)
        arguments = (none if value is None else value.tasks for value in held)
        return self.each(_Plain(function), *arguments, name=name)

    def each(
        self, function: Callable[..., Any], *lists: Sequence[Any], name: str = ""
    ) -> list[on.Task]:
        """Tasks ``function(…)``, arguments of each part from ``lists``, on the worker of the part.

        Left to itself a scheduler may send a part to where the function is.
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

    def rows(self, held: Held, index: NDArray[np.intp]) -> Array:
        """Bring some rows here; the index is sorted."""
        self.run()
        wanted = [np.searchsorted(rows, index) for rows in self.places()]
        found = [
            (rows[np.minimum(at, len(rows) - 1)] == index)
            for rows, at in zip(self.places(), wanted, strict=True)
        ]
        picked = [at[mask] for at, mask in zip(wanted, found, strict=True)]
        parts = on.computed(self.each(_take, held.tasks, picked))
        out = np.empty((len(index), *parts[0].shape[1:]), dtype=parts[0].dtype)
        for mask, part in zip(found, parts, strict=True):
            out[mask] = part
        return out

    def run(self) -> None:
        """Make all that waits; sums come here, the rest stays where it is."""
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
    """A sum over parts that comes when it is asked for."""

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

    def __call__(self, *arguments: Any) -> _Made:
        return _Made(*self.function(*arguments))


@dataclass(frozen=True)
class _Made:
    """What a task has made, and a list next to it that is to be summed."""

    value: Any
    sums: list[Any]

    def __sizeof__(self) -> int:
        # Schedulers judge by it whether to move this.
        return int(getattr(self.value, "nbytes", 0))


def _sums(made: _Made) -> list[Any]:
    # On the worker that has it: the sums travel, what was made does not.
    return made.sums


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, _Made) else value


@dataclass(frozen=True)
class _Plain:
    """A function of what tasks have made."""

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
class _Cut:
    start: int
    stop: int

    def __call__(self, value: Any) -> Array:
        return np.asarray(_plain(value)[self.start : self.stop])

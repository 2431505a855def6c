"""Functions of blocks, and sums of what they give, on whichever Dask scheduler there is.

What all tasks share, such as the factors of an iteration, is one node of the graph: it is sent to
a worker once, and made again where a worker is lost. Sums are taken in float64, in a tree whose
shape does not depend on which worker is ready first.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import TensorContrastError
from tensorcontrast.solvers.windows import add
from tensorcontrast.utils import threads
from tensorcontrast.utils.optional import optional

Array = NDArray[Any]
#: A task that is still to run, or whose result is on a worker (``dask.delayed.Delayed``).
Task = Any

#: Partial sums that one task adds up.
FAN_IN = 8
#: Names of the errors of ``distributed`` when its scheduler has gone.
_LOST = {
    "CancelledError",
    "FutureCancelledError",
    "FuturesCancelledError",
    "CommClosedError",
    "ClosedClientError",
}


def shared(value: Any) -> Task:
    """Return a node of the graph that holds what many tasks need."""
    name = f"shared-{uuid4().hex}"
    return optional("dask", "dask").delayed(value, name=name, traverse=False)


def each(
    function: Callable[..., Any],
    blocks: Sequence[Task],
    *lists: Sequence[Any],
    groups: Groups | None = None,
) -> list[Task]:
    """Tasks ``function(block, …)``, further arguments of each from ``lists``.

    With ``groups`` each task stays with the worker of its block: where blocks are small a
    scheduler may else make the next one of them wherever a worker is free.
    """
    call = optional("dask", "dask").delayed(called, pure=False)
    function_node = shared(function)
    name = kind(function)
    homes = groups.home_of() if groups is not None else {}
    out = []
    for i, arguments in enumerate(zip(blocks, *lists, strict=True)):
        with pin_to_worker(homes.get(i, "")):
            out.append(call(function_node, *arguments, dask_key_name=f"{name}-{uuid4().hex}"))
    return out


def persisted(tasks: Sequence[Task]) -> list[Task]:
    """Run the tasks and leave their results where they were made."""
    with cluster_errors():
        return list(optional("dask", "dask").persist(*tasks))


def persisted_evenly(tasks: Sequence[Task], sizes: Sequence[int]) -> list[Task]:
    """Do what :func:`persisted` does, as many windows in a row for each thread of a cluster.

    Left to itself a scheduler may give one of two workers five blocks of eight, for whose sums
    the other then waits in every iteration.
    """
    homes = _even_homes(sizes)
    if not homes:
        return persisted(tasks)
    out: dict[int, Task] = {}
    with cluster_errors():
        for address in dict.fromkeys(homes):
            places = [i for i, home in enumerate(homes) if home == address]
            here = optional("dask", "dask").persist(
                *(tasks[i] for i in places), workers=[address], allow_other_workers=True
            )
            out.update(zip(places, here, strict=True))
    return [out[i] for i in range(len(tasks))]


def _even_homes(sizes: Sequence[int]) -> list[str]:
    """Return the address of a worker for each block; nothing without a cluster."""
    if "distributed" not in sys.modules:
        return []
    distributed = optional("distributed", "dask")
    scheduler = optional("dask.base", "dask").get_scheduler()
    client = getattr(scheduler, "__self__", None)
    if not isinstance(client, distributed.Client):
        return []
    with cluster_errors():
        threads_of = sorted(client.nthreads().items())
    if not threads_of:
        return []
    share = np.cumsum([count for _, count in threads_of]) / sum(c for _, c in threads_of)
    middle = (np.cumsum(sizes) - np.asarray(sizes) / 2) / sum(sizes)
    at = np.minimum(np.searchsorted(share, middle), len(threads_of) - 1)
    return [threads_of[i][0] for i in at.tolist()]


def computed(tasks: Sequence[Task]) -> list[Any]:
    """Run the tasks and bring their results here."""
    with cluster_errors():
        return list(optional("dask", "dask").compute(*tasks))


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


def total_over(
    function: Callable[..., Any], blocks: Sequence[Task], groups: Groups | None
) -> list[Array]:
    """Sum of what a function gives for blocks that were persisted.

    With ``groups`` (see :func:`by_worker`) one task goes over the blocks of a group, so that what
    travels is one sum a thread of a worker, however many blocks there are; and since no task
    waits for another, no block is sent to a worker that happens to be idle.
    """
    if groups is None:
        return tree_reduce(each(function, blocks))
    call = optional("dask", "dask").delayed(_over, pure=False)
    function_node, name = shared(function), kind(function)
    tasks = []
    for group, home in zip(groups.places, groups.homes, strict=True):
        with pin_to_worker(home):
            members = (blocks[i] for i in group)
            tasks.append(call(function_node, *members, dask_key_name=f"{name}-{uuid4().hex}"))
    return tree_reduce(tasks)


def tree_reduce(tasks: Sequence[Task]) -> list[Array]:
    """Sum over tasks that each give a list of numbers and arrays, in float64.

    Eight are added at a time; what the last few give is added here: one journey less for each sum.
    """
    added = optional("dask", "dask").delayed(add, pure=False)
    level = list(tasks)
    while len(level) > FAN_IN:
        level = [added(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return add(computed(level))


@dataclass(frozen=True)
class Groups:
    """Persisted blocks by the thread that has them, so that one task goes over those of one."""

    #: Places of the blocks of each group.
    places: list[list[int]]
    #: Addresses of their workers, where there are any.
    homes: list[str]

    @classmethod
    def single(cls, count: int) -> Groups:
        """Each block by itself."""
        return cls([[i] for i in range(count)], [""] * count)

    def home_of(self) -> dict[int, str]:
        """Return the worker of each block."""
        return {i: home for group, home in zip(self.places, self.homes, strict=True) for i in group}


def pin_to_worker(address: str) -> Any:
    """Keep the tasks that are made in this context to a worker, as long as it lives."""
    if not address:
        return nullcontext()
    return optional("dask", "dask").annotate(workers=[address], allow_other_workers=True)


def by_worker(tasks: Sequence[Task]) -> Groups | None:
    """Return groups of persisted tasks, one a thread of a worker; None without workers."""
    if "distributed" not in sys.modules:
        return None
    distributed = optional("distributed", "dask")
    futures = {task.key: future for task in tasks for future in distributed.futures_of(task)}
    if len(futures) < len(tasks):
        return None
    with cluster_errors():
        distributed.wait(list(futures.values()))
        client = next(iter(futures.values())).client
        holders = client.who_has(list(futures.values()))
        threads_of = client.nthreads()
    workers: dict[str, list[int]] = {}
    for i, task in enumerate(tasks):
        workers.setdefault(next(iter(holders.get(task.key) or ()), ""), []).append(i)
    ordered = sorted(
        (piece.tolist(), name)
        for name, places in workers.items()
        for piece in np.array_split(places, min(len(places), threads_of.get(name, 1)))
    )
    return Groups([places for places, _ in ordered], [name for _, name in ordered])


@contextmanager
def large_graphs() -> Iterator[None]:
    """Send arrays with their tasks without a warning: they are meant to be sent."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


def kind(function: Callable[..., Any]) -> str:
    """Name for a kind of task: schedulers judge by it how long a task takes."""
    return str(getattr(function, "__name__", type(function).__name__)).strip("_").lower()


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function as tasks do."""
    # A worker has a thread a processor already: each task keeps to one.
    with threads.single("blas"):
        return function(*(aligned(value) for value in arguments))


def aligned(value: Any) -> Any:
    """Bring an array to where its numbers lie as they should.

    What came over a network may lie anywhere, and code with other rounding then works on it.
    """
    return np.require(value, requirements="A") if isinstance(value, np.ndarray) else value


def _over(function: Callable[..., Any], *blocks: Any) -> list[Array]:
    """Sum over the blocks of one group, one after the other."""
    return add(called(function, block) for block in blocks)

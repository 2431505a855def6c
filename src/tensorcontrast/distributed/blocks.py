"""Functions of blocks, and sums of what they give, on whichever Dask scheduler there is.

What all tasks share, such as the factors of an iteration, is one node of the graph: it is sent to
a worker once, and made again where a worker is lost. Sums are taken in float64 in a tree of fixed
shape, so that neither the order in which workers finish nor their number changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tensorcontrast import threads
from tensorcontrast.distributed._extra import package
from tensorcontrast.errors import TensorContrastError

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
    return package("dask").delayed(value, name=name, traverse=False)


def each(function: Callable[..., Any], blocks: Sequence[Task], *lists: Sequence[Any]) -> list[Task]:
    """Tasks ``function(block, …)``, further arguments of each from ``lists``."""
    call = package("dask").delayed(_call, pure=False)
    held = shared(function)
    return [call(held, *arguments) for arguments in zip(blocks, *lists, strict=True)]


def persisted(tasks: Sequence[Task]) -> list[Task]:
    """Run the tasks and leave their results where they were made."""
    with cluster_errors():
        return list(package("dask").persist(*tasks))


def computed(tasks: Sequence[Task]) -> list[Any]:
    """Run the tasks and bring their results here."""
    with cluster_errors():
        return list(package("dask").compute(*tasks))


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
        if kind in _LOST:
            raise TensorContrastError(
                f"the Dask scheduler was lost ({kind}): with checkpoint=PATH, fit(resume=PATH) "
                "goes on with the same data on another cluster"
            ) from error
        raise


def total(parts: Sequence[Task]) -> list[Array]:
    """Sum over tasks that each give a list of numbers and arrays, in float64."""
    add = package("dask").delayed(_add, pure=False)
    level = [add(part) for part in parts] if len(parts) == 1 else list(parts)
    while len(level) > 1:
        level = [add(*level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return list(computed(level)[0])


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    # A worker has a thread a processor already: each task keeps to one.
    with threads.single("blas"):
        return function(*arguments)


def _add(*parts: Sequence[Any]) -> list[Array]:
    out = [np.array(value, dtype=np.float64) for value in parts[0]]
    for part in parts[1:]:
        for value, more in zip(out, part, strict=True):
            value += more
    return out

"""Windows in one partition or in many: a contrast is written once, wherever they are.

A contrast sees other windows through sums only. So it asks for functions of a
partition's arrays, whose results stay where they are, and for sums of such results over all
partitions. :class:`InMemory` is one partition in this process; ``distributed.spread.Spread`` has
partitions on many machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Arrays of each partition, wherever they are; None where there are none.
PartitionedArray = Any
#: Function that gives a sum once it is asked for.
Later = Callable[[], list[Any]]


class Partitions(Protocol):
    """Where the windows are. Functions must not depend on which windows share a partition."""

    @property
    def n_samples(self) -> int:
        """Number of windows of all partitions."""
        ...

    def mapped(self, function: Callable[..., Any], *arrays: PartitionedArray) -> PartitionedArray:
        """Return what the function gives for each partition, left where it is."""
        ...

    def summed(self, function: Callable[..., list[Any]], *arrays: PartitionedArray) -> Later:
        """Sum over partitions of a list: of numbers and arrays, or of what has a ``merge``."""
        ...

    def step(
        self, function: Callable[..., tuple[Any, list[Any]]], *arrays: PartitionedArray
    ) -> tuple[PartitionedArray, Later]:
        """Do both for a function that gives a result and a list."""
        ...

    def rows(self, array: PartitionedArray, index: NDArray[np.intp]) -> Array:
        """Bring rows of an array here; the index is sorted."""
        ...


@dataclass(frozen=True)
class InMemory:
    """All windows in arrays of this process."""

    n_samples: int

    def mapped(self, function: Callable[..., Any], *arrays: PartitionedArray) -> PartitionedArray:
        """Call it."""
        return function(*arrays)

    def summed(self, function: Callable[..., list[Any]], *arrays: PartitionedArray) -> Later:
        """Call it: there is one partition."""
        found = function(*arrays)
        return lambda: found

    def step(
        self, function: Callable[..., tuple[Any, list[Any]]], *arrays: PartitionedArray
    ) -> tuple[PartitionedArray, Later]:
        """Call it."""
        result, found = function(*arrays)
        return result, lambda: found

    def rows(self, array: PartitionedArray, index: NDArray[np.intp]) -> Array:
        """Take these rows."""
        return np.asarray(array[index])


def add(*lists: list[Any]) -> list[Any]:
    """Sum of lists, entry by entry: numbers and arrays in float64, anything else by ``merge``."""
    out: list[Any] = [a if hasattr(a, "merge") else np.array(a, dtype=np.float64) for a in lists[0]]
    for one in lists[1:]:
        for i, more in enumerate(one):
            if hasattr(more, "merge"):
                out[i] = out[i].merge(more)
            else:
                out[i] += more
    return out

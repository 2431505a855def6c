"""Windows in one part or in many: a contrast is written once, wherever they are.

A contrast sees other windows through sums only. So it asks for functions of a part's arrays, whose
results stay where they were made, and for sums of such results over all parts. :class:`Whole` is
one part in the memory of this process; ``distributed.spread.Spread`` has parts on many machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Arrays of each part, wherever they are; None where there are none.
Held = Any
#: Function that gives a sum once it is asked for.
Later = Callable[[], list[Any]]


class Parts(Protocol):
    """Where the windows are. Functions must not depend on which windows are in one part."""

    @property
    def n_samples(self) -> int:
        """Number of windows of all parts."""
        ...

    def made(self, function: Callable[..., Any], *held: Held) -> Held:
        """Return what the function gives for each part, left where it is."""
        ...

    def summed(self, function: Callable[..., list[Any]], *held: Held) -> Later:
        """Sum over parts of a list: of numbers and arrays, or of what has a ``merge``."""
        ...

    def step(
        self, function: Callable[..., tuple[Any, list[Any]]], *held: Held
    ) -> tuple[Held, Later]:
        """Do both for a function that gives a result and a list."""
        ...

    def rows(self, held: Held, index: NDArray[np.intp]) -> Array:
        """Bring rows of an array here; the index is sorted."""
        ...


@dataclass(frozen=True)
class Whole:
    """All windows in arrays of this process."""

    n_samples: int

    def made(self, function: Callable[..., Any], *held: Held) -> Held:
        """Call it."""
        return function(*held)

    def summed(self, function: Callable[..., list[Any]], *held: Held) -> Later:
        """Call it: there is one part."""
        found = function(*held)
        return lambda: found

    def step(
        self, function: Callable[..., tuple[Any, list[Any]]], *held: Held
    ) -> tuple[Held, Later]:
        """Call it."""
        made, found = function(*held)
        return made, lambda: found

    def rows(self, held: Held, index: NDArray[np.intp]) -> Array:
        """Take these rows."""
        return np.asarray(held[index])


def add(*parts: list[Any]) -> list[Any]:
    """Sum of lists, entry by entry: numbers and arrays in float64, anything else by ``merge``."""
    out: list[Any] = [a if hasattr(a, "merge") else np.array(a, dtype=np.float64) for a in parts[0]]
    for part in parts[1:]:
        for i, more in enumerate(part):
            if hasattr(more, "merge"):
                out[i] = out[i].merge(more)
            else:
                out[i] += more
    return out

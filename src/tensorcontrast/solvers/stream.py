"""One more batch of an endless stream: sums over windows that fade, mean and scale that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.solvers import als

Array = NDArray[Any]
Factors = Sequence[Array]

#: Sweeps over a batch in the first and in later calls of ``partial_fit``.
FIRST_SWEEPS, LATER_SWEEPS = 30, 3


@dataclass(frozen=True)
class Batch:
    """A batch as it is fitted, and what those before it have left."""

    views: als.Views
    factors: Factors
    contrast: als.Contrast
    memory: als.Memory
    #: Sums over all windows before; None for the first batch.
    past: als.Statistics | None
    alpha: float
    #: Weight that the past keeps.
    forgetting: float
    rng: np.random.Generator


#: Factors after a batch, all sums so far, terms.
Step = tuple[Factors, als.Statistics, dict[str, float]]


def swept(batch: Batch) -> Step:
    """Sweep over a batch, the sums of the past added to its own (E10)."""
    factors = batch.factors
    for _ in range(FIRST_SWEEPS if batch.past is None else LATER_SWEEPS):
        factors, _, sums, terms = als.sweep(
            batch.views,
            factors,
            batch.contrast,
            alpha=batch.alpha,
            memory=batch.memory,
            past=batch.past,
            forgetting=batch.forgetting,
        )
    return factors, sums, terms

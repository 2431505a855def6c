"""A sketch of the windows: a few combinations of them that give almost the same factors.

Without a contrast, factors see the data through XᵀX alone: a sweep (E10) over rows B = EᵀX, with E
(n, k) orthonormal and X nearly in its span, is one over X. The span is that of Y = XΩ for random Ω
(i, k), which holds the k directions in which windows differ most. One pass sums YᵀX and YᵀY over
the windows; with YᵀY = CᵀC then E = YC⁻¹ and B = C⁻ᵀ(YᵀX), so that neither Y nor E is ever stored.
Iterations on k rows cost little. They begin on cores of these rows (:mod:`.compress`), where they
cost next to nothing, go on on the rows themselves, and a few sweeps over all windows end the fit.
Cores that turn out to be too small are left: the iterations then begin anew, on the rows.

Halko, Martinsson, Tropp: Finding structure with randomness. SIAM Review 53, 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp.encoder import rows_times
from tensorcontrast.utils import threads

Array = NDArray[Any]


@dataclass(frozen=True)
class SketchTuning:
    """Tuning numbers of a fit that begins on a sketch."""

    #: Combinations of windows for each component.
    rows_per_rank: int = 3
    #: Windows for each combination from which a sketch is worthwhile.
    min_windows_per_row: int = 8
    #: Values from which a sketch is worthwhile: below, all iterations take a moment anyway.
    min_values_to_sketch: int = 2**22
    #: Sweeps over the rows of the sketch itself, after those over their cores.
    row_sweeps: int = 8
    #: Share of the objective that the first sweep over the rows may take off what their cores had
    #: come to. Where it takes more, the cores did not hold what the rows do.
    min_fall_of_failure: float = 0.05
    #: Sweeps over all windows that end a fit on a sketch.
    final_sweeps: int = 2


TUNING = SketchTuning()


def worthwhile(n_samples: int, size: int, rank: int, tuning: SketchTuning = TUNING) -> bool:
    """Whether windows (n, i) are to be sketched for a fit of this rank."""
    rows = tuning.rows_per_rank * rank
    return (
        n_samples >= tuning.min_windows_per_row * rows
        and size > rows
        and n_samples * size >= tuning.min_values_to_sketch
    )


def directions(size: int, count: int, dtype: np.dtype[Any], seed: int) -> Array:
    """Ω (i, k) for ``count`` = k: signs at random, in the order in which X @ Ω is fastest."""
    bits = np.frombuffer(np.random.default_rng(seed).bytes(-(-count * size // 8)), np.uint8)
    ones = np.unpackbits(bits, count=count * size).astype(dtype)
    ones *= 2
    ones -= 1
    return ones.reshape(count, size).T


def sums_over(X: Array, omega: Array) -> tuple[Array, Array]:
    """YᵀX (k, i) and YᵀY (k, k) with Y = XΩ, in float64: sums of what strips of windows give."""
    size, k = omega.shape
    YtX, YtY = np.zeros((k, size)), np.zeros((k, k))

    def strip(at: slice) -> tuple[Array, Array]:
        Y = X[at] @ omega
        return Y.T @ X[at], Y.T @ Y

    for part, gram in threads.over_strips(strip, len(X), size * k):
        YtX += part
        YtY += gram
    return YtX, YtY


def rows(YtX: Array, YtY: Array, dtype: np.dtype[Any]) -> Array:
    """B (k', i), k' ≤ k: directions that hold rounding alone are left out."""
    # Rounded first: sums in another order then give the same rows.
    values, vectors = np.linalg.eigh(YtY.astype(dtype).astype(np.float64))
    kept = values > len(values) * np.finfo(dtype).eps * values[-1]
    back = vectors[:, kept] / np.sqrt(values[kept])
    return np.asarray(rows_times(back.T.astype(dtype), YtX.astype(dtype)))


def cores_failed(objective: list[float], n_cores: int, min_fall: float) -> bool:
    """Whether the cores of the first ``n_cores`` iterations have led astray, by what came next."""
    return objective[n_cores] < (1 - min_fall) * objective[n_cores - 1]

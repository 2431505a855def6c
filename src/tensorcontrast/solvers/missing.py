"""Missing entries (NaN): filled by the model within a pass, left out of the features.

For fixed factors the features of a window solve its own normal equations over what was observed,
``w (H_oᵀH_o + αI) = x_oH_o``. A sweep fills the gaps of a block with the reconstruction of these
features and then does what it always does: the loss of the filled data bounds that of the observed
data from above and touches it at the present model, so that the observed-data loss cannot rise
(EM). Windows with the same gaps share a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.utils import checks

Array = NDArray[Any]
Factors = Sequence[Array]
Gaps = NDArray[np.bool_]

#: Values worked on at a time.
BLOCK_VALUES = 2**22


@dataclass(frozen=True)
class ObservedEncoder:
    """Features of windows with gaps, by least squares over what was observed. Equation E12."""

    H: Array
    ridge: Array

    @classmethod
    def from_factors(
        cls, factors: Factors, alpha: float | Array, dtype: np.dtype[Any]
    ) -> ObservedEncoder:
        """Prepare the encoder of some factors; ``alpha`` is a number or one per component."""
        H = kernels.khatri_rao(factors).astype(dtype)
        return cls(H, np.broadcast_to(np.asarray(alpha, dtype=np.float64), H.shape[1]))

    def fill(self, block: Array, gaps: Gaps, projector: Array) -> tuple[Array, Array]:
        """Return windows (m, i) with their gaps filled by the model, and their features (m, r)."""
        W = self(block, gaps, projector)
        return np.where(gaps, W @ self.H.T, block), W

    def __call__(self, block: Array, gaps: Gaps, projector: Array) -> Array:
        """Features (m, r); whole windows are multiplied with the projector."""
        some = np.flatnonzero(gaps.any(axis=1))
        out = np.where(gaps, block.dtype.type(0), block) @ projector
        out[some] = self._observed(block[some], gaps[some])
        return out

    def _observed(self, X: Array, gaps: Gaps) -> Array:
        r = self.H.shape[1]
        out = np.empty((len(X), r), dtype=self.H.dtype)
        for at in _strips(len(X), max(X.shape[1], r * r)):
            P = np.where(gaps[at], X.dtype.type(0), X[at]) @ self.H
            packed = np.packbits(gaps[at], axis=1)
            keys = np.ascontiguousarray(packed).view([("", packed.dtype, packed.shape[1])])
            _, first, pattern = np.unique(keys.reshape(-1), return_index=True, return_inverse=True)
            K = self._grams(gaps[at][first])
            # A ridge of the size of rounding, as in kernels.ridge_solve: few entries may be left.
            peak = np.einsum("urr->ur", K).max(axis=1)
            diagonal = np.einsum("urr->ur", K)
            eps = np.finfo(self.H.dtype)
            diagonal += self.ridge + (r * eps.eps * peak + eps.tiny)[:, None]
            inverse = np.linalg.inv(K)[pattern.reshape(-1)]
            out[at] = np.matmul(P[:, None, :].astype(np.float64), inverse)[:, 0, :]
        return out

    def _grams(self, gaps: Gaps) -> Array:
        """``H_oᵀH_o`` (u, r, r) in float64 for every row of gaps (u, i)."""
        r = self.H.shape[1]
        a, b = np.triu_indices(r)
        sums = np.zeros((len(gaps), len(a)))
        for at in _strips(len(self.H), len(a)):
            seen = (~gaps[:, at]).astype(self.H.dtype)
            sums += seen @ (self.H[at][:, a] * self.H[at][:, b])
        out = np.empty((len(gaps), r, r))
        out[:, a, b] = out[:, b, a] = sums
        return out


def warn_of_empty(count: int) -> None:
    """Warn of windows that hold nothing."""
    if count:
        checks.warn(
            f"{count} windows hold nothing but NaN; their features are 0, those of the mean "
            "window; drop them"
        )


def _strips(rows: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK_VALUES // max(width, 1))
    return (slice(start, start + step) for start in range(0, rows, step))

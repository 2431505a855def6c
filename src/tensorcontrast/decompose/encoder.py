"""The encoder (E12): features without a contrast, and what updates need of the factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast import threads
from tensorcontrast.decompose import kernels
from tensorcontrast.errors import NumericalError

Array = NDArray[Any]


@dataclass(frozen=True)
class Encoder:
    """What E9 and E12 need of the factors: K = HᵀH + αI (r, r), its inverse and eigenbasis."""

    K: Array
    K_inverse: Array
    eigenvalues: Array
    eigenvectors: Array

    @classmethod
    def from_factors(cls, factors: list[Array], alpha: float | Array) -> Encoder:
        """Make the encoder of the current factors; ``alpha`` a number or one a component."""
        HtH = kernels.gram([U.astype(np.float64) for U in factors])
        return cls.from_gram(HtH, alpha, factors[0].dtype)

    @classmethod
    def from_gram(cls, HtH: Array, alpha: float | Array, dtype: np.dtype[Any]) -> Encoder:
        """Make the encoder of HᵀH (r, r), or of HᵀMH in another metric M, in float64."""
        K = HtH + np.diag(np.broadcast_to(np.asarray(alpha, dtype=np.float64), len(HtH)))
        if not np.isfinite(K).all():
            raise NumericalError(
                "the factors are not finite: pass scale=True, a larger alpha or dtype='float64'"
            )
        values, vectors = np.linalg.eigh(K)
        # Directions that the factors do not tell apart from rounding are held down by as much.
        values = np.maximum(values, len(K) * np.finfo(dtype).eps * values[-1])
        if not values[0] > 0:
            raise NumericalError(
                "all components have become zero: pass a smaller alpha or another random_state"
            )
        K, K_inverse = (vectors * values) @ vectors.T, (vectors / values) @ vectors.T
        return cls(*(a.astype(dtype) for a in (K, K_inverse, values, vectors)))

    def __call__(self, P: Array) -> Array:
        """``w = xH(HᵀH + αI)⁻¹`` for P = XH (n, r). Equation E12."""
        return rows_times(P, self.K_inverse)


def rows_times(X: Array, M: Array) -> Array:
    """``XM`` by strips of rows: what a row gives does not depend on how many there are."""
    out = np.empty((len(X), M.shape[1]), dtype=np.result_type(X, M))

    def strip(at: slice) -> None:
        np.matmul(X[at], M, out=out[at])

    for _ in threads.over_strips(strip, len(X), M.size):
        pass
    return out

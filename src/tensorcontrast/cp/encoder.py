"""The encoder (E12): features without a contrast, and what updates need of the factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.errors import NumericalError
from tensorcontrast.utils import threads

Array = NDArray[Any]
Factors = Sequence[Array]


@dataclass(frozen=True)
class Encoder:
    """What E9 and E12 need of the factors: K = HᵀH + αI (r, r), its inverse and eigenbasis."""

    K: Array
    K_inverse: Array
    eigenvalues: Array
    eigenvectors: Array

    @classmethod
    def from_factors(cls, factors: Factors, alpha: float | Array) -> Encoder:
        """Make the encoder of the current factors; ``alpha`` a number or one per component."""
        HtH = kernels.gram(kernels.in_float64(factors))
        return cls.from_gram(HtH, alpha, factors[0].dtype)

    @classmethod
    def from_gram(cls, HtH: Array, alpha: float | Array, dtype: np.dtype[Any]) -> Encoder:
        """Make the encoder of HᵀH (r, r), or of HᵀMH in another metric M, in float64."""
        K = HtH + np.diag(np.broadcast_to(np.asarray(alpha, dtype=np.float64), len(HtH)))
        if not np.isfinite(K).all():
            raise NumericalError(
                "the factors are not finite: pass a larger alpha or dtype='float64'"
            )
        rounding = len(K) * float(np.finfo(dtype).eps)
        values, vectors = np.linalg.eigh(K)
        if not values[-1] > 0:
            raise NumericalError(
                "all components have become zero: pass a smaller alpha or another random_state"
            )
        if values[0] >= rounding * values[-1]:
            K, K_inverse = (vectors * values) @ vectors.T, (vectors / values) @ vectors.T
            return cls(*(a.astype(dtype) for a in (K, K_inverse, values, vectors)))
        # Directions that the factors do not tell apart from rounding are held down by as much. What
        # is rounding is a question to columns of one length: else a long one would hold all others
        # down.
        lengths = np.sqrt(np.maximum(np.diagonal(K), 0.0))
        lengths = np.where(lengths > 0, lengths, 1.0)
        outer = np.outer(lengths, lengths)
        values, vectors = np.linalg.eigh(K / outer)
        values = np.maximum(values, rounding * values[-1])
        K = ((vectors * values) @ vectors.T) * outer
        K_inverse = ((vectors / values) @ vectors.T) / outer
        values, vectors = np.linalg.eigh(K)
        values = np.maximum(values, len(K) * np.finfo(np.float64).eps * values[-1])
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

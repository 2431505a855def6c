"""Non-negative CP: hierarchical alternating least squares (HALS) for features and factors.

Shapes as in :mod:`.kernels`. Given the other columns, a column has a closed form: the least-squares
solution with its negative entries set to zero. Each such step lowers the objective E8, so that it
never rises.

References
----------
Cichocki, Phan: Fast local algorithms for large scale nonnegative matrix and tensor factorizations.
IEICE Transactions E92-A, 2009.

Gillis, Glineur: Accelerated multiplicative updates and hierarchical ALS algorithms for nonnegative
matrix factorization. Neural Computation 24, 2012.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.utils import threads

Array = NDArray[Any]
Factors = Sequence[Array]

#: Passes over the columns in each update of features and of factors.
FEATURE_PASSES, FACTOR_PASSES = 5, 5

#: Passes of :func:`least_squares` at most, and passes between two looks at what still moves.
MAX_PASSES, PASSES_PER_LOOK = 2000, 20


def passes(Y: Array, M: Array, G: Array, count: int) -> None:
    """Lower ``½tr(YGYᵀ) − tr(MᵀY)`` over Y ≥ 0 (m, r) in place: one column after the other.

    ``y_r ← max(0, y_r + (m_r − Yg_r)/G_rr)``, the minimum given the other columns. A column that
    G does not see (G_rr = 0) becomes zero. Equations E10, E12 with Y ≥ 0.
    """
    diagonal = np.diagonal(G)
    for _ in range(count):
        for r, curvature in enumerate(diagonal):
            if curvature > 0:
                step = M[:, r] - Y @ G[:, r]
                step /= curvature
                step += Y[:, r]
                np.maximum(step, 0, out=Y[:, r])
            else:
                Y[:, r] = 0


def features(P: Array, K: Array, start: Array | None = None) -> Array:
    """Non-negative features (n, r) after some passes, for P = XH and K = HᵀH + αI."""
    W = np.asfortranarray(np.maximum(P / _positive_diagonal(K) if start is None else start, 0))
    K = K.astype(W.dtype)

    def strip(at: slice) -> None:
        passes(W[at], P[at], K, FEATURE_PASSES)

    for _ in threads.over_strips(strip, len(P), K.size):
        pass
    return np.ascontiguousarray(W)


def least_squares(P: Array, K: Array, tol: float | None = None) -> Array:
    """Non-negative least-squares features (n, r) for P = XH and K = HᵀH + diag(ρ).

    Passes go on for the windows that still move by more than ``tol`` of their largest feature (by
    default the rounding of the type), so that features of a window do not depend on the others.
    """
    K = K.astype(P.dtype)
    W = np.maximum(P / _positive_diagonal(K), 0)
    limit = float(np.finfo(P.dtype).eps) * 8 if tol is None else tol
    moving = np.arange(len(P))
    for _ in range(0, MAX_PASSES, PASSES_PER_LOOK):
        Y, P_moving = np.asfortranarray(W[moving]), P[moving]
        passes(Y, P_moving, K, PASSES_PER_LOOK - 1)
        before = Y.copy()
        passes(Y, P_moving, K, 1)
        W[moving] = Y
        change = np.abs(Y - before).max(axis=1)
        moving = moving[change > limit * np.maximum(np.abs(Y).max(axis=1), np.finfo(P.dtype).tiny)]
        if not len(moving):
            break
    return W


def update_factors(Q: Array, WtW: Array, factors: Factors, alpha: float) -> tuple[Factors, float]:
    """Non-negative counterpart of :func:`.kernels.update_factors`, with the same results.

    Every mode of every block goes through some passes of HALS, from where it was.
    """
    new: list[Array] = []
    misfit, at = 0.0, 0
    for block in kernels.blocks_of(factors):
        modes = [np.asfortranarray(np.maximum(U, 0)) for U in block]
        size = int(np.prod([len(U) for U in modes]))
        Q_block, at = Q[:, at : at + size], at + size
        grams = [U.T @ U for U in modes]
        part = 0.0
        for k, U in enumerate(modes):
            gamma = WtW.astype(U.dtype)
            for j, G in enumerate(grams):
                if j != k:
                    gamma = gamma * G
            M = kernels.mttkrp(Q_block, modes, k)
            ridged = gamma + U.dtype.type(alpha) * np.eye(len(gamma), dtype=U.dtype)
            passes(U, M, ridged, FACTOR_PASSES)
            grams[k] = U.T @ U
            part = kernels.inner(gamma, grams[k]) - 2.0 * kernels.inner(M, U)
        new += [np.ascontiguousarray(U) for U in modes]
        misfit += part
    return kernels.like(factors, new), misfit


def _positive_diagonal(K: Array) -> Array:
    diagonal = np.diagonal(K)
    return np.asarray(np.where(diagonal > 0, diagonal, 1), dtype=K.dtype)

"""The nuisance metric of generalised least squares, and features in it (E23).

Rows D (m, i) are differences between windows that should have the same features. With V (q, i) the
directions in which D varies most and σ their standard deviations, features are

    c = x M H (HᵀMH + αI)⁻¹,   M = I − Vᵀ diag(g) V,   g = σ/(σ + s),

the estimate of generalised least squares with a shrunken nuisance covariance. It tends to E12 as
s → ∞.

Components overlap, so that the coordinates c are oblique: distances between their rows are not
distances between windows. Features w = c T divide the overlap between the components,

    w = x M Ĥ (ĤᵀMĤ + ρI)^(−p),   T = (HᵀMH + αI) L⁻¹ (ĤᵀMĤ + ρI)^(−p),

with Ĥ = HL⁻¹ the patterns scaled to unit length in the metric, so that the scale of the factors
does not matter.

p = 1 leaves the oblique coordinates; p = ½, which PLC takes, is Löwdin's symmetric
orthogonalisation, in which distances between features are distances between reconstructions. T is
invertible, so that nothing is lost: windows are reconstructed by w T⁻¹ Hᵀ.

References
----------
P.-O. Löwdin (1950), "On the non-orthogonality problem connected with the use of atomic wave
functions in the theory of molecules and crystals", Journal of Chemical Physics 18.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.utils import threads

Array = NDArray[Any]
Factors = Sequence[Array]

OVERLAP_POWER = 0.5
"""Exponent p that divides the overlap between components."""

OVERLAP_RIDGE = 1e-3
"""ρ, for patterns of unit length."""

MAX_DIRECTIONS = 128
"""Nuisance directions that are kept."""

MAX_EXACT_ROWS = 512
"""Rows up to which their principal directions are exact."""


@dataclass(frozen=True)
class NuisanceMetric:
    """The metric M of generalised least squares: orthonormal directions (q, i) and gains g (q,)."""

    directions: Array
    gains: Array

    def times(self, H: Array) -> Array:
        """``MH`` (i, r)."""
        return np.asarray(H - self.directions.T @ (self.gains[:, None] * (self.directions @ H)))


def principal_directions(
    rows: Array | None, max_directions: int = MAX_DIRECTIONS
) -> tuple[Array, Array, float] | None:
    """Directions (q, i) in which rows (m, i) vary most, their variances, and the total variance.

    None where there are no rows, or where they do not vary. The rows are overwritten. The result
    does not depend on the number of threads.
    """
    if rows is None:
        return None
    with threads.single("blas"), threads.single("openmp"):
        rows -= rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        total = float(kernels.row_norms_squared(rows).sum()) / len(rows)
        most = min(max_directions, *rows.shape)
        if not total > 0 or not np.isfinite(total):
            return None
        # Rows of unit size: squares of tiny or huge values stay in the range of numbers.
        rows /= rows.dtype.type(np.sqrt(total))
        if len(rows) > MAX_EXACT_ROWS:
            _, values, found = randomized_svd(rows, most, n_iter=2, random_state=0)
        else:  # the products of so few rows are small, however long these are
            squares, left = np.linalg.eigh(kernels.inner_products(rows))
            values = np.sqrt(np.maximum(squares[::-1][:most], 0.0))
            scaled = left.T[::-1][:most] / np.maximum(values, 1e-6 * values[0])[:, None]
            found = scaled.astype(rows.dtype) @ rows
    variances = total * values.astype(np.float64) ** 2 / len(rows)
    if len(variances) < min(rows.shape):
        # What is below the last direction is left in: gains go to zero there, so that rounding,
        # which turns the last directions, changes nothing.
        variances = variances - variances[-1]
    real = variances > 1e-6 * variances[0]
    if not real.any():
        return None
    count = int(real.sum())  # the variances fall
    return found[:count].astype(rows.dtype, copy=False), variances[:count], total


def gains(variances: Array, strength: float) -> Array:
    """Gain g = σ/(σ + s) of each direction for s = ``strength``. Equation E23."""
    spread = np.sqrt(variances)
    return np.asarray(spread / (spread + strength))


def overlap_mixing(
    gram: Array, ridge: float | Array, power: float, overlap_ridge: float = OVERLAP_RIDGE
) -> Array:
    """T (r, r) that divides the overlap between components, for ``gram`` = HᵀMH in float64.

    ``overlap_ridge`` is ρ. Equation E23.
    """
    rank = len(gram)
    if power == 1.0:
        return np.eye(rank)
    lengths = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    # What is left of a component that died away is rounding.
    alive = lengths > 1e-8 * lengths.max(initial=0.0)
    scale = np.divide(1.0, lengths, out=np.zeros(rank), where=alive)
    values, vectors = np.linalg.eigh(scale[:, None] * gram * scale + overlap_ridge * np.eye(rank))
    root = (vectors * np.maximum(values, overlap_ridge) ** -power) @ vectors.T
    K = gram + np.diag(np.broadcast_to(np.asarray(ridge, dtype=np.float64), rank))
    # Components that are zero stay zero, and T stays invertible.
    return np.asarray(K @ (np.where(alive, scale, 1.0)[:, None] * root))


def projector(
    factors: Factors,
    ridge: float | Array,
    metric: NuisanceMetric | None,
    power: float = 1.0,
    overlap_ridge: float = OVERLAP_RIDGE,
) -> Array:
    """Return the matrix (i, r) in float64 from centred windows to features. Equations E12, E23."""
    H = kernels.khatri_rao(kernels.in_float64(factors))
    if metric is None and power == 1.0:
        return np.asarray(H @ Encoder.from_factors(kernels.in_float64(factors), ridge).K_inverse)
    G = H if metric is None else metric.times(H)
    gram = H.T @ G
    inverse = Encoder.from_gram(gram, ridge, np.dtype(np.float64)).K_inverse
    mixed = inverse @ overlap_mixing(gram, ridge, power, overlap_ridge)
    return np.asarray(G @ mixed)

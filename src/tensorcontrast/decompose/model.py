"""A fitted CP model as arrays: features of windows, and windows of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels, metric, nonnegative
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.solvers.missing import ObservedEncoder
from tensorcontrast.solvers.windows import Windows

Array = NDArray[Any]
Factors = Sequence[Array]


@dataclass(frozen=True)
class CPModel:
    """What gives windows their features, and features their windows. Equations E12, E22, E23."""

    factors: Factors
    #: α of each component.
    ridge: Array
    #: Mean row (i,), and the scale that rows are divided by after it is subtracted.
    center: Array
    scale: float
    #: Nuisance metric; None for the identity.
    metric: metric.NuisanceMetric | None = None
    #: Exponent that divides the overlap between components; 1 for the coordinates of E12.
    overlap_power: float = 1.0
    #: Whether features solve non-negative least squares.
    nonnegative: bool = False

    def projector(self) -> Array:
        """Matrix (i, r) in float64 that centred, scaled rows are multiplied with. E12, E23."""
        return metric.projector(self.factors, self.ridge, self.metric, self.overlap_power)

    def encoder(self, *, gaps: bool = False) -> RowEncoder:
        """Return what makes features of blocks of rows; ``gaps`` allows missing values."""
        dtype = self.center.dtype
        observed = None
        if gaps:
            plain = metric.projector(self.factors, self.ridge, None).astype(dtype)
            encoder = ObservedEncoder.from_factors(self.factors, self.ridge, dtype)
            observed = (encoder, plain)
        non_negative = None
        if self.nonnegative:
            H = kernels.khatri_rao(self.factors)
            non_negative = (H, Encoder.from_factors(self.factors, self.ridge).K.astype(dtype))
        projector = self.projector().astype(dtype)
        oblique = self.metric is None and self.overlap_power == 1.0
        return RowEncoder(self.center, self.scale, projector, observed, non_negative, oblique)

    def plain_features(self, rows: Array) -> Array:
        """Coordinates (n, r) of centred, scaled rows (n, i) as E12 has them, in no metric."""
        if self.nonnegative:
            K = Encoder.from_factors(self.factors, self.ridge).K
            return nonnegative.least_squares(rows @ kernels.khatri_rao(self.factors), K)
        plain = metric.projector(self.factors, self.ridge, None)
        return np.asarray(rows @ plain.astype(rows.dtype))

    def coordinates(self, W: Array) -> Array:
        """Oblique coordinates (n, r) of E12 for features of ``transform``."""
        if self.overlap_power == 1.0:
            return W
        H = kernels.khatri_rao(kernels.in_float64(self.factors))
        G = H if self.metric is None else self.metric.times(H)
        mixing = metric.overlap_mixing(H.T @ G, self.ridge, self.overlap_power)
        return np.asarray(W @ np.linalg.inv(mixing).astype(self.center.dtype))

    def reconstructed(self, W: Array) -> Array:
        """Rows (n, i) that features (n, r) stand for. Equation E1."""
        flat = kernels.cp_to_flat(self.coordinates(W), self.factors)
        flat *= self.scale
        flat += self.center
        return flat

    def explained(self, windows: Windows, W: Array) -> float:
        """Share of the variance of windows about the mean that their features W explain."""
        H = kernels.khatri_rao(self.factors)
        coordinates = np.asarray(self.coordinates(W), dtype=self.center.dtype)
        left, total = windows.sum(_Explained(self.center, self.scale, H), coordinates)
        return float(1.0 - left / total) if total > 0 else 0.0


@dataclass(frozen=True)
class RowEncoder:
    """Features of blocks of rows as they are, wherever these are. Equations E12, E23.

    A row with gaps has equations of its own (E12). Where features are those of another metric, its
    gaps are first filled with what these solutions reconstruct.
    """

    center: Array
    scale: float
    projector: Array
    observed: tuple[ObservedEncoder, Array] | None = None
    non_negative: tuple[Array, Array] | None = None
    #: Whether features are the coordinates of E12.
    oblique: bool = False

    def __call__(self, block: Array) -> Array:
        """Features (m, r)."""
        rows = _scaled(block, self.center, self.scale)
        if self.non_negative is not None:
            H, K = self.non_negative
            return nonnegative.least_squares(rows @ H, K)
        if self.observed is not None:
            encoder, plain = self.observed
            gaps = np.isnan(rows)
            if gaps.any():
                if self.oblique:
                    return encoder(rows, gaps, plain)
                rows, _ = encoder.fill(rows, gaps, plain)
        return np.asarray(rows @ self.projector)


@dataclass(frozen=True)
class _Explained:
    """Squared residual and squared norm of a block, over what was observed."""

    center: Array
    scale: float
    H: Array

    def __call__(self, block: Array, W: Array) -> list[float]:
        rows = _scaled(block, self.center, self.scale)
        gaps = np.isnan(rows)
        rest = rows - W @ self.H.T
        rest[gaps] = rows[gaps] = 0
        return [float(kernels.row_norms_squared(x).sum()) for x in (rest, rows)]


def _scaled(block: Array, center: Array, scale: float) -> Array:
    rows = block - center
    rows *= center.dtype.type(1.0) / center.dtype.type(scale)
    return np.asarray(rows)

"""Sweeps over windows with non-negative features and factors (HALS), in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.cp import nonnegative as hals
from tensorcontrast.cp.encoder import Encoder, rows_times
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers.als import AfterSweep, Factors, FitResult, Sums, run
from tensorcontrast.solvers.convergence import Monitor

Array = NDArray[Any]


def fit_nonnegative(
    name: str,
    rows: Array,
    factors: Factors,
    *,
    alpha: float,
    monitor: Monitor,
    after_sweep: AfterSweep | None = None,
) -> FitResult:
    """Fit the CP model with factors and features at zero or above to windows (n, i)."""
    low = rows.min(axis=1)
    if (low < 0).any():
        raise InvalidInputError(
            f"{name}: nonnegative=True, but window {int(low.argmin())} of X has negative entries; "
            "pass magnitudes, such as SpectrogramTensor() makes them, without "
            "ConvolutionFeatures, or nonnegative=False"
        )
    step = NonnegativeStep(rows, alpha)
    fit = run(
        step,
        kernels.like(factors, [np.abs(U) for U in factors]),
        alpha=alpha,
        monitor=monitor,
        update=hals.update_factors,
        balance=False,
        after=after_sweep,
    )
    W = hals.least_squares(*step.projected(fit.factors))
    left = kernels.residual_direct(rows, W, fit.factors)
    error = float(np.sqrt(left / kernels.row_norms_squared(rows).sum()))
    return replace(fit, gram=W.T.astype(np.float64) @ W, error=error)


@dataclass
class NonnegativeStep:
    """The sums of a sweep; features go on from those of the last sweep."""

    rows: Array
    alpha: float
    W: Array | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.rows.dtype

    def __call__(self, factors: Factors) -> Sums:
        """Take some passes of HALS over the features, and add up. Equations E10, E12."""
        P, K = self.projected(factors)
        self.W = hals.features(P, K, self.W)
        Q = kernels.factor_products(self.rows, self.W).astype(np.float64)
        WtW = self.W.T.astype(np.float64) @ self.W
        return Sums(Q, WtW, float(kernels.row_norms_squared(self.rows).sum()))

    def residual(self, factors: Factors, new: Factors) -> float:
        """‖X − WHᵀ‖² from the differences."""
        assert self.W is not None
        return kernels.residual_direct(self.rows, self.W, new)

    def projected(self, factors: Factors) -> tuple[Array, Array]:
        """Return P = XH and K = HᵀH + αI."""
        exact = kernels.in_float64(factors)
        H = kernels.khatri_rao(exact).astype(self.rows.dtype)
        K = Encoder.from_factors(exact, self.alpha).K
        return rows_times(self.rows, H), K.astype(self.rows.dtype)

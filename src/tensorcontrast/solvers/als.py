"""The CP model by alternating least squares, in passes over the windows (E10, E12, E22).

A sweep is one pass: given the factors, the features of each block of windows are a matrix product
(E12), and all that the factors need of the windows are the sums Q = WᵀX and WᵀW (E10). Factors and
sums are float64, the products over windows have the type of the data.

Shapes used throughout: n windows, i values of a window, r components, H (i, r) the Khatri–Rao
product of the factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.errors import NumericalError
from tensorcontrast.solvers import missing
from tensorcontrast.solvers.convergence import History, Monitor
from tensorcontrast.solvers.windows import Windows, pieces

Array = NDArray[Any]
Factors = Sequence[Array]
BlockDims = tuple[tuple[int, ...], ...]
#: New factors and their misfit ‖WHᵀ‖² − 2⟨X, WHᵀ⟩ from Q = WᵀX, WᵀW, the old factors and α.
FactorUpdate = Callable[[Array, Array, Factors, float], tuple[Factors, float]]
#: Called after each sweep with the fit so far.
AfterSweep = Callable[["FitResult"], None]


@dataclass(frozen=True)
class Sums:
    """What a sweep takes from the windows.

    Attributes
    ----------
    Q : (r, i) array
        WᵀX.
    WtW : (r, r) array
    norm_squared : float
        ‖X‖²; missing values count as the model has them.
    contrast : float
        β times the contrast (E8).
    terms : dict
        What a contrast adds to the history.
    """

    Q: Array
    WtW: Array
    norm_squared: float
    contrast: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)


class Step(Protocol):
    """What a sweep takes from the windows, given the factors."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the windows."""
        ...

    def __call__(self, factors: Factors) -> Sums:
        """Add up over the windows."""
        ...

    def residual(self, factors: Factors, new: Factors) -> float:
        """‖X − WHᵀ‖² from the differences, for W of some factors and H of newer ones."""
        ...


@dataclass(frozen=True)
class FitResult:
    """Factors of a fit, and how it went."""

    factors: Factors
    #: WᵀW.
    gram: Array
    history: History
    #: ‖X − WHᵀ‖/‖X‖.
    error: float
    converged: bool = False
    interrupted: bool = False
    #: Whether the callback has ended it.
    stopped: bool = False


def fit_cp(
    windows: Windows,
    factors: Factors,
    *,
    alpha: float,
    monitor: Monitor,
    gaps: bool = False,
    after_sweep: AfterSweep | None = None,
) -> FitResult:
    """Fit the CP model to centred, scaled windows, from these factors on.

    Parameters
    ----------
    windows : Windows
    factors : sequence of (I_k, r) arrays, or CoupledFactors
    alpha : float
        Ridge.
    monitor : Monitor
        Counts sweeps, decides when to stop.
    gaps : bool
        Whether windows may hold NaN. They are filled with what the model makes of the rest of the
        window (EM), within the pass.
    after_sweep : callable, optional
        Called with the fit so far.
    """
    step = PlainStep(windows, alpha, gaps)
    factors = warm_start(step, factors)
    fit = run(step, factors, alpha=alpha, monitor=monitor, after=after_sweep)
    try:
        return step.with_final_features(fit)
    except KeyboardInterrupt:  # the sweeps stand
        return replace(step.with_final_features(fit), interrupted=True)


@dataclass(frozen=True)
class PlainStep:
    """The sums of a sweep without a contrast: one pass."""

    windows: Windows
    alpha: float
    gaps: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the windows."""
        return self.windows.dtype

    def __call__(self, factors: Factors, alpha: float | None = None) -> Sums:
        """Add up over the windows. Equations E10, E12."""
        alpha = self.alpha if alpha is None else alpha
        encode = Encode.from_factors(factors, alpha, self.windows.dtype, gaps=self.gaps)
        Q, WtW, norm = self.windows.sum(encode.products)
        return Sums(Q, WtW, float(norm))

    def with_final_features(self, fit: FitResult) -> FitResult:
        """Return a fit with WᵀW and error at its final factors: its sums were of those before."""
        sums = self(fit.factors)
        left = sums.norm_squared - 2 * kernels.fitted_product(sums.Q, fit.factors)
        left += kernels.inner(sums.WtW, kernels.gram(fit.factors))
        if kernels.cancelled(left, sums.norm_squared, self.dtype):
            left = self.residual(fit.factors, fit.factors)
        error = float(np.sqrt(max(left, 0.0) / sums.norm_squared))
        return replace(fit, gram=sums.WtW, error=error)

    def residual(self, factors: Factors, new: Factors) -> float:
        """‖X − WHᵀ‖² from the differences, for W of some factors and H of newer ones."""
        encode = Encode.from_factors(factors, self.alpha, self.windows.dtype, gaps=self.gaps)
        H = kernels.khatri_rao(new).astype(self.windows.dtype)
        return float(self.windows.sum(_Residual(encode, H))[0])


@dataclass(frozen=True)
class Encode:
    """Features of blocks of windows: a matrix product, after their gaps were filled. E12."""

    projector: Array
    #: What fills gaps; None where there are none.
    observed: missing.ObservedEncoder | None = None

    @classmethod
    def from_factors(
        cls, factors: Factors, alpha: float | Array, dtype: np.dtype[Any], *, gaps: bool = False
    ) -> Encode:
        """Prepare the encoder of some factors."""
        H = kernels.khatri_rao(kernels.in_float64(factors))
        K_inverse = Encoder.from_factors(kernels.in_float64(factors), alpha).K_inverse
        observed = missing.ObservedEncoder.from_factors(factors, alpha, dtype) if gaps else None
        return cls((H @ K_inverse).astype(dtype), observed)

    def filled(self, block: Array) -> tuple[Array, Array]:
        """Return a block without gaps, and its features."""
        if self.observed is not None:
            gaps = np.isnan(block)
            if gaps.any():
                return self.observed.fill(block, gaps, self.projector)
        return block, block @ self.projector

    def __call__(self, block: Array) -> Array:
        """Features (m, r) of a block."""
        return self.filled(block)[1]

    def products(self, block: Array) -> list[Any]:
        """WᵀX, WᵀW and ‖X‖² of a block."""
        X, W = self.filled(block)
        # In float64 WᵀW has no negative eigenvalues, however much components overlap.
        exact = W.astype(np.float64)
        norm_squared = kernels.row_norms_squared(X).sum()
        return [kernels.factor_products(X, W), exact.T @ exact, norm_squared]


@dataclass(frozen=True)
class _Residual:
    encode: Encode
    H: Array

    def __call__(self, block: Array) -> list[float]:
        X, W = self.encode.filled(block)
        return [float(kernels.row_norms_squared(X - W @ self.H.T).sum())]


def run(
    step: Step,
    factors: Factors,
    *,
    alpha: float,
    monitor: Monitor,
    update: FactorUpdate = kernels.update_factors,
    balance: bool = True,
    after: AfterSweep | None = None,
) -> FitResult:
    """Alternate between the sums over windows and the factors until the monitor says stop.

    Ctrl-C drops the running sweep; before the first sweep is done it is passed on. With
    ``balance`` the lengths of columns move to where the ridge is smallest. Equations E8, E10, E11.
    """
    fit: FitResult | None = None
    begun = monitor.n_iter
    try:
        while monitor.n_iter < monitor.max_iter:
            sums = step(factors)
            new, misfit = update(sums.Q, sums.WtW, factors, alpha)
            residual = sums.norm_squared + misfit
            if kernels.cancelled(residual, sums.norm_squared, step.dtype):
                residual = step.residual(factors, new)
            squares = float(np.trace(sums.WtW)) + sum(kernels.inner(U, U) for U in new)
            factors, gram = new, sums.WtW
            if balance:
                lengths = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
                factors, gain = kernels.balanced(factors, lengths)
                gram = gram * np.outer(gain, gain)
            error = float(np.sqrt(residual / sums.norm_squared))
            fit = FitResult(factors, gram, monitor.history, error)
            should_stop = monitor.record(
                {
                    "objective": 0.5 * residual + 0.5 * alpha * squares + sums.contrast,
                    "reconstruction": 0.5 * residual,
                    "reconstruction_error": error,
                    "regularisation": 0.5 * alpha * squares,
                    **sums.terms,
                }
            )
            if after is not None:
                after(fit)
            if should_stop:
                break
    except KeyboardInterrupt:
        if fit is None or monitor.n_iter == begun:
            raise
        return replace(fit, interrupted=True)
    if fit is None:  # all iterations were done before
        rank = factors[0].shape[1]
        fit = FitResult(factors, np.zeros((rank, rank)), monitor.history, float("nan"))
    return replace(fit, converged=monitor.converged, stopped=monitor.stopped)


# ------------------------------------------------------------------------------------- the start


def random_factors(
    dims: BlockDims, rank: int, rng: np.random.Generator, variance: Array | None = None
) -> kernels.CoupledFactors:
    """Factors with columns of unit length at random, for blocks of these dims.

    Entries are as large as the data vary there, given the ``variance`` (i,) of each value: what
    hardly varies, such as the last principal components of a block, hardly changes the start.
    """
    spread = np.ones(sum(map(prod, dims))) if variance is None else np.asarray(variance)
    blocks, at = [], 0
    for block in dims:
        own = spread[at : at + prod(block)].reshape(block)
        at += own.size
        factors = []
        for k, size in enumerate(block):
            deviation = np.sqrt(own.sum(axis=tuple(j for j in range(len(block)) if j != k)))
            U = rng.standard_normal((size, rank))
            if deviation.any():
                U *= np.maximum(deviation, 1e-3 * deviation.max())[:, None]
            factors.append(U / np.linalg.norm(U, axis=0, keepdims=True))
        blocks.append(factors)
    return kernels.CoupledFactors(blocks)


#: Squared norm of the data that a column of the start meets, in units of the ridge, below which the
#: start is turned towards the data.
MIN_START_PROJECTION = 10.0


def warm_start(step: PlainStep, factors: Factors) -> Factors:
    """Factors to start from, turned towards the data where the ridge would outweigh it.

    A column drawn at random meets the share 1/i of the squared norm of windows with i values: the
    finer signals are sampled, the less. Where that is less than ``MIN_START_PROJECTION`` times the
    ridge, the first sweeps would shrink all factors to zero and never come back, although no ridge
    of this size outweighs what factors find. One sweep with a hundredth of what is met as its ridge
    brings them into the span of the data; the run then starts from their columns of unit length.
    """
    size = kernels.entries(factors)
    # Scaled windows have a mean squared norm of one; others are near enough for this.
    norm = float(step.windows.sum(_norm)[0])
    met = norm / size
    if met >= MIN_START_PROJECTION * step.alpha or not met > 0:
        return factors
    sums = step(factors, 0.01 * met)
    turned, _ = kernels.update_factors(sums.Q, sums.WtW, factors, 0.01 * met)
    unit = []
    for U, old in zip(turned, factors, strict=True):
        length = np.linalg.norm(U, axis=0, keepdims=True)
        unit.append(np.where(length > 0, U / np.where(length > 0, length, 1), old))
    return kernels.like(factors, unit)


def _norm(block: Array) -> list[float]:
    return [sum(float(np.nansum(np.square(piece, dtype=np.float64))) for piece in pieces(block))]


def allowed_rank(rank: int, n: int, dims: BlockDims) -> int:
    """``rank``, or the largest rank that one of the coupled blocks of n windows can have."""
    bounds = []
    for block in dims:
        bound = 1
        for size in sorted((n, *block))[:-1]:
            bound = min(bound * size, 2**31)
        bounds.append(bound)
    return min(rank, max(bounds))


# ------------------------------------------------------------------------------ the normal form


@dataclass(frozen=True)
class NormalForm:
    """A model in normal form: unit columns, sorted by weight, dead components at zero."""

    factors: Factors
    #: Root mean square of each feature.
    weights: Array
    #: WᵀW.
    gram: Array
    #: α of each component.
    ridge: Array


def normal_form(
    factors: Factors, gram: Array, n: int, alpha: float, dtype: np.dtype[Any]
) -> NormalForm:
    """Bring factors there; ``gram`` is WᵀW of n windows at these factors."""
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    factors, gain, order = kernels.normal_form(factors, norms)
    # Lengths of the columns of H: 1, or more where coupled loadings are part of them.
    lengths = np.sqrt(np.diagonal(kernels.gram(kernels.in_float64(factors))))
    # Components that have died away hold rounding only: they become zero.
    weights = np.abs(gain) * norms[order] * lengths
    dead = weights <= np.finfo(dtype).eps * weights.max()
    gain = np.where(dead, 0.0, gain)
    factors = kernels.like(factors, [np.where(dead, 0.0, U).astype(dtype) for U in factors])
    # The ridge acts on features in the scale of the fit. Beyond 1e6 times the square of its column
    # of H a component is as good as switched off.
    limit = np.sqrt(max(alpha, np.finfo(float).tiny) / 1e6) / np.maximum(lengths, 1.0)
    if not (np.abs(gain) > limit).any() or not np.isfinite(weights).all():
        raise NumericalError(
            "all features are zero or not finite: the ridge outweighs the data, or numbers "
            "overflow; pass a smaller alpha, another random_state or dtype='float64'"
        )
    ridge = alpha / np.maximum(np.where(dead, 1.0, np.abs(gain)), limit) ** 2
    return NormalForm(
        factors,
        (np.abs(gain) * norms[order] / np.sqrt(n)).astype(dtype),
        (gram[np.ix_(order, order)] * np.outer(gain, gain)).astype(dtype),
        np.where(dead, 1.0, ridge),
    )

"""Algorithm 1 of the paper, and ATD: both views have features of their own (E9, E11, E21).

Everything is in memory. A sweep clusters the features of β = 0 into pseudo classes (PLC), solves
for the features of one view given those of the other under the pull of the contrast (E9), and then
updates the factors from both views (E10).

Shapes used throughout: n windows, i values of a window, r components. W and V (n, r) are the
features of the data X and of the augmented view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels, losses
from tensorcontrast.cp.encoder import Encoder, rows_times
from tensorcontrast.cp.graph import SignedGraph, label_change
from tensorcontrast.cp.kmeans import cluster
from tensorcontrast.cp.losses import unit_rows
from tensorcontrast.cp.updates import contrast_features
from tensorcontrast.solvers.als import AfterSweep, FitResult, Sums, run
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.solvers.semi_supervised import likely_classes
from tensorcontrast.utils import checks

Array = NDArray[Any]
Factors = Sequence[Array]
Labels = NDArray[np.intp]

MIN_BETA, MAX_BETA = 1e-6, 64.0
"""Limits of β in the search of the ε-region (E14)."""


@dataclass
class Memory:
    """What a contrast keeps from one sweep to the next."""

    W: Array | None = None
    V: Array | None = None
    labels: Labels | None = None
    centers: Array | None = None
    #: Which windows a mini-batch holds; None: all.
    rows: Labels | None = None


@dataclass(frozen=True)
class Features:
    """Features of both views under a contrast, its value (not weighted) and its terms."""

    W: Array
    V: Array
    contrast: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)


class Contrast(Protocol):
    """Features from P = XH and P̃ = X̃H (n, r)."""

    @property
    def beta(self) -> float:
        """Weight of the contrast."""
        ...

    def __call__(self, P: Array, P_view: Array, encoder: Encoder, memory: Memory) -> Features:
        """Solve for the features of both views; the factors, in ``encoder``, are fixed."""
        ...


@dataclass(frozen=True)
class NoContrast:
    """Features of both views with β = 0. Equation E12."""

    beta: float = 0.0

    def __call__(self, P: Array, P_view: Array, encoder: Encoder, memory: Memory) -> Features:
        """Encode both."""
        return Features(encoder(P), encoder(P_view))


# ------------------------------------------------------------------------- both views in turn


def alternate_views(
    P: Array,
    P_view: Array,
    encoder: Encoder,
    pull: Callable[[Array], Array],
    beta: float,
    memory: Memory,
) -> tuple[Array, Array, dict[str, float]]:
    """E9 for W given V, then for V given W; ``pull`` gives rows h from unit rows. Equation E9."""
    V = encoder(P_view) if memory.V is None else memory.V
    w = contrast_features(P, encoder, pull(unit_rows(V)[0]), beta, previous=memory.W)
    W_hat = unit_rows(w.W)[0]
    h = pull(W_hat)
    v = contrast_features(P_view, encoder, h, beta, previous=memory.V)
    V_hat = unit_rows(v.W)[0]
    terms = {
        "contrast": kernels.inner(h, V_hat),
        "trans_inv": kernels.inner(W_hat, V_hat) / len(P),
        "contraction": max(w.contraction, v.contraction),
        "damped": max(w.damped, v.damped),
        "inner_iterations": float(w.n_iter + v.n_iter),
    }
    return w.W, v.W, terms


@dataclass(frozen=True)
class ATDContrast:
    """Features of both views under ``β Tr(ŴᵀGŴ̃)``: E9 with h = row n of GŴ̃. Equation E21."""

    beta: float
    delta: float

    def __call__(self, P: Array, P_view: Array, encoder: Encoder, memory: Memory) -> Features:
        """Solve for W given V, then for V given W."""

        def pull(rows: Array) -> Array:
            return losses.atd_pull(rows, self.delta)

        W, V, terms = alternate_views(P, P_view, encoder, pull, self.beta, memory)
        return Features(W, V, terms["contrast"], terms)


@dataclass(frozen=True)
class PLCContrast:
    """Features of both views under βℓ_PLC, over a graph clustered anew from W. Equation E11."""

    beta: float
    gamma: float
    n_clusters: int
    invariance: float = 1.0
    identity: bool = False
    known: Labels | None = None
    #: Whether known labels also say what other windows are likely to be.
    spread_labels: bool = False

    def __call__(self, P: Array, P_view: Array, encoder: Encoder, memory: Memory) -> Features:
        """Cluster the features of β = 0, then E9 for W and V over that graph."""
        graph, change = self.graph(encoder(P), memory)

        def pull(rows: Array) -> Array:
            return losses.plc_pull(
                rows, graph, self.gamma, invariance=self.invariance, identity=self.identity
            )

        W, V, terms = alternate_views(P, P_view, encoder, pull, self.beta, memory)
        terms["label_change"] = change
        if self.gamma > 0:
            cosines = terms["trans_inv"] * len(P)
            terms["cross_view"] = (terms["contrast"] + self.invariance * cosines) / self.gamma
        return Features(W, V, terms["contrast"], terms)

    def graph(self, W: Array, memory: Memory) -> tuple[SignedGraph, float]:
        """Pseudo graph of the features, known labels put in; the share of changed labels."""
        known = self.known
        if known is not None and memory.rows is not None:
            known = known[memory.rows]
        if known is not None and (known >= 0).all():
            change, memory.labels = label_change(memory.labels, known), known
            return SignedGraph(known), change
        count = min(self.n_clusters, len(W))  # a last mini-batch may be small
        labels, memory.centers = cluster(W, count, centers=memory.centers)
        change, memory.labels = label_change(memory.labels, labels), labels
        if known is not None and self.spread_labels and (known >= 0).any():
            return SignedGraph(labels, *likely_classes(W, known)), change
        return SignedGraph(labels, known), change


# ------------------------------------------------------------------------------- the iterations


@dataclass
class TwoViewStep:
    """The sums of a sweep over both views under a contrast.

    ``draw`` gives the augmented view; a ``fresh`` one is another one in each sweep.
    """

    X: Array
    draw: Callable[[], Array]
    contrast: Contrast
    alpha: float
    fresh: bool = False
    memory: Memory = field(default_factory=Memory)

    def __call__(self, factors: Factors) -> Sums:
        """Solve for the features, and add up over both views. Equations E9, E10."""
        V = self.draw()
        if self.fresh:
            self.memory.W = self.memory.V = None  # W of another view is no start for this one
        return self._sums(self.X, V, factors)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.X.dtype

    def residual(self, factors: Factors, new: Factors) -> float:
        """‖X − WHᵀ‖² of both views, from the differences."""
        memory = self.memory
        assert memory.W is not None and memory.V is not None
        return kernels.residual_direct(self.X, memory.W, new) + kernels.residual_direct(
            self.draw(), memory.V, new
        )

    def _sums(self, X: Array, V: Array, factors: Factors) -> Sums:
        features, _ = self._features(X, V, factors)
        self.memory.W, self.memory.V = features.W, features.V
        rank = features.W.shape[1]
        Q, WtW = np.zeros((rank, X.shape[1])), np.zeros((rank, rank))
        for rows, W in ((X, features.W), (V, features.V)):
            Q += kernels.factor_products(rows, W)
            WtW += W.T.astype(np.float64) @ W
        norm = sum(float(kernels.row_norms_squared(rows).sum()) for rows in (X, V))
        weighted = self.contrast.beta * features.contrast
        return Sums(Q, WtW, norm, weighted, features.terms)

    def _features(self, X: Array, V: Array, factors: Factors) -> tuple[Features, Array]:
        exact = kernels.in_float64(factors)
        H = kernels.khatri_rao(exact).astype(X.dtype)
        encoder = Encoder.from_gram(kernels.gram(exact), self.alpha, X.dtype)
        P = rows_times(X, H)
        return self.contrast(P, rows_times(V, H), encoder, self.memory), P

    def epoch(
        self, factors: Factors, batch_size: int, step_size: float, rng: np.random.Generator
    ) -> tuple[Factors, dict[str, float]]:
        """One pass of mini-batch ALS: a step of ``step_size`` towards each batch's solution.

        ``U ← U + step_size (U_batch − U)``, as the authors of ATD run their methods (E21). The
        terms are sums over the batches, each at the factors of its turn.
        """
        V, order = self.draw(), rng.permutation(len(self.X))
        total: dict[str, float] = {}
        count = 0
        for start in range(0, len(order), batch_size):
            at = order[start : start + batch_size]
            if len(at) < 2:
                continue
            # Other windows than last time: nothing to start from.
            self.memory.W = self.memory.V = None
            self.memory.rows = at
            sums = self._sums(self.X[at], V[at], factors)
            target, misfit = kernels.update_factors(sums.Q, sums.WtW, factors, self.alpha)
            residual = max(sums.norm_squared + misfit, 0.0)
            moved = [U + step_size * (T - U) for U, T in zip(factors, target, strict=True)]
            squares = float(np.trace(sums.WtW)) + sum(kernels.inner(U, U) for U in factors)
            terms = {
                "objective": 0.5 * residual + 0.5 * self.alpha * squares + sums.contrast,
                "reconstruction": 0.5 * residual,
                "reconstruction_error": float(np.sqrt(residual / sums.norm_squared)),
                "regularisation": 0.5 * self.alpha * squares,
                **sums.terms,
            }
            for key, value in terms.items():
                total[key] = total.get(key, 0.0) + value * (len(at) if key in _MEANS else 1)
            factors, count = kernels.like(factors, moved), count + len(at)
        self.memory.rows = self.memory.W = self.memory.V = None
        return factors, {k: v / count if k in _MEANS else v for k, v in total.items()}

    def with_final_features(self, fit: FitResult) -> FitResult:
        """Return a fit with WᵀW and error of the data's own view at its final factors."""
        features, P = self._features(self.X, self.draw(), fit.factors)
        W, norm = features.W, float(kernels.row_norms_squared(self.X).sum())
        residual = kernels.residual_squared(
            norm, P, W, kernels.gram(kernels.in_float64(fit.factors))
        )
        if kernels.cancelled(residual, norm, self.X.dtype):
            residual = kernels.residual_direct(self.X, W, fit.factors)
        gram = W.T.astype(np.float64) @ W
        return replace(fit, gram=gram, error=float(np.sqrt(residual / norm)))


#: Terms that are averages over windows; all others are sums.
_MEANS = {"reconstruction_error", "trans_inv", "label_change", "contraction", "damped"}


def fit_two_views(
    step: TwoViewStep,
    factors: Factors,
    *,
    monitor: Monitor,
    warm_up: int,
    batch_size: int | None,
    step_size: float,
    rng: np.random.Generator,
    after_sweep: AfterSweep | None = None,
) -> FitResult:
    """Run Algorithm 1 from these factors: sweeps without a contrast, then sweeps with it. E11.

    ``after_sweep`` is called with the fit so far; mini-batches have none.
    """

    def sweeps(active: TwoViewStep, start: Factors) -> FitResult:
        def after(fit: FitResult) -> None:
            assert after_sweep is not None and active.memory.W is not None
            W = active.memory.W  # of the data alone, not of both views
            after_sweep(replace(fit, gram=W.T.astype(np.float64) @ W))

        follow = None if after_sweep is None else after
        return run(active, start, alpha=active.alpha, monitor=monitor, balance=False, after=follow)

    fit: FitResult | None = None
    if batch_size is not None:
        fit = _epochs(step, factors, monitor, warm_up, batch_size, step_size, rng)
    else:
        most = monitor.max_iter
        if warm_up and step.contrast.beta:
            tol = monitor.tol
            monitor.max_iter, monitor.tol = min(warm_up, most), 0.0
            plain = replace(step, contrast=NoContrast(), memory=Memory())
            fit = sweeps(plain, factors)
            monitor.max_iter, monitor.tol = most, tol
            # The contrast compares directions of w, so it starts from columns of unit length.
            lengths = np.sqrt(np.maximum(np.diagonal(fit.gram), 0.0))
            factors = kernels.normal_form(fit.factors, lengths)[0]
            if not (fit.interrupted or fit.stopped):
                monitor.new_phase()
        if fit is None or not (fit.interrupted or fit.stopped or monitor.n_iter >= most):
            try:
                fit = sweeps(step, factors)
            except KeyboardInterrupt:  # the sweeps without contrast stand
                if fit is None:
                    raise
                fit = replace(fit, interrupted=True)
    try:
        return step.with_final_features(fit)
    except KeyboardInterrupt:
        return replace(step.with_final_features(fit), interrupted=True)


def _epochs(
    step: TwoViewStep,
    factors: Factors,
    monitor: Monitor,
    warm_up: int,
    batch_size: int,
    step_size: float,
    rng: np.random.Generator,
) -> FitResult:
    rank = factors[0].shape[1]
    interrupted = False
    try:
        while monitor.n_iter < monitor.max_iter:
            warming = monitor.n_iter < warm_up
            active = replace(step, contrast=NoContrast()) if warming else step
            factors, terms = active.epoch(factors, batch_size, step_size, rng)
            if monitor.record(terms) and not (warming and monitor.converged):
                break
            if monitor.n_iter == warm_up:
                monitor.new_phase()
    except KeyboardInterrupt:
        if monitor.n_iter == 0:
            raise
        interrupted = True
    gram, error = np.zeros((rank, rank)), float("nan")  # known at the end alone
    return FitResult(
        factors, gram, monitor.history, error, monitor.converged, interrupted, monitor.stopped
    )


def largest_beta(
    plain: FitResult, trial: Callable[[float], FitResult], epsilon: float
) -> tuple[float, FitResult]:
    """Fit of the largest β with an error within 1 + ε of that of ``plain``, which has β = 0.

    β is doubled or halved from 0.125 until it is known between two values, then narrowed to within
    a quarter by bisection. Ctrl-C ends the search with the best so far. Where no β is small enough,
    ``plain`` is it, and a warning tells. Equation E14.
    """
    limit = (1.0 + epsilon) * plain.error
    best = plain
    low, high, beta = 0.0, np.inf, 0.125
    while MIN_BETA <= beta <= MAX_BETA and high > 1.25 * max(low, MIN_BETA):
        try:
            fitted = trial(beta)
        except KeyboardInterrupt:  # in the first sweep of the trial
            return low, replace(best, interrupted=True)
        if fitted.interrupted:
            return low, replace(best, interrupted=True)
        if fitted.error <= limit:
            best, low = fitted, beta
        else:
            high = beta
        if low == 0.0:
            beta = high / 2
        elif high == np.inf:
            beta = low * 2
        else:
            beta = float(np.sqrt(low * high))
    if low == 0.0:
        checks.warn(
            f"no β ≥ {MIN_BETA:g} keeps the reconstruction error within {epsilon:.0%} of the fit "
            "without contrast; no contrast is used"
        )
    return low, best

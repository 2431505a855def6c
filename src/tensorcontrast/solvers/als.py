"""Alternating least squares over windows and modes (E10, E11), with a contrast plugged in.

A *contrast* turns the projections of both views into features; the sweep then moves the factors.
Nothing here knows about scikit-learn: arrays in, arrays out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels, sketch
from tensorcontrast.cp.encoder import Encoder, rows_times
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.utils import threads

Array = NDArray[Any]
Factors = Sequence[Array]
#: New factors and their misfit from Q = WᵀX, WᵀW, the old factors and α.
FactorUpdate = Callable[[Array, Array, Factors, float], tuple[Factors, float]]


@dataclass
class Memory:
    """What a contrast keeps from one iteration to the next."""

    W: Array | None = None
    V: Array | None = None
    labels: NDArray[np.intp] | None = None
    centers: Array | None = None
    #: Which windows a mini-batch holds; None: all.
    rows: NDArray[np.intp] | None = None
    #: Norms of the columns of W where W itself is elsewhere.
    sizes: Array | None = None


@dataclass(frozen=True)
class Features:
    """Features of both views under a contrast, its value (not weighted) and its terms."""

    W: Array
    V: Array | None
    contrast: float = 0.0
    beta: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)

    @property
    def sizes(self) -> Array | None:
        """Norms of the columns of W where W itself is elsewhere."""
        return None

    @property
    def norm_squared(self) -> float:
        """‖W‖² + ‖W̃‖²."""
        return kernels.inner(self.W, self.W) + (
            0.0 if self.V is None else kernels.inner(self.V, self.V)
        )


class Keep(Protocol):
    """What keeps the state of a run for a checkpoint; see :mod:`.checkpoint`."""

    ended: bool

    def begin(self, factors: Factors) -> tuple[int, Factors]:
        """Return how many iterations are done already, and the factors after them."""
        ...

    def step(self, done: int, factors: Factors) -> None:
        """Take note of an iteration."""
        ...

    def end(self, factors: Factors, done: int) -> None:
        """Take note of the outcome."""
        ...


class Contrast(Protocol):
    """Features from P = XH and P̃ = X̃H (n, r)."""

    def __call__(
        self, P: Array, P_view: Array | None, encoder: Encoder, memory: Memory
    ) -> Features:
        """Solve for the features of both views; the factors, in ``encoder``, are fixed."""
        ...


def no_contrast(P: Array, P_view: Array | None, encoder: Encoder, memory: Memory) -> Features:
    """Features of both views with β = 0. Equation E12."""
    return Features(encoder(P), None if P_view is None else encoder(P_view))


@dataclass
class Views:
    """Data (n, i) and its augmented view, centred and scaled, with their squared norms.

    What a fit asks of its data is here: ``distributed.views.BlockViews`` answers the same for
    blocks on many machines.
    """

    X: Array
    V: Array | None
    norm_x: float
    norm_v: float
    #: Whether :meth:`draw` gives another view each time; see :class:`FreshViews`.
    fresh: ClassVar[bool] = False

    def draw(self) -> Views:
        """Return these views: they are the same in each iteration."""
        return self

    @classmethod
    def from_arrays(cls, X: Array, V: Array | None) -> Views:
        """Measure the norms once."""
        norm_v = 0.0 if V is None else float(kernels.row_norms_squared(V).sum())
        return cls(X, V, float(kernels.row_norms_squared(X).sum()), norm_v)

    @property
    def norm_squared(self) -> float:
        """‖X‖² + ‖X̃‖²."""
        return self.norm_x + self.norm_v

    @property
    def n_samples(self) -> int:
        """Number of windows."""
        return len(self.X)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.X.dtype

    def alone(self) -> Views:
        """Return the data without the other view."""
        return Views(self.X, None, self.norm_x, 0.0)

    def in_memory(self) -> Views:
        """Return the same, all windows in the memory of this process."""
        return self

    def rows(self, index: NDArray[np.intp]) -> Views:
        """Take some of the windows; each has its part of what compression has lost."""
        share = len(index) / self.n_samples
        V = None if self.V is None else self.V[index]
        return Views(self.X[index], V, share * self.norm_x, share * self.norm_v)

    def solve(
        self, factors: Factors, contrast: Contrast, alpha: float | Array, memory: Memory
    ) -> tuple[Features, Statistics]:
        """Features of both views for fixed factors, and the sums over windows of E10."""
        features, _ = solve_features(self, factors, contrast, alpha, memory)
        return features, Statistics.from_features(self, features)

    def final(
        self, factors: Factors, contrast: Contrast, alpha: float | Array, memory: Memory
    ) -> tuple[Features, float]:
        """Features of both views for fixed factors, and ‖X − WHᵀ‖² of the data's own view."""
        features, P = solve_features(self, factors, contrast, alpha, memory)
        HtH = kernels.gram(factors)
        residual = kernels.residual_squared(self.norm_x, P, features.W, HtH)
        if kernels.cancelled(residual, self.norm_x, self.dtype):
            residual = _direct(self.X, self.norm_x, features.W, factors)
        return features, residual

    def encoded(self, projector: Array) -> tuple[Array, Array | None]:
        """Products of both views with a projector (i, r)."""
        V = None if self.V is None else rows_times(self.V, projector)
        return rows_times(self.X, projector), V

    def residual(self, misfit: float, features: Features, factors: Factors) -> float:
        """‖X − WHᵀ‖² of both views from ``‖WHᵀ‖² − 2⟨X, WHᵀ⟩``; from themselves where exact."""
        value = self.norm_squared + misfit
        if not kernels.cancelled(value, self.norm_squared, self.dtype):
            return value
        value = _direct(self.X, self.norm_x, features.W, factors)
        if self.V is not None and features.V is not None:
            value += _direct(self.V, self.norm_v, features.V, factors)
        return value

    def residual_encoded(self, projector: Array, factors: Factors) -> float:
        """‖X − WHᵀ‖² of the data's own view at features W = X·projector, without a core."""
        return kernels.residual_direct(self.X, rows_times(self.X, projector), factors)

    def residual_norms(self, factors: Factors, alpha: float) -> Array:
        """‖x − wHᵀ‖ of each window at the best features."""
        features, _ = self.final(factors, no_contrast, alpha, Memory())
        return norms_of_rest(self.X, features.W, factors)

    def observed_shares(self) -> Array:
        """Share of the entries of each window that were observed: all."""
        return np.ones(len(self.X))

    def reweighted(self, gains: Array) -> Views:
        """Return the data alone, each window multiplied with a number, in the same memory."""
        self.X *= gains[:, None].astype(self.X.dtype)
        return Views.from_arrays(self.X, None)

    def sketch_sums(self, omega: Array) -> tuple[Array, Array] | None:
        """Take the sums over windows from which :mod:`.sketch` makes rows that stand for them."""
        return sketch.sums_over(self.X, omega)

    def with_partners(self, partners: NDArray[np.intp]) -> Views:
        """Return the same data, each window with the view of its partner."""
        assert self.V is not None
        return Views(self.X, self.V[partners], self.norm_x, self.norm_v)

    def batches(
        self, size: int, rng: np.random.Generator
    ) -> Iterator[tuple[NDArray[np.intp], Views]]:
        """Rows and data of mini-batches in random order; a last one of one window is dropped."""
        order = rng.permutation(len(self.X))
        for start in range(0, len(order), size):
            at = order[start : start + size]
            if len(at) > 1:
                yield at, Views.from_arrays(self.X[at], None if self.V is None else self.V[at])


@dataclass(frozen=True)
class FreshViews:
    """Views whose second one is drawn anew in each iteration."""

    draw: Callable[[], Views]
    fresh: ClassVar[bool] = True


#: Views that stay, in memory or on Dask, or views that are drawn anew.
AnyViews = Views | FreshViews


def _direct(X: Array, norm: float, W: Array, factors: Factors) -> float:
    """Squared residual of one view without cancellation, with what compression has lost of it."""
    lost = kernels.lost_squared(norm, float(kernels.row_norms_squared(X).sum()))
    return kernels.residual_direct(X, W, factors) + lost


def norms_of_rest(X: Array, W: Array, factors: Factors, gaps: Array | None = None) -> Array:
    """‖x − wHᵀ‖ of each row, without entries in gaps."""
    H, out = kernels.khatri_rao(factors), []
    step = max(1, 2**22 // len(H))
    for at in range(0, len(X), step):
        rest = X[at : at + step] - W[at : at + step] @ H.T
        if gaps is not None:
            rest[gaps[at : at + step]] = 0
        out.append(np.sqrt(kernels.row_norms_squared(rest)))
    return np.concatenate(out)


@dataclass
class Statistics:
    """Sums over windows that a factor update needs: Q = WᵀX and WᵀW, over both views (E10)."""

    Q: Array
    WtW: Array

    @classmethod
    def from_features(cls, views: Views, features: Features) -> Statistics:
        """One matrix product per view."""
        return cls(*(a.astype(views.dtype, copy=False) for a in sums_over(views, features)))

    def add(self, other: Statistics, forgetting: float) -> Statistics:
        """Old sums, faded by ``forgetting``, plus new ones."""
        return Statistics(forgetting * self.Q + other.Q, forgetting * self.WtW + other.WtW)

    def regauged(self, gain: Array, order: Array) -> Statistics:
        """Give the same sums for features ``W[:, order] * gain``."""
        g = gain.astype(self.Q.dtype)
        return Statistics(
            self.Q[order] * g[:, None], self.WtW[np.ix_(order, order)] * np.outer(g, g)
        )


def sums_over(views: Views, features: Features) -> tuple[Array, Array]:
    """Q = WᵀX and WᵀW over both views in float64: sums of what strips of windows give."""
    rank, size = features.W.shape[1], views.X.shape[1]
    Q, WtW = np.zeros((rank, size)), np.zeros((rank, rank))
    pairs = [(views.X, features.W)]
    if views.V is not None and features.V is not None:
        pairs.append((views.V, features.V))

    def strip(at: slice) -> list[tuple[Array, Array]]:
        return [(kernels.factor_products(X[at], W[at]), W[at].T @ W[at]) for X, W in pairs]

    for parts in threads.over_strips(strip, views.n_samples, size * rank):
        for part, gram in parts:
            Q += part
            WtW += gram
    return Q, WtW


def project(views: Views, factors: Factors) -> tuple[Array, Array | None]:
    """``XH`` and ``X̃H``: one matrix product per view."""
    return views.encoded(kernels.khatri_rao(factors))


def solve_features(
    views: Views, factors: Factors, contrast: Contrast, alpha: float | Array, memory: Memory
) -> tuple[Features, Array]:
    """Features of both views for fixed factors, and P = XH."""
    P, P_view = project(views, factors)
    encoder = Encoder.from_factors(factors, alpha)
    return contrast(P, P_view, encoder, memory), P


def sweep(
    views: Views,
    factors: Factors,
    contrast: Contrast,
    *,
    alpha: float,
    memory: Memory,
    past: Statistics | None = None,
    forgetting: float = 1.0,
    update: FactorUpdate = kernels.update_factors,
) -> tuple[Factors, Features, Statistics, dict[str, float]]:
    """One iteration of Algorithm 1: features of both views, then every factor. Equation E11.

    Four matrix products over the windows with two views, two with one.
    """
    features, sums = views.solve(factors, contrast, alpha, memory)
    if past is None:
        factors, misfit = update(sums.Q, sums.WtW, factors, alpha)
    else:
        blended = past.add(sums, forgetting)
        factors, _ = update(blended.Q, blended.WtW, factors, alpha)
        misfit = _misfit(sums, factors)
        sums = blended
    residual = views.residual(misfit, features, factors)
    memory.W, memory.V, memory.sizes = features.W, features.V, features.sizes
    reg = 0.5 * alpha * (features.norm_squared + sum(kernels.inner(U, U) for U in factors))
    terms = {
        "objective": 0.5 * residual + reg + features.beta * features.contrast,
        "reconstruction": 0.5 * residual,
        "reconstruction_error": float(np.sqrt(residual / views.norm_squared)),
        "regularisation": reg,
        **features.terms,
    }
    return factors, features, sums, terms


def _misfit(sums: Statistics, factors: Factors) -> float:
    """``‖WHᵀ‖² − 2⟨X, WHᵀ⟩`` from the sums over windows."""
    fitted = kernels.fitted_product(sums.Q, factors)
    return kernels.inner(sums.WtW, kernels.gram(factors)) - 2.0 * fitted


def epoch(
    views: Views,
    factors: Factors,
    contrast: Contrast,
    *,
    alpha: float,
    memory: Memory,
    batch_size: int,
    step_size: float,
    rng: np.random.Generator,
    update: FactorUpdate = kernels.update_factors,
) -> tuple[Factors, dict[str, float]]:
    """One pass of mini-batch ALS: a step of ``step_size`` towards each batch's solution.

    ``U ← U + step_size (U_batch − U)``, as the authors of ATD run their methods (E21). The terms
    are sums over the batches, each at the factors of its turn.
    """
    total: dict[str, float] = {}
    sizes = 0
    for rows, batch in views.batches(batch_size, rng):
        n = len(batch.X)
        memory.W = memory.V = None  # other windows than last time: nothing to start from
        memory.rows = rows
        target, _, _, terms = sweep(
            batch, factors, contrast, alpha=alpha, memory=memory, update=update
        )
        moved = [U + step_size * (T - U) for U, T in zip(factors, target, strict=True)]
        factors = kernels.like(factors, moved)
        sizes += n
        for key, value in terms.items():
            total[key] = total.get(key, 0.0) + value * (n if key in _MEANS else 1)
    memory.rows = None
    return factors, {k: v / sizes if k in _MEANS else v for k, v in total.items()}


#: Terms that are averages over windows; all others are sums.
_MEANS = {
    "reconstruction_error",
    "trans_inv",
    "label_change",
    "contraction",
    "damped",
}


#: Squared norm of the data that a column of the start meets, in units of the ridge, below which the
#: start is turned towards the data.
MIN_START_PROJECTION = 10.0


def turned(views: Views, factors: Factors, alpha: float) -> Factors:
    """Factors to start from, turned towards the data where the ridge would outweigh it.

    A column drawn at random meets the share 1/i of the squared norm of windows with i entries: the
    finer signals are sampled, the less. Where that is less than ``MIN_START_PROJECTION`` times the
    ridge, the first sweeps would shrink all factors to zero and never come back, although no ridge
    of this size outweighs what factors find. One sweep with a hundredth of what is met as its ridge
    brings them into the span of the data; the run then starts from their columns of unit length.
    """
    met = views.norm_x / kernels.entries(factors)
    if met >= MIN_START_PROJECTION * alpha or not met > 0:
        return factors
    _, sums = views.alone().solve(factors, no_contrast, 0.01 * met, Memory())
    found, _ = kernels.update_factors(sums.Q, sums.WtW, factors, 0.01 * met)
    lengths = [np.linalg.norm(U, axis=0, keepdims=True) for U in found]
    unit = [
        np.where(length > 0, U / np.where(length > 0, length, 1), old)
        for U, length, old in zip(found, lengths, factors, strict=True)
    ]
    return kernels.like(factors, unit)


def balanced(factors: Factors, sums: Statistics, memory: Memory) -> Factors:
    """Balance the factors with the features of the last sweep, which follow in ``memory``."""
    squares = np.maximum(np.diagonal(sums.WtW).astype(np.float64), 0.0)
    factors, gain = kernels.balanced(factors, np.sqrt(squares))
    for name in ("W", "V", "sizes"):
        value = getattr(memory, name)
        if hasattr(value, "times"):  # on workers
            setattr(memory, name, value.times(gain))
        elif value is not None:
            setattr(memory, name, value * gain.astype(value.dtype))
    return factors


def run(
    views: AnyViews,
    factors: Factors,
    contrast: Contrast,
    *,
    alpha: float,
    warm_up: int,
    monitor: Monitor,
    batch_size: int | None,
    step_size: float,
    rng: np.random.Generator,
    memory: Memory,
    balance: bool = False,
    keep: Keep | None = None,
    update: FactorUpdate = kernels.update_factors,
) -> tuple[Factors, bool]:
    """Iterate until the monitor says stop; true as second value if Ctrl-C ended it.

    ``warm_up`` iterations without contrast come before those of a contrast; a run without any has
    one phase. With ``balance`` its sweeps also move the lengths of columns to where the ridge is
    smallest. ``update`` moves the factors (E10). Fresh ``views`` are drawn in each iteration.
    Ctrl-C before the first iteration is done is passed on. With ``keep`` the run goes on from where
    a checkpoint has it.
    """
    begin = 0
    if contrast is no_contrast:
        warm_up = 0
    if keep is not None:
        begin, factors = keep.begin(factors)
        if keep.ended:
            return factors, False
    try:
        for iteration in range(begin, monitor.max_iter):
            current = views.draw()
            if iteration == warm_up and iteration > 0:
                # The contrast compares directions of w, so it starts from columns of unit length.
                sizes = memory.sizes
                if sizes is None and memory.W is not None:
                    sizes = np.linalg.norm(memory.W, axis=0)
                if sizes is None:
                    sizes = np.ones(factors[0].shape[1])
                factors = kernels.normal_form(factors, sizes)[0]
                memory.W = memory.V = None
                monitor.new_phase()
            active = no_contrast if iteration < warm_up else contrast
            if views.fresh:
                memory.W = memory.V = None  # W of another view is no start for this one
            if batch_size is None:
                factors, _, sums, terms = sweep(
                    current, factors, active, alpha=alpha, memory=memory, update=update
                )
                if balance:
                    factors = balanced(factors, sums, memory)
            else:
                factors, terms = epoch(
                    current,
                    factors,
                    active,
                    alpha=alpha,
                    memory=memory,
                    batch_size=batch_size,
                    step_size=step_size,
                    rng=rng,
                    update=update,
                )
            if monitor.record(terms) and (iteration >= warm_up or monitor.stopped):
                break
            if keep is not None:
                keep.step(iteration + 1, factors)
    except KeyboardInterrupt:
        if monitor.n_iter == 0:
            raise
        return factors, True
    if keep is not None:
        keep.end(factors, monitor.max_iter)
    return factors, False

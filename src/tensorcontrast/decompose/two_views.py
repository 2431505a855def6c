"""ATD and the paper's Algorithm 1: both views have features of their own, in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from tensorcontrast.cp.kmeans import check_count
from tensorcontrast.decompose.base import CPEstimator, FitInput, Solved
from tensorcontrast.decompose.inputs import Joined, coupled_blocks
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers.als import AfterSweep, Factors, FitResult
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.solvers.paper import (
    ATDContrast,
    Contrast,
    Memory,
    PLCContrast,
    TwoViewStep,
    fit_two_views,
    largest_beta,
)
from tensorcontrast.solvers.semi_supervised import given_labels
from tensorcontrast.utils import checks

Array = NDArray[Any]
Labels = NDArray[np.intp]

NOISE, MASK = 0.1, 0.15
"""Noise of the default view, in standard deviations of all values, and the largest share of a mode
that is masked."""

MIN_MASKED_LENGTH = 8
"""Shorter modes (such as three channels) are not masked."""


class TwoViewEstimator(CPEstimator):
    """Base of the estimators that fit an augmented view beside the data."""

    _sweeps_lower_the_objective = False
    _needs_view = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CPEstimator._parameter_constraints,
        "augment": [callable, None],
        "fresh_views": ["boolean"],
        "batch_size": [Interval(Integral, 2, None, closed="left"), None],
        "step_size": [Interval(Real, 0, 1, closed="right")],
    }
    augment: Callable[[Any, np.random.Generator], Any] | None
    fresh_views: bool
    batch_size: int | None
    step_size: float

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        view: Any = None,
        *,
        init: Any = None,
        autosave: Any = None,
    ) -> Self:
        """Learn the factors from X (n, I_1, …, I_K) and its augmented view.

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K), or list of coupled blocks
            As in :meth:`CPD.fit`, in memory.
        y : array-like (n,), optional
            Labels for the graph of :class:`Algorithm1`, as in :meth:`PLC.fit`.
        view : array-like of the shape of X, list of blocks as X, or callable, optional
            The augmented view X̃. A callable is given a ``numpy.random.Generator`` and returns a
            view, drawn anew each iteration. Default: what ``augment`` makes.
        init : fitted estimator of this class, optional
            Go on from its factors: up to ``max_iter`` iterations in all.
        autosave : path, optional
            Write a whole model to this file every five iterations; not with mini-batches.

        Returns
        -------
        self
        """
        if autosave is not None and self.batch_size is not None:
            raise InvalidInputError("autosave= is for sweeps over all windows, without batch_size")
        return self._fit(X, y, init, autosave, view=view)

    def _step(self, fit_input: FitInput, contrast: Contrast, view: Any) -> TwoViewStep:
        """Return a sweep over the windows and a view: fit_input, drawn, or made by ``augment``."""
        rows = fit_input.rows_in_memory(type(self).__name__)
        rng, fresh = fit_input.rng, self.fresh_views and view is None

        def make() -> Array:
            if callable(view):
                return fit_input.scaled(self._view_rows(fit_input, checks.drawn_view(view, rng)))
            if view is not None:
                return fit_input.scaled(self._view_rows(fit_input, view))
            if self.augment is None:
                return _noisy(rows, fit_input, rng)
            raw = np.asarray(rows / fit_input.factor + fit_input.raw_center, dtype=rows.dtype)
            blocks = fit_input.layout.split_raw(raw)
            drawn = self.augment(blocks if fit_input.layout.coupled else blocks[0], rng)
            return fit_input.scaled(self._view_rows(fit_input, drawn))

        if callable(view) or fresh:
            return TwoViewStep(rows, make, contrast, self.alpha, True)
        made = make()
        return TwoViewStep(rows, lambda: made, contrast, self.alpha)

    def _view_rows(self, fit_input: FitInput, view: Any) -> Array:
        """Rows (n, i) of a view in the units of the caller, checked."""
        layout, n, dtype = fit_input.layout, fit_input.windows.n, fit_input.windows.dtype
        if isinstance(view, Joined):
            return checks.check_view(view.rows, (n, layout.size), dtype)
        blocks = coupled_blocks(view, coupled=True) if layout.coupled else [view]
        if not isinstance(blocks, list) or len(blocks) != len(layout.dims):
            raise InvalidInputError(
                f"{type(self).__name__}: the view must be a list of {len(layout.dims)} blocks, as "
                "X is"
            )
        flat = [
            checks.check_view(block, (n, *dims), dtype).reshape(n, -1)
            for block, dims in zip(blocks, layout.dims, strict=True)
        ]
        return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)

    def _run(
        self,
        fit_input: FitInput,
        step: TwoViewStep,
        start: Factors,
        monitor: Monitor,
        save: AfterSweep | None,
        warm_up: int = 0,
    ) -> FitResult:
        return fit_two_views(
            step,
            start,
            monitor=monitor,
            warm_up=warm_up,
            batch_size=self.batch_size,
            step_size=self.step_size,
            rng=fit_input.rng,
            after_sweep=save,
        )


class Algorithm1(TwoViewEstimator):
    r"""The paper's Algorithm 1: CP with a contrast between two views over a pseudo graph.

    Each sweep clusters the features into a signed pseudo graph, turns the features of both views
    under the contrast over it (E7, E9), and updates the factors from both views (E10, E11).
    :meth:`PLC.paper` gives its literal reading; :class:`PLC` does the same in closed form. All
    windows are in memory.

    Parameters
    ----------
    rank : int, default=32
        Number of components and so of features. Where the windows allow fewer, fewer are used.
    alpha : float, default=1e-3
        Ridge on features and factors (E8, E12), in units of the mean squared norm of a window:
        windows are scaled to a mean squared norm of 1, so that finer sampling does not change what
        α means. The reconstruction is a sum over windows: against 1,000 of them the same α weighs a
        tenth of what it does against 100. Where a random start would meet less of the data than 10
        α, as very long windows do, one sweep with a smaller ridge comes first. Where α outweighs
        the data after all, ``fit`` raises an error.
    beta : float or "auto", default=0.03
        Weight of the contrast, a sum over windows. "auto" takes the largest that keeps the
        reconstruction error within 1 + ``epsilon`` of a fit without (E14).
    gamma : float, default=1
        Weight of the pseudo graph against the invariance.
    epsilon : float, default=0.05
        How much larger than without the contrast the reconstruction error may be, for
        ``beta="auto"``.
    n_clusters : int, optional
        Clusters of the pseudo graph. Default: the number of known classes, or else 8.
    graph : {"pseudo", "true"}, default="pseudo"
        "true" joins windows by the labels ``y`` of :meth:`fit` alone.
    warm_up : int, default=5
        Sweeps without contrast at the start.
    laplacian : {"signed", "literal"}, default="signed"
        "literal" keeps the identity inside L, which pulls against the invariance (E5).
    units : {"sample", "paper"}, default="sample"
        With "paper", β and γ are the symbols of the paper: E6 is a mean over the N windows, so that
        ``β = β_paper / N`` and ``γ = N γ_paper`` are used.
    trans_inv : bool, default=True
        False is the ablation without transformation invariance.
    augment : callable, optional
        ``augment(X, rng)`` makes the view when ``fit`` is given none; of coupled blocks it gets and
        returns a list. Default: noise and masking at the tensor level.
    fresh_views : bool, default=False
        Draw the augmented view anew in each iteration.
    batch_size : int, optional
        Windows of a mini-batch. Default: all windows.
    step_size : float, default=1
        Step towards the solution of each mini-batch.
    max_iter : int, default=200
        Sweeps at most.
    tol : float, default=2e-5
        The fit has converged once the objective changes by less than this share of the variance,
        twice in a row; 0 runs all ``max_iter`` iterations.
    center, scale : bool, default=True
        Subtract the mean tensor, and scale to a mean squared norm of 1 per window.
    block_weights : sequence of float, optional
        Share of the variance that each coupled block gets (E22). Default: equal shares.
    dtype : {"float32", "float64"}, optional
        Type of the numbers of the fit. Default: that of X, float32 for anything but float64.
    random_state : int, RandomState or None
        Seeds the first factors, views and clusters.
    callback : callable, optional
        Called in each iteration with a dict of its terms; a true return value ends the fit.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    labels_ : (n,) int array
        Pseudo class of each fitted window.
    n_clusters_ : int
        Clusters of the graph; 0 where the fit was stopped before it was made.
    beta_, gamma_ : float
        Weights that were used, sums over windows.
    factors_ : list of (I_k, rank_) arrays
        In normal form: unit columns, sorted by weight, fixed signs. For coupled blocks a list of
        such lists, one per block; in all blocks but the first, the columns of the first mode carry
        the length and the sign that the component has there.
    block_dims_ : tuple of tuples of int, or None
        Shape of a window in each coupled block; None for one tensor.
    block_scales_ : tuple of float, or None
        What each coupled block was multiplied with, √λ of E22; 1 for the first.
    weights_ : (rank_,) array
        Root mean square of each coordinate of E12 over the fitted windows.
    rank_, n_iter_, n_samples_seen_ : int
    center_ : array (I_1, …, I_K)
        Mean tensor; for coupled blocks one row with all of them, multiplied with their scales.
    scale_ : float
        Root mean squared norm of a window about the mean.
    feature_gram_ : (rank_, rank_) array
        WᵀW of the coordinates of E12 over the fitted windows.
    ridge_ : (rank_,) array
        ``alpha`` in the scale of the normal form.
    degeneracy_ : float
        Most negative congruence of two components: near −1 they cancel each other, which a
        warning tells.
    reconstruction_error_ : float
        ‖X − X̂‖/‖X‖ of the centred windows.
    history_ : dict of lists
        Terms of each iteration.
    converged_, interrupted_ : bool
        Whether the objective settled, and whether Ctrl-C ended the fit.

    Examples
    --------
    >>> from tensorcontrast import Algorithm1
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> X, y, *_ = make_cp_tensor(n_samples=60, dims=(4, 6, 5), rank=3, random_state=0)
    >>> Algorithm1(rank=3, beta=0.1, random_state=0).fit_transform(X).shape
    (60, 3)
    """

    labels_: Labels
    n_clusters_: int
    beta_: float
    gamma_: float
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TwoViewEstimator._parameter_constraints,
        "beta": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "gamma": [Interval(Real, 0, None, closed="left")],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "graph": [StrOptions({"pseudo", "true"})],
        "warm_up": [Interval(Integral, 0, None, closed="left")],
        "laplacian": [StrOptions({"signed", "literal"})],
        "units": [StrOptions({"sample", "paper"})],
        "trans_inv": ["boolean"],
    }

    def __init__(
        self,
        rank: int = 32,
        *,
        alpha: float = 1e-3,
        beta: float | str = 0.03,
        gamma: float = 1.0,
        epsilon: float = 0.05,
        n_clusters: int | None = None,
        graph: str = "pseudo",
        warm_up: int = 5,
        laplacian: str = "signed",
        units: str = "sample",
        trans_inv: bool = True,
        augment: Callable[[Array, np.random.Generator], Array] | None = None,
        fresh_views: bool = False,
        batch_size: int | None = None,
        step_size: float = 1.0,
        max_iter: int = 200,
        tol: float = 2e-5,
        center: bool = True,
        scale: bool = True,
        block_weights: Sequence[float] | None = None,
        dtype: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        callback: Callable[[dict[str, float]], object] | None = None,
        verbose: bool = False,
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.epsilon = epsilon
        self.n_clusters = n_clusters
        self.graph = graph
        self.warm_up = warm_up
        self.laplacian = laplacian
        self.units = units
        self.trans_inv = trans_inv
        self.augment = augment
        self.fresh_views = fresh_views
        self.batch_size = batch_size
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
        self.center = center
        self.scale = scale
        self.block_weights = block_weights
        self.dtype = dtype
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _read_labels(self, y: Any, n_samples: int) -> Labels | None:
        return given_labels(y, n_samples, needed=self.graph == "true")

    def _unfinished_attributes(self) -> dict[str, Any]:
        return {
            "labels_": np.empty(0, dtype=np.intp),
            "n_clusters_": 0,
            "beta_": 0.0,
            "gamma_": float(self.gamma),
        }

    def _solve(
        self, fit_input: FitInput, save: AfterSweep | None, *, view: Any = None, **more: Any
    ) -> Solved:
        n, known = fit_input.windows.n, fit_input.labels
        count = max(1, min(8, n // 2)) if known is None else int(known.max()) + 1
        if self.n_clusters is not None:
            count = int(self.n_clusters)
        if known is None or (known < 0).any():
            check_count(count, n)
        per_window = n if self.units == "paper" else 1
        weight = 0.0 if isinstance(self.beta, str) else float(self.beta) / per_window
        contrast = PLCContrast(
            beta=weight,
            gamma=float(self.gamma) * per_window,
            n_clusters=count,
            invariance=float(self.trans_inv),
            identity=self.laplacian == "literal",
            known=known,
            spread_labels=self.graph != "true",
        )
        step = self._step(fit_input, contrast, view)
        fit = self._run(
            fit_input, step, self._start(fit_input), fit_input.monitor, save, self.warm_up
        )
        if self.beta == "auto" and not (fit.interrupted or fit.stopped):
            start = fit.factors

            def trial(beta: float) -> FitResult:
                again = replace(contrast, beta=beta)
                steps[beta] = replace(step, contrast=again, memory=Memory())
                return self._run(fit_input, steps[beta], start, fit_input.monitor.anew(), save)

            steps = {0.0: step}
            weight, fit = largest_beta(fit, trial, float(self.epsilon))
            step = steps[weight]
        labels = step.memory.labels
        attributes = {
            "labels_": np.empty(0, dtype=np.intp) if labels is None else labels,
            "n_clusters_": count,
            "beta_": weight,
            "gamma_": contrast.gamma,
        }
        return Solved(fit, None, attributes)


class ATD(TwoViewEstimator):
    r"""Augmented tensor decomposition: CP with an instance-wise contrast between two views.

    Minimises E8 with :math:`\beta\,\mathrm{Tr}(\hat W^\top G \hat{\tilde W})`,
    :math:`G = 11^\top/N - (1/N + \delta)I`, in the place of the pseudo graph (E21). All windows are
    in memory.

    Parameters
    ----------
    rank : int, default=32
        Number of components and so of features. Where the windows allow fewer, fewer are used.
    alpha : float, default=1e-3
        Ridge on features and factors (E8, E12), in units of the mean squared norm of a window:
        windows are scaled to a mean squared norm of 1, so that finer sampling does not change what
        α means. The reconstruction is a sum over windows: against 1,000 of them the same α weighs a
        tenth of what it does against 100. Where a random start would meet less of the data than 10
        α, as very long windows do, one sweep with a smaller ridge comes first. Where α outweighs
        the data after all, ``fit`` raises an error.
    beta : float, default=1e-3
        Weight of the contrast, against data whose mean squared norm is 1. Its authors' weight of
        2 is against raw data: see :meth:`paper`. Large weights turn the views against each other:
        for many windows the push of G outweighs its pull.
    delta : float, default=0.01
        Pull of a window to its own view beyond 1/N.
    augment : callable, optional
        ``augment(X, rng)`` makes the view when ``fit`` is given none; of coupled blocks it gets and
        returns a list. Default: noise and masking at the tensor level.
    fresh_views : bool, default=False
        Draw the augmented view anew in each iteration.
    batch_size : int, optional
        Windows of a mini-batch. Default: all windows.
    step_size : float, default=1
        Step towards the solution of each mini-batch; its authors take 5e-3.
    max_iter : int, default=200
        Sweeps at most.
    tol : float, default=2e-5
        The fit has converged once the objective changes by less than this share of the variance,
        twice in a row; 0 runs all ``max_iter`` iterations.
    center, scale : bool, default=True
        Subtract the mean tensor, and scale to a mean squared norm of 1 per window.
    block_weights : sequence of float, optional
        Share of the variance that each coupled block gets (E22). Default: equal shares.
    dtype : {"float32", "float64"}, optional
        Type of the numbers of the fit. Default: that of X, float32 for anything but float64.
    random_state : int, RandomState or None
        Seeds the first factors, views and clusters.
    callback : callable, optional
        Called in each iteration with a dict of its terms; a true return value ends the fit.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    factors_ : list of (I_k, rank_) arrays
        In normal form: unit columns, sorted by weight, fixed signs. For coupled blocks a list of
        such lists, one per block; in all blocks but the first, the columns of the first mode carry
        the length and the sign that the component has there.
    block_dims_ : tuple of tuples of int, or None
        Shape of a window in each coupled block; None for one tensor.
    block_scales_ : tuple of float, or None
        What each coupled block was multiplied with, √λ of E22; 1 for the first.
    weights_ : (rank_,) array
        Root mean square of each coordinate of E12 over the fitted windows.
    rank_, n_iter_, n_samples_seen_ : int
    center_ : array (I_1, …, I_K)
        Mean tensor; for coupled blocks one row with all of them, multiplied with their scales.
    scale_ : float
        Root mean squared norm of a window about the mean.
    feature_gram_ : (rank_, rank_) array
        WᵀW of the coordinates of E12 over the fitted windows.
    ridge_ : (rank_,) array
        ``alpha`` in the scale of the normal form.
    degeneracy_ : float
        Most negative congruence of two components: near −1 they cancel each other, which a
        warning tells.
    reconstruction_error_ : float
        ‖X − X̂‖/‖X‖ of the centred windows.
    history_ : dict of lists
        Terms of each iteration.
    converged_, interrupted_ : bool
        Whether the objective settled, and whether Ctrl-C ended the fit.

    References
    ----------
    Yang, Qian, Singh, Westover, Solomonik, Sun: ATD: Augmenting CP tensor decomposition by self
    supervision. NeurIPS 2022.

    Examples
    --------
    >>> from tensorcontrast import ATD
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> X, y, *_ = make_cp_tensor(n_samples=60, dims=(4, 6, 5), rank=3, random_state=0)
    >>> ATD(rank=3, random_state=0).fit_transform(X).shape
    (60, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TwoViewEstimator._parameter_constraints,
        "beta": [Interval(Real, 0, None, closed="left")],
        "delta": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        rank: int = 32,
        *,
        alpha: float = 1e-3,
        beta: float = 1e-3,
        delta: float = 0.01,
        augment: Callable[[Array, np.random.Generator], Array] | None = None,
        fresh_views: bool = False,
        batch_size: int | None = None,
        step_size: float = 1.0,
        max_iter: int = 200,
        tol: float = 2e-5,
        center: bool = True,
        scale: bool = True,
        block_weights: Sequence[float] | None = None,
        dtype: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        callback: Callable[[dict[str, float]], object] | None = None,
        verbose: bool = False,
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.beta = beta
        self.delta = delta
        self.augment = augment
        self.fresh_views = fresh_views
        self.batch_size = batch_size
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
        self.center = center
        self.scale = scale
        self.block_weights = block_weights
        self.dtype = dtype
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    @classmethod
    def paper(cls, **params: Any) -> Self:
        """Return ATD as its authors run it: mini-batches of 128, weight 2 against raw data."""
        theirs = {"beta": 2.0, "batch_size": 128, "step_size": 5e-3, "center": False}
        return cls(**{**theirs, "scale": False, **params})

    def _solve(
        self, fit_input: FitInput, save: AfterSweep | None, *, view: Any = None, **more: Any
    ) -> Solved:
        contrast = ATDContrast(self.beta, self.delta)
        step = self._step(fit_input, contrast, view)
        return Solved(self._run(fit_input, step, self._start(fit_input), fit_input.monitor, save))


def _noisy(X: Array, fit_input: FitInput, rng: np.random.Generator) -> Array:
    """View with noise, and with one stretch of each long mode set to the mean (scaled: zero)."""
    out = np.empty_like(X)
    total = float(np.sqrt(np.mean(np.square(X, dtype=np.float64)) * X.shape[1]))
    for at, dims in zip(fit_input.layout.places, fit_input.layout.dims, strict=True):
        # A block has its share of the variance, whatever the number of its values.
        spread = total / np.sqrt(len(fit_input.layout.dims) * (at.stop - at.start))
        noise = rng.standard_normal((len(X), at.stop - at.start), dtype=np.float32)
        block = (X[:, at] + NOISE * spread * noise).reshape(len(X), *dims)
        for mode, length in enumerate(dims):
            if length < MIN_MASKED_LENGTH:
                continue
            width = rng.integers(0, int(MASK * length) + 1, size=len(X))
            start = rng.integers(0, length - width + 1)
            place = np.arange(length)
            hidden = (place >= start[:, None]) & (place < (start + width)[:, None])
            shape = [len(X), *(length if k == mode else 1 for k in range(len(dims)))]
            block = np.where(hidden.reshape(shape), 0, block)
        out[:, at] = block.reshape(len(X), -1)
    return out

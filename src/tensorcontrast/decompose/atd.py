"""ATD: each window pulled to its own augmented view, all pairs pushed apart a little (E21)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from tensorcontrast.decompose.base import (
    CPEstimator,
    Prepared,
    Solved,
    check_autosave,
    rows_in_memory,
)
from tensorcontrast.decompose.views import read_view
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.solvers.paper import ATDContrast, PaperResult, TwoViewStep, fit_two_views

Array = NDArray[Any]


class ATD(CPEstimator):
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
    n_init : int, default=1
        Random starts; the one with the lowest objective is kept.
    init : "random" or list of arrays, default="random"
        Factors to start from: one array (I_k, rank) per mode, for coupled blocks a list per block.
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

    _sweeps_lower_the_objective = False
    _needs_view = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: constraint
            for name, constraint in CPEstimator._parameter_constraints.items()
            if name not in ("nonnegative", "missing")
        },
        "beta": [Interval(Real, 0, None, closed="left")],
        "delta": [Interval(Real, 0, None, closed="left")],
        "augment": [callable, None],
        "fresh_views": ["boolean"],
        "batch_size": [Interval(Integral, 2, None, closed="left"), None],
        "step_size": [Interval(Real, 0, 1, closed="right")],
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
        n_init: int = 1,
        init: str | Sequence[Any] = "random",
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
        self.n_init = n_init
        self.init = init
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
        self,
        prepared: Prepared,
        rank: int,
        known: NDArray[np.intp] | None,
        view: Any,
        init: Any,
        rng: np.random.Generator,
        monitor: Monitor,
        *,
        after: Any,
        **more: Any,
    ) -> Solved:
        check_autosave(after, self.batch_size)
        X = rows_in_memory(prepared.windows, "ATD")
        second = read_view(view, prepared, rng, "ATD", augment=self.augment, fresh=self.fresh_views)
        monitor.falls = False

        def attempt() -> PaperResult:
            contrast = ATDContrast(self.beta, self.delta)
            return fit_two_views(
                TwoViewStep(X, second.draw, contrast, self.alpha, second.fresh),
                self._start(prepared, rank, init, rng),
                monitor=monitor,
                warm_up=0,
                batch_size=self.batch_size,
                step_size=self.step_size,
                rng=rng,
                after_sweep=after,
            )

        result = self._best_start(attempt, init, monitor)
        return Solved(result.fit, result.error)

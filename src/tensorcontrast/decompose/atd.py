"""ATD: each sample pulled to its own augmented view, all pairs pushed apart a little (E21)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.cp.losses import atd_pull
from tensorcontrast.cp.partition import Held, Parts, Whole
from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.solvers import als
from tensorcontrast.solvers.alternation import Solved, alternate_views

Array = NDArray[Any]


@dataclass(frozen=True)
class ATDPull:
    """Rows of ``GV̂``, for which a part needs the sum of all V̂. Equation E21."""

    delta: float
    n_samples: int

    def sums(self, V_hat: Array) -> list[Any]:
        """Take the sum of the rows."""
        return [V_hat.sum(axis=0, dtype=np.float64)]

    def rows(self, V_hat: Array, sums: list[Any]) -> Array:
        """Rows h of a part."""
        return atd_pull(V_hat, self.delta, total=sums[0], n_samples=self.n_samples)


@dataclass(frozen=True)
class ATDContrast:
    """Features of both views under ``β Tr(ŴᵀGŴ̃)``: E9 with h = row n of GŴ̃. Equation E21."""

    beta: float
    delta: float
    #: Whether sums are all that samples need of each other.
    by_sums: ClassVar[bool] = True
    known: ClassVar[None] = None

    def __call__(
        self, P: Array, P_view: Array | None, encoder: Encoder, memory: als.Memory
    ) -> als.Features:
        """Solve for W given W̃, then for W̃ given W."""
        assert P_view is not None
        solved = self.over(Whole(len(P)), P, P_view, encoder, memory)
        value, measured = solved.finish()
        return als.Features(solved.W, solved.V, value, self.beta, measured)

    def over(
        self,
        parts: Parts,
        P: Held,
        P_view: Held,
        encoder: Encoder,
        memory: als.Memory,
        known: Held = None,
    ) -> Solved:
        """Do so for samples in parts; the memory holds what these hold."""
        pull = ATDPull(self.delta, parts.n_samples)
        return alternate_views(parts, P, P_view, encoder, pull, self.beta, (memory.W, memory.V))


class ATD(CPEstimator):
    r"""Augmented tensor decomposition: CP with an instance-wise contrast between two views.

    Minimises E8 with :math:`\beta\,\mathrm{Tr}(\hat W^\top G \hat{\tilde W})`,
    :math:`G = 11^\top/N - (1/N + \delta)I`, in the place of the pseudo graph (E21).

    Parameters
    ----------
    rank : int, default=32
        Number of components and so of features.
    alpha : float, default=1e-3
        Ridge on features and factors (E8, E12), in units of the mean squared norm of a window: with
        ``scale`` the data are scaled to a mean squared norm of 1 per window, whatever the number
        of its entries, so that finer sampling does not change what α means. The reconstruction is
        a sum over windows: against 1,000 of them the same α weighs a tenth of what it does against
        100. Where a random start would meet less of the data than 10 α, which very long windows
        do, one sweep with a smaller ridge comes first; where α outweighs the data after all,
        features would be zero, and ``fit`` raises an error. Without ``scale``, α is in units of
        the data.
    beta : float, default=1e-3
        Weight of the contrast, against data whose mean squared norm is 1. Its authors' weight of
        2 is against raw data: see :meth:`paper`. Large weights turn the views against each other:
        for many samples the push of G outweighs its pull.
    delta : float, default=0.01
        Pull of a sample to its own view beyond 1/N.
    augment : callable, optional
        ``augment(X, rng)`` makes the view when ``fit`` is given none. Default: noise and masking
        at the tensor level.
    fresh_views : bool, default=False
        Draw that view anew each iteration.
    warm_up : int, default=0
        Iterations without contrast at the start.
    max_iter, tol, patience, init, n_init, batch_size, step_size, n_clusters
        As in :class:`CPD`.
    center, scale, block_weights, compress, dtype, forgetting, missing, robust, checkpoint, every
        As in :class:`CPD`.
    random_state, callback, verbose
        As in :class:`CPD`.

    Attributes
    ----------
    factors_, weights_, features_, view_features_, labels_, rank_, n_iter_
        As in :class:`CPD`.
    center_, scale_, ridge_, reconstruction_error_, history_, interrupted_
        As in :class:`CPD`.

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

    _needs_view: bool = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CPEstimator._parameter_constraints,
        "beta": [Interval(Real, 0, None, closed="left")],
        "delta": [Interval(Real, 0, None, closed="left")],
        "augment": [callable, None],
        "fresh_views": ["boolean"],
        "warm_up": [Interval(Integral, 0, None, closed="left")],
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
        warm_up: int = 0,
        max_iter: int = 200,
        tol: float = 2e-5,
        patience: int = 2,
        init: str | Sequence[Array] = "random",
        n_init: int = 1,
        batch_size: int | None = None,
        step_size: float = 1.0,
        n_clusters: int | None = None,
        center: bool = True,
        scale: bool = True,
        block_weights: Sequence[float] | None = None,
        compress: str | float | Sequence[int] | None = "auto",
        dtype: str | None = None,
        forgetting: float = 0.98,
        missing: str = "error",
        robust: str | None = None,
        checkpoint: str | PathLike[str] | None = None,
        every: int = 10,
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
        self.warm_up = warm_up
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.init = init
        self.n_init = n_init
        self.batch_size = batch_size
        self.step_size = step_size
        self.n_clusters = n_clusters
        self.center = center
        self.scale = scale
        self.block_weights = block_weights
        self.compress = compress
        self.dtype = dtype
        self.forgetting = forgetting
        self.missing = missing
        self.robust = robust
        self.checkpoint = checkpoint
        self.every = every
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    @classmethod
    def paper(cls, **params: Any) -> Self:
        """Return ATD as its authors run it: mini-batches of 128, weight 2 against raw data."""
        settings: dict[str, Any] = {
            "beta": 2.0,
            "batch_size": 128,
            "step_size": 5e-3,
            "center": False,
            "scale": False,
        }
        return cls(**(settings | params))

    def _contrast(
        self, n_samples: int, y: NDArray[np.intp] | None, seed: int, streaming: bool = False
    ) -> als.Contrast:
        return ATDContrast(self.beta, self.delta)

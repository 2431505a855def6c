"""ATD: each window pulled to its own augmented view, all pairs pushed apart a little (E21)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.cp.losses import atd_pull
from tensorcontrast.cp.partition import InMemory, PartitionedArray, Partitions
from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.solvers import als
from tensorcontrast.solvers.paper_als import Solved, alternate_views
from tensorcontrast.solvers.settings import ALS, PaperALS

Array = NDArray[Any]


@dataclass(frozen=True)
class ATDPull:
    """Rows of ``GV̂``, for which a partition needs the sum of all V̂. Equation E21."""

    delta: float
    n_samples: int

    def sums(self, V_hat: Array) -> list[Any]:
        """Take the sum of the rows."""
        return [V_hat.sum(axis=0, dtype=np.float64)]

    def rows(self, V_hat: Array, sums: list[Any]) -> Array:
        """Rows h of a partition."""
        return atd_pull(V_hat, self.delta, total=sums[0], n_samples=self.n_samples)


@dataclass(frozen=True)
class ATDContrast:
    """Features of both views under ``β Tr(ŴᵀGŴ̃)``: E9 with h = row n of GŴ̃. Equation E21."""

    beta: float
    delta: float
    #: Whether sums are all that windows need of each other.
    by_sums: ClassVar[bool] = True
    known: ClassVar[None] = None

    def __call__(
        self, P: Array, P_view: Array | None, encoder: Encoder, memory: als.Memory
    ) -> als.Features:
        """Solve for W given W̃, then for W̃ given W."""
        assert P_view is not None
        solved = self.over(InMemory(len(P)), P, P_view, encoder, memory)
        value, measured = solved.finish()
        return als.Features(solved.W, solved.V, value, self.beta, measured)

    def over(
        self,
        partitions: Partitions,
        P: PartitionedArray,
        P_view: PartitionedArray,
        encoder: Encoder,
        memory: als.Memory,
        known: PartitionedArray = None,
    ) -> Solved:
        """Do so for windows in partitions; the memory has arrays of these."""
        pull = ATDPull(self.delta, partitions.n_samples)
        return alternate_views(
            partitions, P, P_view, encoder, pull, self.beta, (memory.W, memory.V)
        )


class ATD(CPEstimator):
    r"""Augmented tensor decomposition: CP with an instance-wise contrast between two views.

    Minimises E8 with :math:`\beta\,\mathrm{Tr}(\hat W^\top G \hat{\tilde W})`,
    :math:`G = 11^\top/N - (1/N + \delta)I`, in the place of the pseudo graph (E21).

    Parameters
    ----------
    rank : int, default=32
        Number of components and so of features.
    alpha : float, default=1e-3
        Ridge on features and factors (E8, E12), in units of the mean squared norm of a window: the
        data are scaled to a mean squared norm of 1 per window, so that finer sampling does not
        change what α means. The reconstruction is a sum over windows: against 1,000 of them the
        same α weighs a tenth of what it does against 100. Where a random start would meet less of
        the data than 10 α, as very long windows do, one sweep with a smaller ridge comes first.
        Where α outweighs the data after all, ``fit`` raises an error.
    beta : float, default=1e-3
        Weight of the contrast, against data whose mean squared norm is 1. Its authors' weight of
        2 is against raw data: see :meth:`paper`. Large weights turn the views against each other:
        for many windows the push of G outweighs its pull.
    delta : float, default=0.01
        Pull of a window to its own view beyond 1/N.
    augment : callable, optional
        ``augment(X, rng)`` makes the view when ``fit`` is given none. Default: noise and masking
        at the tensor level.
    als : ALS, optional
        Settings of alternating least squares: iterations, tolerance, starts, mini-batches,
        compression. Default: ``ALS()``.
    n_clusters : int, optional
        Clusters of ``labels_``. Default: min(8, n // 2).
    block_weights : sequence of float, optional
        Share of the variance that each coupled block gets (E22). Default: equal shares.
    dtype : {"float32", "float64"}, optional
        Type of the numbers of the fit. Default: that of X, float32 for anything but float64.
    missing : {"error", "mask"}, default="error"
        What NaN in X are: mistakes, or entries that were not observed (dropped electrodes, gaps).
        With "mask" these are left out of the objective, of mean and scale and of ``transform``.
        Windows are then fitted whole, without compression.
    robust : "huber" or None, default=None
        With "huber", windows with an unusually large residual count less, in mean, scale and
        factors, so that a few artefacts cannot shape the model.
    random_state : int, RandomState or None
        Seeds the first factors, views and clusters.
    callback : callable, optional
        Called in each iteration with a dict of its terms; a true return value ends the fit.
    verbose : bool, default=False
        Show a progress bar.

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
    }
    _parameter_constraints.pop("nonnegative")  # its contrast pulls features below zero

    def __init__(
        self,
        rank: int = 32,
        *,
        alpha: float = 1e-3,
        beta: float = 1e-3,
        delta: float = 0.01,
        augment: Callable[[Array, np.random.Generator], Array] | None = None,
        als: ALS | None = None,
        n_clusters: int | None = None,
        block_weights: Sequence[float] | None = None,
        dtype: str | None = None,
        missing: str = "error",
        robust: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        callback: Callable[[dict[str, float]], object] | None = None,
        verbose: bool = False,
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.beta = beta
        self.delta = delta
        self.augment = augment
        self.als = als
        self.n_clusters = n_clusters
        self.block_weights = block_weights
        self.dtype = dtype
        self.missing = missing
        self.robust = robust
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    @classmethod
    def paper(cls, **params: Any) -> Self:
        """Return ATD as its authors run it: mini-batches of 128, weight 2 against raw data.

        ``params`` are parameters of this class, and of :class:`PaperALS` by their names.
        """
        own = set(cls._get_param_names())
        literal: dict[str, Any] = {"batch_size": 128, "step_size": 5e-3}
        literal |= {"center": False, "scale": False}
        literal |= {k: params.pop(k) for k in list(params) if k not in own}
        settings: dict[str, Any] = {"beta": 2.0, "als": PaperALS(**literal)}
        return cls(**(settings | params))

    def _contrast(
        self, n_samples: int, y: NDArray[np.intp] | None, seed: int, streaming: bool = False
    ) -> als.Contrast:
        return ATDContrast(self.beta, self.delta)

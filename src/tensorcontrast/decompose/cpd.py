"""CPD: the CP model alone, by alternating least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from tensorcontrast.decompose.base import CPEstimator, FitInput, Solved
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers.als import AfterSweep
from tensorcontrast.solvers.nonnegative import fit_nonnegative


class CPD(CPEstimator):
    r"""Canonical polyadic decomposition with shared factors and one feature vector per window.

    Minimises :math:`\tfrac12\|X - WH^\top\|^2 + \tfrac\alpha2(\|W\|^2 + \sum_k\|U_k\|^2)` where
    H is the Khatri–Rao product of the factors :math:`U_1 … U_K` (E8 with β = 0). For factors that
    two views share, fit their windows one after the other, as one array.

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
    max_iter : int, default=200
        Sweeps at most.
    tol : float, default=2e-5
        The fit has converged once the objective changes by less than this share of the variance,
        twice in a row; 0 runs all ``max_iter`` sweeps.
    center, scale : bool, default=True
        Subtract the mean tensor, and scale to a mean squared norm of 1 per window.
    block_weights : sequence of float, optional
        Share of the variance that each coupled block gets (E22). Default: equal shares.
    dtype : {"float32", "float64"}, optional
        Type of the numbers of the fit. Default: that of X, float32 for anything but float64.
    missing : {"error", "mask"}, default="error"
        What NaN in X are: mistakes, or entries that were not observed (dropped electrodes, gaps).
        With "mask" these are left out of the objective, of mean and scale and of ``transform``.
    nonnegative : bool, default=False
        Keep factors and features at zero or above (HALS), so that components are parts that add
        up: profiles without alternating signs, for magnitude spectrograms and other data without
        negative entries. The mean is then not subtracted: ``center_`` is zero, and errors and
        explained variance are relative to the data themselves. ``transform`` solves non-negative
        least squares. For windows in memory, without missing values.
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
    Kolda, Bader: Tensor decompositions and applications. SIAM Review 51, 2009.

    Examples
    --------
    >>> from tensorcontrast import CPD
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> X, y, *_ = make_cp_tensor(n_samples=60, dims=(4, 6, 5), rank=3, random_state=0)
    >>> model = CPD(rank=3, random_state=0).fit(X)
    >>> model.transform(X).shape, [U.shape for U in model.factors_]
    ((60, 3), [(4, 3), (6, 3), (5, 3)])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CPEstimator._parameter_constraints,
        "missing": [StrOptions({"error", "mask"})],
        "nonnegative": ["boolean"],
    }

    def __init__(
        self,
        rank: int = 32,
        *,
        alpha: float = 1e-3,
        max_iter: int = 200,
        tol: float = 2e-5,
        center: bool = True,
        scale: bool = True,
        block_weights: Sequence[float] | None = None,
        dtype: str | None = None,
        missing: str = "error",
        nonnegative: bool = False,
        random_state: int | np.random.RandomState | None = None,
        callback: Callable[[dict[str, float]], object] | None = None,
        verbose: bool = False,
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.center = center
        self.scale = scale
        self.block_weights = block_weights
        self.dtype = dtype
        self.missing = missing
        self.nonnegative = nonnegative
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _solve(self, fit_input: FitInput, save: AfterSweep | None, **more: Any) -> Solved:
        if not self.nonnegative:
            return Solved(self._fit_cp(fit_input, save))
        if self.missing == "mask":
            raise InvalidInputError(
                "missing='mask' does not go with nonnegative=True; leave it out, or fill the gaps"
            )
        fit = fit_nonnegative(
            type(self).__name__,
            fit_input.rows_in_memory("nonnegative=True"),
            self._start(fit_input),
            alpha=self.alpha,
            monitor=fit_input.monitor,
            after_sweep=save,
        )
        return Solved(fit)

"""CPD: the CP model alone, by alternating least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.solvers import nonnegative as nonnegatives
from tensorcontrast.solvers.als import AnyViews, Contrast, no_contrast
from tensorcontrast.solvers.runs import Fit, Runs
from tensorcontrast.solvers.settings import ALS


class CPD(CPEstimator):
    r"""Canonical polyadic decomposition with shared factors and one feature vector per window.

    Minimises :math:`\tfrac12\|X - WH^\top\|^2 + \tfrac\alpha2(\|W\|^2 + \sum_k\|U_k\|^2)` where
    H is the Khatri–Rao product of the factors :math:`U_1 … U_K` (E8 with β = 0).

    Parameters
    ----------
    rank : int, default=32
        Number of components and so of features. Where the data allows fewer, fewer are used.
    alpha : float, default=1e-3
        Ridge on features and factors (E8, E12), in units of the mean squared norm of a window: the
        data are scaled to a mean squared norm of 1 per window, so that finer sampling does not
        change what α means. The reconstruction is a sum over windows: against 1,000 of them the
        same α weighs a tenth of what it does against 100. Where a random start would meet less of
        the data than 10 α, as very long windows do, one sweep with a smaller ridge comes first.
        Where α outweighs the data after all, ``fit`` raises an error.
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
    nonnegative : bool, default=False
        Keep factors and features at zero or above (HALS), so that components are parts that add
        up: profiles without alternating signs, for magnitude spectrograms and other data without
        negative entries. The mean is then not subtracted: ``center_`` is zero, and errors and
        explained variance are relative to the data themselves. ``transform`` solves non-negative
        least squares. Not for Dask arrays, ``partial_fit``, ``missing="mask"`` and ``compress``.
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
        Root mean square of each feature over the fitted windows.
    features_ : (n, rank_) array
        Features of the fitted windows.
    view_features_ : (n, rank_) array or None
    labels_ : (n,) int array
        Clusters of ``features_``.
    rank_, n_iter_ : int
    core_dims_ : tuple of int
        Dims of what was fitted: those of the core, or of the windows.
    center_ : array (I_1, …, I_K)
        Mean tensor; for coupled blocks one row with all of them, multiplied with their scales.
    scale_ : float
    feature_gram_ : (rank_, rank_) array
        WᵀW summed over both views: the weight of what was seen, for ``partial_fit``.
    centers_ : (n_clusters, rank_) array or None
        Centres of the pseudo classes, in features scaled to unit variance.
    ridge_ : (rank_,) array
        ``alpha`` in the scale of the normal form.
    sample_weight_ : (n,) array or None
        Weights of the fitted windows, with ``robust``.
    degeneracy_ : float
        Most negative congruence of two components: near −1 they cancel each other, which a
        warning tells.
    reconstruction_error_ : float
        ‖X − X̂‖/‖X‖ of the centred data.
    history_ : dict of lists
        Terms of each iteration. While iterations go over a sketch, what lies outside of it counts
        as not reconstructed, so that the error falls when the last sweeps see all windows.
    interrupted_ : bool
        Whether Ctrl-C ended the fit.

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

    def __init__(
        self,
        rank: int = 32,
        *,
        alpha: float = 1e-3,
        als: ALS | None = None,
        n_clusters: int | None = None,
        block_weights: Sequence[float] | None = None,
        dtype: str | None = None,
        missing: str = "error",
        robust: str | None = None,
        nonnegative: bool = False,
        random_state: int | np.random.RandomState | None = None,
        callback: Callable[[dict[str, float]], object] | None = None,
        verbose: bool = False,
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.als = als
        self.n_clusters = n_clusters
        self.block_weights = block_weights
        self.dtype = dtype
        self.missing = missing
        self.robust = robust
        self.nonnegative = nonnegative
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _contrast(
        self, n_samples: int, y: NDArray[np.intp] | None, seed: int, streaming: bool = False
    ) -> Contrast:
        return nonnegatives.contrast if self.nonnegative else no_contrast

    def _solve(
        self,
        runs: Runs,
        views: AnyViews,
        known: NDArray[np.intp] | None,
        rng: np.random.Generator,
        nuisance: Any,
    ) -> Fit:
        fit = super()._solve(runs, views, known, rng, nuisance)
        if self.nonnegative:
            final = nonnegatives.final(views.draw(), fit.factors, self.alpha)
            return replace(fit, final=final)
        return fit

"""PLC: features turned towards the classes by a contrast over a pseudo graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from tensorcontrast.cp.kmeans import check_count, cluster
from tensorcontrast.cp.metric import OVERLAP_POWER
from tensorcontrast.decompose.base import CPEstimator, FitInput, Solved
from tensorcontrast.decompose.inputs import Joined
from tensorcontrast.decompose.two_views import Algorithm1
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers.als import AfterSweep
from tensorcontrast.solvers.metric import checked_nuisance, contrast_metric
from tensorcontrast.solvers.semi_supervised import given_labels, likely_classes
from tensorcontrast.utils.arrays import as_array

Array = NDArray[Any]
Labels = NDArray[np.intp]

MAX_CLUSTERS, MIN_WINDOWS_PER_CLUSTER = 30, 4
"""Limits of the default number of clusters; of more, rounding decides which window is in which."""


class PLC(CPEstimator):
    r"""Pseudo-Laplacian contrast: a CP model whose features tell classes apart, without labels.

    A CPD gives features, clusters of these a signed pseudo graph, and the contrast over the graph
    (E7) turns the features: what differs between windows of one pseudo class, and between two
    augmentations of one window, weighs less. This happens in closed form, by generalised least
    squares in a nuisance metric that is as strong as the ε-region allows (E14, E23). The paper's
    iterations are :class:`Algorithm1`; :meth:`paper` gives its literal reading.

    Parameters
    ----------
    rank : int, default=32
        Number of components and so of features. Where the windows allow fewer, fewer are used.
    gamma : float, default=1
        Weight of the pseudo graph against that of the augmentation.
    epsilon : float, default=0.05
        How much larger than without the contrast the reconstruction error may be (E14).
    n_clusters : int, optional
        Clusters of the pseudo graph. Default: a quarter of the windows, at most 30.
    graph : {"pseudo", "true"}, default="pseudo"
        "true" joins windows by the labels ``y`` of :meth:`fit` alone.
    alpha : float, default=1e-3
        Ridge on features and factors (E8, E12), in units of the mean squared norm of a window:
        windows are scaled to a mean squared norm of 1, so that finer sampling does not change what
        α means. The reconstruction is a sum over windows: against 1,000 of them the same α weighs a
        tenth of what it does against 100. Where a random start would meet less of the data than 10
        α, as very long windows do, one sweep with a smaller ridge comes first. Where α outweighs
        the data after all, ``fit`` raises an error.
    max_iter : int, default=20
        Sweeps at most.
    tol : float, default=0
        The sweeps end before ``max_iter`` once the objective changes by less than this share of the
        variance, twice in a row. 0 runs them all: features gain nothing from convergence.
    center, scale : bool, default=True
        Subtract the mean tensor, and scale to a mean squared norm of 1 per window.
    block_weights : sequence of float, optional
        Share of the variance that each coupled block gets (E22). Default: equal shares.
    dtype : {"float32", "float64"}, optional
        Type of the numbers of the fit. Default: that of X, float32 for anything but float64.
    missing : {"error", "mask"}, default="error"
        What NaN in X are: mistakes, or entries that were not observed (dropped electrodes, gaps).
        With "mask" these are left out of the objective, of mean and scale and of ``transform``.
    random_state : int, RandomState or None
        Seeds the first factors.
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
    nuisance_directions_, nuisance_gains_ : (q, i) and (q,) arrays, or None
        Directions V of the nuisance metric, as rows, and their gains g, 0 to 1 (E23); None where
        the ε-region left no room for it, and with ``missing="mask"``.
    nuisance_strength_ : float or None
        s of E23, in units of the scaled windows; likewise.
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

    Notes
    -----
    Equations E2–E14, E23. A sweep is two matrix products over the windows; nothing of size N×N is
    made.

    Examples
    --------
    >>> from tensorcontrast import PLC
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> X, y, *_ = make_cp_tensor(
    ...     n_samples=60, dims=(4, 6, 5), rank=3, n_classes=3, random_state=0
    ... )
    >>> model = PLC(rank=3, n_clusters=3, random_state=0).fit(X)
    >>> model.transform(X).shape, sorted(set(model.labels_.tolist()))
    ((60, 3), [0, 1, 2])
    """

    labels_: Labels
    n_clusters_: int
    nuisance_strength_: float | None
    _overlap_power = OVERLAP_POWER
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CPEstimator._parameter_constraints,
        "gamma": [Interval(Real, 0, None, closed="left")],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "graph": [StrOptions({"pseudo", "true"})],
        "missing": [StrOptions({"error", "mask"})],
    }

    def __init__(
        self,
        rank: int = 32,
        *,
        gamma: float = 1.0,
        epsilon: float = 0.05,
        n_clusters: int | None = None,
        graph: str = "pseudo",
        alpha: float = 1e-3,
        max_iter: int = 20,
        tol: float = 0.0,
        center: bool = True,
        scale: bool = True,
        block_weights: Sequence[float] | None = None,
        dtype: str | None = None,
        missing: str = "error",
        random_state: int | np.random.RandomState | None = None,
        callback: Callable[[dict[str, float]], object] | None = None,
        verbose: bool = False,
    ) -> None:
        self.rank = rank
        self.gamma = gamma
        self.epsilon = epsilon
        self.n_clusters = n_clusters
        self.graph = graph
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.center = center
        self.scale = scale
        self.block_weights = block_weights
        self.dtype = dtype
        self.missing = missing
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    @classmethod
    def paper(
        cls, *, beta: float | None = None, gamma: float | None = None, **params: Any
    ) -> Algorithm1:
        """Return the paper's reading: :class:`Algorithm1` with a contrast from the first iteration.

        Parameters
        ----------
        beta, gamma : float, optional
            The symbols of the paper, converted to sums over windows when N is known. The paper
            prints no values: without them those of :class:`Algorithm1` are used. Zero, for the
            ablations of the paper, may be given for one of them alone.
        **params : Any
            Parameters of :class:`Algorithm1`.
        """
        weights = {k: v for k, v in (("beta", beta), ("gamma", gamma)) if v is not None}
        if len(weights) == 1 and any(weights.values()):
            raise InvalidInputError(
                f"PLC.paper got beta={beta} and gamma={gamma}: pass both in the paper's units, "
                "or neither"
            )
        # Zero is zero in any unit, so that an ablation needs no other value.
        units = "paper" if any(weights.values()) else "sample"
        return Algorithm1(**{"warm_up": 0, "units": units, **weights, **params})

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        nuisance: Any = None,
        init: Any = None,
        autosave: Any = None,
    ) -> Self:
        """Learn the factors from X (n, I_1, …, I_K).

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K), or list of coupled blocks
            As in :meth:`CPD.fit`.
        y : array-like (n,), optional
            Labels, numbers or text, some of them unknown (−1, None, NaN or empty text), as in
            scikit-learn's semi-supervised estimators: the known ones take part in the graph, with
            the windows whose class a shrinkage LDA of the known ones is sure of. Labels that are
            all known are used with ``graph="true"`` only, so that a pipeline that ends in a
            classifier still learns its features without labels. Otherwise a warning says that they
            are not used, unless scikit-learn itself (``Pipeline``, ``GridSearchCV``) passes them
            on.
        nuisance : array-like (m, I_1, …, I_K), or list of coupled blocks, optional
            Differences between windows that should have the same features, such as two draws of an
            augmentation of one window (E23).
        init : fitted PLC, optional
            Go on from its factors: up to ``max_iter`` iterations in all.
        autosave : path, optional
            Write a whole model to this file every five iterations, in one piece or not at all.

        Returns
        -------
        self
        """
        if nuisance is not None and self.missing == "mask":
            raise InvalidInputError(
                "nuisance= is for windows without missing values; leave it out with missing='mask'"
            )
        return self._fit(X, y, init, autosave, nuisance=nuisance)

    def _read_labels(self, y: Any, n_samples: int) -> Labels | None:
        return given_labels(y, n_samples, needed=self.graph == "true")

    def _unfinished_attributes(self) -> dict[str, Any]:
        return {
            "labels_": np.empty(0, dtype=np.intp),
            "n_clusters_": 0,
            "nuisance_strength_": None,
        }

    def _solve(
        self, fit_input: FitInput, save: AfterSweep | None, *, nuisance: Any = None, **more: Any
    ) -> Solved:
        n, known = fit_input.windows.n, fit_input.labels
        count = max(2, min(MAX_CLUSTERS, n // MIN_WINDOWS_PER_CLUSTER))
        if self.n_clusters is not None:
            count = int(self.n_clusters)
        if known is None or (known < 0).any():
            check_count(count, n)
        rows = None if nuisance is None else self._nuisance_rows(fit_input, nuisance)
        fit = self._fit_cp(fit_input, save)
        if self.missing == "mask" or fit.interrupted or fit.stopped:
            return Solved(fit)
        try:
            selected, classes = contrast_metric(
                fit_input.windows,
                fit.factors,
                self.alpha,
                rows,
                lambda W: self._pseudo_classes(W, count, known),
                gamma=float(self.gamma),
                epsilon=float(self.epsilon),
            )
        except KeyboardInterrupt:  # the CPD stands
            return Solved(replace(fit, interrupted=True))
        if selected is None:
            return Solved(fit, None, {"labels_": classes, "n_clusters_": count})
        attributes = {
            "labels_": classes,
            "n_clusters_": count,
            "nuisance_strength_": selected.strength,
        }
        return Solved(replace(fit, error=fit.error * selected.rise), selected.metric, attributes)

    def _nuisance_rows(self, fit_input: FitInput, nuisance: Any) -> Array:
        """Nuisance differences (m, i) of a fit, in the scale of the fit."""
        layout, dtype = fit_input.layout, fit_input.windows.dtype
        dims: tuple[int, ...] = (layout.size,) if layout.coupled else layout.dims[0]
        if isinstance(nuisance, Joined):
            nuisance, dims = nuisance.rows, (layout.size,)
        elif isinstance(nuisance, list | tuple) and layout.coupled:
            arrays = [as_array(a, f"nuisance[{b}]") for b, a in enumerate(nuisance)]
            flat = [a.reshape(len(a), -1) for a in map(np.atleast_1d, arrays)]
            nuisance = np.concatenate(flat, axis=1)
        rows = checked_nuisance(nuisance, dims, dtype)
        return np.asarray(rows * fit_input.factor.astype(dtype))

    def _pseudo_classes(self, W: Array, count: int, known: Labels | None) -> Labels:
        """Pseudo class of each window from its features W (n, r), known labels put in. E2."""
        if known is not None and (known >= 0).all():
            return known
        classes, _ = cluster(W, count, n_starts=1)
        if known is None:
            return classes
        likely = known if self.graph == "true" else likely_classes(W, known)[0]
        joined = np.where(likely >= 0, likely, int(known.max()) + 1 + classes)
        return np.unique(joined, return_inverse=True)[1].astype(np.intp)

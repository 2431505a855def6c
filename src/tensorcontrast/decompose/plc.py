"""PLC: features turned towards the classes by a contrast over a pseudo graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from tensorcontrast.cp.kmeans import class_sums, cluster, cluster_space, nearest
from tensorcontrast.cp.metric import OVERLAP_POWER, projector
from tensorcontrast.decompose.base import (
    CPEstimator,
    Prepared,
    Solved,
    check_autosave,
    rows_in_memory,
)
from tensorcontrast.decompose.inputs import Joined
from tensorcontrast.decompose.views import read_view
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.solvers.metric import checked_nuisance, contrast_metric
from tensorcontrast.solvers.paper import (
    PaperResult,
    PLCContrast,
    TwoViewStep,
    fit_two_views,
    largest_beta,
)
from tensorcontrast.solvers.semi_supervised import given_labels, likely_classes
from tensorcontrast.solvers.windows import Windows
from tensorcontrast.utils import checks
from tensorcontrast.utils.arrays import as_array

Array = NDArray[Any]
Labels = NDArray[np.intp]

MAX_CLUSTERS, MIN_WINDOWS_PER_CLUSTER = 30, 4
"""Limits of the default number of clusters; of more, rounding decides which window is in which."""

MAX_METRIC_WINDOWS, MAX_METRIC_VALUES = 2**14, 2**25
"""Windows from which pseudo classes and metric are found, and their values, which are in memory; of
more, so many evenly spaced."""

DEFAULT_BETA = 0.03
"""Weight of the contrast in Algorithm 1 for ``beta=None``."""


class Algorithm1(BaseEstimator):
    """Settings of the paper's Algorithm 1, for ``PLC(algorithm1=…)``.

    Parameters
    ----------
    beta : float, "auto" or None, default=None
        Weight of the contrast, a sum over windows. "auto" takes the largest that keeps the
        reconstruction error within 1 + ``epsilon`` of a fit without (E14). None is 0.03.
    warm_up : int, default=5
        Sweeps without contrast at the start.
    laplacian : {"signed", "literal"}, default="signed"
        "literal" keeps the identity inside L, which pulls against the invariance (E5).
    units : {"sample", "paper"}, default="sample"
        With "paper", β and γ are the symbols of the paper: E6 is a mean over the N windows, so that
        ``β = β_paper / N`` and ``γ = N γ_paper`` are used.
    trans_inv : bool, default=True
        False is the ablation without transformation invariance.
    same_view : bool, default=False
        True is the ablation in which the contrast stays within the data's own view (E4).
    augment : callable, optional
        ``augment(X, rng)`` makes the view when ``fit`` is given none; of coupled blocks it gets and
        returns a list. Default: noise and masking at the tensor level.
    fresh_views : bool, default=False
        Draw the augmented view anew in each iteration.
    batch_size : int, optional
        Windows of a mini-batch. Default: all windows.
    step_size : float, default=1
        Step towards the solution of each mini-batch.

    Examples
    --------
    >>> from tensorcontrast import PLC, Algorithm1
    >>> PLC(rank=8, algorithm1=Algorithm1(beta=0.1)).algorithm1
    Algorithm1(beta=0.1)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "beta": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"}), None],
        "warm_up": [Interval(Integral, 0, None, closed="left")],
        "laplacian": [StrOptions({"signed", "literal"})],
        "units": [StrOptions({"sample", "paper"})],
        "trans_inv": ["boolean"],
        "same_view": ["boolean"],
        "augment": [callable, None],
        "fresh_views": ["boolean"],
        "batch_size": [Interval(Integral, 2, None, closed="left"), None],
        "step_size": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        *,
        beta: float | str | None = None,
        warm_up: int = 5,
        laplacian: str = "signed",
        units: str = "sample",
        trans_inv: bool = True,
        same_view: bool = False,
        augment: Callable[[Array, np.random.Generator], Array] | None = None,
        fresh_views: bool = False,
        batch_size: int | None = None,
        step_size: float = 1.0,
    ) -> None:
        self.beta = beta
        self.warm_up = warm_up
        self.laplacian = laplacian
        self.units = units
        self.trans_inv = trans_inv
        self.same_view = same_view
        self.augment = augment
        self.fresh_views = fresh_views
        self.batch_size = batch_size
        self.step_size = step_size


class PLC(CPEstimator):
    r"""Pseudo-Laplacian contrast: a CP model whose features tell classes apart, without labels.

    A CPD gives features, clusters of these a signed pseudo graph, and the contrast over the graph
    (E7) turns the features: what differs between windows of one pseudo class, and between two
    augmentations of one window, weighs less. This happens in closed form, by generalised least
    squares in a nuisance metric that is as strong as the ε-region allows (E14, E23). The paper's
    iterations are ``PLC(algorithm1=Algorithm1())``; :meth:`paper` gives its literal reading.

    Parameters
    ----------
    rank : int, default=32
        Number of components and so of features. Where the windows allow fewer, fewer are used.
    gamma : float, default=1
        Weight of the pseudo graph against that of the augmentation.
    epsilon : float, default=0.05
        How much larger than without the contrast the reconstruction error may be (E14).
    n_clusters : int, optional
        Clusters of the pseudo graph. Default: a quarter of the windows, at most 30; for Algorithm
        1 the number of known classes, or else 8.
    clusterer : scikit-learn clusterer, optional
        Anything with ``fit_predict``. Default: k-means.
    graph : {"pseudo", "true"}, default="pseudo"
        "true" joins windows by the labels ``y`` of :meth:`fit` alone.
    algorithm1 : Algorithm1, optional
        Fit by the paper's Algorithm 1 with these settings, in memory.
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
    missing : {"error", "mask"}, default="error"
        What NaN in X are: mistakes, or entries that were not observed (dropped electrodes, gaps).
        With "mask" these are left out of the objective, of mean and scale and of ``transform``.
    nonnegative : bool, default=False
        Keep the factors at zero or above (HALS), so that components are parts, for magnitude
        spectrograms and other data without negative entries. The mean is then not subtracted.
        Features stay a linear function of the window (E23) and may be negative; those of
        ``CPD(nonnegative=True)`` are not. For windows in memory, without missing values.
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
        Weights that were used, sums over windows; ``beta_`` is 0 in closed form.
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
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CPEstimator._parameter_constraints,
        "gamma": [Interval(Real, 0, None, closed="left")],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "clusterer": [HasMethods("fit_predict"), None],
        "graph": [StrOptions({"pseudo", "true"})],
        "algorithm1": [Algorithm1, None],
    }

    def __init__(
        self,
        rank: int = 32,
        *,
        gamma: float = 1.0,
        epsilon: float = 0.05,
        n_clusters: int | None = None,
        clusterer: Any = None,
        graph: str = "pseudo",
        algorithm1: Algorithm1 | None = None,
        alpha: float = 1e-3,
        max_iter: int = 20,
        tol: float = 0.0,
        n_init: int = 1,
        init: str | Sequence[Any] = "random",
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
        self.gamma = gamma
        self.epsilon = epsilon
        self.n_clusters = n_clusters
        self.clusterer = clusterer
        self.graph = graph
        self.algorithm1 = algorithm1
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.init = init
        self.center = center
        self.scale = scale
        self.block_weights = block_weights
        self.dtype = dtype
        self.missing = missing
        self.nonnegative = nonnegative
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    @classmethod
    def paper(
        cls,
        *,
        beta: float | None = None,
        gamma: float | None = None,
        laplacian: str = "signed",
        trans_inv: bool = True,
        warm_up: int = 0,
        **params: Any,
    ) -> Self:
        """Return the paper's reading: Algorithm 1 from the first iteration, one fixed view.

        Parameters
        ----------
        beta, gamma : float, optional
            The symbols of the paper, converted to sums over windows when N is known. The paper
            prints no values: without them those of this class are used. Zero, for the ablations of
            the paper, may be given for one of them alone.
        laplacian : {"signed", "literal"}, default="signed"
            "literal" keeps the identity inside L, which pulls against the invariance (E5).
        trans_inv : bool, default=True
            False is the ablation without transformation invariance.
        warm_up : int, default=0
            Sweeps without contrast at the start.
        **params : Any
            Parameters of this class, and of :class:`Algorithm1` by their names, such as
            ``batch_size``.
        """
        names = set(cls._get_param_names())
        settings = {name: params.pop(name) for name in list(params) if name not in names}
        weights = {k: v for k, v in (("beta", beta), ("gamma", gamma)) if v is not None}
        if len(weights) == 1 and any(weights.values()):
            raise InvalidInputError(
                f"PLC.paper got beta={beta} and gamma={gamma}: pass both in the paper's units, "
                "or neither"
            )
        # Zero is zero in any unit, so that an ablation needs no other value.
        units = "paper" if any(weights.values()) else "sample"
        algorithm1 = Algorithm1(
            beta=beta,
            laplacian=laplacian,
            units=units,
            trans_inv=trans_inv,
            warm_up=warm_up,
            **settings,
        )
        more = {} if gamma is None else {"gamma": gamma}
        return cls(**{"algorithm1": algorithm1, "max_iter": 200, "tol": 2e-5, **more, **params})

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        view: Any = None,
        *,
        nuisance: Any = None,
        init: Any = None,
        autosave: Any = None,
        every: int = 5,
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
        view : array-like of the shape of X, list of blocks as X, or callable, optional
            The augmented view X̃ of Algorithm 1, in memory. A callable is given a
            ``numpy.random.Generator`` and returns a view, drawn anew each iteration. In closed form
            the differences between both views are the nuisance.
        nuisance : array-like (m, I_1, …, I_K), or list of coupled blocks, optional
            Differences between windows that should have the same features, such as two draws of an
            augmentation of one window (E23, closed form only).
        init : fitted PLC, optional
            Go on from its factors: up to ``max_iter`` iterations in all.
        autosave : path, optional
            Write a whole model to this file every few iterations, in one piece or not at all.
        every : int, default=5
            Iterations from one write of ``autosave`` to the next.

        Returns
        -------
        self
        """
        if nuisance is not None and (self.algorithm1 is not None or self.missing == "mask"):
            raise InvalidInputError(
                "nuisance= is for the closed form without missing values; leave it out with "
                "algorithm1= or missing='mask'"
            )
        return self._fit(X, y, view, init=init, autosave=autosave, every=every, nuisance=nuisance)

    def fit_transform(
        self, X: Any, y: ArrayLike | None = None, view: Any = None, *, nuisance: Any = None
    ) -> Array:
        """Fit, then :meth:`transform` the same X."""
        return self.fit(X, y, view=view, nuisance=nuisance).transform(X)

    def _read_labels(self, y: Any, n_samples: int) -> Labels | None:
        return given_labels(y, n_samples, needed=self.graph == "true")

    def _unfinished_attributes(self) -> dict[str, Any]:
        return {
            "labels_": np.empty(0, dtype=np.intp),
            "n_clusters_": 0,
            "beta_": 0.0,
            "gamma_": float(self.gamma),
            "nuisance_strength_": None,
        }

    @property
    def _overlap_power(self) -> float:
        return OVERLAP_POWER if self.algorithm1 is None else 1.0

    @property
    def _sweeps_lower_the_objective(self) -> bool:  # type: ignore[override]
        return self.algorithm1 is None

    @property
    def _needs_view(self) -> bool:
        return self.algorithm1 is not None

    def _solve(
        self,
        prepared: Prepared,
        rank: int,
        known: Labels | None,
        view: Any,
        init: Any,
        rng: np.random.Generator,
        monitor: Monitor,
        *,
        after: Any,
        nuisance: Any = None,
        **more: Any,
    ) -> Solved:
        if self.algorithm1 is not None:
            return self._algorithm1(prepared, rank, known, view, init, rng, monitor, after)
        rows = self._nuisance_rows(prepared, view, nuisance, rng)
        fit = self._fit_cpd(prepared, rank, init, rng, monitor, after)
        if self.missing == "mask" or fit.interrupted or fit.stopped:
            return Solved(fit)
        count = self._count(prepared.windows.n, known)
        some = _sample(prepared.windows, known)
        known_some = None if known is None else known[some]
        try:
            selected, classes = contrast_metric(
                prepared.windows.take(some),
                fit.factors,
                self.alpha,
                rows,
                lambda W: self._pseudo_classes(W, count, known_some),
                gamma=float(self.gamma),
                epsilon=float(self.epsilon),
            )
            metric = None if selected is None else selected.metric
            if len(some) < prepared.windows.n:
                classes = self._labels_of_all(prepared, fit, metric, some, classes)
        except KeyboardInterrupt:  # the CPD stands
            return Solved(replace(fit, interrupted=True))
        attributes = {
            "labels_": classes,
            "n_clusters_": count,
            "nuisance_strength_": None if selected is None else selected.strength,
            "error_rise": 1.0 if selected is None else selected.rise,
        }
        return Solved(fit, None, metric, attributes)

    def _nuisance_rows(
        self, prepared: Prepared, view: Any, nuisance: Any, rng: np.random.Generator
    ) -> Array | None:
        """Nuisance differences (m, i) of a fit, in the scale of the fit; None for none."""
        layout = prepared.layout
        dtype = prepared.windows.dtype
        if nuisance is not None:
            dims: tuple[int, ...] = layout.dims[0] if not layout.coupled else (layout.size,)
            blocks = nuisance
            if isinstance(nuisance, Joined):
                blocks, dims = nuisance.rows, (layout.size,)
            elif isinstance(blocks, list | tuple) and layout.coupled:
                arrays = [as_array(a, f"nuisance[{b}]", way="") for b, a in enumerate(blocks)]
                flat = [a.reshape(len(a), -1) for a in map(np.atleast_1d, arrays)]
                blocks = np.concatenate(flat, axis=1)
            rows = checked_nuisance(blocks, dims, dtype)
            return np.asarray(rows * prepared.factor.astype(dtype))
        if view is None or self.missing == "mask":
            return None
        X = rows_in_memory(prepared.windows, "a second view")
        some = np.linspace(0, len(X) - 1, min(len(X), MAX_METRIC_WINDOWS // 4)).astype(np.intp)
        second = read_view(view, prepared, rng, "PLC").draw()
        return np.asarray(second[some] - X[some])

    def _count(self, n: int, known: Labels | None) -> int:
        """Return the number of clusters; raise where there are fewer windows."""
        needs_clusters = self.clusterer is None and (known is None or bool((known < 0).any()))
        if self.n_clusters is not None:
            count = int(self.n_clusters)
        elif self.algorithm1 is None:
            count = max(2, min(MAX_CLUSTERS, n // MIN_WINDOWS_PER_CLUSTER))
        else:
            count = max(1, min(8, n // 2)) if known is None else int(known.max()) + 1
        if needs_clusters and n < count:
            raise InvalidInputError(
                f"n_samples={n} is fewer than n_clusters={count}; pass a smaller n_clusters or "
                "more windows"
            )
        return count

    def _pseudo_classes(self, W: Array, count: int, known: Labels | None) -> Labels:
        """Pseudo class of each window from its features W (n, r), known labels put in. E2."""
        if known is not None and (known >= 0).all():
            return known
        classes, _ = cluster(W, min(count, len(W)), clusterer=self.clusterer, n_starts=1)
        if known is None:
            return classes
        likely = known if self.graph == "true" else likely_classes(W, known)[0]
        joined = np.where(likely >= 0, likely, int(known.max()) + 1 + classes)
        return np.unique(joined, return_inverse=True)[1].astype(np.intp)

    def _labels_of_all(
        self, prepared: Prepared, fit: Any, metric: Any, some: Labels, classes: Labels
    ) -> Labels:
        """Pseudo class of every window: the nearest centre of those of a sample."""
        to_features = projector(fit.factors, self.alpha, metric, OVERLAP_POWER)
        to_features = to_features.astype(prepared.windows.dtype)
        W = prepared.windows.take(some) @ to_features
        V = cluster_space(W)
        names, codes = np.unique(classes, return_inverse=True)  # a cluster may be empty
        centers = class_sums(codes, V, len(names)) / np.bincount(codes)[:, None]
        spread = W.std(axis=0)
        inverse = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 0).astype(W.dtype)
        label = _Label(to_features, W.mean(axis=0), inverse, centers)
        return np.asarray(names[prepared.windows.map(label)])

    # ---------------------------------------------------------------------------- Algorithm 1

    def _algorithm1(
        self,
        prepared: Prepared,
        rank: int,
        known: Labels | None,
        view: Any,
        init: Any,
        rng: np.random.Generator,
        monitor: Monitor,
        after: Any,
    ) -> Solved:
        settings = self.algorithm1
        assert settings is not None
        checks.check_parameters(settings)
        check_autosave(after, settings.batch_size)
        if self.missing == "mask" or self.nonnegative:
            raise InvalidInputError(
                "Algorithm 1 takes neither missing values nor nonnegative=True; use PLC() in "
                "closed form, or fill the gaps"
            )
        n = prepared.windows.n
        X = rows_in_memory(prepared.windows, "Algorithm 1")
        second = read_view(
            view, prepared, rng, "PLC", augment=settings.augment, fresh=settings.fresh_views
        )
        paper = settings.units == "paper"
        beta = settings.beta
        weight = DEFAULT_BETA if beta is None else 0.0 if beta == "auto" else float(beta)
        if paper and beta is not None:
            weight /= n
        base = PLCContrast(
            beta=weight,
            gamma=float(self.gamma) * (n if paper else 1),
            n_clusters=self._count(n, known),
            invariance=float(settings.trans_inv),
            identity=settings.laplacian == "literal",
            same_view=settings.same_view,
            clusterer=self.clusterer,
            known=known,
            spread_labels=self.graph != "true",
        )

        def run(contrast: PLCContrast, factors: Any, watch: Monitor, warm_up: int) -> PaperResult:
            step = TwoViewStep(X, second.draw, contrast, self.alpha, second.fresh)
            return fit_two_views(
                step,
                factors,
                monitor=watch,
                warm_up=warm_up,
                batch_size=settings.batch_size,
                step_size=settings.step_size,
                rng=rng,
                after_sweep=after,
            )

        def attempt() -> PaperResult:
            start = self._start(prepared, rank, init, rng)
            return run(base, start, monitor, settings.warm_up)

        result = self._best_start(attempt, init, monitor)
        if beta == "auto" and not (result.fit.interrupted or result.fit.stopped):
            plain = result

            def trial(value: float) -> PaperResult:
                again = self._monitor(prepared, None)
                again.falls = False
                return run(replace(base, beta=value), plain.fit.factors, again, 0)

            weight, result = largest_beta(plain, trial, float(self.epsilon))
        labels = result.step.memory.labels
        attributes = {
            "labels_": np.empty(0, dtype=np.intp) if labels is None else labels,
            "n_clusters_": base.n_clusters,
            "beta_": weight,
            "gamma_": base.gamma,
        }
        return Solved(result.fit, result.error, None, attributes)


class _Label:
    """Pseudo class of each window of a block."""

    def __init__(self, projector: Array, mean: Array, factor: Array, centers: Array) -> None:
        self.projector, self.mean, self.factor, self.centers = projector, mean, factor, centers

    def __call__(self, block: Array) -> Array:
        V = (block @ self.projector - self.mean) * self.factor
        return nearest(V, self.centers).astype(np.int32)


def _sample(windows: Windows, known: Labels | None) -> Labels:
    """Windows from which the metric is found: evenly spaced, and those with a label."""
    n = windows.n
    limit = min(MAX_METRIC_WINDOWS, max(2 * MAX_CLUSTERS, MAX_METRIC_VALUES // windows.size))
    if n <= limit:
        return np.arange(n)
    some = np.linspace(0, n - 1, limit).astype(np.intp)
    if known is None:
        return some
    labelled = np.flatnonzero(known >= 0)
    most = limit // 2
    if len(labelled) > most:
        labelled = labelled[np.linspace(0, len(labelled) - 1, most).astype(np.intp)]
    return np.unique(np.concatenate([some[:: 1 + (len(labelled) > 0)], labelled]))

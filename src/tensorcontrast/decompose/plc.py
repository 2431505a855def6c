"""PLC: the CP model with a contrast over the pseudo graph of its own features (E2–E14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from tensorcontrast.cp import gls
from tensorcontrast.decompose.base import CPEstimator, Resume
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import gradient as gradients
from tensorcontrast.solvers import pseudo_laplacian, stream
from tensorcontrast.solvers.als import AnyViews, Contrast, no_contrast
from tensorcontrast.solvers.runs import Fit, Runs
from tensorcontrast.solvers.semi_supervised import given_labels
from tensorcontrast.solvers.settings import ALS, Gradient, PaperALS

Array = NDArray[Any]


class PLC(CPEstimator):
    r"""Pseudo-Laplacian Contrast tensor decomposition: class-aware features without labels.

    The paper minimises, over features of both views and shared factors,

    .. math:: \tfrac12\|X - WH^\top\|^2 + \tfrac12\|\tilde X - \tilde WH^\top\|^2
              + \tfrac\alpha2(\|W\|^2 + \|\tilde W\|^2 + \sum_k\|U_k\|^2) + \beta\,\ell_{PLC}

    with :math:`\ell_{PLC} = \sum_n [-\langle\hat w_n,\hat{\tilde w}_n\rangle -
    \tfrac{\gamma}{N-1}\sum_j S_{nj}\langle\hat w_n,\hat{\tilde w}_j\rangle]`, where S joins
    windows of one cluster of W and parts the others, and is found anew each iteration (E8, E11).

    The default solver has a closed form of both terms for features that are a linear function of
    the window (E23). Directions in which a window and its augmentations differ, and directions in
    which windows of one pseudo class differ, weigh less in the features, as far as the
    reconstruction stays within ``1 + epsilon`` of that of the CPD.

    Parameters
    ----------
    rank : int, default=32
        Number of components and so of features.
    solver : {"gls", "tied", "als"}, default="gls"
        "gls" fits a CPD, then finds pseudo classes and the nuisance metric of generalised least
        squares from each other (E23). "tied" descends by Adam from a CPD on a softmax contrast of
        encoded features (E19, E20). "als" is the paper's Algorithm 1, in which the features are
        free (E11); see :meth:`paper`.
    n_clusters : int, optional
        Classes of the pseudo graph. Default: min(100, n // 4) for "gls" and "tied", since small
        clusters are nearly pure; for "als" the classes of ``y`` with ``graph="true"``, else
        min(8, n // 2).
    alpha : float, default=1e-3
        Ridge on features and factors (E8, E12), in units of the mean squared norm of a window: the
        data are scaled to a mean squared norm of 1 per window, so that finer sampling does not
        change what α means. The reconstruction is a sum over windows: against 1,000 of them the
        same α weighs a tenth of what it does against 100. Where a random start would meet less of
        the data than 10 α, as very long windows do, one sweep with a smaller ridge comes first.
        Where α outweighs the data after all, ``fit`` raises an error.
    beta : float, "auto" or None, default=None
        Weight of the contrast for "als" (None is 0.03) and "tied" (None is 0.07); "gls" has
        ``epsilon`` in its place, and no contrast with ``beta=0``. "auto" takes the largest β
        that keeps the reconstruction error within ``1 + epsilon`` of that of the fit with β = 0
        (E14). 0 is the paper's ablation without PLC.
    gamma : float, default=1.0
        Weight of the pseudo graph against the augmentation; 0 is the ablation without it.
    epsilon : float, default=0.05
        How far the reconstruction error may rise above that of the fit with β = 0 (E14), relative
        to it: for the nuisance metric ("gls") and for ``beta="auto"``.
    graph : {"pseudo", "true", "same-view"}, default="pseudo"
        "true": the labels y of ``fit`` make the graph (the paper's upper bound); windows with
        label −1 join by cluster. "same-view": pseudo graph within the data's view (E4).
    clusterer : scikit-learn clusterer, optional
        Anything with ``fit_predict``. Default: k-means with a warm start on centred, scaled
        features, its first centres from at most 20,000 windows.
    augment : callable, optional
        ``augment(X, rng)`` makes the view when ``fit`` is given none. Default: noise and masking
        at the tensor level; no view for "gls".
    als : ALS or PaperALS, optional
        Settings of alternating least squares: iterations, tolerance, starts, mini-batches,
        compression; for "gls" and "tied" those of the CPD that they start from. ``PaperALS`` adds
        the literal options of the paper. Default: ``ALS()``.
    gradient : Gradient, optional
        Settings of "tied": epochs, learning rate, temperature. Default: ``Gradient()``.
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
        Keep the factors at zero or above (HALS), so that components are parts: profiles without
        alternating signs, for magnitude spectrograms and other data without negative entries. The
        mean is then not subtracted. Features stay a linear function of the window (E23) and may be
        negative; those of ``CPD(nonnegative=True)`` are not. For "gls" alone; not for Dask arrays,
        ``partial_fit``, ``missing="mask"`` and ``compress``.
    random_state : int, RandomState or None
        Seeds the first factors, views and clusters.
    callback : callable, optional
        Called in each iteration with a dict of its terms; a true return value ends the fit.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    features_, view_features_ : (n, rank_) arrays
        Features of the fitted windows and of their view with the pull of the contrast (E9);
        ``transform`` gives them without. For "gls" both are the same (E12, E23), and
        ``view_features_`` is None without a view.
    labels_ : (n,) int array
        Pseudo classes.
    beta_, gamma_ : float
        Weights that were used, a sum over windows; ``beta_`` is 0 where the fit was stopped before
        the contrast began.
    n_clusters_ : int
        Clusters of the graph; 0 where the fit was stopped before the contrast began.
    nuisance_directions_, nuisance_gains_ : (q, I_1, …, I_K) and (q,) arrays, or None
        Directions V of the nuisance metric and their gains g, 0 to 1 ("gls", E23); None where the
        ε-region left no room for it, and with ``missing="mask"``.
    nuisance_strength_ : float or None
        s of E23, in units of the scaled data; likewise.
    factors_, weights_, rank_, n_iter_, center_, scale_, ridge_, interrupted_
        As in :class:`CPD`.
    reconstruction_error_, history_
        As in :class:`CPD`. ``history_`` has, next to the terms of the objective, ``label_change``
        (share of windows with another pseudo class), ``contraction`` (largest ratio of successive
        steps of E9) and ``damped`` (share of windows whose step was halved).

    Notes
    -----
    Equations E2–E14. An iteration is four matrix products over the windows; nothing of size N×N
    is made.

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

    nuisance_strength_: float | None = None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CPEstimator._parameter_constraints,
        "beta": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"}), None],
        "gamma": [Interval(Real, 0, None, closed="left")],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "graph": [StrOptions({"pseudo", "true", "same-view"})],
        "solver": [StrOptions({"gls", "tied", "als"})],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "clusterer": [HasMethods("fit_predict"), None],
        "augment": [callable, None],
        "gradient": [Gradient, None],
    }
    _settings: ClassVar[dict[str, type]] = {"als": ALS, "gradient": Gradient}

    def __init__(
        self,
        rank: int = 32,
        *,
        solver: str = "gls",
        n_clusters: int | None = None,
        alpha: float = 1e-3,
        beta: float | str | None = None,
        gamma: float = 1.0,
        epsilon: float = 0.05,
        graph: str = "pseudo",
        clusterer: Any = None,
        augment: Callable[[Array, np.random.Generator], Array] | None = None,
        als: ALS | None = None,
        gradient: Gradient | None = None,
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
        self.solver = solver
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.epsilon = epsilon
        self.graph = graph
        self.clusterer = clusterer
        self.augment = augment
        self.als = als
        self.gradient = gradient
        self.block_weights = block_weights
        self.dtype = dtype
        self.missing = missing
        self.robust = robust
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
            Parameters of this class, and of :class:`PaperALS` by their names, such as ``max_iter``.
            Those of :class:`Gradient` are taken too, for another solver.
        """
        own = set(cls._get_param_names())
        options = {k: params.pop(k) for k in list(params) if k not in own}
        descent = set(Gradient._get_param_names()) - set(PaperALS._get_param_names())
        other = {k: options.pop(k) for k in list(options) if k in descent}
        if other:
            params.setdefault("gradient", Gradient(**other))
        given = {k: v for k, v in (("beta", beta), ("gamma", gamma)) if v is not None}
        if len(given) == 1 and any(given.values()):
            raise InvalidInputError(
                f"PLC.paper got beta={beta} and gamma={gamma}: pass both in the paper's units, "
                "or neither"
            )
        # Zero is zero in any unit, so that an ablation needs no other value.
        units = "paper" if any(given.values()) else "sample"
        settings = PaperALS(
            laplacian=laplacian, units=units, trans_inv=trans_inv, warm_up=warm_up, **options
        )
        return cls(**({"solver": "als", "als": settings} | given | params))

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        view: Any = None,
        *,
        nuisance: ArrayLike | None = None,
        checkpoint: str | PathLike[str] | None = None,
        every: int = 10,
        resume: Resume = None,
    ) -> Self:
        """Learn the factors from X (n, I_1, …, I_K).

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K), list of coupled blocks, or a source
            As in :meth:`CPD.fit`.
        y : array-like (n,), optional
            Labels, numbers or text, some of them unknown (−1, None, NaN or empty text), as in
            scikit-learn's semi-supervised estimators: the known ones take part in the graph, with
            the windows whose class a shrinkage LDA of the known ones is sure of. Labels
            that are all known are used with ``graph="true"`` only, so that a pipeline that ends
            in a classifier still learns its features without labels. Otherwise a warning says
            that they are not used, unless scikit-learn itself (``Pipeline``, ``GridSearchCV``)
            passes them on.
        view : array-like of the shape of X, list of blocks as X, a source, or callable, optional
            The augmented view X̃; see :meth:`CPD.fit`. "gls" needs none.
        nuisance : array-like (m, I_1, …, I_K), or list of coupled blocks, optional
            Differences between windows that should have the same features, such as two draws of
            an augmentation of one window ("gls" only, E23). Default: the differences between X
            and ``view``, where that is given.
        checkpoint : path, optional
            Write the state of the fit to this file every ``every`` iterations; see
            :meth:`CPD.fit`.
        every : int, default=10
            Iterations from one write of the checkpoint to the next.
        resume : path or True, optional
            Go on from a checkpoint; see :meth:`CPD.fit`.

        Returns
        -------
        self
        """
        if nuisance is not None:
            self._check_nuisance_allowed()
        return self._fit(X, y, view, (checkpoint, every, resume), nuisance)

    def _check_nuisance_allowed(self) -> None:
        """Raise where a fit cannot take nuisance differences."""
        if self.solver != "gls":
            raise InvalidInputError(
                f"nuisance= is for solver='gls'; with solver={self.solver!r} leave it out"
            )
        if self.missing == "mask":
            raise InvalidInputError(
                "nuisance= needs windows without gaps; with missing='mask' leave it out, or fill "
                "the gaps"
            )

    def fit_transform(
        self,
        X: Any,
        y: ArrayLike | None = None,
        view: Any = None,
        *,
        nuisance: ArrayLike | None = None,
    ) -> Array:
        """Fit, then :meth:`transform` the same X."""
        return self.fit(X, y, view=view, nuisance=nuisance).transform(X)

    def _labels_used(
        self, y: Any, n_samples: int, *, streaming: bool = False
    ) -> NDArray[np.intp] | None:
        known = self._read_labels(y, n_samples, streaming=streaming)
        if streaming and known is not None and self.solver == "gls":
            raise InvalidInputError(
                "a stream of solver='gls' uses no labels; leave y out, or use solver='tied'"
            )
        return known

    def _read_labels(
        self, y: Any, n_samples: int, *, streaming: bool = False
    ) -> NDArray[np.intp] | None:
        return given_labels(y, n_samples, needed=self.graph == "true", streaming=streaming)

    def _contrast(
        self, n_samples: int, y: NDArray[np.intp] | None, seed: int, streaming: bool = False
    ) -> Contrast:
        if self.solver == "gls":
            return no_contrast
        if streaming and self.beta == "auto" and not hasattr(self, "beta_"):
            raise InvalidInputError(
                "beta='auto' compares whole fits: call fit first, or give partial_fit a number"
            )
        streamed = self.beta_ if streaming and self.beta == "auto" else None
        return pseudo_laplacian.contrast(self._problem(), n_samples, y, seed, streamed)

    def _problem(self) -> pseudo_laplacian.Problem:
        """Return what the solvers need to know of the parameters."""
        return pseudo_laplacian.Problem(
            solver=self.solver,
            beta=self.beta,
            gamma=self.gamma,
            epsilon=self.epsilon,
            graph=self.graph,
            clusterer=self.clusterer,
            count=self._cluster_count,
            als=self._als,
            gradient=self._setting("gradient"),
            tuning=self._tuning,
        )

    def _cluster_count(self, n_samples: int, n_classes: int = 0) -> int:
        if self.solver == "als" or self.n_clusters is not None:
            return super()._cluster_count(n_samples, n_classes)
        return pseudo_laplacian.default_clusters(n_samples)

    def _solve(
        self,
        runs: Runs,
        views: AnyViews,
        known: NDArray[np.intp] | None,
        rng: np.random.Generator,
        nuisance: Array | None,
    ) -> Fit:
        problem = self._problem()
        if self.solver == "gls":
            masked = self.missing == "mask"
            return pseudo_laplacian.closed_form(
                problem, runs, views, known, rng, nuisance, masked=masked
            )
        if self.solver == "tied":
            return pseudo_laplacian.descending(problem, runs, views, known, rng)
        plain = super()._solve(runs, views, known, rng, nuisance)
        return pseudo_laplacian.alternating(problem, runs, plain, views, known, rng)

    def _unfitted(self, seed: int) -> Self:
        other = super()._unfitted(seed)
        # The metric of "gls" comes after the components and does not change them.
        return other.set_params(beta=0.0) if self.solver == "gls" else other

    @property
    def _default_warm_up(self) -> int:  # type: ignore[override]
        return 5 if self.solver == "als" else 0

    @property
    def _needs_view(self) -> bool:  # type: ignore[override]
        return self.solver != "gls" or self.augment is not None

    @property
    def _overlap_power(self) -> float:
        return gls.OVERLAP_POWER if self.solver == "gls" else 1.0

    def _stream_step(self, batch: stream.Batch) -> stream.Step:
        if self.solver != "tied":
            return super()._stream_step(batch)
        return gradients.step(
            batch,
            pseudo_laplacian.tied_contrast(self._problem(), batch.contrast),
            self._tuning.stream_rate,
        )

    def _stream_learned(self, contrast: Contrast) -> dict[str, Any]:
        if self.solver != "gls":
            return pseudo_laplacian.learned(contrast, ran=True)
        if hasattr(self, "n_clusters_"):  # of a fit
            return {}
        return {"beta_": 0.0, "gamma_": float(self.gamma), "n_clusters_": 0}

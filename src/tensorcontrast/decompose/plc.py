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
from tensorcontrast.decompose import blocks
from tensorcontrast.decompose.base import CPEstimator, Resume
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als, descent, plc_solve, stream
from tensorcontrast.solvers.prepare import Preparation
from tensorcontrast.solvers.runs import AnyViews, Fit
from tensorcontrast.solvers.semi_supervised import given_labels

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
    contrast : {"softmax", "signed"}, default="softmax"
        For "tied": softmax over the pseudo graph (E20), or the linear form of the paper (E7).
    n_clusters : int, optional
        Classes of the pseudo graph. Default: min(100, n // 4) for "gls" and "tied", since small
        clusters are nearly pure; for "als" the classes of ``y`` with ``graph="true"``, else
        min(8, n // 2).
    alpha : float, default=1e-3
        Ridge on features and factors (E8, E12), in units of the mean squared norm of a window: with
        ``scale`` the data are scaled to a mean squared norm of 1 per window, whatever the number
        of its entries, so that finer sampling does not change what α means. The reconstruction is
        a sum over windows: against 1,000 of them the same α weighs a tenth of what it does against
        100. Where a random start would meet less of the data than 10 α, which very long windows
        do, one sweep with a smaller ridge comes first; where α outweighs the data after all,
        features would be zero, and ``fit`` raises an error. Without ``scale``, α is in units of
        the data.
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
    trans_inv : bool, default=True
        False is the ablation without transformation invariance.
    graph : {"pseudo", "true", "same-view"}, default="pseudo"
        "true": the labels y of ``fit`` make the graph (the paper's upper bound); samples with
        label −1 join by cluster. "same-view": pseudo graph within the data's view (E4).
    laplacian : {"signed", "literal"}, default="signed"
        "literal" keeps the identity inside L, which pulls against the invariance (E5).
    units : {"sample", "paper"}, default="sample"
        With "paper", beta and gamma are the paper's symbols: E6 is a mean over the N samples, so
        that ``β = β_paper / N`` and ``γ = N γ_paper`` are used.
    clusterer : scikit-learn clusterer, optional
        Anything with ``fit_predict``. Default: k-means with a warm start on centred, scaled
        features, its first centres from at most 20,000 samples.
    warm_up : int, default=5
        Iterations without contrast at the start ("als"; "tied" starts from a whole CPD).
    temperature : float, default=0.2
        τ of the softmax ("tied", E20).
    n_epochs : int, default=25
        Passes over the data ("tied"), the step falling to zero over them.
    learning_rate : float, default=1.5e-2
        First step of Adam ("tied").
    augment : callable, optional
        ``augment(X, rng)`` makes the view when ``fit`` is given none. Default: noise and masking
        at the tensor level; no view for "gls".
    fresh_views : bool, default=False
        Draw that view anew each iteration.
    max_iter, tol, patience, init, n_init, batch_size, step_size
        As in :class:`CPD`; for "tied" they are those of the CPD that it starts from, except that
        ``batch_size`` (512 by default) is that of the descent.
    center, scale, block_weights, compress, dtype, forgetting, missing, robust, checkpoint, every
        As in :class:`CPD`.
    random_state, callback, verbose
        As in :class:`CPD`.

    Attributes
    ----------
    features_, view_features_ : (n, rank_) arrays
        Features of the fitted samples and of their view with the pull of the contrast (E9);
        ``transform`` gives them without. For "gls" both are the same (E12, E23), and
        ``view_features_`` is None without a view.
    labels_ : (n,) int array
        Pseudo classes.
    beta_, gamma_ : float
        Weights that were used, a sum over samples; ``beta_`` is 0 where the fit was stopped before
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
        As in :class:`CPD`. ``history_`` has, beside the terms of the objective, ``label_change``
        (share of samples with another pseudo class), ``contraction`` (largest ratio of successive
        steps of E9) and ``damped`` (share of samples whose step was halved).

    Notes
    -----
    Equations E2–E14. An iteration is four matrix products over the samples; nothing of size N×N
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
        "trans_inv": ["boolean"],
        "graph": [StrOptions({"pseudo", "true", "same-view"})],
        "laplacian": [StrOptions({"signed", "literal"})],
        "units": [StrOptions({"sample", "paper"})],
        "solver": [StrOptions({"gls", "tied", "als"})],
        "contrast": [StrOptions({"softmax", "signed"})],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "clusterer": [HasMethods("fit_predict"), None],
        "warm_up": [Interval(Integral, 0, None, closed="left")],
        "augment": [callable, None],
        "fresh_views": ["boolean"],
    }

    def __init__(
        self,
        rank: int = 32,
        *,
        solver: str = "gls",
        contrast: str = "softmax",
        n_clusters: int | None = None,
        alpha: float = 1e-3,
        beta: float | str | None = None,
        gamma: float = 1.0,
        epsilon: float = 0.05,
        trans_inv: bool = True,
        graph: str = "pseudo",
        laplacian: str = "signed",
        units: str = "sample",
        clusterer: Any = None,
        warm_up: int = 5,
        temperature: float = 0.2,
        n_epochs: int = 25,
        learning_rate: float = 1.5e-2,
        augment: Callable[[Array, np.random.Generator], Array] | None = None,
        fresh_views: bool = False,
        max_iter: int = 200,
        tol: float = 2e-5,
        patience: int = 2,
        init: str | Sequence[Array] = "random",
        n_init: int = 1,
        batch_size: int | None = None,
        step_size: float = 1.0,
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
        self.solver = solver
        self.contrast = contrast
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.epsilon = epsilon
        self.trans_inv = trans_inv
        self.graph = graph
        self.laplacian = laplacian
        self.units = units
        self.clusterer = clusterer
        self.warm_up = warm_up
        self.temperature = temperature
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.augment = augment
        self.fresh_views = fresh_views
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.init = init
        self.n_init = n_init
        self.batch_size = batch_size
        self.step_size = step_size
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
    def paper(cls, *, beta: float | None = None, gamma: float | None = None, **params: Any) -> Self:
        """Return the paper's reading: Algorithm 1 from the first iteration, one fixed view.

        ``beta`` and ``gamma`` are the paper's symbols and are converted to sums over samples when
        N is known. The paper prints no values: without them this class's own are used. Zero, for
        the paper's ablations, may be given for one of them alone.
        """
        settings: dict[str, Any] = {"solver": "als", "warm_up": 0, "fresh_views": False}
        given = {k: v for k, v in (("beta", beta), ("gamma", gamma)) if v is not None}
        if not any(given.values()):  # nothing, or an ablation: zero is zero in any unit
            return cls(**(settings | given | params))
        if len(given) < 2:
            raise InvalidInputError(
                f"PLC.paper got beta={beta} and gamma={gamma}: pass both in the paper's units, "
                "or neither"
            )
        return cls(**(settings | given | {"units": "paper"} | params))

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        view: Any = None,
        *,
        nuisance: ArrayLike | None = None,
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
        resume : path or True, optional
            Go on from a checkpoint; see :meth:`CPD.fit`.

        Returns
        -------
        self
        """
        if nuisance is not None:
            gls.check_allowed(self.solver, self.missing)
        return self._fit(X, y, view, resume, nuisance)

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

    def _identity(self, ready: Preparation, known: NDArray[np.intp] | None) -> list[Any]:
        rows = self._nuisance_rows()
        return [*super()._identity(ready, known), *([] if rows is None else [rows])]

    def _nuisance_rows(self) -> Array | None:
        """Nuisance differences (m, I_1, …, I_K) that ``fit`` was given, checked; None for none."""
        nuisance = self._nuisance
        if nuisance is None:
            return None
        if self.block_dims_ is not None:
            nuisance = blocks.fitted_rows(self, nuisance, "nuisance")
        return gls.checked(nuisance, self.dims_, self.center_.dtype)

    def _labels_used(
        self, y: Any, n_samples: int, *, streaming: bool = False
    ) -> NDArray[np.intp] | None:
        self._nuisance_rows()  # an error comes before any work
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
    ) -> als.Contrast:
        if self.solver == "gls":
            return als.no_contrast
        return plc_solve.contrast(self, n_samples, y, seed, streaming)

    def _cluster_count(self, n_samples: int, n_classes: int = 0) -> int:
        if self.solver == "als" or self.n_clusters is not None:
            return super()._cluster_count(n_samples, n_classes)
        return plc_solve.default_clusters(n_samples)

    def _solve(
        self, views: AnyViews, known: NDArray[np.intp] | None, rng: np.random.Generator
    ) -> Fit:
        if self.solver == "gls":
            return plc_solve.closed_form(self, views, known, rng)
        if self.solver == "tied":
            return plc_solve.descending(self, views, known, rng)
        return plc_solve.alternating(self, super()._solve(views, known, rng), views, known, rng)

    @property
    def _needs_view(self) -> bool:  # type: ignore[override]
        return self.solver != "gls" or self.augment is not None

    @property
    def _overlap_power(self) -> float:
        return gls.OVERLAP_POWER if self.solver == "gls" else 1.0

    def _stream_step(self, batch: stream.Batch) -> stream.Step:
        if self.solver == "gls":
            if not hasattr(self, "n_clusters_"):  # a stream from its first batch on
                self.beta_, self.gamma_, self.n_clusters_ = 0.0, float(self.gamma), 0
            return super()._stream_step(batch)
        for name, value in plc_solve.learned(batch.contrast, ran=True).items():
            setattr(self, name, value)
        if self.solver == "als":
            return super()._stream_step(batch)
        return descent.step(batch, plc_solve.tied_contrast(self, batch.contrast))

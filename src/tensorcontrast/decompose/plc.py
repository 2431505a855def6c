"""PLC: the CP model with a contrast over the pseudo graph of its own features (E2–E14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from tensorcontrast.decompose import als, blocks, descent, plc_solve, stream, tied
from tensorcontrast.decompose import noise as noises
from tensorcontrast.decompose._base import CPEstimator, Resume
from tensorcontrast.decompose.levels import levels
from tensorcontrast.decompose.neighbours import Neighbours
from tensorcontrast.decompose.prepare import Preparation
from tensorcontrast.decompose.runs import AnyViews, Fit
from tensorcontrast.decompose.seeding import given_labels
from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]

#: What ``fit`` was given, for the thread that it runs in: others may fit the same estimator.
_SEQUENCE: ContextVar[ArrayLike | None] = ContextVar("sequence", default=None)
_NOISE: ContextVar[ArrayLike | None] = ContextVar("noise", default=None)


class PLC(CPEstimator):
    r"""Pseudo-Laplacian Contrast tensor decomposition: class-aware features without labels.

    Minimises, over features of both views and shared factors,

    .. math:: \tfrac12\|X - WH^\top\|^2 + \tfrac12\|\tilde X - \tilde WH^\top\|^2
              + \tfrac\alpha2(\|W\|^2 + \|\tilde W\|^2 + \sum_k\|U_k\|^2) + \beta\,\ell_{PLC}

    with :math:`\ell_{PLC} = \sum_n [-\langle\hat w_n,\hat{\tilde w}_n\rangle -
    \tfrac{\gamma}{N-1}\sum_j S_{nj}\langle\hat w_n,\hat{\tilde w}_j\rangle]`, where S joins
    samples of one cluster of W and parts the others, and is found anew each iteration (E8, E11).

    Parameters
    ----------
    rank : int, default=32
        Number of components and so of features.
    solver : {"tied", "als"}, default="tied"
        "tied" makes the features a function of the factors (E19), so that the contrast shapes the
        very encoder that ``transform`` uses: it starts from a CPD and descends by Adam. "als" is
        the paper's Algorithm 1, in which the features are free (E11); see :meth:`paper`.
    contrast : {"softmax", "signed"}, default="softmax"
        For "tied": softmax over the pseudo graph (E20), or the linear form of the paper (E7).
    n_clusters : int or sequence of int, optional
        Classes of the pseudo graph. Default: for "als" those of ``y`` with ``graph="true"``, else
        min(8, n // 2). For "tied" several graphs, from fine to coarse, that take turns from epoch
        to epoch: with many small clusters, c = min(100, n // 10), and with c/2, c/4 and c/8 where
        two starts of the clustering agree on them.
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
        Weight of the contrast; None is 0.03 for "als" and 0.07 for "tied", or 0.2 where ``fit`` is
        given labels for a tenth of the samples and the reconstruction error stays within
        ``1 + epsilon`` of that of the fit with β = 0. "auto" takes the largest β for which it does
        (E14). 0 is the paper's ablation without PLC.
    gamma : float, default=1.0
        Weight of the graph against the invariance term; 0 is the ablation without cross-view.
    epsilon : float, default=0.05
        How far the reconstruction error may rise above that of the fit with β = 0 (E14): for
        ``beta="auto"``, for labels, and for ``fit(…, noise=)``.
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
    temperature : float or (float, float), default=(0.5, 0.1)
        τ of the softmax ("tied"). Of a pair, the first is that of the first epoch, and it falls
        or rises to the second, by the same factor each epoch; streams have the second. Values of
        the contrast in ``history_`` are each at the temperature of their epoch.
    n_epochs : int, default=25
        Passes over the data ("tied"), the step falling to zero over them.
    learning_rate : float, default=1.5e-2
        First step of Adam ("tied").
    augment : callable, optional
        ``augment(X, rng)`` makes the view when ``fit`` is given none. Default: noise and masking
        at the tensor level.
    fresh_views : bool, default=False
        Draw that view anew each iteration.
    neighbour_weight : float, default=0.5
        With ``fit(…, sequence=)``: how often the view of a sample is that of the window before or
        behind it.
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
        ``transform`` gives them without (E12).
    labels_ : (n,) int array
        Pseudo classes.
    beta_, gamma_ : float
        Weights that were used, a sum over samples; ``beta_`` is 0 where the fit was stopped before
        the contrast began.
    n_clusters_ : tuple of int
        Clusters of the graph, or for "tied" of the graphs that took turns; empty where the fit was
        stopped before the contrast began.
    label_gain_ : float or None
        For "tied", where ``fit`` was given 2,000 labels or more and ``beta`` is None: accuracy on
        labels left out that those in the graph have gained, of the half that gained less. Below
        0 the graph is made without labels.
    neighbour_distance_ : float or None
        For "tied" with ``fit(…, noise=)`` of 1,000 samples or more: median squared distance of
        samples to their nearest neighbours, in that of repeats, which differ by noise alone. From
        1.5 on samples are no repeats of each other, and the graph is by what noise cannot have
        made of them; below, it is that of their features.
    noise_directions_, noise_gains_ : (q, I_1, …, I_K) and (q,) arrays, or None
        What features are read against, and the share of each that is left out, 0 to 1; None
        without ``fit(…, noise=)``, or where the ε-region left no room for it.
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

    _needs_view: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CPEstimator._parameter_constraints,
        "beta": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"}), None],
        "gamma": [Interval(Real, 0, None, closed="left")],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "trans_inv": ["boolean"],
        "graph": [StrOptions({"pseudo", "true", "same-view"})],
        "laplacian": [StrOptions({"signed", "literal"})],
        "units": [StrOptions({"sample", "paper"})],
        "solver": [StrOptions({"als", "tied"})],
        "contrast": [StrOptions({"softmax", "signed"})],
        "temperature": [Interval(Real, 0, None, closed="neither"), list, tuple],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), list, tuple, None],
        "clusterer": [HasMethods("fit_predict"), None],
        "warm_up": [Interval(Integral, 0, None, closed="left")],
        "augment": [callable, None],
        "fresh_views": ["boolean"],
        "neighbour_weight": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        rank: int = 32,
        *,
        solver: str = "tied",
        contrast: str = "softmax",
        n_clusters: int | Sequence[int] | None = None,
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
        temperature: float | Sequence[float] = (0.5, 0.1),
        n_epochs: int = 25,
        learning_rate: float = 1.5e-2,
        augment: Callable[[Array, np.random.Generator], Array] | None = None,
        fresh_views: bool = False,
        neighbour_weight: float = 0.5,
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
        self.neighbour_weight = neighbour_weight
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
        sequence: ArrayLike | None = None,
        *,
        noise: ArrayLike | None = None,
        resume: Resume = None,
    ) -> Self:
        """Learn the factors from X (n, I_1, …, I_K).

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K), list of coupled blocks, or a source
            As in :meth:`CPD.fit`.
        y : array-like (n,), optional
            Labels, numbers or text, some of them unknown (−1, None, NaN or empty text), as in
            scikit-learn's semi-supervised estimators: the known
            ones take part in the graph, and say what samples near them are likely to be; 2,000 or
            more only where they prove to pay (``label_gain_``). Labels
            that are all known are used with ``graph="true"`` only, so that a pipeline that ends
            in a classifier still learns its features without labels. Otherwise a warning says
            that they are not used, unless scikit-learn itself (``Pipeline``, ``GridSearchCV``)
            passes them on.
        view : array-like of the shape of X, list of blocks as X, a source, or callable, optional
            The augmented view X̃; see :meth:`CPD.fit`.
        sequence : array-like (n,), optional
            The recording that each window is of, windows in the order of time: the view of a
            sample is then that of the window before or behind it, as often as
            ``neighbour_weight`` says.
        noise : array-like (m, I_1, …, I_K), or list of coupled blocks, optional
            Differences between samples that should have the same features: parts of one window
            against each other, repeats of a measurement ("tied" only). Features are then read
            against it: by generalised least squares, as strongly as ``epsilon`` allows (E12,
            E14).
        resume : path or True, optional
            Go on from a checkpoint; see :meth:`CPD.fit`.

        Returns
        -------
        self
        """
        if noise is not None:
            noises.refused(self.solver, self.missing)
        given = _SEQUENCE.set(sequence), _NOISE.set(noise)
        try:
            super().fit(X, y, view=view, resume=resume)
        finally:
            _SEQUENCE.reset(given[0])
            _NOISE.reset(given[1])
        return self

    def fit_transform(
        self,
        X: Any,
        y: ArrayLike | None = None,
        view: Any = None,
        sequence: ArrayLike | None = None,
        *,
        noise: ArrayLike | None = None,
    ) -> Array:
        """Fit, then :meth:`transform` the same X (E12: without the pull of the contrast)."""
        return self.fit(X, y, view=view, sequence=sequence, noise=noise).transform(X)

    def _identity(self, ready: Preparation, known: NDArray[np.intp] | None) -> list[Any]:
        sequence = _SEQUENCE.get()
        extra = None if sequence is None else np.asarray(sequence)
        noise = self._noise()
        return [*super()._identity(ready, known), extra, *([] if noise is None else [noise])]

    def _neighbours(self, n_samples: int) -> Neighbours | None:
        sequence = _SEQUENCE.get()
        if sequence is None:
            return None
        return Neighbours.of(sequence, n_samples, float(self.neighbour_weight))

    def _noise(self) -> Array | None:
        noise = _NOISE.get()
        if noise is None:
            return None
        if self.block_dims_ is not None:
            noise = blocks.fitted_rows(self, noise, "noise")
        return noises.given(noise, self.dims_, self.center_.dtype)

    def _labels_used(
        self, y: Any, n_samples: int, *, streaming: bool = False
    ) -> NDArray[np.intp] | None:
        self._neighbours(n_samples)  # what is wrong is told before any work
        plc_solve.temperatures(self)
        self._noise()
        return self._read_labels(y, n_samples, streaming=streaming)

    def _read_labels(
        self, y: Any, n_samples: int, *, streaming: bool = False
    ) -> NDArray[np.intp] | None:
        return given_labels(y, n_samples, needed=self.graph == "true", streaming=streaming)

    def _contrast(
        self, n_samples: int, y: NDArray[np.intp] | None, seed: int, streaming: bool = False
    ) -> als.Contrast:
        return plc_solve.contrast(self, n_samples, y, seed, streaming)

    def _cluster_count(self, n_samples: int, n_classes: int = 0) -> int:
        if not isinstance(self.n_clusters, Sequence):
            return super()._cluster_count(n_samples, n_classes)
        if self.solver != "tied":
            raise InvalidInputError(
                f"n_clusters={self.n_clusters!r}: several graphs in turns need solver='tied'; "
                "pass one number"
            )
        return levels(self.n_clusters, n_samples)[0]

    def _solve(
        self, views: AnyViews, known: NDArray[np.intp] | None, rng: np.random.Generator
    ) -> Fit:
        if self.solver != "tied":
            near = self._neighbours((views() if callable(views) else views).n_samples)
            if near is not None:
                views = near.joined(tied.held(views, None), rng)
            return plc_solve.alternating(self, super()._solve(views, known, rng), views, known, rng)
        rows = self._noise()
        noise = None if rows is None else noises.flat(self, rows)
        return plc_solve.descending(self, views, known, rng, sequence=_SEQUENCE.get(), noise=noise)

    def _settle(self, fit: Fit, views: als.Views) -> noises.Settled | None:
        """Read features against the noise that ``fit`` was given, inside the ε-region."""
        rows = self._noise()
        if rows is None or fit.start_error is None or fit.interrupted:
            return None
        limit = (1.0 + noises.SHARE * self.epsilon) * fit.start_error
        return noises.settle(self, fit, rows, views, limit, sweep=self._sweeps(fit))

    def _asks_origins(self) -> bool:
        """Whether the graph may be that of the samples' origins, where noise tells these."""
        return self.clusterer is None and self.graph != "true"

    def _sweeps(self, fit: Fit) -> bool:
        """Whether factors follow features that are read against noise.

        Not where many labels have shaped them: a sweep of E10 knows nothing of labels, and takes
        more of what these have done than it is worth. Few are worth less than the sweep.
        """
        return not fit.taught

    def _stream_step(self, batch: stream.Batch) -> stream.Step:
        for name, value in plc_solve.learned(batch.contrast, ran=True).items():
            setattr(self, name, value)
        if self.solver != "tied":
            return super()._stream_step(batch)
        tied_contrast = plc_solve.tied_contrast(self, batch.contrast, batch.views.n_samples)
        return descent.step(batch, tied_contrast)

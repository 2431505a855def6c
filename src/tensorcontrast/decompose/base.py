"""What CPD, ATD and PLC share: parameters, the course of a fit, what is learned, its use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.cp import diagnostics, gls, kernels
from tensorcontrast.cp.graph import cluster, cluster_space, nearest
from tensorcontrast.decompose import apply, blocks, inputs, metric, streaming
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import checkpoint as checkpoints
from tensorcontrast.solvers import robust, start, stream
from tensorcontrast.solvers.als import AnyViews, Contrast, Memory, Statistics, Views
from tensorcontrast.solvers.convergence import History, Monitor
from tensorcontrast.solvers.normal_form import NormalForm
from tensorcontrast.solvers.prepare import Preparation, prepare
from tensorcontrast.solvers.runs import Fit, Runs
from tensorcontrast.solvers.settings import ALS
from tensorcontrast.sources import source
from tensorcontrast.utils import checks, labels, learned, threads
from tensorcontrast.utils.component_names import ComponentNamesMixin

Array = NDArray[Any]
Resume = str | PathLike[str] | bool | None
ViewLike = ArrayLike | Callable[[np.random.Generator], ArrayLike] | None


class CPEstimator(ComponentNamesMixin, TransformerMixin, BaseEstimator):
    """Base of the CP estimators. Subclasses store parameters and say what their contrast is."""

    #: Whether coupled blocks have factors of their own.
    takes_blocks: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rank": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "als": [ALS, None],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "block_weights": ["array-like", None],
        "dtype": [StrOptions({"float32", "float64"}), None],
        "missing": [StrOptions({"error", "mask"})],
        "robust": [StrOptions({"huber"}), None],
        "random_state": ["random_state"],
        "callback": [callable, None],
        "verbose": ["verbose"],
    }
    #: Learned attributes whose names do not end in an underscore.
    _learned_private: ClassVar[tuple[str, ...]] = ("_bases", "_labels", "_opposed", "_stream")
    #: Settings that are objects of their own, and what None stands for.
    _settings: ClassVar[dict[str, type]] = {"als": ALS}
    #: Sweeps without contrast where the settings do not say.
    _default_warm_up: int = 0
    als: ALS | None
    #: Whether the method is about two views.
    _needs_view: bool = False
    augment: Callable[[Array, np.random.Generator], Any] | None = None
    block_weights: Sequence[float] | None
    #: Of coupled blocks; None for one tensor, and in older files.
    block_dims_: tuple[tuple[int, ...], ...] | None = None
    block_scales_: tuple[float, ...] | None = None
    _bases: list[Array] | None
    #: Directions of the nuisance metric and their gains (E23); None for the identity.
    nuisance_directions_: Array | None = None
    nuisance_gains_: Array | None = None
    factors_: list[Any]
    feature_gram_: Array
    centers_: Array | None
    center_: Array
    scale_: float
    n_batches_seen_: int
    history_: History

    # ---------------------------------------------------------------- parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` also those of the settings, such as ``als__tol``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            parts = {name: self._setting(name) for name in self._settings}
            for name, part in {**parts, "clusterer": params.get("clusterer")}.items():
                if hasattr(part, "get_params") and not isinstance(part, type):
                    nested = part.get_params()
                    params |= {f"{name}__{key}": value for key, value in nested.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of the settings, such as ``als__tol``."""
        for name, kind in self._settings.items():
            if any(key.startswith(f"{name}__") for key in params):
                given = params.get(name, getattr(self, name))
                params[name] = kind() if given is None else given
        super().set_params(**params)
        return self

    def _setting(self, name: str) -> Any:
        """Return settings; those by default where there are none."""
        given = getattr(self, name)
        return self._settings[name]() if given is None else given

    @property
    def _als(self) -> ALS:
        found: ALS = self._setting("als")
        return found

    # ---------------------------------------------------------------- what subclasses define

    def _contrast(
        self, n_samples: int, y: NDArray[np.intp] | None, seed: int, streaming: bool = False
    ) -> Contrast:
        """Return the contrast for ``n_samples`` windows with labels ``y`` (−1: unknown)."""
        raise InvalidInputError(f"{type(self).__name__} has no contrast")

    def _labels_used(
        self, y: Any, n_samples: int, *, streaming: bool = False
    ) -> NDArray[np.intp] | None:
        """Labels that take part in the fit, −1 for unknown, after a check of what goes with it."""
        return self._read_labels(y, n_samples, streaming=streaming)

    def _read_labels(
        self, y: Any, n_samples: int, *, streaming: bool = False
    ) -> NDArray[np.intp] | None:
        """Labels that take part in the fit; by default none do, whatever y is."""
        labels.none_used(type(self).__name__, y, n_samples)
        return None

    # ---------------------------------------------------------------- fitting

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        view: ViewLike = None,
        *,
        checkpoint: str | PathLike[str] | None = None,
        every: int = 10,
        resume: Resume = None,
    ) -> Self:
        """Learn the factors from X (n, I_1, …, I_K), or from coupled blocks [X_1, X_2, …].

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K), or list of coupled blocks
            One tensor per window; a plain matrix is a tensor of order 1 per window. Coupled blocks
            (E22) are arrays of the same n windows, in memory, mapped, stored or on Dask, in a tuple
            or, where their shapes differ, in a list. A list of arrays of one shape is an array-like
            of windows.
        y : array-like (n,), optional
            Not used but by :class:`PLC`; a warning says so, unless scikit-learn passes it on.
        view : array-like of the shape of X, list of blocks as X, or callable, optional
            The augmented view X̃. A callable is given a ``numpy.random.Generator`` and returns a
            view, drawn anew each iteration.
        checkpoint : path, optional
            Write the state of the fit to this file every ``every`` iterations and at the end of
            each stage, in one piece or not at all. A file that is no checkpoint is never replaced.
            After a crash, the same call with ``resume=True`` goes on from the file and ends with
            the same result to the bit. The file stays when the fit is done. Functions of the caller
            (views, ``augment``) must depend on their random generator alone.
        every : int, default=10
            Iterations from one write of the checkpoint to the next.
        resume : path or True, optional
            Go on from a checkpoint of the same fit, to the same result to the bit. True takes the
            file that ``checkpoint`` names, and begins anew where there is none.

        Returns
        -------
        self

        Notes
        -----
        Ctrl-C ends the fit after the running iteration is dropped: the estimator is usable,
        ``interrupted_`` is true, and the KeyboardInterrupt goes on to the caller. Before the
        first iteration is done nothing is learned: the estimator stays as it was. With
        ``checkpoint`` the last whole iteration is written first. The message of the
        KeyboardInterrupt says what was kept.
        """
        return self._fit(X, y, view, (checkpoint, every, resume))

    def _fit(
        self, X: Any, y: Any, view: Any, kept: tuple[Any, int, Resume], nuisance: Any = None
    ) -> Self:
        """Fit a copy, and take over what it has learned.

        ``kept`` is where a checkpoint is written, how often, and what to go on from.
        """
        self._check_parameters()
        name = type(self).__name__
        recorder = checkpoints.Recorder.from_paths(
            *kept,
            name=name,
            params={k: v for k, v in self.get_params().items() if k not in self._settings},
            seeded=isinstance(self.random_state, Integral),
        )
        try:
            with learned.learning(self) as model, recorder.recording():
                fit, clipped = model._learn(X, y, view, nuisance, recorder)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{name}.fit was interrupted before its first iteration was done; nothing was "
                f"learned, the estimator is as it was before fit{recorder.kept}"
            ) from None
        if clipped:
            checks.warn(clipped)
        diagnostics.warn_if_degenerate(name, self.degeneracy_, *self._opposed)
        if fit.interrupted:
            raise KeyboardInterrupt(
                f"{name}.fit was interrupted after {self.n_iter_} iterations; the estimator has "
                f"their result and can be used{recorder.kept}"
            )
        fit.monitor.warn_if_unfinished()
        return self

    def _check_parameters(self) -> None:
        """Check the parameters, and those of the settings."""
        checks.check_parameters(self)
        for name in self._settings:
            checks.check_parameters(self._setting(name))

    def _learn(
        self, X: Any, y: Any, view: Any, nuisance: Any, recorder: checkpoints.Recorder
    ) -> tuple[Fit, str]:
        """Fit this estimator, which has learned nothing yet; return a warning about the rank."""
        data = inputs.samples(self, X, reset=True, min_samples=2)
        rng = checks.generator(self.random_state)
        recorder.seed(rng)
        with threads.for_work(int(np.prod(data.dims)) * (data.n_samples or 2**31) * self.rank):
            ready = self._prepare(data)
            n = ready.n_samples
            rows = self._nuisance_rows(nuisance)
            known = self._labels_used(y, n)
            self.rank_, clipped = self._allowed_rank((n, *data.dims))
            views = ready.views(data, inputs.second_view(self, data, ready, view, rng))
        given = [] if rows is None else [rows]
        recorder.identify(*self._identity(ready, known), *given, *checkpoints.contents(views))
        with threads.for_work(n * ready.size * self.rank_):
            with np.errstate(over="ignore", invalid="ignore"):  # the monitor looks for it
                fit = self._solve(self._runs(recorder), views, known, rng, rows)
            checkpoints.check_remembered(fit.factors)
            if fit.interrupted:
                recorder.write()
            drawn = views.draw()
            self._finish(fit, drawn)
            metric.apply_metric(self, fit.selected, drawn)
        self._stream: Statistics | None = None
        self.n_samples_seen_, self.n_batches_seen_ = n, 1
        return fit, clipped

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, view: ViewLike = None
    ) -> Array:
        """Fit, then :meth:`transform` the same X (E12: without the pull of the contrast)."""
        return self.fit(X, y, view=view).transform(X)

    def _identity(self, ready: Preparation, known: NDArray[np.intp] | None) -> list[Any]:
        """Return what tells the data of a fit from other data, for checkpoints."""
        blocks = [] if self.block_dims_ is None else [self.block_dims_, self.block_scales_]
        return [ready.n_samples, ready.center, ready.scale, ready.bases, known, *blocks]

    def _allowed_rank(self, shape: tuple[int, ...]) -> tuple[int, str]:
        """Return the rank that windows of this shape (n, …) allow, and a word where it is less."""
        if self.block_dims_ is not None:
            return start.allowed_coupled_rank(self.rank, shape[0], self.block_dims_)
        return start.allowed_rank(self.rank, shape)

    def _solve(
        self,
        runs: Runs,
        views: AnyViews,
        known: NDArray[np.intp] | None,
        rng: np.random.Generator,
        nuisance: Array | None,
    ) -> Fit:
        """Run the iterations of a fit."""
        first = views.draw()
        contrast = self._contrast(first.n_samples, known, int(rng.integers(2**31)))
        return runs.best(views, contrast, rng)

    def _runs(self, recorder: checkpoints.Recorder = checkpoints.NOTHING) -> Runs:
        """Return how the runs of a fit are made, once its data are prepared."""
        settings = self._als
        warm_up = settings.warm_up
        return Runs(
            name=type(self).__name__,
            rank=self.rank_,
            dims=self.dims_,
            bases=self._bases,
            block_dims=self.block_dims_ or (),
            alpha=self.alpha,
            settings=settings,
            warm_up=self._default_warm_up if warm_up is None else warm_up,
            callback=self.callback,
            verbose=bool(self.verbose),
            recorder=recorder,
        )

    def _nuisance_rows(self, nuisance: Any) -> Array | None:
        """Nuisance differences (m, I_1, …, I_K) of a fit, checked; None for none."""
        if nuisance is None:
            return None
        if self.block_dims_ is not None:
            nuisance = blocks.fitted_rows(self, nuisance, "nuisance")
        return gls.checked(nuisance, self.dims_, self.center_.dtype)

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None, view: ViewLike = None) -> Self:
        """Learn from one more batch of an endless stream.

        The sums over windows that a factor update needs (E10) are kept and fade by
        ``forgetting`` with each batch; mean and scale are running averages. ``features_`` and
        ``labels_`` are those of the last batch. After ``fit``, or with a model from a file, the
        sums are taken from the model itself: WᵀX = (WᵀW)Hᵀ.
        """
        self._check_parameters()
        with learned.learning(self, continued=True) as model:
            clipped = model._learn_batch(X, y, view)
        if clipped:
            checks.warn(clipped)
        return self

    def _learn_batch(self, X: ArrayLike, y: ArrayLike | None, view: ViewLike) -> str:
        """Learn from one more batch; return a warning about the rank."""
        begun = hasattr(self, "factors_")
        clipped = ""
        if self.missing == "mask" and metric.metric_of(self) is not None:
            raise InvalidInputError(
                "missing='mask': this model has a nuisance metric, which a stream can follow with "
                "windows without gaps only; fit it with missing='mask', or fill the gaps"
            )
        data = inputs.batch(self, X, reset=not begun)
        X = data.X
        known = self._labels_used(y, len(X), streaming=True)
        rng = checks.generator(self.random_state, self.n_batches_seen_ if begun else 0)
        if begun:
            self.center_, self.scale_, roots = streaming.followed(self, X)
            self.sample_weight_ = None if roots is None else roots**2
            ready = replace(self._ready(len(X)), root_weights=roots)
        else:
            ready = self._prepare(data, whole=True)
            self.n_samples_seen_ = self.n_batches_seen_ = 0
            self.rank_, clipped = self._allowed_rank(X.shape)
        self._bases, self.core_dims_ = None, ready.dims
        drawn = ready.views(data, inputs.second_view(self, data, ready, view, rng))
        views = drawn.draw()
        contrast = self._contrast(len(X), known, int(rng.integers(2**31)), streaming=True)
        past: Statistics | None = None
        memory = Memory()
        if begun:
            factors = kernels.like(self._factors, [U.copy() for U in self._factors])
            past = streaming.past_sums(self, factors)
            memory.centers = self.centers_
        else:
            factors = self._runs().start(views, rng)
        batch = stream.Batch(
            views, factors, contrast, memory, past, self.alpha, self._als.forgetting, rng
        )
        with threads.for_work(X.size * self.rank_):
            factors, sums, terms = self._stream_step(batch)
            monitor = Monitor(type(self).__name__, max_iter=1, tol=0.0)
            if begun:
                monitor.history = {k: list(v) for k, v in self.history_.items()}
            monitor.record(terms)
            fit = Fit(factors, contrast, memory, monitor.history, True, False, monitor)
            fit.streaming = begun
            form = self._finish(fit, views)
            if metric.metric_of(self) is not None or self._overlap_power != 1.0:
                metric.encode_views(self, views)
                self.reconstruction_error_ = metric.encoding_error(self, views)
        self._stream = sums.regauged(form.gain, form.order)
        self.feature_gram_ = self._stream.WtW
        self.n_samples_seen_ += len(X)
        self.n_batches_seen_ += 1
        return clipped

    def _stream_step(self, batch: stream.Batch) -> stream.Step:
        """Learn from a batch of a stream."""
        return stream.swept(batch)

    def _finish(self, fit: Fit, views: Views) -> NormalForm:
        """Set the learned attributes, in normal form."""
        features, error = fit.final_features(views, self.alpha)
        form = NormalForm.from_fit(fit, features, self._bases, self.alpha)
        size = float(np.sqrt(views.norm_x / views.n_samples))
        form.check(type(self).__name__, size, streaming=fit.streaming)
        self._set_factors(form.factors)
        self.features_, self.view_features_ = self._unweighted(form.W, form.V)
        self.weights_, self.feature_gram_ = form.weights, form.gram
        self.degeneracy_, *self._opposed = diagnostics.most_opposed(form.factors, form.gram)
        self.centers_, self.ridge_, self.reconstruction_error_ = form.centers, form.ridge, error
        self.history_, self.n_iter_ = fit.history, len(fit.history["objective"])
        self.interrupted_ = fit.interrupted
        self.converged_ = fit.converged and not fit.interrupted
        self._labels: NDArray[np.intp] | None = fit.memory.labels
        for name, value in fit.learned.items():
            setattr(self, name, value)
        return form

    @property
    def _overlap_power(self) -> float:
        """Exponent that divides the overlap between components; 1 for the coordinates of E12."""
        return 1.0

    def _coordinates(self, W: Any) -> Any:
        """Oblique coordinates (n, r) of E12 for features of ``transform``."""
        mixing = metric.mixing_of(self)
        if mixing is None:
            return W
        return W @ np.linalg.inv(mixing).astype(self.center_.dtype)

    def _unweighted(self, W: Array, V: Array | None) -> tuple[Array, Array | None]:
        """Features of windows as they are, from those of windows with weights."""
        if self.sample_weight_ is None:
            return W, V
        own = np.sqrt(self.sample_weight_).astype(W.dtype)[:, None]
        return W / own, None if V is None else V / own

    # ---------------------------------------------------------------- scaling and views

    def _prepare(self, data: source.Source, *, whole: bool = False) -> Preparation:
        """Learn mean and scale, and bases unless the ``whole`` tensors are to be fitted."""
        if self.robust is not None and source.is_spread(data):
            raise InvalidInputError(
                "robust='huber' needs the windows in this process; pass robust=None, or X.compute()"
            )
        wanted = None if whole or self.block_dims_ is not None else self._als.compress
        if self.block_dims_ is not None and not isinstance(self._als.compress, str | None):
            checks.warn(
                f"compress={self._als.compress} is not used: coupled blocks are fitted as they "
                "are; leave it out",
            )
        if self.robust == "huber":
            ready = robust.prepare(
                data,
                wanted,
                self.rank,
                center=self._als.center,
                scale=self._als.scale,
                block_dims=self.block_dims_ or (),
            )
        else:
            ready = prepare(data, wanted, self.rank, center=self._als.center, scale=self._als.scale)
        ready = replace(ready, **self._blocks())
        self.sample_weight_ = None if ready.root_weights is None else ready.root_weights**2
        self.center_, self.scale_, self.dims_ = ready.center, ready.scale, tuple(data.dims)
        self._bases = ready.bases
        self.core_dims_ = ready.dims
        return ready

    def _ready(self, n_samples: int) -> Preparation:
        """Return mean and scale as learned, for windows as they are."""
        spread = self.scale_ / float(np.sqrt(self.center_.size))
        return Preparation(n_samples, self.center_, self.scale_, spread, **self._blocks())

    def _blocks(self) -> dict[str, Any]:
        """Return what a preparation knows of coupled blocks."""
        if self.block_dims_ is None:
            return {}
        shares = blocks.shares_of(self, len(self.block_dims_))
        return {"block_dims": self.block_dims_, "block_shares": shares}

    @property
    def _factors(self) -> kernels.Factors:
        """The factors as kernels take them: in blocks where these are coupled."""
        if self.block_dims_ is None:
            return self.factors_
        return kernels.CoupledFactors(self.factors_)

    def _set_factors(self, factors: kernels.Factors) -> None:
        if self.block_dims_ is None:
            self.factors_ = list(factors)
        else:
            self.factors_ = [list(block) for block in kernels.blocks_of(factors)]

    # ---------------------------------------------------------------- using the model

    @property
    def labels_(self) -> NDArray[np.intp]:
        """Pseudo class of each fitted window."""
        check_is_fitted(self, "factors_")
        if self._labels is None:
            count = self._cluster_count(len(self.features_))
            if source.is_dask(self.features_):
                from tensorcontrast.distributed.labels import lazy_labels

                self._labels = lazy_labels(self.features_, count, self.centers_)
            elif self.centers_ is not None:
                self._labels = nearest(cluster_space(self.features_), self.centers_)
            else:
                self._labels = cluster(self.features_, count, seed=0)[0]
        return self._labels

    def _cluster_count(self, n_samples: int, n_classes: int = 0) -> int:
        """``n_clusters``; by default the number of known classes, or else min(8, n // 2)."""
        if self.n_clusters is not None:
            return int(self.n_clusters)
        return n_classes if n_classes else max(1, min(8, n_samples // 2))

    def transform(self, X: ArrayLike) -> Array:
        """Features ``w = xH(HᵀH + αI)⁻¹`` of new windows, (n, rank_). Equations E12, E22, E23.

        X is of the kind that was fitted: one tensor per window, or a list of coupled blocks.

        With ``missing="mask"`` NaN entries are left out: w solves the same equations over the
        observed entries of each window.

        Features of a window do not depend on those that it is transformed with, but for the order
        in which matrix products add: alone, in a batch or in a chunk of a Dask array they agree to
        1e-5 of the length of the row in float32, and to 1e-13 in float64.
        """
        check_is_fitted(self, "factors_")
        return self._encoded(inputs.samples(self, X, reset=False))

    def _encoded(self, data: source.Source) -> Array:
        """Features of windows that are checked."""
        return apply.features(
            data,
            self._ready(0),
            self._factors,
            self.ridge_,
            masked=self.missing == "mask",
            metric=metric.metric_of(self),
            power=self._overlap_power,
        )

    def _features(self, X: Array) -> Array:
        """Features of windows as :attr:`center_` has them, checked."""
        data = source.with_nan(source.ArraySource(X), self.missing == "mask")
        return np.asarray(self._encoded(data))

    def inverse_transform(self, W: ArrayLike) -> Any:
        """Tensors (n, I_1, …, I_K) that features W (n, rank_) stand for. Equation E1.

        For coupled blocks a list of tensors, one per block (E22). Of windows with missing values,
        ``inverse_transform(transform(X))`` has all entries.
        """
        check_is_fitted(self, "factors_")
        W = checks.check_features(W, self.rank_, self.center_.dtype)
        made, layout = self._reconstructed(W), blocks.layout_of(self)
        return made if layout is None else layout.split(made)

    def _reconstructed(self, W: Array) -> Array:
        """Return tensors, or rows of coupled blocks, as :attr:`center_` has them."""
        flat = kernels.cp_to_flat(self._coordinates(W), self._factors)
        flat *= self.scale_
        flat += self.center_.reshape(-1)
        return flat.reshape(len(W), *self.dims_)

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Share of the variance of X about the model's mean that the features explain."""
        W = self._coordinates(np.asarray(checks.plain_output(self, X)))
        data = inputs.samples(self, X, reset=False)
        return apply.explained(data, self._ready(0), self._factors, W)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one file, to be read by :func:`tensorcontrast.load_model`."""
        from tensorcontrast.io import model_files

        check_is_fitted(self, "factors_")
        model_files.save_model(self, path)

    def _check_learned(self) -> None:
        """Raise where the learned attributes of a loaded model do not fit each other."""
        blocks.check_learned(self)
        shapes = [U.shape for U in self._factors]
        if (
            shapes != start.shapes(self.dims_, self.rank_, self.block_dims_ or ())
            or self.center_.shape != tuple(self.dims_)
            or self.ridge_.shape != (self.rank_,)
            or self.n_features_in_ != self.dims_[0]
            or not (np.isfinite(self.scale_) and self.scale_ > 0)
        ):
            raise InvalidInputError(
                f"factors of shapes {shapes} and a mean of shape {self.center_.shape} do not make "
                f"a model of rank {self.rank_} and scale {self.scale_} for tensors "
                f"{tuple(self.dims_)}"
            )
        metric.check_learned(self)

    # ---------------------------------------------------------------- scikit-learn

    @property
    def _n_features_out(self) -> int:
        return int(self.rank_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "factors_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "mask"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

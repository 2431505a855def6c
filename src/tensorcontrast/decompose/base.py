"""What CPD, ATD and PLC share: parameters, the course of a fit, what is learned, its use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.cp import diagnostics, gls, kernels
from tensorcontrast.cp.graph import cluster, cluster_space, nearest
from tensorcontrast.decompose import blocks, diagnosis, inputs
from tensorcontrast.decompose import model as models
from tensorcontrast.decompose.model import CPModel
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import checkpoint as checkpoints
from tensorcontrast.solvers import nonnegative, robust, start, stream
from tensorcontrast.solvers.als import AnyViews, Contrast, Memory, Statistics, Views
from tensorcontrast.solvers.convergence import History, Monitor
from tensorcontrast.solvers.normal_form import NormalForm
from tensorcontrast.solvers.prepare import Preparation, prepare
from tensorcontrast.solvers.runs import Fit, Runs
from tensorcontrast.solvers.settings import ALS
from tensorcontrast.solvers.tuning import TUNING, Tuning
from tensorcontrast.solvers.whole import WholeViews
from tensorcontrast.sources import source
from tensorcontrast.utils import checks, labels, learned, threads
from tensorcontrast.utils.component_names import ComponentNamesMixin
from tensorcontrast.utils.estimators import NotebookMixin
from tensorcontrast.utils.progress import StageTimes, measured

Array = NDArray[Any]
Resume = str | PathLike[str] | bool | None
ViewLike = ArrayLike | Callable[[np.random.Generator], ArrayLike] | None


@dataclass(frozen=True)
class Outcome:
    """What a fit, or one more batch, has found."""

    #: All learned attributes by name, or those that a batch replaces.
    attributes: dict[str, Any]
    fit: Fit
    #: A warning where the data allow a smaller rank than was asked for, or "".
    clipped: str


def _learned_features(
    W: Array, V: Array | None, error: float, ready: Preparation
) -> dict[str, Any]:
    """Return the learned attributes that belong to the fitted windows."""
    weight = None if ready.root_weights is None else ready.root_weights**2
    features, view_features = models.unweighted(W, V, weight)
    return {
        "features_": features,
        "view_features_": view_features,
        "sample_weight_": weight,
        "reconstruction_error_": error,
    }


class CPEstimator(NotebookMixin, ComponentNamesMixin, TransformerMixin, BaseEstimator):
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
        "nonnegative": ["boolean"],
        "random_state": ["random_state"],
        "callback": [callable, None],
        "verbose": ["verbose"],
    }
    #: Learned attributes whose names do not end in an underscore.
    _learned_private: ClassVar[tuple[str, ...]] = ("_labels", "_opposed", "_stream")
    #: Learned attributes that model files may lack, and what they are then.
    _learned_defaults: ClassVar[dict[str, Any]] = {
        "block_dims_": None,
        "block_scales_": None,
        "nuisance_directions_": None,
        "nuisance_gains_": None,
        "_labels": None,
        "_stream": None,
    }
    #: Settings that are objects of their own, and what None stands for.
    _settings: ClassVar[dict[str, type]] = {"als": ALS}
    #: Limits of memory and work; tests and benchmarks set others.
    _tuning: Tuning = TUNING
    #: Sweeps without contrast where the settings do not say.
    _default_warm_up: int = 0
    als: ALS | None
    #: Whether factors have no negative entries; a parameter of some.
    nonnegative: bool = False
    #: Whether the method is about two views.
    _needs_view: bool = False
    augment: Callable[[Array, np.random.Generator], Any] | None = None
    block_weights: Sequence[float] | None
    #: Of coupled blocks; None for one tensor.
    block_dims_: tuple[tuple[int, ...], ...] | None
    block_scales_: tuple[float, ...] | None
    #: Directions of the nuisance metric and their gains (E23); None for the identity.
    nuisance_directions_: Array | None
    nuisance_gains_: Array | None
    dims_: tuple[int, ...]
    rank_: int
    ridge_: Array
    features_: Array
    sample_weight_: Array | None
    degeneracy_: float
    n_iter_: int
    n_features_in_: int
    n_samples_seen_: int
    _labels: NDArray[np.intp] | None
    _opposed: list[Any]
    _stream: Statistics | None
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
            settings = {name: self._setting(name) for name in self._settings}
            for name, part in {**settings, "clusterer": params.get("clusterer")}.items():
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
        return nonnegative.settings(found) if self.nonnegative else found

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
        self,
        X: Any,
        y: Any,
        view: Any,
        kept: tuple[Any, int, Resume],
        nuisance: Any = None,
        times: StageTimes | None = None,
    ) -> Self:
        """Learn, then assign the learned attributes.

        ``kept`` is where a checkpoint is written, how often, and what to go on from. ``times``
        counts the seconds of each stage.
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
            with recorder.recording():
                outcome = self._learn(X, y, view, nuisance, recorder, times)
            learned.assign(self, outcome.attributes)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{name}.fit was interrupted before its first iteration was done; nothing was "
                f"learned, the estimator is as it was before fit{recorder.kept}"
            ) from None
        if outcome.clipped:
            checks.warn(outcome.clipped)
        diagnostics.warn_if_degenerate(name, self.degeneracy_, *self._opposed)
        if outcome.fit.interrupted:
            raise KeyboardInterrupt(
                f"{name}.fit was interrupted after {self.n_iter_} iterations; the estimator has "
                f"their result and can be used{recorder.kept}"
            )
        outcome.fit.monitor.warn_if_unfinished()
        return self

    def _check_parameters(self) -> None:
        """Check the parameters, and those of the settings."""
        checks.check_parameters(self)
        for name in self._settings:
            checks.check_parameters(self._setting(name))
        if self.nonnegative:
            solver = getattr(self, "solver", "gls")
            given = self._setting("als")
            nonnegative.check_parameters(type(self).__name__, given, self.missing, solver)

    def _learn(
        self,
        X: Any,
        y: Any,
        view: Any,
        nuisance: Any,
        recorder: checkpoints.Recorder,
        times: StageTimes | None = None,
    ) -> Outcome:
        """Learn from windows; what was learned before plays no part."""
        windows = inputs.to_fit(self, X)
        data = windows.data
        rng = checks.generator(self.random_state)
        recorder.seed(rng)
        with threads.for_work(int(np.prod(data.dims)) * (data.n_samples or 2**31) * self.rank):
            ready = self._prepare(windows)
            n = ready.n_samples
            rows = self._nuisance_rows(nuisance, windows, ready)
            known = self._labels_used(y, n)
            rank, clipped = self._allowed_rank((n, *data.dims), windows)
            second = inputs.second_view(self, windows, ready, view, rng)
            views = ready.views(data, second)
            whole: WholeViews | None = None
            if ready.bases is not None and not views.fresh:
                whole = WholeViews.from_cores(ready, data, second, views)
            if self.nonnegative:
                nonnegative.check_rows(type(self).__name__, views.draw().X)
        given = [] if rows is None else [rows]
        identity = self._identity(ready, windows, known)
        recorder.identify(*identity, *given, *checkpoints.contents(views))
        with threads.for_work(n * ready.size * rank):
            with np.errstate(over="ignore", invalid="ignore"):  # the monitor looks for it
                core = None if rows is None else models.nuisance_in_core(rows, ready)
                runs = replace(self._runs(ready, rank, recorder), times=times, whole=whole)
                with measured(times, "CPD"):
                    fit = self._solve(runs, views, known, rng, core)
            checkpoints.check_remembered(fit.factors)
            if fit.interrupted:
                recorder.write()
            drawn, bases = views.draw(), ready.bases
            if fit.whole:
                drawn, bases = cast("Views", whole), None
            form, error = self._normal_form(fit, drawn, bases)
            metric = models.selected_metric(fit.selected, ready)
            model = self._cp_model(form, ready, metric)
            if fit.selected is not None:
                # The metric is selected on cores, whose error is not that of whole windows.
                on_cores = fit.whole and whole is not None
                error = model.encoding_error(drawn) if on_cores else error * fit.selected.rise
            W, V = (form.W, form.V) if model.is_plain else model.encoded(drawn, bases)
        attributes = {
            **windows.learned(),
            **self._learned(fit, form, model, ready),
            **_learned_features(W, V, error, ready),
            "_stream": None,
            "n_samples_seen_": n,
            "n_batches_seen_": 1,
        }
        return Outcome(attributes, fit, clipped)

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, view: ViewLike = None
    ) -> Array:
        """Fit, then :meth:`transform` the same X (E12: without the pull of the contrast)."""
        return self.fit(X, y, view=view).transform(X)

    def _identity(
        self, ready: Preparation, windows: inputs.Windows, known: NDArray[np.intp] | None
    ) -> list[Any]:
        """Return what tells the data of a fit from other data, for checkpoints."""
        layout = windows.layout
        coupled = [] if layout is None else [layout.dims, layout.scales]
        return [ready.n_samples, ready.center, ready.scale, ready.bases, known, *coupled]

    def _allowed_rank(self, shape: tuple[int, ...], windows: inputs.Windows) -> tuple[int, str]:
        """Return the rank that windows of this shape (n, …) allow, and a word where it is less."""
        if windows.layout is not None:
            return start.allowed_coupled_rank(self.rank, shape[0], windows.layout.dims)
        return start.allowed_rank(self.rank, shape)

    def _solve(
        self,
        runs: Runs,
        views: AnyViews,
        known: NDArray[np.intp] | None,
        rng: np.random.Generator,
        nuisance: Array | None,
    ) -> Fit:
        """Run the iterations of a fit; nuisance differences (m, i) are scaled as the views are."""
        first = views.draw()
        contrast = self._contrast(first.n_samples, known, int(rng.integers(2**31)))
        return runs.best(views, contrast, rng)

    def _runs(
        self,
        ready: Preparation,
        rank: int,
        recorder: checkpoints.Recorder = checkpoints.NOTHING,
    ) -> Runs:
        """Return how the runs of a fit are made, once its data are prepared."""
        settings = self._als
        warm_up = settings.warm_up
        return Runs(
            name=type(self).__name__,
            rank=rank,
            dims=tuple(ready.center.shape),
            bases=ready.bases,
            block_dims=ready.block_dims,
            alpha=self.alpha,
            settings=settings,
            warm_up=self._default_warm_up if warm_up is None else warm_up,
            callback=self.callback,
            verbose=bool(self.verbose),
            recorder=recorder,
            tuning=self._tuning,
            nonnegative=self.nonnegative,
        )

    def _nuisance_rows(
        self, nuisance: Any, windows: inputs.Windows, ready: Preparation
    ) -> Array | None:
        """Nuisance differences (m, I_1, …, I_K) of a fit, checked; None for none."""
        if nuisance is None:
            return None
        if windows.layout is not None:
            nuisance = blocks.fitted_rows(self, nuisance, "nuisance", windows.layout, ready.center)
        return gls.checked(nuisance, tuple(ready.center.shape), ready.center.dtype)

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None, view: ViewLike = None) -> Self:
        """Learn from one more batch of an endless stream.

        The sums over windows that a factor update needs (E10) are kept and fade by
        ``forgetting`` with each batch; mean and scale are running averages. ``features_`` and
        ``labels_`` are those of the last batch. After ``fit``, or with a model from a file, the
        sums are taken from the model itself: WᵀX = (WᵀW)Hᵀ.
        """
        self._check_parameters()
        if self.nonnegative:
            raise InvalidInputError(
                f"{type(self).__name__}: nonnegative=True learns from all windows at once; call "
                "fit, or pass nonnegative=False"
            )
        outcome = self._learn_batch(X, y, view)
        learned.assign(self, {**learned.learned(self), **outcome.attributes})
        if outcome.clipped:
            checks.warn(outcome.clipped)
        return self

    def _learn_batch(self, X: ArrayLike, y: ArrayLike | None, view: ViewLike) -> Outcome:
        """Learn from one more batch, or from the first one of a stream."""
        before = self._model if self.__sklearn_is_fitted__() else None
        if self.missing == "mask" and before is not None and before.metric is not None:
            raise InvalidInputError(
                "missing='mask': this model has a nuisance metric, which a stream can follow with "
                "windows without gaps only; fit it with missing='mask', or fill the gaps"
            )
        if before is None:
            windows, n_seen, n_batches = inputs.first_batch(self, X), 0, 0
        else:
            windows = inputs.next_batch(self, X, self._layout)
            n_seen, n_batches = self.n_samples_seen_, self.n_batches_seen_
        data = windows.data
        n = data.n_samples or 0
        known = self._labels_used(y, n, streaming=True)
        rng = checks.generator(self.random_state, n_batches)
        if before is None:
            ready = self._prepare(windows, whole=True)
            rank, clipped = self._allowed_rank((n, *data.dims), windows)
        else:
            ready, rank, clipped = self._followed(before, windows), self.rank_, ""
        views = ready.views(data, inputs.second_view(self, windows, ready, view, rng)).draw()
        contrast = self._contrast(n, known, int(rng.integers(2**31)), streaming=True)
        past: Statistics | None = None
        memory = Memory()
        if before is None:
            factors = self._runs(ready, rank).start(views, rng)
        else:
            factors = kernels.like(before.factors, [U.copy() for U in before.factors])
            past = self._stream
            if past is None:
                past = models.past_sums(before, self.feature_gram_)
            memory.centers = self.centers_
        batch = stream.Batch(
            views, factors, contrast, memory, past, self.alpha, self._als.forgetting, rng
        )
        with threads.for_work(n * int(np.prod(data.dims)) * rank):
            factors, sums, terms = self._stream_step(batch)
            monitor = Monitor(type(self).__name__, max_iter=1, tol=0.0)
            if before is not None:
                monitor.history = {k: list(v) for k, v in self.history_.items()}
            monitor.record(terms)
            fit = Fit(
                factors,
                contrast,
                memory,
                monitor.history,
                converged=True,
                interrupted=False,
                monitor=monitor,
                learned=self._stream_learned(contrast),
                streaming=before is not None,
            )
            form, error = self._normal_form(fit, views, ready.bases)
            model = self._cp_model(form, ready, None if before is None else before.metric)
            W, V = form.W, form.V
            if not model.is_plain:
                W, V = model.encoded(views, ready.bases)
                error = model.encoding_error(views)
        so_far = sums.regauged(form.gain, form.order)
        attributes = {
            **windows.learned(),
            **self._learned(fit, form, model, ready),
            **_learned_features(W, V, error, ready),
            "_stream": so_far,
            "feature_gram_": so_far.WtW,
            "n_samples_seen_": n_seen + n,
            "n_batches_seen_": n_batches + 1,
        }
        return Outcome(attributes, fit, clipped)

    def _followed(self, model: CPModel, windows: inputs.Windows) -> Preparation:
        """Return mean and scale after a batch of a stream, and weights of its windows."""
        assert isinstance(windows.data, source.ArraySource)
        X = windows.data.X
        now = models.followed(
            model,
            X,
            self.n_samples_seen_,
            self._als,
            masked=self.missing == "mask",
            huber=self.robust == "huber",
        )
        moved = replace(model, center=now.center, scale=now.scale)
        coupled = self._coupling(windows)
        return replace(moved.preparation(len(X)), root_weights=now.root_weights, **coupled)

    def _stream_step(self, batch: stream.Batch) -> stream.Step:
        """Learn from a batch of a stream."""
        return stream.swept(batch)

    def _stream_learned(self, contrast: Contrast) -> dict[str, Any]:
        """Return learned attributes of a stream that only subclasses have."""
        return {}

    def _normal_form(
        self, fit: Fit, views: Views, bases: list[Array] | None
    ) -> tuple[NormalForm, float]:
        """Return a fit in normal form, checked, and its relative reconstruction error."""
        final = fit.finished(views, self.alpha).final
        assert final is not None
        features, error = final
        form = NormalForm.from_fit(fit, features, bases, self.alpha)
        size = float(np.sqrt(views.norm_x / views.n_samples))
        form.check(type(self).__name__, size, streaming=fit.streaming)
        return form, error

    def _cp_model(
        self, form: NormalForm, ready: Preparation, metric: gls.GLSMetric | None
    ) -> CPModel:
        """Return the model of a fit in normal form."""
        power = self._overlap_power
        return CPModel(
            form.factors, form.ridge, ready.center, ready.scale, metric, power, self._only_parts
        )

    @property
    def _overlap_power(self) -> float:
        """Exponent that divides the overlap between components; 1 for the coordinates of E12."""
        return 1.0

    @property
    def _only_parts(self) -> bool:
        """Whether features have no negative entries, too; those in a metric are linear."""
        return self.nonnegative and self._overlap_power == 1.0

    # ---------------------------------------------------------------- scaling and views

    def _prepare(self, windows: inputs.Windows, *, whole: bool = False) -> Preparation:
        """Learn mean and scale, and bases unless the ``whole`` tensors are to be fitted."""
        data, layout = windows.data, windows.layout
        if self.nonnegative and source.is_spread(data):
            raise InvalidInputError(
                "nonnegative=True needs the windows in this process; pass nonnegative=False, or "
                "X.compute()"
            )
        wanted = None if whole or layout is not None else self._als.compress
        if layout is not None and not isinstance(self._als.compress, str | None):
            checks.warn(
                f"compress={self._als.compress} is not used: coupled blocks are fitted as they "
                "are; leave it out",
            )
        settings: dict[str, Any] = {
            "center": self._als.center,
            "scale": self._als.scale,
            "tuning": self._tuning,
        }
        if self.robust == "huber":
            dims = windows.block_dims or ()
            ready = robust.prepare(data, wanted, self.rank, **settings, block_dims=dims)
        else:
            ready = prepare(data, wanted, self.rank, **settings)
        return replace(ready, **self._coupling(windows))

    def _coupling(self, windows: inputs.Windows) -> dict[str, Any]:
        """Return what a preparation knows of coupled blocks."""
        if windows.layout is None:
            return {}
        dims = windows.layout.dims
        return {
            "block_dims": dims,
            "block_shares": blocks.shares_of(self.block_weights, len(dims)),
        }

    # ---------------------------------------------------------------- what is learned

    def _learned(
        self, fit: Fit, form: NormalForm, model: CPModel, ready: Preparation
    ) -> dict[str, Any]:
        """Return the learned attributes of a fit in normal form."""
        factors, metric = form.factors, model.metric
        if ready.block_dims:
            own: list[Any] = [list(block) for block in kernels.blocks_of(factors)]
        else:
            own = list(factors)
        degeneracy, *opposed = diagnostics.most_opposed(factors, form.gram)
        directions = None if metric is None else metric.directions
        return {
            "rank_": len(form.ridge),
            "factors_": own,
            "weights_": form.weights,
            "feature_gram_": form.gram,
            "ridge_": form.ridge,
            "centers_": form.centers,
            "center_": ready.center,
            "scale_": ready.scale,
            "core_dims_": ready.dims,
            "nuisance_directions_": directions
            if directions is None
            else directions.reshape(-1, *ready.center.shape),
            "nuisance_gains_": None if metric is None else metric.gains,
            "degeneracy_": degeneracy,
            "_opposed": opposed,
            "history_": fit.history,
            "n_iter_": len(fit.history["objective"]),
            "interrupted_": fit.interrupted,
            "converged_": fit.converged and not fit.interrupted,
            "_labels": fit.memory.labels,
            **fit.learned,
        }

    @property
    def _layout(self) -> blocks.Layout | None:
        """Where coupled blocks are in a row; None for one tensor."""
        dims, scales = self.block_dims_, self.block_scales_
        return None if dims is None or scales is None else blocks.Layout(dims, scales)

    @property
    def _factors(self) -> kernels.Factors:
        """The factors as kernels take them: in blocks where these are coupled."""
        if self.block_dims_ is None:
            return self.factors_
        return kernels.CoupledFactors(self.factors_)

    @property
    def _model(self) -> CPModel:
        """The fitted model as arrays."""
        rows, gains = self.nuisance_directions_, self.nuisance_gains_
        metric = None
        if rows is not None and gains is not None:
            metric = gls.GLSMetric(rows.reshape(len(rows), -1), gains)
        power = self._overlap_power
        return CPModel(
            self._factors, self.ridge_, self.center_, self.scale_, metric, power, self._only_parts
        )

    # ---------------------------------------------------------------- using the model

    @property
    def labels_(self) -> NDArray[np.intp]:
        """Pseudo class of each fitted window."""
        check_is_fitted(self, "factors_")
        if self._labels is None:
            count = self._cluster_count(len(self.features_))
            if source.is_dask(self.features_):
                from tensorcontrast.distributed.labels import lazy_labels

                self._labels = lazy_labels(
                    self.features_, count, self.centers_, self._tuning.kmeans
                )
            elif self.centers_ is not None:
                self._labels = nearest(cluster_space(self.features_), self.centers_)
            else:
                found = cluster(self.features_, count, seed=0, tuning=self._tuning.kmeans)
                self._labels = found[0]
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
        data = inputs.to_transform(self, X, self._layout)
        return self._model.features(data, masked=self.missing == "mask")

    def inverse_transform(self, W: ArrayLike) -> Any:
        """Tensors (n, I_1, …, I_K) that features W (n, rank_) stand for. Equation E1.

        For coupled blocks a list of tensors, one per block (E22). Of windows with missing values,
        ``inverse_transform(transform(X))`` has all entries.
        """
        check_is_fitted(self, "factors_")
        W = checks.check_features(W, self.rank_, self.center_.dtype)
        tensors, layout = self._model.reconstructed(W), self._layout
        return tensors if layout is None else layout.split(tensors)

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Share of the variance of X about the model's mean that the features explain."""
        W = np.asarray(checks.plain_output(self, X))
        model, data = self._model, inputs.to_transform(self, X, self._layout)
        return model.explained(data, model.coordinates(W))

    def diagnose(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        *,
        y: ArrayLike | None = None,
        view: ViewLike = None,
        n_seeds: int = 2,
        n_splits: int = 2,
        random_state: int = 0,
    ) -> diagnosis.Diagnosis:
        """Say whether the components can be trusted: are they found again, what do they explain.

        The model is fitted again with other seeds, and to both halves of the subjects; the
        components of these fits are matched to those of the model. A component is "stable" where
        the mean similarity is 0.85 or more in both comparisons. The model itself stays as it is.

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K), or list of coupled blocks
            The windows that the model was fitted on, in memory.
        groups : array-like (n,), optional
            Subject of each window: halves share none. Without it, windows are divided at random,
            which tells less where windows of one subject are alike.
        y, view : optional
            What ``fit`` was given.
        n_seeds : int, default=2
            Fits with other seeds.
        n_splits : int, default=2
            Times that the subjects are divided in halves; two fits each.
        random_state : int, default=0
            Seeds the halves.

        Returns
        -------
        Diagnosis
            Tables of components, of windows that stand out, and of numbers with their change
            under other seeds; ``print`` shows them, ``to_dict`` and ``to_json`` give them.

        References
        ----------
        Lorenzo-Seva, ten Berge: Tucker's congruence coefficient as a meaningful index of factor
        similarity. Methodology 2, 2006.

        Examples
        --------
        >>> from tensorcontrast import CPD
        >>> from tensorcontrast.datasets import make_cp_tensor
        >>> X, *_ = make_cp_tensor(60, (4, 6, 5), 2, noise=0.1, random_state=0)
        >>> found = CPD(rank=2, random_state=0).fit(X).diagnose(X)
        >>> [component.verdict for component in found.components]
        ['stable', 'stable']
        """
        check_is_fitted(self, "factors_")
        return diagnosis.diagnose(
            self,
            X,
            groups,
            y=y,
            view=view,
            n_seeds=n_seeds,
            n_splits=n_splits,
            random_state=random_state,
        )

    def _unfitted(self, seed: int) -> Self:
        """Return an estimator that would learn such components with another seed, silently."""
        other: Self = clone(self).set_params(random_state=seed, callback=None, verbose=False)
        return other

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one file, to be read by :func:`tensorcontrast.load_model`."""
        from tensorcontrast.io import model_files

        check_is_fitted(self, "factors_")
        model_files.save_model(self, path)

    def _check_learned(self) -> None:
        """Raise where the learned attributes of a loaded model do not fit each other."""
        dims = tuple(self.dims_)
        blocks.check_layout(self.block_dims_, self.block_scales_, self.factors_, dims)
        if self.block_dims_ is not None:
            blocks.shares_of(self.block_weights, len(self.block_dims_))
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
        models.check_metric(
            self.nuisance_directions_, self.nuisance_gains_, dims, self.center_.dtype
        )

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

"""What CPD, ATD and PLC share: input checks, scaling, fitting loop, transform, files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tensorcontrast import checks, threads
from tensorcontrast.decompose import (
    als,
    checkpoint,
    compress,
    degeneracy,
    kernels,
    missing,
    robust,
    scaling,
    sketch,
    source,
    start,
)
from tensorcontrast.decompose.convergence import History, Monitor
from tensorcontrast.decompose.encoder import Encoder
from tensorcontrast.decompose.graph import cluster, cluster_space, nearest
from tensorcontrast.decompose.prepare import Preparation, prepare
from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]
Resume = str | PathLike[str] | bool | None
ViewLike = ArrayLike | Callable[[np.random.Generator], ArrayLike] | None

#: Sweeps over a batch in the first and in later calls of ``partial_fit``.
FIRST_SWEEPS, LATER_SWEEPS = 30, 3


@dataclass
class Fit:
    """Outcome of one run: factors in the scale of the fit, and how it went."""

    factors: list[Array]
    contrast: als.Contrast
    memory: als.Memory
    history: History
    converged: bool
    interrupted: bool
    monitor: Monitor
    learned: dict[str, Any] = field(default_factory=dict)
    #: Features at the final factors and the error of the data, once they were asked for.
    final: tuple[als.Features, float] | None = None
    #: What a checkpoint has of this run.
    keep: checkpoint.Keep | None = None

    def lose(self) -> None:
        """Let checkpoints forget this run: another one is better."""
        if self.keep is not None:
            self.keep.lose()

    @property
    def objective(self) -> float:
        """Last value of E8."""
        return self.history["objective"][-1]


class CPEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the CP estimators. Subclasses store parameters and say what their contrast is."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rank": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "patience": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"random"}), list, tuple],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 2, None, closed="left"), None],
        "step_size": [Interval(Real, 0, 1, closed="right")],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "center": ["boolean"],
        "scale": ["boolean"],
        "compress": [
            StrOptions({"auto"}),
            Interval(Real, 0, 1, closed="right"),
            list,
            tuple,
            None,
        ],
        "dtype": [StrOptions({"float32", "float64"}), None],
        "forgetting": [Interval(Real, 0, 1, closed="both")],
        "missing": [StrOptions({"error", "mask"})],
        "robust": [StrOptions({"huber"}), None],
        "checkpoint": [str, PathLike, None],
        "every": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "callback": [callable, None],
        "verbose": ["verbose"],
    }
    #: Iterations without contrast before the contrast begins.
    warm_up: int = 0
    #: Whether the method is about two views.
    _needs_view: ClassVar[bool] = False
    compress: Any
    augment: Callable[[Array, np.random.Generator], Any] | None = None
    fresh_views: bool = False
    _bases: list[Array] | None
    feature_gram_: Array
    centers_: Array | None
    center_: Array
    scale_: float
    n_batches_seen_: int
    history_: History

    # ---------------------------------------------------------------- what subclasses define

    def _contrast(
        self, n_samples: int, y: NDArray[np.intp] | None, seed: int, streaming: bool = False
    ) -> als.Contrast:
        """Return the contrast for ``n_samples`` samples with labels ``y`` (−1: unknown)."""
        raise InvalidInputError(f"{type(self).__name__} has no contrast")

    def _labels_used(self, y: Any, n_samples: int) -> NDArray[np.intp] | None:
        """Labels that take part in the fit; by default none do, whatever y is."""
        checks.check_y_length(y, n_samples)
        return None

    # ---------------------------------------------------------------- fitting

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        view: ViewLike = None,
        *,
        resume: Resume = None,
    ) -> Self:
        """Learn the factors from X (n, I_1, …, I_K).

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K)
            One tensor a sample; a plain matrix is a tensor of order 1 a sample.
        y : array-like (n,), optional
            Only ``PLC(graph="true")`` uses it; −1 means unknown.
        view : array-like of the shape of X, or callable, optional
            The augmented view X̃. A callable is given a ``numpy.random.Generator`` and returns a
            view, drawn anew each iteration.
        resume : path or True, optional
            Go on from a checkpoint of the same fit, to the same result to the bit. True takes the
            file that ``checkpoint`` names, and begins anew where there is none.

        Returns
        -------
        self

        Notes
        -----
        Ctrl-C ends the fit after the running iteration is dropped: the estimator is usable,
        ``interrupted_`` is true, and the KeyboardInterrupt goes on to the caller. With
        ``checkpoint`` the last whole iteration is written first.
        """
        checks.check_parameters(self)
        recorder = checkpoint.Recorder.of(self, resume)
        with self._all_or_nothing(), recorder.recording():
            data = self._source(X, reset=True, min_samples=2)
            rng = checks.generator(self.random_state)
            recorder.seed(rng)
            with threads.for_work(int(np.prod(data.dims)) * (data.n_samples or 2**31) * self.rank):
                ready = self._prepare(data)
                n = ready.n_samples
                known = self._labels_used(y, n)
                self.rank_, clipped = start.allowed_rank(self.rank, (n, *data.dims))
                views = ready.views(data, self._view_source(data, ready, view, rng))
            recorder.identify(*self._identity(ready, known), *checkpoint.contents(views))
            with threads.for_work(n * int(np.prod(ready.dims)) * self.rank_):
                with np.errstate(over="ignore", invalid="ignore"):  # the monitor looks for it
                    fit = self._solve(views, known, rng)
                if fit.interrupted:
                    recorder.write()
                self._finish(fit, views() if callable(views) else views)
            self._stream: als.Statistics | None = None
            self.n_samples_seen_, self.n_batches_seen_ = n, 1
        if clipped:
            checks.warn(clipped)
        degeneracy.warn_if_degenerate(type(self).__name__, self.degeneracy_, *self._opposed)
        if fit.interrupted:
            raise KeyboardInterrupt(f"{type(self).__name__}.fit was interrupted; it can be used")
        fit.monitor.warn_if_unfinished()
        return self

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, view: ViewLike = None
    ) -> Array:
        """Fit, then :meth:`transform` the same X (E12: without the pull of the contrast)."""
        return self.fit(X, y, view=view).transform(X)

    def _identity(self, ready: Preparation, known: NDArray[np.intp] | None) -> list[Any]:
        """Return what tells the data of a fit from other data, for checkpoints."""
        return [ready.n_samples, ready.center, ready.scale, ready.bases, known]

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was where fitting fails: never new means with old factors."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _solve(
        self,
        views: als.Views | Callable[[], als.Views],
        known: NDArray[np.intp] | None,
        rng: np.random.Generator,
    ) -> Fit:
        """Best of ``n_init`` runs by the objective."""
        first = views() if callable(views) else views
        seed = int(rng.integers(2**31))
        return self._best_run(views, self._contrast(first.n_samples, known, seed), rng)

    def _best_run(
        self,
        views: als.Views | Callable[[], als.Views],
        contrast: als.Contrast,
        rng: np.random.Generator,
        **options: Any,
    ) -> Fit:
        first = views() if callable(views) else views
        settings = {"warm_up": self.warm_up, "batch_size": self.batch_size} | options
        brief: als.Views | None = None
        if not callable(views) and contrast is als.no_contrast and settings["batch_size"] is None:
            brief = self._in_brief(views, rng)
        best: Fit | None = None
        for _ in range(self.n_init if isinstance(self.init, str) else 1):
            try:
                fit = self._whole_run(
                    views, brief, self._start(first.dtype, rng), contrast, rng, settings
                )
            except KeyboardInterrupt:
                if best is None:
                    raise
                best.interrupted = True
                break
            if best is None or fit.objective < best.objective:
                best, worse = fit, best
            else:
                worse = fit
            if worse is not None:
                worse.lose()
            if fit.interrupted:
                best.interrupted = True
                break
        assert best is not None
        return best

    def _in_brief(self, views: als.Views, rng: np.random.Generator) -> als.Views | None:
        """Few rows that stand for all samples in iterations without contrast, where that pays."""
        size = int(np.prod(self.core_dims_))
        few = self.max_iter <= 2 * sketch.FINISH
        if self.compress != "auto" or few or not sketch.pays(views.n_samples, size, self.rank_):
            return None
        return sketch.sketched(views, self.rank_, size, int(rng.integers(2**31)))

    def _whole_run(
        self,
        views: als.Views | Callable[[], als.Views],
        brief: als.Views | None,
        factors: list[Array],
        contrast: als.Contrast,
        rng: np.random.Generator,
        settings: dict[str, Any],
    ) -> Fit:
        """Iterate once from these factors; first on few rows where they stand for all samples."""
        if brief is None:
            return self._run(views, factors, contrast, rng, **settings)
        left = self.max_iter - sketch.FINISH
        stages: list[tuple[Any, list[Array] | None, int, float]] = []
        small = sketch.cores(brief, self.core_dims_, self.rank_)
        if small is not None and left > 2 * sketch.ROW_SWEEPS:
            stages.append((*small, left - sketch.ROW_SWEEPS, self.tol))
            left = sketch.ROW_SWEEPS
        stages.append((brief, None, left, 0.0 if stages else self.tol))
        stages.append((views, None, sketch.FINISH, 0.0))
        first: Fit | None = None
        fit: Fit | None = None
        for rows, bases, count, tol in stages:
            fit = self._run(
                rows,
                compress.compress_factors(factors, bases),
                contrast,
                rng,
                **settings,
                max_iter=count,
                tol=tol,
                after=None if fit is None else fit.history,
            )
            factors = fit.factors = compress.expand_factors(fit.factors, bases)
            first = first or fit
            if fit.interrupted or fit.monitor.stopped:
                break
        assert fit is not None and first is not None
        if rows is not views:
            fit.memory = als.Memory()  # its rows are not the samples
        # Whether the fit has settled is a question to the stage that had a tolerance.
        fit.converged = first.converged
        if not fit.monitor.stopped:
            first.monitor.history, fit.monitor = fit.history, first.monitor
        return fit

    def _run(
        self,
        views: als.Views | Callable[[], als.Views],
        factors: list[Array],
        contrast: als.Contrast,
        rng: np.random.Generator,
        **options: Any,
    ) -> Fit:
        """Iterate once from these factors; ``options`` stand in for parameters of this name."""
        settings = {name: getattr(self, name) for name in ("warm_up", "batch_size", "max_iter")}
        settings |= {"tol": self.tol, "after": None} | options
        memory = als.Memory()
        first = views() if callable(views) else views
        monitor = Monitor(
            type(self).__name__,
            max_iter=settings["max_iter"],
            tol=settings["tol"],
            patience=self.patience,
            size=0.5 * first.norm_squared,
            callback=self.callback,
            verbose=bool(self.verbose),
        )
        if settings["after"] is not None:
            monitor.resume(settings["after"])
        keep = checkpoint.keep_run(monitor=monitor, memory=memory, rng=rng)
        with monitor:
            factors, interrupted = als.run(
                views,
                factors,
                contrast,
                alpha=self.alpha,
                warm_up=settings["warm_up"],
                monitor=monitor,
                batch_size=settings["batch_size"],
                step_size=self.step_size,
                rng=rng,
                memory=memory,
                keep=keep,
            )
        if settings["batch_size"] is not None or callable(views):
            memory.W = memory.V = None
        return Fit(
            factors,
            contrast,
            memory,
            monitor.history,
            monitor.converged,
            interrupted,
            monitor,
            keep=keep,
        )

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None, view: ViewLike = None) -> Self:
        """Learn from one more batch of an endless stream.

        The sums over samples that a factor update needs (E10) are kept and fade by
        ``forgetting`` with each batch; mean and scale are running averages. ``features_`` and
        ``labels_`` are those of the last batch. After ``fit``, or with a model from a file, the
        sums are taken from the model itself: WᵀX = (WᵀW)Hᵀ.
        """
        checks.check_parameters(self)
        begun = hasattr(self, "factors_")
        clipped = ""
        with self._all_or_nothing():
            X = checks.check_tensor(self, X, reset=not begun, min_samples=2)
            data = source.with_nan(source.ArraySource(X), self.missing == "mask")
            known = self._labels_used(y, len(X))
            rng = checks.generator(self.random_state, self.n_batches_seen_ if begun else 0)
            past: als.Statistics | None = None
            memory = als.Memory()
            if begun:
                typical = missing.imputed(self, X)
                held: Array | None = None
                if self.robust == "huber":
                    typical, held = robust.batch(self, typical)
                self.sample_weight_ = None if held is None else held**2
                self.center_, self.scale_ = scaling.update(
                    typical,
                    self.center_,
                    self.scale_,
                    self.n_samples_seen_,
                    center=self.center,
                    scale=self.scale,
                )
                ready = replace(self._ready(len(X)), held=held)
            else:
                ready = self._prepare(data, whole=True)
                self.n_samples_seen_ = self.n_batches_seen_ = 0
                self.rank_, clipped = start.allowed_rank(self.rank, X.shape)
            self._bases = None
            drawn = ready.views(data, self._view_source(data, ready, view, rng))
            views = drawn() if callable(drawn) else drawn
            contrast = self._contrast(len(X), known, int(rng.integers(2**31)), streaming=True)
            if begun:
                factors = [U.copy() for U in self.factors_]
                past = getattr(self, "_stream", None)
                if past is None:
                    gram = self.feature_gram_
                    past = als.Statistics(gram @ kernels.khatri_rao(factors).T, gram)
                memory.centers = self.centers_
            else:
                factors = self._start(views.dtype, rng)
            with threads.for_work(X.size * self.rank_):
                factors, sums, terms = self._stream_step(
                    views, factors, contrast, memory, past, rng
                )
                monitor = Monitor(type(self).__name__, max_iter=1, tol=0.0)
                if begun:
                    monitor.history = {k: list(v) for k, v in self.history_.items()}
                monitor.record(terms)
                fit = Fit(factors, contrast, memory, monitor.history, True, False, monitor)
                gain, order = self._finish(fit, views)
            self._stream = sums.regauged(gain, order)
            self.feature_gram_ = self._stream.WtW
            self.n_samples_seen_ += len(X)
            self.n_batches_seen_ += 1
        if clipped:
            checks.warn(clipped)
        return self

    def _stream_step(
        self,
        views: als.Views,
        factors: list[Array],
        contrast: als.Contrast,
        memory: als.Memory,
        past: als.Statistics | None,
        rng: np.random.Generator,
    ) -> tuple[list[Array], als.Statistics, dict[str, float]]:
        """Sweep over a batch of a stream; gives factors, all sums so far, terms."""
        for _ in range(FIRST_SWEEPS if past is None else LATER_SWEEPS):
            factors, _, sums, terms = als.sweep(
                views,
                factors,
                contrast,
                alpha=self.alpha,
                memory=memory,
                past=past,
                forgetting=self.forgetting,
            )
        return factors, sums, terms

    def _finish(self, fit: Fit, views: als.Views) -> tuple[Array, Array]:
        """Set the learned attributes, factors in normal form; gives the gauge and the order."""
        features, error = self._final_features(fit, views)
        # Features of very many samples are Dask arrays: what is asked of them is computed here.
        norms = np.sqrt(np.asarray(np.einsum("ij,ij->j", features.W, features.W, dtype=np.float64)))
        whole = compress.expand_factors(fit.factors, self._bases)
        self.factors_, gain, order = kernels.normal_form(whole, norms)
        # Components that have died away hold rounding only: they become zero.
        weights = np.abs(gain) * norms[order]
        dead = weights <= np.finfo(features.W.dtype).eps * weights.max()
        if dead.any():
            gain = np.where(dead, 0.0, gain)
            for U in self.factors_:
                U[:, dead] = 0.0
        scale = gain.astype(features.W.dtype)
        self.features_ = features.W[:, order] * scale
        self.view_features_ = None if features.V is None else features.V[:, order] * scale
        self.weights_ = (np.abs(gain) * norms[order] / np.sqrt(len(features.W))).astype(scale.dtype)
        self.feature_gram_ = np.asarray(self.features_.T @ self.features_)
        if self.view_features_ is not None:
            self.feature_gram_ += np.asarray(self.view_features_.T @ self.view_features_)
        self.degeneracy_, *self._opposed = degeneracy.most_opposed(
            self.factors_, self.feature_gram_
        )
        if self.sample_weight_ is not None:  # what was fitted are samples held down by weights
            own = np.sqrt(self.sample_weight_).astype(scale.dtype)[:, None]
            self.features_ = self.features_ / own
            if self.view_features_ is not None:
                self.view_features_ = self.view_features_ / own
        centers = fit.memory.centers
        sign = np.sign(scale)
        self.centers_ = None if centers is None else centers[:, order] * sign
        # The ridge acts on features in the scale of the fit. Beyond 1e6 a component, whose columns
        # have unit length, is as good as switched off.
        limit = np.sqrt(max(self.alpha, np.finfo(float).tiny) / 1e6)
        self.ridge_ = self.alpha / np.maximum(np.where(dead, 1.0, np.abs(gain)), limit) ** 2
        self.ridge_ = np.where(dead, 1.0, self.ridge_)
        self.reconstruction_error_ = error
        self.history_, self.n_iter_ = fit.history, len(fit.history["objective"])
        self.interrupted_ = fit.interrupted
        self.converged_ = fit.converged and not fit.interrupted
        self._labels: NDArray[np.intp] | None = fit.memory.labels
        for name, value in fit.learned.items():
            setattr(self, name, value)
        return gain, order

    def _final_features(self, fit: Fit, views: als.Views) -> tuple[als.Features, float]:
        """Features at the final factors, and ‖X − X̂‖/‖X‖ of the data's own view.

        Found once: a contrast that clusters moves its centres whenever it is asked.
        """
        if fit.final is not None:
            return fit.final
        features, residual = views.final(fit.factors, fit.contrast, self.alpha, fit.memory)
        fit.final = features, float(np.sqrt(residual / views.norm_x))
        return fit.final

    # ---------------------------------------------------------------- scaling and views

    def _source(self, X: Any, *, reset: bool, min_samples: int = 1) -> source.Source:
        """Return samples to fit or transform: checked, from memory or read block by block."""
        wanted = None if self.dtype is None else np.dtype(self.dtype)
        found = source.lazy(X, wanted if reset else self.center_.dtype)
        nan = self.missing == "mask"
        if found is not None:
            source.with_nan(found, nan)
        here = found is None or not source.is_spread(found)
        whole = reset and self.compress is None and found is not None and found.n_samples
        if found is None or (here and whole):
            # Without compression all samples are in memory anyway.
            array = X if found is None else np.concatenate(list(found.blocks()))
            checked = checks.check_tensor(self, array, reset=reset, min_samples=min_samples)
            return source.with_nan(source.ArraySource(checked), nan)
        if nan and not here:
            raise InvalidInputError(
                "missing='mask' needs the samples in this process; a Dask array must be complete: "
                "pass missing='error' and fill the gaps, or X.compute()"
            )
        if reset:
            self.n_features_in_ = found.dims[0]
            self.__dict__.pop("feature_names_in_", None)
        elif tuple(found.dims) != tuple(self.dims_):
            checks.check_dims(self, (0, *found.dims))
        return found

    def _prepare(self, data: source.Source, *, whole: bool = False) -> Preparation:
        """Learn mean and scale, and bases unless the ``whole`` tensors are to be fitted."""
        if self.robust is not None and source.is_spread(data):
            raise InvalidInputError(
                "robust='huber' needs the samples in this process; pass robust=None, or X.compute()"
            )
        ready = (robust.prepare if self.robust == "huber" else prepare)(
            data,
            None if whole else self.compress,
            self.rank,
            center=self.center,
            scale=self.scale,
        )
        self.sample_weight_ = None if ready.held is None else ready.held**2
        self.center_, self.scale_, self.dims_ = ready.center, ready.scale, tuple(data.dims)
        self._bases = ready.bases
        self.core_dims_ = ready.dims
        return ready

    def _ready(self, n_samples: int) -> Preparation:
        """Return mean and scale as learned, for samples as they are."""
        spread = self.scale_ / float(np.sqrt(self.center_.size))
        return Preparation(n_samples, self.center_, self.scale_, spread)

    def _start(self, dtype: np.dtype[Any], rng: np.random.Generator) -> list[Array]:
        """Factors to start from, in the core where there is one."""
        if isinstance(self.init, str):
            dims = self.dims_ if self._bases is None else self.core_dims_
            return start.factors(self.init, dims, self.rank_, dtype, rng)
        given = start.factors(self.init, self.dims_, self.rank_, dtype, rng)
        return compress.compress_factors(given, self._bases)

    def _view_source(
        self, data: source.Source, ready: Preparation, view: Any, rng: np.random.Generator
    ) -> source.Source | Callable[[], source.Source] | None:
        """Return where the augmented view comes from; a callable if it is drawn anew each time."""

        def given(other: Any) -> source.Source:
            if source.is_spread(data):
                return data.matched(other)
            nan = self.missing == "mask"
            stored = source.lazy(other, data.dtype, "view") if not callable(other) else None
            if stored is not None and tuple(stored.dims) == tuple(data.dims):
                return source.with_nan(stored, nan)
            shape = (data.n_samples, *data.dims)
            checked = checks.check_view(other, shape, data.dtype, nan=nan)
            return source.with_nan(source.ArraySource(checked, "view"), nan)

        if callable(view):
            return lambda: given(checks.drawn_view(view, rng))
        if view is not None:
            return given(view)
        if not self._needs_view:
            return None
        if self.fresh_views:
            return lambda: ready.augmented(data, self.augment, rng)
        return ready.augmented(data, self.augment, rng)

    # ---------------------------------------------------------------- using the model

    @property
    def labels_(self) -> NDArray[np.intp]:
        """Pseudo class of each fitted sample."""
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
        """Features ``w = xH(HᵀH + αI)⁻¹`` of new samples, (n, rank_). Equation E12.

        With ``missing="mask"`` NaN entries are left out: w solves the same equations over the
        observed entries of each sample.
        """
        check_is_fitted(self, "factors_")
        data = self._source(X, reset=False)
        H = kernels.khatri_rao(self.factors_)
        projector = H @ Encoder.from_factors(self.factors_, self.ridge_).K_inverse
        parts = []
        ready = self._ready(0)
        if source.is_spread(data):
            return data.transformed(ready, projector)
        with threads.for_work((data.n_samples or 2**31) * projector.size):
            for block in ready.centred(data):
                flat = block.reshape(len(block), -1)
                if self.missing == "mask":
                    parts.append(missing.encode(flat, projector, self.factors_, self.ridge_))
                else:
                    parts.append(flat @ projector)
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def inverse_transform(self, W: ArrayLike) -> Array:
        """Tensors (n, I_1, …, I_K) that features W (n, rank_) stand for. Equation E1.

        Of samples with missing values, ``inverse_transform(transform(X))`` has all entries.
        """
        check_is_fitted(self, "factors_")
        W = checks.check_features(W, self.rank_, self.center_.dtype)
        flat = kernels.cp_to_flat(W, self.factors_)
        flat *= self.scale_
        flat += self.center_.reshape(-1)
        return flat.reshape(len(W), *self.dims_)

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Share of the variance of X about the model's mean that the features explain."""
        W = np.asarray(checks.plain_output(self, X))
        data = self._source(X, reset=False)
        H = kernels.khatri_rao(self.factors_)
        HtH = kernels.gram(self.factors_)
        residual = total = 0.0
        at = 0
        for block in self._ready(0).centred(data):
            rows, flat = W[at : at + len(block)], block.reshape(len(block), -1)
            norm = float(kernels.row_norms_squared(flat).sum())
            if np.isnan(norm):
                left, norm = missing.residual(flat, rows, self.factors_)
            else:
                left = kernels.residual_squared(norm, flat @ H, rows, HtH)
                if kernels.cancelled(left, norm, flat.dtype):
                    left = kernels.residual_direct(flat, rows, self.factors_)
            residual += left
            total += norm
            at += len(block)
        return 1.0 - residual / total if total > 0 else 0.0

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one file, to be read by :func:`tensorcontrast.load_model`."""
        from tensorcontrast import model_io

        check_is_fitted(self, "factors_")
        model_io.save_model(self, path)

    def _check_learned(self) -> None:
        """Raise where the learned attributes of a loaded model do not fit each other."""
        shapes = [U.shape for U in self.factors_]
        if (
            shapes != [(d, self.rank_) for d in self.dims_]
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

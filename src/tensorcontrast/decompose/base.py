"""What CPD, ATD and PLC share: parameters, the course of a fit, what is learned, its use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.cp import diagnostics, kernels
from tensorcontrast.cp import nonnegative as hals
from tensorcontrast.cp.metric import NuisanceMetric
from tensorcontrast.decompose import diagnosis
from tensorcontrast.decompose.inputs import Layout, learn_layout, read_windows, shares_of
from tensorcontrast.decompose.model import CPModel, check_metric
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.io.atomic import check_writable
from tensorcontrast.io.model_files import SavedMixin
from tensorcontrast.solvers import als, missing
from tensorcontrast.solvers.als import FitResult, normal_form
from tensorcontrast.solvers.convergence import History, Monitor
from tensorcontrast.solvers.nonnegative import NonnegativeStep, check_rows
from tensorcontrast.solvers.paper import PaperResult
from tensorcontrast.solvers.windows import ArrayWindows, Windows, learn_scaling
from tensorcontrast.utils import checks, labels, threads
from tensorcontrast.utils.estimators import ComponentNamesMixin, NotebookMixin, assign_learned

Array = NDArray[Any]
ViewLike = ArrayLike | Callable[[np.random.Generator], ArrayLike] | None
#: Takes a fitted estimator every few sweeps of a fit.
Autosave = Callable[[Any], None]


@dataclass(frozen=True)
class Prepared:
    """Windows of a fit, centred and scaled, and what the model remembers of that."""

    windows: Windows
    layout: Layout
    #: Mean row in the units of the layout, and what rows are divided by.
    center: Array
    scale: float
    #: Mean row in the units of the caller, and what a row less that mean is multiplied with.
    raw_center: Array
    factor: Array
    #: Variance of each value (i,) of the windows, up to a number.
    variance: Array
    #: Learned attributes that describe the windows.
    described: dict[str, Any]

    def scaled(self, rows: Array) -> Array:
        """Return other rows in the units of the caller, such as another view, as in the fit."""
        return ArrayWindows(rows).scaled(self.raw_center, self.factor).rows

    def scaled_rows(self) -> Array:
        """Return the windows in memory, centred and scaled."""
        return rows_in_memory(self.windows, "a second view")

    def raw_rows(self) -> Array:
        """Return the windows in memory, in the units of the caller."""
        rows = self.scaled_rows()
        return np.asarray(rows / self.factor + self.raw_center, dtype=rows.dtype)


@dataclass(frozen=True)
class Solved:
    """What a subclass has found: a fit, and the attributes that only it has."""

    fit: FitResult
    #: ‖X − X̂‖/‖X‖ of the centred data; None: that of the features of E12.
    error: float | None = None
    metric: NuisanceMetric | None = None
    attributes: dict[str, Any] = field(default_factory=dict)


#: A result of the iterations, with its ``fit``.
Result = TypeVar("Result", Solved, PaperResult)


class CPEstimator(SavedMixin, NotebookMixin, ComponentNamesMixin, TransformerMixin, BaseEstimator):
    """Base of the CP estimators."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rank": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"random"}), list, tuple],
        "center": ["boolean"],
        "scale": ["boolean"],
        "block_weights": ["array-like", None],
        "dtype": [StrOptions({"float32", "float64"}), None],
        "missing": [StrOptions({"error", "mask"})],
        "nonnegative": ["boolean"],
        "random_state": ["random_state"],
        "callback": [callable, None],
        "verbose": ["verbose"],
    }
    #: Learned attributes whose names do not end in an underscore.
    _learned_private: ClassVar[tuple[str, ...]] = ("_opposed",)
    rank: int
    alpha: float
    max_iter: int
    tol: float
    n_init: int
    init: Any
    center: bool
    scale: bool
    dtype: str | None
    random_state: Any
    callback: Callable[[dict[str, float]], object] | None
    verbose: bool
    nonnegative: bool = False
    block_weights: Sequence[float] | None = None
    missing: str = "error"
    dims_: tuple[int, ...]
    #: Of coupled blocks; None for one tensor.
    block_dims_: tuple[tuple[int, ...], ...] | None
    block_scales_: tuple[float, ...] | None
    #: Directions of the nuisance metric and their gains (E23); None for the identity.
    nuisance_directions_: Array | None
    nuisance_gains_: Array | None
    rank_: int
    ridge_: Array
    weights_: Array
    degeneracy_: float
    n_iter_: int
    n_features_in_: int
    n_samples_seen_: int
    converged_: bool
    interrupted_: bool
    _opposed: list[int]
    factors_: list[Any]
    feature_gram_: Array
    center_: Array
    scale_: float
    history_: History

    # ---------------------------------------------------------------------------------- fitting

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        view: ViewLike = None,
        *,
        init: Any = None,
        autosave: str | PathLike[str] | Autosave | None = None,
        every: int = 5,
    ) -> Self:
        """Learn the factors from X (n, I_1, …, I_K), or from coupled blocks [X_1, X_2, …].

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K), or list of coupled blocks
            One tensor per window; a plain matrix is a tensor of order 1 per window. Coupled blocks
            (E22) are arrays of the same n windows in a tuple or, where their shapes differ, in a
            list. A list of arrays of one shape is an array-like of windows. Arrays that NumPy has
            mapped, Zarr or HDF5 arrays are read block by block; Dask arrays stay on their workers.
        y : array-like (n,), optional
            Used by :class:`PLC` alone; a warning says so, unless scikit-learn passes it on.
        view : array-like of the shape of X, optional
            A second view of the windows, which is fitted as well; see :class:`ATD` and
            :class:`PLC` for what it does there.
        init : fitted estimator of this class, optional
            Go on from its factors: up to ``max_iter`` iterations in all.
        autosave : path, optional
            Write a whole model to this file every few iterations, in one piece or not at all. After
            a crash, ``fit(X, init=load_model(path))`` goes on from there.
        every : int, default=5
            Iterations from one write of ``autosave`` to the next.

        Returns
        -------
        self

        Notes
        -----
        Ctrl-C ends the fit after the running iteration is dropped: the estimator is usable,
        ``interrupted_`` is true, and the KeyboardInterrupt goes on to the caller. Before the first
        iteration is done nothing is learned: the estimator stays as it was.
        """
        return self._fit(X, y, view, init=init, autosave=autosave, every=every)

    def _fit(
        self, X: Any, y: Any, view: Any, *, init: Any, autosave: Any, every: int, **more: Any
    ) -> Self:
        """Learn, then assign the learned attributes."""
        checks.check_parameters(self)
        if isinstance(every, bool) or not isinstance(every, Integral) or every < 1:
            raise InvalidInputError(f"every={every!r}: a whole number of iterations is needed")
        if self.missing == "mask" and (view is not None or self.nonnegative):
            raise InvalidInputError(
                "missing='mask' goes neither with a view nor with nonnegative=True; leave it out, "
                "or fill the gaps"
            )
        name = type(self).__name__
        try:
            attributes = self._learn(X, y, view, init, autosave, int(every), **more)
            assign_learned(self, attributes)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{name}.fit was interrupted before its first iteration was done; nothing was "
                "learned, the estimator is as it was before fit"
            ) from None
        if self.rank_ < self.rank:
            checks.warn(
                f"rank={self.rank} is more than {self.n_samples_seen_} windows of dims "
                f"{self.block_dims_ or self.dims_} can have; rank_={self.rank_} is used"
            )
        diagnostics.warn_if_degenerate(name, self.degeneracy_, *self._opposed)
        if self.interrupted_:
            raise KeyboardInterrupt(
                f"{name}.fit was interrupted after {self.n_iter_} iterations; the estimator has "
                "their result and can be used"
            )
        return self

    def _learn(
        self, X: Any, y: Any, view: Any, init: Any, autosave: Any, every: int, **more: Any
    ) -> dict[str, Any]:
        """Return the learned attributes of a fit; what was learned before plays no part."""
        prepared = self._prepare(X)
        n = prepared.windows.n
        known = self._read_labels(y, n)
        rank = als.allowed_rank(int(self.rank), n, prepared.layout.dims)
        rng = checks.generator(self.random_state)
        monitor = self._monitor(prepared, init)

        def attributes(fit: FitResult, solved: Solved | None = None) -> dict[str, Any]:
            return self._attributes(prepared, fit, solved)

        after = self._saver(autosave, every, attributes, monitor)
        with threads.for_work(n * prepared.layout.size * rank):
            with monitor, np.errstate(over="ignore", invalid="ignore"):  # the monitor looks for it
                solved = self._solve(
                    prepared, rank, known, view, init, rng, monitor, after=after, **more
                )
            if not (solved.fit.interrupted or solved.fit.stopped):
                monitor.warn_if_unfinished()
            try:
                return attributes(solved.fit, solved)
            except KeyboardInterrupt:  # the sweeps stand
                return attributes(replace(solved.fit, interrupted=True))

    def _prepare(self, X: Any) -> Prepared:
        """Read the windows, and learn their mean and scale."""
        data = read_windows(self, X)
        if self.nonnegative and not isinstance(data.windows, ArrayWindows):
            raise InvalidInputError(
                "nonnegative=True needs the windows in memory; pass an array, or nonnegative=False"
            )
        # What is not centred is scaled by its root mean square about zero.
        center = self.center and not self.nonnegative
        with threads.for_work(data.windows.n * data.windows.size * int(self.rank)):
            raw = data.windows.kept()
            scaling = learn_scaling(raw, center=center)
            layout = learn_layout(self, data, scaling)
            factor = layout.factor
            size = float(np.sqrt((np.square(factor) * scaling.variance).sum()))
            scale = size if self.scale else 1.0
            windows = raw.scaled(scaling.center, factor / scale)
        names = data.feature_names_in
        described = {
            "n_features_in_": data.n_features_in,
            **({} if names is None else {"feature_names_in_": names}),
            "n_samples_seen_": data.windows.n,
            "dims_": (layout.size,) if layout.coupled else layout.dims[0],
            "block_dims_": layout.dims if layout.coupled else None,
            "block_scales_": layout.scales if layout.coupled else None,
        }
        mean = (scaling.center * factor).astype(data.windows.dtype)
        gain = factor / scale
        variance = scaling.variance * np.square(gain)
        return Prepared(windows, layout, mean, scale, scaling.center, gain, variance, described)

    def _monitor(self, prepared: Prepared, init: Any) -> Monitor:
        """Return what counts iterations and decides when to stop."""
        monitor = Monitor(
            type(self).__name__,
            max_iter=int(self.max_iter),
            tol=self.tol,
            size=0.5 * prepared.windows.n * (1.0 if self.scale else prepared.scale**2),
            falls=self._sweeps_lower_the_objective,
            callback=self.callback,
            verbose=bool(self.verbose),
        )
        if init is not None:
            if type(init) is not type(self) or not init.__sklearn_is_fitted__():
                raise InvalidInputError(
                    f"init is {type(init).__name__}; a fitted {type(self).__name__} is needed"
                )
            monitor.resume(init.history_)
        return monitor

    #: Whether every iteration lowers one and the same objective.
    _sweeps_lower_the_objective: bool = True

    def _saver(
        self,
        autosave: Any,
        every: int,
        attributes: Callable[[FitResult], dict[str, Any]],
        monitor: Monitor,
    ) -> Callable[[int, als.Factors, Array], None] | None:
        """Return what is called after each sweep, to keep a model of it; None for nothing."""
        if autosave is None:
            return None
        if not callable(autosave):
            if not isinstance(autosave, str | PathLike):
                raise InvalidInputError(f"autosave={autosave!r}: the path of a file is needed")
            check_writable(Path(autosave))

        def after(done: int, factors: als.Factors, gram: Array) -> None:
            if done % every:
                return
            model = copy(self)
            model.callback = None  # which a file cannot hold
            fit = FitResult(factors, gram, monitor.history, converged=False, interrupted=True)
            assign_learned(model, attributes(fit))
            if callable(autosave):
                autosave(model)
            else:
                model.save(autosave)

        return after

    def _start(
        self, prepared: Prepared, rank: int, init: Any, rng: np.random.Generator
    ) -> kernels.Factors:
        """Return factors to start from."""
        dims = prepared.layout.dims
        if init is not None:
            if tuple(tuple(len(U) for U in block) for block in init._blocks) != dims:
                raise InvalidInputError(
                    f"init was fitted on windows of other dims than {dims}; fit without it"
                )
            if init.rank_ != rank:
                raise InvalidInputError(
                    f"init has rank_={init.rank_}, and rank={rank} is wanted; fit without it"
                )
            return kernels.in_float64(init._factors)
        if not isinstance(self.init, str):
            coupled = prepared.layout.coupled
            factors = als.given_factors(self.init, dims, rank, coupled=coupled)
            if self.nonnegative and any((U < 0).any() for U in factors):
                raise InvalidInputError(
                    "init holds negative entries, and nonnegative=True needs factors without any"
                )
            return factors
        factors = als.random_factors(dims, rank, rng, prepared.variance)
        return factors.like(np.abs(U) for U in factors) if self.nonnegative else factors

    def _fit_cpd(
        self,
        prepared: Prepared,
        rank: int,
        init: Any,
        rng: np.random.Generator,
        monitor: Monitor,
        after: Any,
    ) -> FitResult:
        """Return the best of ``n_init`` fits without a contrast."""

        def attempt() -> Solved:
            start = self._start(prepared, rank, init, rng)
            if self.nonnegative:
                assert isinstance(prepared.windows, ArrayWindows)
                rows = prepared.windows.rows
                check_rows(type(self).__name__, rows)
                step = NonnegativeStep(rows, self.alpha)
                return Solved(
                    als.run(
                        step,
                        start,
                        alpha=self.alpha,
                        monitor=monitor,
                        update=hals.update_factors,
                        balance=False,
                        after=after,
                    )
                )
            if init is not None:  # the lengths that its sweeps ended with
                lengths = np.sqrt(np.maximum(np.diagonal(init.feature_gram_), 0.0))
                start = kernels.balanced(start, lengths.astype(np.float64))[0]
            return Solved(
                als.fit_cp(
                    prepared.windows,
                    start,
                    alpha=self.alpha,
                    monitor=monitor,
                    gaps=self.missing == "mask",
                    after_sweep=after,
                )
            )

        return self._best_start(attempt, init, monitor).fit

    def _best_start(self, attempt: Callable[[], Result], init: Any, monitor: Monitor) -> Result:
        """Return the result of lowest objective from ``n_init`` random starts."""
        random = init is None and isinstance(self.init, str)
        best: Result | None = None
        for k in range(self.n_init if random else 1):
            if k:
                monitor.history = {}
                monitor.new_phase()
            try:
                result = attempt()
            except KeyboardInterrupt:
                if best is None:
                    raise
                return replace(best, fit=replace(best.fit, interrupted=True))
            if best is None or result.fit.objective < best.fit.objective:
                best = result
            if result.fit.interrupted:
                return replace(best, fit=replace(best.fit, interrupted=True))
        assert best is not None
        return best

    def _solve(
        self,
        prepared: Prepared,
        rank: int,
        known: NDArray[np.intp] | None,
        view: Any,
        init: Any,
        rng: np.random.Generator,
        monitor: Monitor,
        *,
        after: Any,
        **more: Any,
    ) -> Solved:
        """Run the iterations of a fit."""
        raise NotImplementedError

    def _read_labels(self, y: Any, n_samples: int) -> NDArray[np.intp] | None:
        """Labels that take part in the fit, −1 for unknown; by default none do, whatever y is."""
        labels.none_used(type(self).__name__, y, n_samples)
        return None

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, view: ViewLike = None
    ) -> Array:
        """Fit, then :meth:`transform` the same X (E12: without the pull of a contrast)."""
        return self.fit(X, y, view=view).transform(X)

    # ---------------------------------------------------------------------------- what is learned

    def _attributes(
        self, prepared: Prepared, fit: FitResult, solved: Solved | None
    ) -> dict[str, Any]:
        """Return the learned attributes of a fit; ``solved`` is None while it still runs."""
        windows, dtype = prepared.windows, prepared.windows.dtype
        error = fit.history["reconstruction_error"][-1]
        if solved is not None and solved.error is None:
            # Features at the final factors: those of the sums were of the factors before.
            step = als.PlainStep(windows, self.alpha, self.missing == "mask")
            sums = step(fit.factors)
            fit = replace(fit, gram=sums.WtW)
            left = sums.norm_squared - 2 * kernels.fitted_product(sums.Q, fit.factors)
            left += kernels.inner(sums.WtW, kernels.gram(fit.factors))
            if kernels.cancelled(left, sums.norm_squared, dtype):
                left = step.residual(fit.factors, fit.factors)
            error = float(np.sqrt(max(left, 0.0) / sums.norm_squared))
            error *= solved.attributes.pop("error_rise", 1.0)
        elif solved is not None and solved.error is not None:
            error = solved.error
        form = normal_form(fit.factors, fit.gram, windows.n, self.alpha, dtype)
        metric = None if solved is None else solved.metric
        blocks = [list(block) for block in kernels.blocks_of(form.factors)]
        degeneracy, *opposed = diagnostics.most_opposed(form.factors, form.gram)
        return {
            **prepared.described,
            "rank_": len(form.ridge),
            "factors_": blocks if prepared.layout.coupled else blocks[0],
            "weights_": form.weights,
            "feature_gram_": form.gram,
            "ridge_": form.ridge,
            "center_": prepared.center.reshape(prepared.described["dims_"]),
            "scale_": prepared.scale,
            "nuisance_directions_": None if metric is None else metric.directions,
            "nuisance_gains_": None if metric is None else metric.gains,
            "degeneracy_": degeneracy,
            "_opposed": opposed,
            "reconstruction_error_": error,
            "history_": {name: list(values) for name, values in fit.history.items()},
            "n_iter_": len(fit.history["objective"]),
            "interrupted_": fit.interrupted,
            "converged_": fit.converged and not fit.interrupted,
            **self._unfinished_attributes(),
            **({} if solved is None else solved.attributes),
        }

    def _unfinished_attributes(self) -> dict[str, Any]:
        """Return what attributes of a subclass are while a fit still runs."""
        return {}

    @property
    def _layout(self) -> Layout:
        """Where the blocks of a window are in its row."""
        if self.block_dims_ is None or self.block_scales_ is None:
            return Layout((tuple(self.dims_),), False, (1.0,))
        return Layout(self.block_dims_, True, self.block_scales_)

    @property
    def _blocks(self) -> list[list[Array]]:
        """The factors of each block."""
        return [self.factors_] if self.block_dims_ is None else self.factors_

    @property
    def _factors(self) -> kernels.Factors:
        """The factors as kernels take them."""
        return kernels.CoupledFactors(self._blocks)

    @property
    def _model(self) -> CPModel:
        """The fitted model as arrays."""
        rows, gains = self.nuisance_directions_, self.nuisance_gains_
        metric = None if rows is None or gains is None else NuisanceMetric(rows, gains)
        return CPModel(
            self._factors,
            self.ridge_,
            self.center_.reshape(-1),
            self.scale_,
            metric,
            self._overlap_power,
            self.nonnegative and self._overlap_power == 1.0,
        )

    @property
    def _overlap_power(self) -> float:
        """Exponent that divides the overlap between components; 1 for the coordinates of E12."""
        return 1.0

    # ------------------------------------------------------------------------------ using the model

    def transform(self, X: ArrayLike) -> Array:
        """Features ``w = xH(HᵀH + αI)⁻¹`` of new windows, (n, rank_). Equations E12, E22, E23.

        X is of the kind that was fitted: one tensor per window, or a list of coupled blocks. The
        features of a Dask array are a Dask array.

        With ``missing="mask"`` NaN entries are left out: w solves the same equations over the
        observed entries of each window.

        Features of a window do not depend on those that it is transformed with, but for the order
        in which matrix products add: they agree to 1e-5 of the length of the row in float32, and to
        1e-13 in float64.
        """
        check_is_fitted(self, "factors_")
        windows, layout = self._fitted_windows(X)
        encode = self._model.encoder(gaps=self.missing == "mask")
        if layout.scales != (1.0,) * len(layout.scales):
            windows = windows.scaled(np.zeros(layout.size), layout.factor)
        lazy = getattr(windows, "lazy_map", None)
        if lazy is not None:
            found: Array = lazy(encode, self.rank_)
            return found
        if self.missing == "mask" and isinstance(windows, ArrayWindows):
            missing.warn_of_empty(int(np.isnan(windows.rows).all(axis=1).sum()))
        with threads.for_work(windows.n * encode.projector.size):
            return windows.map(encode)

    def _fitted_windows(self, X: Any) -> tuple[Windows, Layout]:
        """Return windows for the fitted model, and where their blocks are and how to scale them."""
        layout = self._layout
        return read_windows(self, X, fitted=layout).windows, layout

    def inverse_transform(self, W: ArrayLike) -> Any:
        """Tensors (n, I_1, …, I_K) that features W (n, rank_) stand for. Equation E1.

        For coupled blocks a list of tensors, one per block (E22). Of windows with missing values,
        ``inverse_transform(transform(X))`` has all entries.
        """
        check_is_fitted(self, "factors_")
        W = checks.check_features(W, self.rank_, self.center_.dtype)
        tensors = self._layout.split(self._model.reconstructed(W))
        return tensors if self._layout.coupled else tensors[0]

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Share of the variance of X about the model's mean that the features explain."""
        W = np.asarray(checks.plain_output(self, X))
        windows, layout = self._fitted_windows(X)
        if layout.scales != (1.0,) * len(layout.scales):
            windows = windows.scaled(np.zeros(layout.size), layout.factor)
        return self._model.explained(windows, W)

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

    def _check_learned(self) -> None:
        """Raise where the learned attributes of a loaded model do not fit each other."""
        layout = self._layout
        shapes = [[U.shape for U in block] for block in self._blocks]
        expected = [[(size, self.rank_) for size in block] for block in layout.dims]
        if (
            shapes != expected
            or len(layout.scales) != len(layout.dims)
            or not all(isinstance(s, Real) and 0 < float(s) < np.inf for s in layout.scales)
            or self.center_.shape != tuple(self.dims_)
            or self.center_.size != layout.size
            or self.ridge_.shape != (self.rank_,)
            or self.n_features_in_ != self.dims_[0]
            or not (np.isfinite(self.scale_) and self.scale_ > 0)
        ):
            raise InvalidInputError(
                f"factors of shapes {shapes} and a mean of shape {self.center_.shape} do not make "
                f"a model of rank {self.rank_} and scale {self.scale_} for windows {layout.dims}"
            )
        if layout.coupled:
            shares_of(self.block_weights, len(layout.dims))
        check_metric(
            self.nuisance_directions_, self.nuisance_gains_, layout.size, self.center_.dtype
        )

    # --------------------------------------------------------------------------------- scikit-learn

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


def rows_in_memory(windows: Windows, name: str) -> Array:
    """Return all windows as rows in memory; raise where they are on Dask."""
    if isinstance(windows, ArrayWindows):
        return windows.rows
    if hasattr(windows, "lazy_map"):
        raise InvalidInputError(
            f"{name} needs all windows in this process; pass X.compute(), or use PLC() or CPD()"
        )
    return windows.map(np.asarray)


def check_autosave(after: Any, batch_size: int | None) -> None:
    """Raise where a fit by mini-batches is to be saved while it runs."""
    if after is not None and batch_size is not None:
        raise InvalidInputError("autosave= is for sweeps over all windows; leave batch_size out")

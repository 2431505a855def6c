"""What CPD, ATD and PLC share: parameters, the course of a fit, what is learned, its use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.cp import diagnostics, kernels
from tensorcontrast.cp.metric import NuisanceMetric
from tensorcontrast.decompose import diagnosis
from tensorcontrast.decompose.inputs import Layout, learn_layout, read_windows
from tensorcontrast.decompose.model import CPModel
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.io.atomic import check_writable
from tensorcontrast.io.model_files import SavedMixin
from tensorcontrast.solvers import als, missing
from tensorcontrast.solvers.als import FitResult, normal_form
from tensorcontrast.solvers.convergence import History, Monitor
from tensorcontrast.solvers.dask_windows import DaskWindows
from tensorcontrast.solvers.windows import ArrayWindows, Windows, learn_scaling
from tensorcontrast.utils import checks, labels, threads
from tensorcontrast.utils.estimators import ComponentNamesMixin, NotebookMixin, assign_learned

Array = NDArray[Any]
#: Takes a fitted estimator every few sweeps of a fit.
Autosave = Callable[[Any], None]

AUTOSAVE_EVERY = 5
"""Sweeps from one written model to the next."""


@dataclass(frozen=True)
class FitInput:
    """What a fit works on: windows, centred and scaled, and how it goes about them."""

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
    rank: int
    #: Labels that take part, −1 for unknown; None for none.
    labels: NDArray[np.intp] | None
    rng: np.random.Generator
    monitor: Monitor
    #: Fitted estimator to go on from.
    init: Any

    def scaled(self, rows: Array) -> Array:
        """Return other rows in the units of the caller, such as another view, as in the fit."""
        return ArrayWindows(rows).scaled(self.raw_center, self.factor).rows

    def rows_in_memory(self, name: str) -> Array:
        """Return all windows as rows in memory; raise where they are on Dask."""
        if isinstance(self.windows, ArrayWindows):
            return self.windows.rows
        if isinstance(self.windows, DaskWindows):
            raise InvalidInputError(
                f"{name} needs all windows in this process; pass X.compute(), or use PLC() or CPD()"
            )
        return self.windows.map(np.asarray)


@dataclass(frozen=True)
class Solved:
    """What a subclass has found: a fit, and the attributes that only it has."""

    fit: FitResult
    metric: NuisanceMetric | None = None
    attributes: dict[str, Any] = field(default_factory=dict)


class CPEstimator(SavedMixin, NotebookMixin, ComponentNamesMixin, TransformerMixin, BaseEstimator):
    """Base of the CP estimators."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rank": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "center": ["boolean"],
        "scale": ["boolean"],
        "block_weights": ["array-like", None],
        "dtype": [StrOptions({"float32", "float64"}), None],
        "random_state": ["random_state"],
        "callback": [callable, None],
        "verbose": ["verbose"],
    }
    #: Learned attributes whose names do not end in an underscore.
    _learned_private: ClassVar[tuple[str, ...]] = ("_opposed",)
    #: Whether every iteration lowers one and the same objective.
    _sweeps_lower_the_objective: ClassVar[bool] = True
    #: Whether a fit needs an augmented view.
    _needs_view: ClassVar[bool] = False
    #: Exponent that divides the overlap between components; 1 for the coordinates of E12.
    _overlap_power: ClassVar[float] = 1.0
    rank: int
    alpha: float
    max_iter: int
    tol: float
    center: bool
    scale: bool
    dtype: str | None
    random_state: Any
    callback: Callable[[dict[str, float]], object] | None
    verbose: bool
    block_weights: Sequence[float] | None
    nonnegative: bool = False
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
        *,
        init: Any = None,
        autosave: str | PathLike[str] | Autosave | None = None,
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
        init : fitted estimator of this class, optional
            Go on from its factors: up to ``max_iter`` iterations in all.
        autosave : path, optional
            Write a whole model to this file every five iterations, in one piece or not at all.
            After a crash, ``fit(X, init=load_model(path))`` goes on from there.

        Returns
        -------
        self

        Notes
        -----
        Ctrl-C ends the fit after the running iteration is dropped: the estimator is usable,
        ``interrupted_`` is true, and the KeyboardInterrupt goes on to the caller. Before the first
        iteration is done nothing is learned: the estimator stays as it was.
        """
        return self._fit(X, y, init, autosave)

    def _fit(self, X: Any, y: Any, init: Any, autosave: Any, **more: Any) -> Self:
        """Learn, then assign the learned attributes; ``more`` goes to :meth:`_solve`."""
        checks.check_parameters(self)
        name = type(self).__name__
        try:
            assign_learned(self, self._learn(X, y, init, autosave, **more))
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

    def _learn(self, X: Any, y: Any, init: Any, autosave: Any, **more: Any) -> dict[str, Any]:
        """Return the learned attributes of a fit; what was learned before plays no part."""
        fit_input = self._prepare(X, y, init)
        save = self._saver(autosave, fit_input)
        with threads.for_work(fit_input.windows.n * fit_input.layout.size * fit_input.rank):
            with (
                fit_input.monitor,
                np.errstate(over="ignore", invalid="ignore"),
            ):  # which it looks for
                solved = self._solve(fit_input, save, **more)
            if not (solved.fit.interrupted or solved.fit.stopped):
                fit_input.monitor.warn_if_unfinished()
        try:
            return self._attributes(fit_input, solved)
        except KeyboardInterrupt:  # the sweeps stand
            fit = replace(solved.fit, interrupted=True)
            return self._attributes(fit_input, replace(solved, fit=fit))

    def _prepare(self, X: Any, y: Any, init: Any) -> FitInput:
        """Read the windows and their labels, and learn mean and scale."""
        data = read_windows(self, X)
        n = data.windows.n
        labels = self._read_labels(y, n)
        if self.nonnegative and not isinstance(data.windows, ArrayWindows):
            raise InvalidInputError(
                "nonnegative=True needs the windows in memory; pass an array, or nonnegative=False"
            )
        with threads.for_work(n * data.windows.size * int(self.rank)):
            raw = data.windows.kept()
            # What is not centred is scaled by its root mean square about zero.
            scaling = learn_scaling(raw, center=self.center and not self.nonnegative)
            layout = learn_layout(self, data, scaling)
            factor = layout.factor
            size = float(np.sqrt((np.square(factor) * scaling.variance).sum()))
            scale = size if self.scale else 1.0
            windows = raw.scaled(scaling.center, factor / scale)
        described = {
            "n_features_in_": data.n_features_in,
            "n_samples_seen_": n,
            "dims_": (layout.size,) if layout.coupled else layout.dims[0],
            "block_dims_": layout.dims if layout.coupled else None,
            "block_scales_": layout.scales if layout.coupled else None,
        }
        if data.feature_names_in is not None:
            described["feature_names_in_"] = data.feature_names_in
        monitor = Monitor(
            type(self).__name__,
            max_iter=int(self.max_iter),
            tol=self.tol,
            size=0.5 * n * (1.0 if self.scale else scale**2),
            falls=self._sweeps_lower_the_objective,
            callback=self.callback,
            verbose=bool(self.verbose),
        )
        rank = als.allowed_rank(int(self.rank), n, layout.dims)
        if init is not None:
            self._check_init(init, layout, rank)
            monitor.resume(init.history_)
        return FitInput(
            windows,
            layout,
            center=(scaling.center * factor).astype(windows.dtype),
            scale=scale,
            raw_center=scaling.center,
            factor=factor / scale,
            variance=scaling.variance * np.square(factor / scale),
            described=described,
            rank=rank,
            labels=labels,
            rng=checks.generator(self.random_state),
            monitor=monitor,
            init=init,
        )

    def _check_init(self, init: Any, layout: Layout, rank: int) -> None:
        """Raise where a fit cannot go on from a model."""
        if type(init) is not type(self) or not init.__sklearn_is_fitted__():
            raise InvalidInputError(
                f"init is {type(init).__name__}; a fitted {type(self).__name__} is needed"
            )
        if init._layout.dims != layout.dims or init.rank_ != rank:
            raise InvalidInputError(
                f"init has rank_={init.rank_} and windows of dims {init._layout.dims}, but this "
                f"fit has rank {rank} and {layout.dims}; fit without init"
            )

    def _saver(self, autosave: Any, fit_input: FitInput) -> als.AfterSweep | None:
        """Return what is called after each sweep, to keep a model of it; None for nothing."""
        if autosave is None:
            return None
        if not callable(autosave):
            if not isinstance(autosave, str | PathLike):
                raise InvalidInputError(f"autosave={autosave!r}: the path of a file is needed")
            check_writable(Path(autosave))

        def save(fit: FitResult) -> None:
            if len(fit.history["objective"]) % AUTOSAVE_EVERY:
                return
            model = copy(self)
            model.callback = None  # which a file cannot hold
            assign_learned(
                model, self._attributes(fit_input, Solved(replace(fit, interrupted=True)))
            )
            if callable(autosave):
                autosave(model)
            else:
                model.save(autosave)

        return save

    def _start(self, fit_input: FitInput) -> kernels.Factors:
        """Return factors to start from."""
        if fit_input.init is not None:  # with the lengths that its sweeps ended with
            lengths = np.sqrt(np.maximum(np.diagonal(fit_input.init.feature_gram_), 0.0))
            factors = kernels.in_float64(fit_input.init._factors)
            return kernels.balanced(factors, lengths.astype(np.float64))[0]
        return als.random_factors(
            fit_input.layout.dims, fit_input.rank, fit_input.rng, fit_input.variance
        )

    def _fit_cp(self, fit_input: FitInput, save: als.AfterSweep | None) -> FitResult:
        """Fit without a contrast."""
        return als.fit_cp(
            fit_input.windows,
            self._start(fit_input),
            alpha=self.alpha,
            monitor=fit_input.monitor,
            gaps=self.missing == "mask",
            after_sweep=save,
        )

    def _solve(self, fit_input: FitInput, save: als.AfterSweep | None, **more: Any) -> Solved:
        """Run the iterations of a fit."""
        raise NotImplementedError

    def _read_labels(self, y: Any, n_samples: int) -> NDArray[np.intp] | None:
        """Labels that take part in the fit, −1 for unknown; by default none do, whatever y is."""
        labels.none_used(type(self).__name__, y, n_samples)
        return None

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> Array:
        """Fit, then :meth:`transform` the same X (E12: without the pull of a contrast)."""
        return self.fit(X, y, **fit_params).transform(X)

    # ---------------------------------------------------------------------------- what is learned

    def _attributes(self, fit_input: FitInput, solved: Solved) -> dict[str, Any]:
        """Return the learned attributes of a fit, which may still run."""
        fit, metric = solved.fit, solved.metric
        form = normal_form(
            fit.factors, fit.gram, fit_input.windows.n, self.alpha, fit_input.windows.dtype
        )
        blocks = [list(block) for block in kernels.blocks_of(form.factors)]
        degeneracy, *opposed = diagnostics.most_opposed(form.factors, form.gram)
        return {
            **fit_input.described,
            "rank_": len(form.ridge),
            "factors_": blocks if fit_input.layout.coupled else blocks[0],
            "weights_": form.weights,
            "feature_gram_": form.gram,
            "ridge_": form.ridge,
            "center_": fit_input.center.reshape(fit_input.described["dims_"]),
            "scale_": fit_input.scale,
            "nuisance_directions_": None if metric is None else metric.directions,
            "nuisance_gains_": None if metric is None else metric.gains,
            "degeneracy_": degeneracy,
            "_opposed": opposed,
            "reconstruction_error_": fit.error,
            "history_": {name: list(values) for name, values in fit.history.items()},
            "n_iter_": len(fit.history["objective"]),
            "interrupted_": fit.interrupted,
            "converged_": fit.converged and not fit.interrupted,
            **self._unfinished_attributes(),
            **solved.attributes,
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
            self.nonnegative,
        )

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
        windows = self._fitted_windows(X)
        encode = self._model.encoder(gaps=self.missing == "mask")
        if isinstance(windows, DaskWindows):
            features: Array = windows.lazy_map(encode, self.rank_)
            return features
        if self.missing == "mask" and isinstance(windows, ArrayWindows):
            missing.warn_of_empty(int(np.isnan(windows.rows).all(axis=1).sum()))
        with threads.for_work(windows.n * encode.projector.size):
            return windows.map(encode)

    def _fitted_windows(self, X: Any) -> Windows:
        """Return windows for the fitted model, in the units of its layout."""
        layout = self._layout
        windows = read_windows(self, X, fitted=layout).windows
        if any(scale != 1.0 for scale in layout.scales):
            windows = windows.scaled(np.zeros(layout.size), layout.factor)
        return windows

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
        return self._model.explained(self._fitted_windows(X), W)

    def diagnose(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        *,
        n_seeds: int = 2,
        n_splits: int = 2,
        random_state: int = 0,
        **fit_params: Any,
    ) -> diagnosis.Diagnosis:
        """Say whether the features can be trusted: do they come back, what do they explain.

        The model is fitted again with other seeds, and to both halves of the subjects; the
        features of these fits are matched to those of the model. A feature is "stable" where the
        mean correlation is 0.85 or more in both comparisons. The model itself stays as it is.

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K), or list of coupled blocks
            The windows that the model was fitted on, in memory.
        groups : array-like (n,), optional
            Subject of each window: halves share none. Without it, windows are divided at random,
            which tells less where windows of one subject are alike.
        n_seeds : int, default=2
            Fits with other seeds.
        n_splits : int, default=2
            Times that the subjects are divided in halves; two fits each.
        random_state : int, default=0
            Seeds the halves.
        **fit_params : Any
            What else ``fit`` was fit_input, such as ``y``.

        Returns
        -------
        Diagnosis
            Tables of features and of windows that stand out; ``print`` shows them, ``to_dict`` and
            ``to_json`` give them.

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
        >>> [feature.verdict for feature in found.features]
        ['stable', 'stable']
        """
        check_is_fitted(self, "factors_")
        counts = {"n_seeds": n_seeds, "n_splits": n_splits, "random_state": random_state}
        return diagnosis.diagnose(self, X, groups, fit_params, **counts)

    def _unfitted(self, seed: int) -> Self:
        """Return an estimator that would learn such components with another seed, silently."""
        other: Self = clone(self).set_params(random_state=seed, callback=None, verbose=False)
        return other

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

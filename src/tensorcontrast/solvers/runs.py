"""Runs of iterations: one run, its stages on a sketch, the best of several starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import compress, sketch
from tensorcontrast.solvers import als, checkpoint, start
from tensorcontrast.solvers.convergence import Callback, History, Monitor

Array = NDArray[Any]
Factors = Sequence[Array]
#: Both views, or a function that draws them anew.
AnyViews = als.Views | Callable[[], als.Views]

#: Parameters of the estimators that a run goes by.
_PARAMETERS = (
    "init",
    "n_init",
    "alpha",
    "max_iter",
    "tol",
    "patience",
    "warm_up",
    "batch_size",
    "step_size",
    "compress",
    "callback",
)


@dataclass
class Fit:
    """Outcome of one run: factors in the scale of the fit, and how it went."""

    factors: Factors
    contrast: als.Contrast
    memory: als.Memory
    history: History
    converged: bool
    interrupted: bool
    monitor: Monitor
    learned: dict[str, Any] = field(default_factory=dict)
    #: Features at the final factors and the error of the data, once they were asked for.
    final: tuple[als.Features, float] | None = None
    #: Whether the callback has ended a descent, whose monitor is another one.
    stopped: bool = False
    #: The nuisance metric that was selected for it (:mod:`.gls`).
    selected: Any = None
    #: Whether it is one more batch of a stream, which may be silent itself.
    streaming: bool = False
    #: What a checkpoint has of this run.
    keep: checkpoint.Keep | None = None

    def lose(self) -> None:
        """Let checkpoints forget this run: another one is better."""
        if self.keep is not None:
            self.keep.lose()

    @property
    def goes_on(self) -> bool:
        """Whether nobody has asked for an end."""
        return not (self.interrupted or self.stopped or self.monitor.stopped)

    @property
    def objective(self) -> float:
        """Last value of E8."""
        return self.history["objective"][-1]

    def final_features(self, views: als.Views, alpha: float) -> tuple[als.Features, float]:
        """Features at the final factors, and ‖X − X̂‖/‖X‖ of the data's own view.

        Found once: a contrast that clusters moves its centres whenever it is asked.
        """
        if self.final is not None:
            return self.final
        checkpoint.check_remembered(self.factors)
        features, residual = views.final(self.factors, self.contrast, alpha, self.memory)
        self.final = features, float(np.sqrt(residual / views.norm_x))
        return self.final


@dataclass(frozen=True)
class Runs:
    """How the runs of one fit are made; the parameters are those of the estimators."""

    name: str
    rank: int
    #: Shape of a sample, and the bases of its core where there is one.
    dims: tuple[int, ...]
    bases: list[Array] | None
    #: Shapes of coupled blocks; none for one tensor.
    block_dims: tuple[tuple[int, ...], ...]
    init: str | Sequence[Array]
    n_init: int
    alpha: float
    max_iter: int
    tol: float
    patience: int
    warm_up: int
    batch_size: int | None
    step_size: float
    compress: Any
    callback: Callback | None
    verbose: bool
    #: Whether sweeps also balance the lengths of columns (:func:`.als.balanced`).
    balance: bool = False

    @classmethod
    def of(cls, model: Any) -> Runs:
        """Make the runs of an estimator whose data are prepared."""
        return cls(
            name=type(model).__name__,
            rank=model.rank_,
            dims=model.dims_,
            bases=model._bases,
            block_dims=model.block_dims_ or (),
            verbose=bool(model.verbose),
            **{name: getattr(model, name) for name in _PARAMETERS},
        )

    @property
    def _dims(self) -> tuple[int, ...]:
        """Shape of what is fitted: of the core, or of the samples."""
        if self.bases is None:
            return self.dims
        return tuple(V.shape[1] for V in self.bases)

    def start(self, views: als.Views, rng: np.random.Generator) -> Sequence[Array]:
        """Factors to start from, in the core where there is one."""
        if isinstance(self.init, str):
            wanted = start.shapes(self._dims, self.rank, self.block_dims)
            drawn = start.in_blocks(start.drawn(wanted, views.dtype, rng), self.block_dims)
            return als.turned(views, drawn, self.alpha)
        given = start.given(self.init, self.dims, self.rank, views.dtype, self.block_dims)
        return compress.compress_factors(given, self.bases)

    def best(self, views: AnyViews, contrast: als.Contrast, rng: np.random.Generator) -> Fit:
        """Best of ``n_init`` runs by the objective."""
        first = views() if callable(views) else views
        brief: als.Views | None = None
        if not callable(views) and contrast is als.no_contrast and self.batch_size is None:
            brief = self._in_brief(views, rng)
        best: Fit | None = None
        for _ in range(self.n_init if isinstance(self.init, str) else 1):
            try:
                fit = self._staged(views, brief, self.start(first, rng), contrast, rng)
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
        checkpoint.check_remembered(best.factors)
        return best

    def _in_brief(self, views: als.Views, rng: np.random.Generator) -> als.Views | None:
        """Few rows that stand for all samples in iterations without contrast, where that pays."""
        size = int(np.prod(self._dims))
        few = self.max_iter <= 2 * sketch.FINISH
        if self.compress != "auto" or few or not sketch.pays(views.n_samples, size, self.rank):
            return None
        return sketch.sketched(views, self.rank, size, int(rng.integers(2**31)))

    def _staged(
        self,
        views: AnyViews,
        brief: als.Views | None,
        factors: Factors,
        contrast: als.Contrast,
        rng: np.random.Generator,
    ) -> Fit:
        """Iterate once from these factors; first on few rows where they stand for all samples."""
        if brief is None:
            return self.once(views, factors, contrast, rng)
        left = self.max_iter - sketch.FINISH
        small = None if self.block_dims else sketch.cores(brief, self._dims, self.rank)
        fit: Fit | None = None
        if small is not None and left > 2 * sketch.ROW_SWEEPS:
            first = self._stage(*small, left - sketch.ROW_SWEEPS, self.tol, factors, contrast, rng)
            fit = first
            if first.goes_on:
                args = (brief, None, sketch.ROW_SWEEPS, 0.0, first.factors, contrast, rng, first)
                fit = self._stage(*args)
                done = len(first.history["objective"])
                if fit.goes_on and sketch.misled(fit.history["objective"], done):
                    fit = None  # cores were too small to tell: begin anew, on the rows
        if fit is None:
            first = fit = self._stage(brief, None, left, self.tol, factors, contrast, rng)
        if fit.goes_on:
            fit = self._stage(
                views, None, sketch.FINISH, 0.0, fit.factors, contrast, rng, after=fit
            )
        else:
            fit.memory = als.Memory()  # its rows are not the samples
        # Whether the fit has settled is a question to the stage that had a tolerance.
        fit.converged = first.converged
        if not fit.monitor.stopped:
            first.monitor.history, fit.monitor = fit.history, first.monitor
        return fit

    def _stage(
        self,
        rows: AnyViews,
        bases: list[Array] | None,
        count: int,
        tol: float,
        factors: Factors,
        contrast: als.Contrast,
        rng: np.random.Generator,
        after: Fit | None = None,
    ) -> Fit:
        """Iterate over these rows, or cores of the ``bases``; factors are those of the data."""
        fit = replace(self, max_iter=count, tol=tol).once(
            rows,
            compress.compress_factors(factors, bases),
            contrast,
            rng,
            after=None if after is None else after.history,
        )
        fit.factors = compress.expand_factors(fit.factors, bases)
        return fit

    def once(
        self,
        views: AnyViews,
        factors: Factors,
        contrast: als.Contrast,
        rng: np.random.Generator,
        after: History | None = None,
    ) -> Fit:
        """Iterate once from these factors, ``after`` the iterations of a stage before."""
        memory = als.Memory()
        first = views() if callable(views) else views
        monitor = Monitor(
            self.name,
            max_iter=self.max_iter,
            tol=self.tol,
            patience=self.patience,
            size=0.5 * first.norm_squared,
            falls=contrast is als.no_contrast and self.batch_size is None and not callable(views),
            callback=self.callback,
            verbose=self.verbose,
        )
        if after is not None:
            monitor.resume(after)
        keep = checkpoint.keep_run(
            monitor=monitor,
            memory=memory,
            rng=rng,
            n_samples=first.n_samples,
            whole=self.batch_size is None,
        )
        with monitor:
            factors, interrupted = als.run(
                views,
                factors,
                contrast,
                alpha=self.alpha,
                warm_up=self.warm_up,
                monitor=monitor,
                batch_size=self.batch_size,
                step_size=self.step_size,
                rng=rng,
                memory=memory,
                balance=self.balance,
                keep=keep,
            )
        if self.batch_size is not None or callable(views):
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

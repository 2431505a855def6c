"""Runs of iterations: one run, its stages on a sketch, the best of several starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tensorcontrast.cp import compress, kernels, sketch
from tensorcontrast.cp import nonnegative as hals
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als, checkpoint, nonnegative, start
from tensorcontrast.solvers.convergence import Callback, History, Monitor
from tensorcontrast.solvers.settings import ALS
from tensorcontrast.solvers.tuning import TUNING, Tuning
from tensorcontrast.solvers.whole import WholeViews
from tensorcontrast.utils.progress import StageTimes

Array = NDArray[Any]
Factors = Sequence[Array]


@dataclass(frozen=True)
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
    #: Features at the final factors and the error of the data (:meth:`finished`).
    final: tuple[als.Features, float] | None = None
    #: Whether the callback has ended a descent, whose monitor is another one.
    stopped: bool = False
    #: The nuisance metric that was selected for it (:mod:`.gls`).
    selected: Any = None
    #: Whether it is one more batch of a stream, which may be silent itself.
    streaming: bool = False
    #: What a checkpoint has of this run.
    keep: checkpoint.Keep | None = None
    #: Whether the factors are those of whole windows, although iterations went over cores.
    whole: bool = False

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

    def finished(self, views: als.Views, alpha: float) -> Fit:
        """Return the fit with features at the final factors, and ‖X − X̂‖/‖X‖ of its own view.

        They are computed once: a contrast that clusters moves its centres at every call.
        """
        if self.final is not None:
            return self
        checkpoint.check_remembered(self.factors)
        features, residual = views.final(self.factors, self.contrast, alpha, self.memory)
        return replace(self, final=(features, float(np.sqrt(residual / views.norm_x))))


@dataclass(frozen=True)
class Runs:
    """How the runs of one fit are made: sizes, settings, and progress and checkpoint."""

    name: str
    rank: int
    #: Shape of a window, and the bases of its core where there is one.
    dims: tuple[int, ...]
    bases: list[Array] | None
    #: Shapes of coupled blocks; none for one tensor.
    block_dims: tuple[tuple[int, ...], ...]
    alpha: float
    settings: ALS
    warm_up: int = 0
    callback: Callback | None = None
    verbose: bool = False
    recorder: checkpoint.Recorder = checkpoint.NOTHING
    #: Whether sweeps also balance the lengths of columns (:func:`.als.balanced`).
    balance: bool = False
    tuning: Tuning = TUNING
    #: Whether features and factors have no negative entries (:mod:`.nonnegative`).
    nonnegative: bool = False
    #: Counts the seconds of the stages of a fit, where its caller wants to know them.
    times: StageTimes | None = None
    #: The windows that cores stand for, for the sweeps that end a fit; None: there are no cores.
    whole: WholeViews | None = None

    @property
    def plain(self) -> als.Contrast:
        """Features without a contrast."""
        return nonnegative.contrast if self.nonnegative else als.no_contrast

    @property
    def _dims(self) -> tuple[int, ...]:
        """Shape of what is fitted: of the core, or of the windows."""
        if self.bases is None:
            return self.dims
        return tuple(V.shape[1] for V in self.bases)

    def start(self, views: als.Views, rng: np.random.Generator) -> Sequence[Array]:
        """Factors to start from, in the core where there is one."""
        if isinstance(self.settings.init, str):
            wanted = start.shapes(self._dims, self.rank, self.block_dims)
            found = start.drawn(wanted, views.dtype, rng)
            if self.nonnegative:
                return start.in_blocks([np.abs(U) for U in found], self.block_dims)
            drawn = start.in_blocks(found, self.block_dims)
            return als.turned(views, drawn, self.alpha)
        given = start.given(self.settings.init, self.dims, self.rank, views.dtype, self.block_dims)
        if self.nonnegative and any((U < 0).any() for U in given):
            raise InvalidInputError(
                "init holds negative entries, and nonnegative=True needs factors without any"
            )
        return compress.compress_factors(given, self.bases)

    def best(self, views: als.AnyViews, contrast: als.Contrast, rng: np.random.Generator) -> Fit:
        """Best of ``n_init`` runs by the objective; on cores it ends with sweeps over windows."""
        final_sweeps = self.tuning.sketch.final_sweeps
        left = self.settings.max_iter - final_sweeps
        if (
            self.whole is None
            or contrast is not als.no_contrast
            or self._drawn(views)
            or left <= final_sweeps
        ):
            return self._best(views, contrast, rng)
        settings = clone(self.settings).set_params(max_iter=left)
        fit = replace(self, settings=settings)._best(views, contrast, rng)
        if not fit.goes_on:
            return fit
        end = replace(self, bases=None)._stage(
            cast("als.Views", self.whole),
            None,
            final_sweeps,
            0.0,
            compress.expand_factors(fit.factors, self.bases),
            contrast,
            rng,
            after=fit,
        )
        if end.interrupted and len(end.history["objective"]) == len(fit.history["objective"]):
            return replace(fit, interrupted=True)  # before the first of these sweeps was done
        end = replace(end, converged=fit.converged, whole=True)
        if end.monitor.stopped:
            return end
        fit.monitor.history = end.history
        return replace(end, monitor=fit.monitor)

    def _best(self, views: als.AnyViews, contrast: als.Contrast, rng: np.random.Generator) -> Fit:
        """Best of ``n_init`` runs over these rows."""
        first = views.draw()
        sketched: als.Views | None = None
        if contrast is als.no_contrast and not self._drawn(views):
            sketched = self._sketch(first, rng)
        best: Fit | None = None
        for _ in range(self.settings.n_init if isinstance(self.settings.init, str) else 1):
            try:
                fit = self._staged(views, sketched, self.start(first, rng), contrast, rng)
            except KeyboardInterrupt:
                if best is None:
                    raise
                best = replace(best, interrupted=True)
                break
            if best is None or fit.objective < best.objective:
                best, worse = fit, best
            else:
                worse = fit
            if worse is not None:
                worse.lose()
            if fit.interrupted:
                best = replace(best, interrupted=True)
                break
        assert best is not None
        checkpoint.check_remembered(best.factors)
        return best

    def _drawn(self, views: als.AnyViews) -> bool:
        """Whether iterations go over other rows each: mini-batches, or views drawn anew."""
        return self.settings.batch_size is not None or views.fresh

    def _sketch(self, views: als.Views, rng: np.random.Generator) -> als.Views | None:
        """Few rows that stand for all windows without contrast, where that is faster."""
        size = int(np.prod(self._dims))
        tuning = self.tuning.sketch
        few = self.settings.max_iter <= 2 * tuning.final_sweeps
        if (
            self.settings.compress != "auto"
            or few
            or not sketch.worthwhile(views.n_samples, size, self.rank, tuning)
        ):
            return None
        return _sketched(views, tuning.rows_per_rank * self.rank, size, int(rng.integers(2**31)))

    def _staged(
        self,
        views: als.AnyViews,
        sketched: als.Views | None,
        factors: Factors,
        contrast: als.Contrast,
        rng: np.random.Generator,
    ) -> Fit:
        """Iterate once from these factors; first on few rows where they stand for all windows."""
        if sketched is None:
            return self.once(views, factors, contrast, rng)
        row_sweeps, final_sweeps = self.tuning.sketch.row_sweeps, self.tuning.sketch.final_sweeps
        left = self.settings.max_iter - final_sweeps
        small = None
        if not self.block_dims:
            small = _cores(sketched, self._dims, self.rank, self.tuning.compress)
        fit: Fit | None = None
        if small is not None and left > 2 * row_sweeps:
            first = self._stage(
                *small, left - row_sweeps, self.settings.tol, factors, contrast, rng
            )
            fit = first
            if first.goes_on:
                args = (sketched, None, row_sweeps, 0.0, first.factors, contrast, rng, first)
                fit = self._stage(*args)
                done = len(first.history["objective"])
                if fit.goes_on and sketch.cores_failed(
                    fit.history["objective"], done, self.tuning.sketch.min_fall_of_failure
                ):
                    fit = None  # cores were too small to tell: begin anew, on the rows
        if fit is None:
            first = fit = self._stage(
                sketched, None, left, self.settings.tol, factors, contrast, rng
            )
        if fit.goes_on:
            fit = self._stage(views, None, final_sweeps, 0.0, fit.factors, contrast, rng, after=fit)
        else:
            fit = replace(fit, memory=als.Memory())  # its rows are not the windows
        # Whether the fit has converged is a question to the stage that had a tolerance.
        fit = replace(fit, converged=first.converged)
        if fit.monitor.stopped:
            return fit
        first.monitor.history = fit.history
        return replace(fit, monitor=first.monitor)

    def _stage(
        self,
        rows: als.AnyViews,
        bases: list[Array] | None,
        count: int,
        tol: float,
        factors: Factors,
        contrast: als.Contrast,
        rng: np.random.Generator,
        after: Fit | None = None,
    ) -> Fit:
        """Iterate over these rows, or cores of the ``bases``; factors are those of the data."""
        settings = clone(self.settings).set_params(max_iter=count, tol=tol)
        fit = replace(self, settings=settings).once(
            rows,
            compress.compress_factors(factors, bases),
            contrast,
            rng,
            after=None if after is None else after.history,
        )
        return replace(fit, factors=compress.expand_factors(fit.factors, bases))

    def once(
        self,
        views: als.AnyViews,
        factors: Factors,
        contrast: als.Contrast,
        rng: np.random.Generator,
        after: History | None = None,
    ) -> Fit:
        """Iterate once from these factors, ``after`` the iterations of a stage before."""
        memory = als.Memory()
        first = views.draw()
        monitor = Monitor(
            self.name,
            max_iter=self.settings.max_iter,
            tol=self.settings.tol,
            patience=self.settings.patience,
            size=0.5 * first.norm_squared,
            falls=contrast is self.plain and self.settings.batch_size is None and not views.fresh,
            callback=self.callback,
            verbose=self.verbose,
        )
        if after is not None:
            monitor.resume(after)
        keep = self.recorder.run(
            monitor=monitor,
            memory=memory,
            rng=rng,
            n_samples=first.n_samples,
            whole=self.settings.batch_size is None,
        )
        with monitor:
            factors, interrupted = als.run(
                views,
                factors,
                contrast,
                alpha=self.alpha,
                warm_up=0 if self.nonnegative else self.warm_up,
                monitor=monitor,
                batch_size=self.settings.batch_size,
                step_size=self.settings.step_size,
                rng=rng,
                memory=memory,
                balance=self.balance,
                keep=keep,
                update=hals.update_factors if self.nonnegative else kernels.update_factors,
            )
        if self._drawn(views):
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


def _sketched(views: als.Views, count: int, size: int, seed: int) -> als.Views | None:
    """At most ``count`` rows that stand for the windows of views without a second one, or None."""
    sums = views.sketch_sums(sketch.directions(size, count, views.dtype, seed))
    if sums is None or not all(np.isfinite(part).all() for part in sums):
        return None
    return als.Views(sketch.rows(*sums, views.dtype), None, views.norm_x, 0.0)


def _cores(
    sketched: als.Views, dims: tuple[int, ...], rank: int, tuning: compress.CompressTuning
) -> tuple[als.Views, list[Array]] | None:
    """Cores of the rows of a sketch and their bases; None where they are not much smaller."""
    size = int(np.prod(dims))
    if not compress.may_shrink(size, rank, tuning):
        return None
    tensors = sketched.X.reshape(len(sketched.X), *dims)
    found = [compress.spectrum(G) for G in compress.mode_grams(tensors)]
    ranks = compress.wanted_ranks("auto", [values for values, _ in found], rank, tuning)
    if ranks is None:
        return None
    bases = [V[:, :j].astype(sketched.dtype) for (_, V), j in zip(found, ranks, strict=True)]
    return als.Views(compress.project(tensors, bases), None, sketched.norm_x, 0.0), bases

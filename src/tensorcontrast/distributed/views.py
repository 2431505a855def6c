"""Both views of a fit as blocks on workers: what ``als.Views`` is, with sums in their place.

Each block is an ``als.Views`` of its windows and never leaves its worker. A sweep sends the
factors out and brings back Q = WᵀX, WᵀW and ‖W‖²: its traffic does not grow with the windows.
A contrast that compares all windows does so by sums too (:mod:`.spread`): its features and labels
stay on the workers. Only what cannot be done by sums, such as a clustering of the caller's, has
the projections P = XH (n, rank) brought to it and its features sent back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.distributed import blocks as on
from tensorcontrast.distributed import work
from tensorcontrast.distributed.extra import package
from tensorcontrast.distributed.spread import Spread, WorkerArrays
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als
from tensorcontrast.solvers.paper_als import Solved
from tensorcontrast.solvers.prepare import Preparation
from tensorcontrast.solvers.tuning import TUNING, Tuning

Array = NDArray[Any]
Factors = Sequence[Array]


@dataclass(frozen=True)
class BlockFeatures(als.Features):
    """Features that stay on the workers: W and V are not there, their squared norm is."""

    squares: float = 0.0
    column_squares: Array | None = None
    #: Factors and ridge that make them again; None where W and V are on the workers.
    made_by: tuple[Factors, float | Array] | None = None

    @property
    def sizes(self) -> Array | None:
        """Norms of the columns of W."""
        return None if self.column_squares is None else np.sqrt(self.column_squares)

    @property
    def norm_squared(self) -> float:
        """‖W‖² + ‖W̃‖²."""
        return self.squares


@dataclass
class BlockViews:
    """Blocks of ``als.Views`` with the methods of ``als.Views``."""

    blocks: list[on.Task]
    sizes: list[int]
    dtype: np.dtype[Any]
    norm_x: float
    norm_v: float
    paired: bool
    #: Places of the blocks on each worker, so that sums are taken there before they travel.
    groups: on.Groups | None = None
    tuning: Tuning = TUNING
    #: Labels that are known, on the workers.
    _known: WorkerArrays | None = None
    fresh: ClassVar[bool] = False

    def draw(self) -> BlockViews:
        """Return these views: they are the same in each iteration."""
        return self

    @classmethod
    def from_blocks(
        cls,
        blocks: list[on.Task],
        sizes: list[int],
        ready: Preparation,
        *,
        paired: bool,
        groups: on.Groups | None = None,
    ) -> BlockViews:
        """Measure the norms of both views."""
        if groups is None:
            groups = on.by_worker(blocks)
        return cls._measured(blocks, sizes, ready.center.dtype, paired, groups, ready.tuning)

    @classmethod
    def _measured(
        cls,
        blocks: list[on.Task],
        sizes: list[int],
        dtype: np.dtype[Any],
        paired: bool,
        groups: on.Groups | None,
        tuning: Tuning,
    ) -> BlockViews:
        norm_x, norm_v, gaps = on.total_over(work.norms, blocks, groups)
        norms = float(norm_x), float(norm_v)
        kind: type[BlockViews] = BlockViews
        if gaps:
            from tensorcontrast.distributed.gaps import MaskedBlockViews

            kind = MaskedBlockViews
        return kind(blocks, sizes, dtype, *norms, paired, groups, tuning)

    @property
    def norm_squared(self) -> float:
        """‖X‖² + ‖X̃‖²."""
        return self.norm_x + self.norm_v

    @property
    def n_samples(self) -> int:
        """Number of windows."""
        return sum(self.sizes)

    def alone(self) -> BlockViews:
        """Return the data without the other view."""
        return replace(self, norm_v=0.0, paired=False)

    def rows(self, index: NDArray[np.intp]) -> als.Views:
        """Bring some of the windows here; each has its share of what compression has lost."""
        return self._rows(work.Take(self.paired), index)

    def _rows(self, take: Any, index: NDArray[np.intp]) -> als.Views:
        edges = np.cumsum([0, *self.sizes])
        at = np.searchsorted(index, edges)  # the index is sorted
        wanted = [index[a:b] - edge for a, b, edge in zip(at[:-1], at[1:], edges[:-1], strict=True)]
        taken = [
            (block, rows) for block, rows in zip(self.blocks, wanted, strict=True) if len(rows)
        ]
        taken_rows = on.computed(on.each(take, *zip(*taken, strict=True)), large=True)
        share = len(index) / self.n_samples
        X = np.concatenate([x for x, _ in taken_rows])
        V = np.concatenate([v for _, v in taken_rows]) if self.paired else None
        return als.Views(X, V, share * self.norm_x, share * self.norm_v)

    def in_memory(self) -> als.Views:
        """Bring all windows here; refused where they are too many."""
        most = self.tuning.max_descent_windows
        if self.n_samples > most:
            raise InvalidInputError(
                f"X has {self.n_samples} windows, and batch_size and sequence need all of them in "
                f"one place: from a Dask array that is {most} at most. Use "
                "PLC(solver='tied') or CPD, without batch_size"
            )
        return self._gathered_rows

    @cached_property
    def _gathered_rows(self) -> als.Views:
        return self.rows(np.arange(self.n_samples))

    def sketch_sums(self, omega: Array) -> tuple[Array, Array]:
        """Take the sums over windows from which rows are made that stand for them."""
        YtX, YtY = on.total_over(work.Sketch(omega), self.blocks, self.groups)
        return YtX, YtY

    def batches(self, size: int, rng: np.random.Generator) -> Any:
        """Mini-batches in random order, from memory."""
        return self.in_memory().batches(size, rng)

    def solve(
        self,
        factors: Factors,
        contrast: als.Contrast,
        alpha: float | Array,
        memory: als.Memory,
    ) -> tuple[als.Features, als.Statistics]:
        """Features for fixed factors, which stay where they are, and the sums of E10."""
        if getattr(contrast, "by_sums", False):
            return self._solve_by_sums(factors, contrast, alpha, memory)
        if contrast is not als.no_contrast:
            features, _ = self._contrasted(factors, contrast, alpha, memory)
            cut = (self._cut(features.W), self._cut(features.V))
            tasks = self._each(work.with_features, *cut)
            with on.large_graphs():
                Q, WtW = on.total(tasks)
            return features, als.Statistics(Q.astype(self.dtype), WtW.astype(self.dtype))
        sums = work.Sweep(factors, alpha, self.paired)
        Q, WtW, squares, columns = on.total_over(sums, self.blocks, self.groups)
        nothing: Any = None
        features = BlockFeatures(
            nothing,
            None,
            squares=float(squares),
            column_squares=columns,
            made_by=(factors, alpha),
        )
        return features, als.Statistics(Q.astype(self.dtype), WtW.astype(self.dtype))

    def final(
        self,
        factors: Factors,
        contrast: als.Contrast,
        alpha: float | Array,
        memory: als.Memory,
    ) -> tuple[als.Features, float]:
        """Features for fixed factors, and ‖X − WHᵀ‖² of the data's own view.

        Features of very many windows stay on the workers, as Dask arrays.
        """
        if getattr(contrast, "by_sums", False):
            return self._final_by_sums(factors, contrast, alpha, memory)
        if contrast is not als.no_contrast:
            features, P = self._contrasted(factors, contrast, alpha, memory)
            HtH = kernels.gram(factors)
            residual = kernels.residual_squared(self.norm_x, P, features.W, HtH)
            if kernels.cancelled(residual, self.norm_x, self.dtype):
                residual = self._direct(features, factors, paired=False)
            return features, residual
        encoded = on.persisted(self._each(work.Encode(factors, alpha, self.paired)))
        nothing: Any = None
        there = BlockFeatures(nothing, None, made_by=(factors, alpha))
        residual = self._own_residual(on.total(on.each(work.fit_sums, encoded)), there, factors)
        return als.Features(*self._both(encoded, factors[0].shape[1])), residual

    def residual_norms(self, factors: Factors, alpha: float) -> Array:
        """‖x − wHᵀ‖ of each window at the best features; these numbers come here."""
        return np.concatenate(on.computed(self._each(work.ResidualNorms(factors, alpha))))

    def observed_shares(self) -> Array:
        """Share of the entries of each window that were observed."""
        return np.concatenate(on.computed(self._each(work.observed_shares)))

    def reweighted(self, gains: Array) -> BlockViews:
        """Return the data alone, each window multiplied with a number."""
        with on.large_graphs():
            blocks = on.persisted(self._each(work.reweighted, self._cut(gains)))
        return self._measured(
            blocks, self.sizes, self.dtype, False, on.by_worker(blocks), self.tuning
        )

    def encoded(self, projector: Array) -> tuple[Any, Any]:
        """Products of both views with a projector (i, r); of very many windows as Dask arrays."""
        made = on.persisted(self._each(work.Encoded(projector, self.paired)))
        return self._both(made, projector.shape[1])

    def _both(self, made: list[on.Task], rank: int) -> tuple[Any, Any]:
        """First and second of what tasks have made: features of both views, if there are two."""
        count = 2 if self.paired else 1
        W, *V = [self._gathered(on.each(work.Item(i), made), rank) for i in range(count)]
        return W, V[0] if V else None

    def _own_residual(self, sums: list[Any], features: als.Features, factors: Factors) -> float:
        """``‖X − WHᵀ‖²`` of the data's own view from ⟨XH, W⟩ and WᵀW."""
        inner, WtW = sums
        residual = self.norm_x - 2.0 * float(inner) + kernels.inner(WtW, kernels.gram(factors))
        if kernels.cancelled(residual, self.norm_x, self.dtype):
            residual = self._direct(features, factors, paired=False)
        return max(residual, 0.0)

    def residual(self, misfit: float, features: als.Features, factors: Factors) -> float:
        """‖X − WHᵀ‖² of both views from ``‖WHᵀ‖² − 2⟨X, WHᵀ⟩``; from themselves where exact."""
        value = self.norm_squared + misfit
        if not kernels.cancelled(value, self.norm_squared, self.dtype):
            return value
        return self._direct(features, factors, self.paired)

    def _direct(self, features: als.Features, factors: Factors, paired: bool) -> float:
        """Squared residual without cancellation, with what compression has lost."""
        if isinstance(features, BlockFeatures) and features.made_by is None:
            rows: Any = features.W
            blocks = rows.spread.of_blocks(self.blocks)
            direct = work.DirectOfPartition(work.Direct(None, factors, paired))
            residual, fitted_norm_squared = rows.spread.summed(
                direct, blocks, features.W, features.V
            )()
        else:
            if isinstance(features, BlockFeatures):
                tasks = self._each(work.Direct(features.made_by, factors, paired))
            else:
                cut = (self._cut(features.W), self._cut(features.V))
                tasks = self._each(work.Direct(None, factors, paired), *cut)
            with on.large_graphs():
                residual, fitted_norm_squared = on.total(tasks)
        norm = self.norm_squared if paired else self.norm_x
        return float(residual) + kernels.lost_squared(norm, float(fitted_norm_squared))

    def _by_sums(
        self, factors: Factors, contrast: Any, alpha: float | Array, memory: als.Memory
    ) -> tuple[WorkerArrays, WorkerArrays, Solved]:
        """Blocks and P = XH as partitions have them, and features under a contrast of sums.

        The memory holds what is on the workers, or arrays of a checkpoint.
        """
        spread, blocks = self._partitions()
        P, P_view = (spread.mapped(work.ProjectPartition(factors, which), blocks) for which in "XV")
        return blocks, P, self._compared(spread, P, P_view, factors, contrast, alpha, memory)

    def _partitions(self) -> tuple[Spread, WorkerArrays]:
        """Return the blocks of each thread of a worker."""
        groups = self.groups or on.Groups.single(len(self.sizes))
        anchors = [self.blocks[places[0]] for places in groups.places]
        spread = Spread(self.sizes, groups, anchors, self.tuning.max_gathered_values)
        return spread, spread.of_blocks(self.blocks)

    def _compared(
        self,
        spread: Spread,
        P: WorkerArrays,
        P_view: WorkerArrays,
        factors: Factors,
        contrast: Any,
        alpha: float | Array,
        memory: als.Memory,
    ) -> Solved:
        """Features under a contrast of sums from P = XH and P̃ = X̃H on workers."""
        own = als.Memory(centers=memory.centers)
        for name in ("W", "V", "labels"):
            setattr(own, name, _taken(getattr(memory, name), spread))
        if self._known is None and contrast.known is not None:
            self._known = spread.given(contrast.known)
        encoder = Encoder.from_factors(factors, alpha)
        known = _taken(self._known, spread)
        solved: Solved = contrast.over(spread, P, P_view, encoder, own, known)
        memory.labels, memory.centers = own.labels, own.centers
        return solved

    def _solve_by_sums(
        self, factors: Factors, contrast: Any, alpha: float | Array, memory: als.Memory
    ) -> tuple[als.Features, als.Statistics]:
        blocks, _, solved = self._by_sums(factors, contrast, alpha, memory)
        sums = blocks.spread.summed(work.sums_of_partition, blocks, solved.W, solved.V)
        value, terms = solved.finish()  # both come in one go
        Q, WtW, squares, columns = sums()
        features = BlockFeatures(
            solved.W,
            solved.V,
            value,
            contrast.beta,
            terms,
            squares=float(squares),
            column_squares=columns,
        )
        return features, als.Statistics(Q.astype(self.dtype), WtW.astype(self.dtype))

    def _final_by_sums(
        self, factors: Factors, contrast: Any, alpha: float | Array, memory: als.Memory
    ) -> tuple[als.Features, float]:
        blocks, P, solved = self._by_sums(factors, contrast, alpha, memory)
        sums = blocks.spread.summed(work.fit_sums_of_partition, P, solved.W)
        value, terms = solved.finish()
        there = BlockFeatures(solved.W, solved.V)
        residual = self._own_residual(sums(), there, factors)
        W, V = self._features_here(solved.W, solved.V, factors[0].shape[1], memory)
        return als.Features(W, V, value, contrast.beta, terms), residual

    def _features_here(
        self, W: WorkerArrays, V: WorkerArrays | None, rank: int, memory: als.Memory
    ) -> tuple[Any, Any]:
        """Features of both views, and labels in ``memory``; of very many windows as Dask arrays."""
        few = self.n_samples * rank <= self.tuning.max_gathered_values
        here = [
            None if array is None else array.brought() if few else array.lazy(self.dtype, rank)
            for array in (W, V)
        ]
        labels: Any = memory.labels
        if isinstance(labels, WorkerArrays):
            memory.labels = labels.brought() if few else labels.lazy(np.intp)
        return here[0], here[1]

    def _contrasted(
        self,
        factors: Factors,
        contrast: als.Contrast,
        alpha: float | Array,
        memory: als.Memory,
    ) -> tuple[als.Features, Array]:
        """Features under a contrast that compares all windows, and P = XH.

        P and P̃ (n, rank) come here, the windows themselves do not.
        """
        self._check_gathered(factors[0].shape[1])
        projected = on.computed(self._each(work.Project(factors, self.paired)))
        P = np.concatenate([p for p, _ in projected])
        P_view = np.concatenate([p for _, p in projected]) if self.paired else None
        return contrast(P, P_view, Encoder.from_factors(factors, alpha), memory), P

    def _check_gathered(self, rank: int) -> None:
        """Raise where projections of all windows are too many for one place."""
        most = self.tuning.max_gathered_values
        if self.n_samples * rank > most:
            raise InvalidInputError(
                f"X has {self.n_samples} windows, and this contrast compares all of them in one "
                f"place: at rank {rank} it takes {most // rank} at most. Use "
                "PLC(solver='tied') or CPD"
            )

    def _each(self, function: Any, *lists: Any) -> list[on.Task]:
        """Tasks over the blocks, each on the worker that has it."""
        return on.each(function, self.blocks, *lists, groups=self.groups)

    def _cut(self, rows: Array | None) -> list[Array | None]:
        """Rows of each block."""
        if rows is None:
            return [None] * len(self.sizes)
        return list(np.split(rows, np.cumsum(self.sizes)[:-1]))

    def _gathered(self, tasks: list[on.Task], rank: int) -> Any:
        if self.n_samples * rank <= self.tuning.max_gathered_values:
            return np.concatenate(on.computed(tasks))
        array = package("dask.array")
        pieces = [
            array.from_delayed(task, (size, rank), self.dtype)
            for task, size in zip(on.persisted(tasks), self.sizes, strict=True)
        ]
        return array.concatenate(pieces)


def _taken(value: Any, spread: Spread) -> WorkerArrays | None:
    """Return arrays on workers, or an array, in these partitions; None where they are others."""
    if isinstance(value, np.ndarray):
        return spread.given(value)
    if isinstance(value, WorkerArrays) and value.spread.groups == spread.groups:
        return replace(value, spread=spread)
    return None

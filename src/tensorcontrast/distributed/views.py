"""Both views of a fit as blocks on workers: what ``als.Views`` is, with sums in their place.

Each block is an ``als.Views`` of its samples and never leaves its worker. A sweep sends the
factors out and brings back Q = WᵀX, WᵀW and ‖W‖²: its traffic does not grow with the samples.
A contrast that compares all samples in each iteration has their projections P = XH (n, rank)
brought to it, and its features sent back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose import als, compress, kernels, tied
from tensorcontrast.decompose.prepare import Preparation
from tensorcontrast.decompose.updates import Encoder
from tensorcontrast.distributed import blocks as on
from tensorcontrast.distributed._extra import package
from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]

#: Values up to which the features of a fit are brought to the caller (256 MiB in float32).
GATHERED_VALUES = 2**26


@dataclass(frozen=True)
class BlockFeatures(als.Features):
    """Features that stay on the workers: W and V are not there, their squared norm is."""

    squares: float = 0.0
    column_squares: Array | None = None
    #: Factors and ridge that make them again.
    made_by: tuple[list[Array], float | Array] = ((), 0.0)  # type: ignore[assignment]

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
    groups: list[list[int]] | None = None

    @classmethod
    def of(
        cls, blocks: list[on.Task], sizes: list[int], ready: Preparation, *, paired: bool
    ) -> BlockViews:
        """Measure the norms of both views."""
        norm_x, norm_v = on.total(on.each(_norms, blocks))
        groups = on.by_worker(blocks)
        return cls(blocks, sizes, ready.center.dtype, float(norm_x), float(norm_v), paired, groups)

    @property
    def norm_squared(self) -> float:
        """‖X‖² + ‖X̃‖²."""
        return self.norm_x + self.norm_v

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return sum(self.sizes)

    def alone(self) -> BlockViews:
        """Return the data without the other view."""
        return replace(self, norm_v=0.0, paired=False)

    def rows(self, index: NDArray[np.intp]) -> als.Views:
        """Bring some of the samples here; each has its part of what compression has lost."""
        edges = np.cumsum([0, *self.sizes])
        at = np.searchsorted(index, edges)  # the index is sorted
        wanted = [index[a:b] - edge for a, b, edge in zip(at[:-1], at[1:], edges[:-1], strict=True)]
        taken = [
            (block, rows) for block, rows in zip(self.blocks, wanted, strict=True) if len(rows)
        ]
        take = _Take(self.paired)
        parts = on.computed(on.each(take, *zip(*taken, strict=True)))
        share = len(index) / self.n_samples
        X = np.concatenate([x for x, _ in parts])
        V = np.concatenate([v for _, v in parts]) if self.paired else None
        return als.Views(X, V, share * self.norm_x, share * self.norm_v)

    def in_memory(self) -> als.Views:
        """Bring all samples here; refused where they are too many."""
        if self.n_samples > tied.DESCENT_ROWS:
            raise InvalidInputError(
                f"X has {self.n_samples} samples, and batch_size and sequence need all of them in "
                f"one place: from a Dask array that is {tied.DESCENT_ROWS} at most. Use "
                "PLC(solver='tied') or CPD, without batch_size"
            )
        return self._held

    @cached_property
    def _held(self) -> als.Views:
        return self.rows(np.arange(self.n_samples))

    def batches(self, size: int, rng: np.random.Generator) -> Any:
        """Mini-batches in random order, from memory."""
        return self.in_memory().batches(size, rng)

    def solve(
        self,
        factors: list[Array],
        contrast: als.Contrast,
        alpha: float | Array,
        memory: als.Memory,
    ) -> tuple[als.Features, als.Statistics]:
        """Features for fixed factors, which stay where they are, and the sums of E10."""
        if contrast is not als.no_contrast:
            features, _ = self._contrasted(factors, contrast, alpha, memory)
            parts = on.each(
                _with_features, self.blocks, self._cut(features.W), self._cut(features.V)
            )
            with on.large_graphs():
                Q, WtW = on.total(parts)
            return features, als.Statistics(Q.astype(self.dtype), WtW.astype(self.dtype))
        work = _Sweep(factors, alpha, self.paired)
        Q, WtW, squares, columns = on.total_over(work, self.blocks, self.groups)
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
        factors: list[Array],
        contrast: als.Contrast,
        alpha: float | Array,
        memory: als.Memory,
    ) -> tuple[als.Features, float]:
        """Features for fixed factors, and ‖X − WHᵀ‖² of the data's own view.

        Features of very many samples stay on the workers, as Dask arrays.
        """
        if contrast is not als.no_contrast:
            features, P = self._contrasted(factors, contrast, alpha, memory)
            HtH = kernels.gram(factors)
            residual = kernels.residual_squared(self.norm_x, P, features.W, HtH)
            if kernels.cancelled(residual, self.norm_x, self.dtype):
                residual = self._direct(features, factors, paired=False)
            return features, residual
        made = on.persisted(on.each(_Encode(factors, alpha, self.paired), self.blocks))
        inner, WtW = on.total(on.each(_fit_sums, made))
        residual = self.norm_x - 2.0 * float(inner) + kernels.inner(WtW, kernels.gram(factors))
        if kernels.cancelled(residual, self.norm_x, self.dtype):
            residual = self._direct(
                BlockFeatures(None, None, made_by=(factors, alpha)),  # type: ignore[arg-type]
                factors,
                paired=False,
            )
        rank = factors[0].shape[1]
        count = 2 if self.paired else 1
        W, *V = [self._gathered(on.each(_Item(i), made), rank) for i in range(count)]
        return als.Features(W, V[0] if V else None), max(residual, 0.0)

    def residual(self, misfit: float, features: als.Features, factors: list[Array]) -> float:
        """‖X − WHᵀ‖² of both views from ``‖WHᵀ‖² − 2⟨X, WHᵀ⟩``; from themselves where exact."""
        value = self.norm_squared + misfit
        if not kernels.cancelled(value, self.norm_squared, self.dtype):
            return value
        return self._direct(features, factors, self.paired)

    def _direct(self, features: als.Features, factors: list[Array], paired: bool) -> float:
        """Squared residual without cancellation, with what compression has lost."""
        if isinstance(features, BlockFeatures):
            tasks = on.each(_Direct(features.made_by, factors, paired), self.blocks)
        else:
            rows = (self._cut(features.W), self._cut(features.V))
            tasks = on.each(_Direct(None, factors, paired), self.blocks, *rows)
        with on.large_graphs():
            residual, held = on.total(tasks)
        norm = self.norm_squared if paired else self.norm_x
        return float(residual) + max(norm - float(held), 0.0)

    def _contrasted(
        self,
        factors: list[Array],
        contrast: als.Contrast,
        alpha: float | Array,
        memory: als.Memory,
    ) -> tuple[als.Features, Array]:
        """Features under a contrast that compares all samples, and P = XH.

        P and P̃ (n, rank) come here, the samples themselves do not.
        """
        rank = factors[0].shape[1]
        if self.n_samples * rank > GATHERED_VALUES:
            raise InvalidInputError(
                f"X has {self.n_samples} samples, and this contrast compares all of them in one "
                f"place: at rank {rank} it takes {GATHERED_VALUES // rank} at most. Use "
                "PLC(solver='tied') or CPD"
            )
        parts = on.computed(on.each(_Project(factors, self.paired), self.blocks))
        P = np.concatenate([p for p, _ in parts])
        P_view = np.concatenate([p for _, p in parts]) if self.paired else None
        return contrast(P, P_view, Encoder.from_factors(factors, alpha), memory), P

    def _cut(self, rows: Array | None) -> list[Array | None]:
        """Rows of each block."""
        if rows is None:
            return [None] * len(self.sizes)
        return list(np.split(rows, np.cumsum(self.sizes)[:-1]))

    def _gathered(self, tasks: list[on.Task], rank: int) -> Any:
        if self.n_samples * rank <= GATHERED_VALUES:
            return np.concatenate(on.computed(tasks))
        array = package("dask.array")
        parts = [
            array.from_delayed(task, (size, rank), self.dtype)
            for task, size in zip(on.persisted(tasks), self.sizes, strict=True)
        ]
        return array.concatenate(parts)


# ---------------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class CoreRows:
    """From a raw block to the rows that are fitted."""

    ready: Preparation
    reader: Callable[[Any, int], Array]

    def __call__(self, raw: Any, start: int) -> als.Views:
        """Centre, scale and project."""
        X, norm = _rows(self.ready, self.reader(raw, start))
        return als.Views(X, None, norm, 0.0)


@dataclass(frozen=True)
class WithView:
    """Put the rows of the other view beside those of the data."""

    ready: Preparation
    reader: Callable[[Any, int], Array]

    def __call__(self, block: als.Views, raw: Any, start: int) -> als.Views:
        """Centre, scale and project the other view."""
        V, norm = _rows(self.ready, self.reader(raw, start))
        return als.Views(block.X, V, block.norm_x, norm)


def _rows(ready: Preparation, block: Array) -> tuple[Array, float]:
    centred = ready.centred_block(block)
    flat = centred.reshape(len(centred), -1)
    norm = float(kernels.row_norms_squared(flat).sum())
    return (flat if ready.bases is None else compress.project(centred, ready.bases)), norm


def _norms(block: als.Views) -> list[float]:
    return [block.norm_x, block.norm_v]


@dataclass(frozen=True)
class _Sweep:
    """Sums of E10 over a block."""

    factors: list[Array]
    alpha: float | Array
    paired: bool

    def __call__(self, block: als.Views) -> list[Any]:
        views = block if self.paired else block.alone()
        features, _ = als.solve_features(
            views, self.factors, als.no_contrast, self.alpha, als.Memory()
        )
        W = features.W
        columns = np.einsum("ij,ij->j", W, W, dtype=np.float64)
        return [*als.sums_over(views, features), features.norm_squared, columns]


@dataclass(frozen=True)
class _Direct:
    """``‖X − WHᵀ‖²`` and ‖X‖² of a block as it is fitted, of both views where paired."""

    made_by: tuple[list[Array], float | Array] | None
    factors: list[Array]
    paired: bool

    def __call__(
        self, block: als.Views, W: Array | None = None, V: Array | None = None
    ) -> list[float]:
        views = block if self.paired else block.alone()
        if self.made_by is not None:
            made, _ = als.solve_features(
                views, self.made_by[0], als.no_contrast, self.made_by[1], als.Memory()
            )
            W, V = made.W, made.V
        residual = held = 0.0
        for X, features in ((views.X, W), (views.V, V)):
            if X is not None and features is not None:
                residual += kernels.residual_direct(X, features, self.factors)
                held += float(kernels.row_norms_squared(X).sum())
        return [residual, held]


@dataclass(frozen=True)
class _Project:
    """P = XH of both views of a block."""

    factors: list[Array]
    paired: bool

    def __call__(self, block: als.Views) -> tuple[Array, Array | None]:
        return als.project(block if self.paired else block.alone(), self.factors)


def _with_features(block: als.Views, W: Array, V: Array | None) -> list[Any]:
    """Take the sums of E10 over a block whose features are given."""
    return list(als.sums_over(block, als.Features(W, V)))


@dataclass(frozen=True)
class _Encode:
    """Features of a block, and its part of what the residual needs."""

    factors: list[Array]
    alpha: float | Array
    paired: bool

    def __call__(self, block: als.Views) -> tuple[Array, Array | None, float]:
        views = block if self.paired else block.alone()
        features, P = als.solve_features(
            views, self.factors, als.no_contrast, self.alpha, als.Memory()
        )
        return features.W, features.V, kernels.inner(P, features.W)


def _fit_sums(made: tuple[Array, Array | None, float]) -> list[Any]:
    W, _, inner = made
    return [inner, W.T @ W]


@dataclass(frozen=True)
class _Item:
    index: int

    def __call__(self, made: Sequence[Any]) -> Any:
        return made[self.index]


@dataclass(frozen=True)
class _Take:
    """Some rows of a block."""

    paired: bool

    def __call__(self, block: als.Views, rows: Array) -> tuple[Array, Array | None]:
        all_of_it = len(rows) == block.n_samples
        V = block.V if self.paired else None
        if all_of_it:
            return block.X, V
        return block.X[rows], None if V is None else V[rows]

"""Views with missing entries as blocks on workers: what ``missing.MaskedViews`` is in memory.

A block with its gaps never changes. Tasks fill a copy of one block at a time with the
reconstruction by features (n, r), which stay on the workers from one iteration to the next. So a
worker holds its windows, where they have gaps, and one filled block for each of its threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder, rows_times
from tensorcontrast.cp.partition import add
from tensorcontrast.distributed import blocks as on
from tensorcontrast.distributed import work
from tensorcontrast.distributed.spread import Spread, WorkerArrays
from tensorcontrast.distributed.views import BlockFeatures, BlockViews, _taken
from tensorcontrast.solvers import als, missing
from tensorcontrast.solvers.paper_als import Solved

Array = NDArray[Any]
Factors = Sequence[Array]


@dataclass(frozen=True)
class Fill:
    """What gaps are filled by: factors, and features of both views on the workers."""

    factors: Factors
    W: WorkerArrays
    V: WorkerArrays | None


@dataclass
class MaskedBlockViews(BlockViews):
    """Blocks of views with gaps, filled anew in each iteration (:mod:`.solvers.missing`)."""

    #: How gaps are filled at the final factors.
    _filled: Fill | None = None

    def alone(self) -> MaskedBlockViews:
        """Return the data without the other view."""
        return replace(self, norm_v=0.0, paired=False)

    def rows(self, index: NDArray[np.intp]) -> als.Views:
        """Bring some of the windows here, with their gaps."""
        found = self._rows(work.TakeWithGaps(self.paired), index)
        gaps_x = np.isnan(found.X)
        found.X[gaps_x] = 0
        gaps_v = None
        if found.V is not None:
            gaps_v = np.isnan(found.V)
            found.V[gaps_v] = 0
        return missing.masked(found.X, gaps_x, found.V, gaps_v)

    def sketch_sums(self, omega: Array) -> Any:
        """Nothing: gaps are filled anew in each iteration."""
        return None

    def solve(
        self, factors: Factors, contrast: als.Contrast, alpha: float | Array, memory: als.Memory
    ) -> tuple[als.Features, als.Statistics]:
        """Features for fixed factors, which stay where they are, and the sums of E10."""
        spread, blocks = self._partitions()
        W, V = _taken(memory.W, spread), _taken(memory.V, spread)
        if W is None or (self.paired and V is None):
            fill = self._observed(spread, blocks, factors, alpha)
        else:
            fill = Fill(factors, W, V if self.paired else None)
        solved = self._solved(spread, blocks, fill, factors, contrast, alpha, memory)
        later = spread.summed(
            SumsFilled(fill.factors, self.paired), blocks, fill.W, fill.V, solved.W, solved.V
        )
        value, terms = solved.finish()
        Q, WtW, squares, columns = later()
        features = BlockFeatures(
            solved.W,
            solved.V,
            value,
            getattr(contrast, "beta", 0.0),
            terms,
            squares=float(squares),
            column_squares=columns,
        )
        return features, als.Statistics(Q.astype(self.dtype), WtW.astype(self.dtype))

    def residual(self, misfit: float, features: als.Features, factors: Factors) -> float:
        """‖M∘(X − WHᵀ)‖² of both views."""
        there: Any = features.W
        blocks = there.spread.of_blocks(self.blocks)
        rest = ObservedResidual(factors, self.paired)
        return float(there.spread.summed(rest, blocks, features.W, features.V)()[0])

    def final(
        self, factors: Factors, contrast: als.Contrast, alpha: float | Array, memory: als.Memory
    ) -> tuple[als.Features, float]:
        """Features for fixed factors, and the squared residual of the data's observed entries."""
        spread, blocks = self._partitions()
        fill = self._observed(spread, blocks, factors, alpha)
        solved = self._solved(spread, blocks, fill, factors, contrast, alpha, memory)
        later = spread.summed(ObservedResidual(factors, paired=False), blocks, solved.W, None)
        value, terms = solved.finish()
        residual = float(later()[0])
        self._filled = fill
        W, V = self._features_here(solved.W, solved.V, factors[0].shape[1], memory)
        return als.Features(W, V, value, getattr(contrast, "beta", 0.0), terms), residual

    def encoded(self, projector: Array) -> tuple[Any, Any]:
        """Products of both views with a projector (i, r), gaps filled at the final factors."""
        assert self._filled is not None
        spread, blocks = self._partitions()
        made = self._projected(spread, blocks, self._filled, projector)
        return self._features_here(*made, projector.shape[1], als.Memory())

    def completed(self, factors: Factors, alpha: float | Array) -> BlockViews:
        """Both views with their gaps filled for good by what these factors make of them."""
        blocks = on.persisted(self._each(Complete(factors, alpha, self.paired)))
        return self._measured(blocks, self.sizes, self.dtype, self.paired, self.groups, self.tuning)

    def _observed(
        self, spread: Spread, blocks: WorkerArrays, factors: Factors, alpha: float | Array
    ) -> Fill:
        """Fill by features that are solved from what was observed of each window."""
        W, V = (
            spread.mapped(ObservedFeatures(factors, alpha, which), blocks)
            if which == "X" or self.paired
            else None
            for which in "XV"
        )
        assert W is not None
        return Fill(factors, W, V)

    def _projected(
        self, spread: Spread, blocks: WorkerArrays, fill: Fill, projector: Array
    ) -> tuple[WorkerArrays, WorkerArrays | None]:
        P = spread.mapped(ProjectFilled(projector, fill.factors, "X"), blocks, fill.W)
        if fill.V is None:
            return P, None
        return P, spread.mapped(ProjectFilled(projector, fill.factors, "V"), blocks, fill.V)

    def _solved(
        self,
        spread: Spread,
        blocks: WorkerArrays,
        fill: Fill,
        factors: Factors,
        contrast: Any,
        alpha: float | Array,
        memory: als.Memory,
    ) -> Solved:
        """Features of both views on the workers, of windows whose gaps are filled."""
        P, P_view = self._projected(spread, blocks, fill, kernels.khatri_rao(factors))
        encoder = Encoder.from_factors(factors, alpha)
        if contrast is als.no_contrast:
            V = None if P_view is None else spread.mapped(encoder, P_view)
            return Solved(spread.mapped(encoder, P), V, lambda: (0.0, {}))
        if getattr(contrast, "by_sums", False):
            assert P_view is not None
            return self._compared(spread, P, P_view, factors, contrast, alpha, memory)
        self._check_gathered(factors[0].shape[1])
        here = [None if rows is None else rows.brought() for rows in (P, P_view)]
        assert here[0] is not None
        found = contrast(here[0], here[1], encoder, memory)
        W, V = (None if rows is None else spread.given(rows) for rows in (found.W, found.V))
        return Solved(W, V, lambda: (found.contrast, found.terms))


# ---------------------------------------------------------------------------- tasks


def _cut(blocks: list[als.Views], *arrays: Array | None) -> Iterator[tuple[Any, ...]]:
    """Blocks of a partition, each with its rows of these arrays."""
    edges = np.cumsum([0, *(block.n_samples for block in blocks)])
    for block, a, b in zip(blocks, edges[:-1], edges[1:], strict=True):
        yield block, *(None if rows is None else rows[a:b] for rows in arrays)


def _filled(
    block: als.Views, factors: Factors, W: Array | None, V: Array | None, *, paired: bool
) -> als.Views:
    """One block with its gaps filled, in memory of its own; a block without gaps as it is."""
    own = block if paired else block.alone()
    return own.filled(factors, W, V, 0.0) if isinstance(own, missing.MaskedViews) else own


@dataclass(frozen=True)
class ObservedFeatures:
    """Features of one view of a partition from what was observed of each window."""

    factors: Factors
    alpha: float | Array
    which: str

    def __call__(self, blocks: list[als.Views]) -> Array:
        """Rows of the blocks, one below the other."""
        encoder, out = Encoder.from_factors(self.factors, self.alpha), []
        H = kernels.khatri_rao(self.factors)
        for block in blocks:
            rows = getattr(block, self.which)
            gaps = getattr(block, "gaps_x" if self.which == "X" else "gaps_v", None)
            if gaps is None:
                out.append(encoder(rows_times(rows, H)))
            else:
                out.append(missing.observed_features(rows, gaps, self.factors, self.alpha))
        return np.concatenate(out)


@dataclass(frozen=True)
class ProjectFilled:
    """Product of one view of a partition with a projector, its gaps filled by features."""

    projector: Array
    factors: Factors
    which: str

    def __call__(self, blocks: list[als.Views], features: Array) -> Array:
        """Rows of the blocks, one below the other."""
        out = []
        for block, own in _cut(blocks, features):
            rows = getattr(block, self.which)
            gaps = getattr(block, "gaps_x" if self.which == "X" else "gaps_v", None)
            if gaps is not None:
                alone = missing.MaskedViews(rows, None, 0.0, 0.0, gaps_x=gaps, gaps_v=None)
                rows = alone.filled(self.factors, own, None, 0.0).X
            out.append(rows_times(rows, self.projector))
        return np.concatenate(out)


@dataclass(frozen=True)
class SumsFilled:
    """Sums of E10 over a partition whose gaps are filled, and the squares of the features."""

    factors: Factors
    paired: bool

    def __call__(
        self,
        blocks: list[als.Views],
        fill_W: Array,
        fill_V: Array | None,
        W: Array,
        V: Array | None,
    ) -> list[Any]:
        """Go from block to block."""
        sums: list[Any] = []
        for block, w0, v0, w, v in _cut(blocks, fill_W, fill_V, W, V):
            views = _filled(block, self.factors, w0, v0, paired=self.paired)
            part = list(als.sums_over(views, als.Features(w, v)))
            sums = add(sums, part) if sums else add(part)
        columns = np.einsum("ij,ij->j", W, W, dtype=np.float64)
        return [*sums, als.Features(W, V).norm_squared, columns]


@dataclass(frozen=True)
class ObservedResidual:
    """‖M∘(X − WHᵀ)‖² of a partition, of both views where paired."""

    factors: Factors
    paired: bool

    def __call__(self, blocks: list[als.Views], W: Array, V: Array | None) -> list[float]:
        """Sum over the blocks."""
        left = 0.0
        for block, w, v in _cut(blocks, W, V):
            own = block if self.paired else block.alone()
            if isinstance(own, missing.MaskedViews):
                left += own.observed_residual(w, v, self.factors)
                continue
            left += kernels.residual_direct(own.X, w, self.factors)
            if own.V is not None and v is not None:
                left += kernels.residual_direct(own.V, v, self.factors)
        return [left]


@dataclass(frozen=True)
class Complete:
    """Both views of a block with their gaps filled for good."""

    factors: Factors
    alpha: float | Array
    paired: bool

    def __call__(self, block: als.Views) -> als.Views:
        """Fill a copy by what was observed."""
        own = block if self.paired else block.alone()
        if not isinstance(own, missing.MaskedViews):
            return own
        done = own.filled(self.factors, None, None, self.alpha)
        return als.Views.from_arrays(done.X, done.V)

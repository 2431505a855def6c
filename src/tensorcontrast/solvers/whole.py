"""Windows read block by block, for the sweeps that end a fit on cores.

A core holds its window only in part. Two sweeps over whole windows bring back most of what it
has lost. A sweep reads each block once: its features follow from the factors alone (E12), and
Q = WᵀX and WᵀW are sums over blocks (E10), so that memory is that of one block and one Q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder, rows_times
from tensorcontrast.solvers import als
from tensorcontrast.solvers.prepare import Preparation
from tensorcontrast.sources.source import Source, is_spread, summed

Array = NDArray[Any]
Factors = Sequence[Array]


@dataclass(frozen=True)
class SummedFeatures(als.Features):
    """Features of which only sums are kept: they follow from the factors at any time."""

    squares: float = 0.0
    column_squares: Array = field(default_factory=lambda: np.zeros(0))
    #: Factors and ridge that make them again.
    made_by: tuple[Factors, float | Array] = ((), 0.0)

    @property
    def sizes(self) -> Array:
        """Norms of the columns of W."""
        return np.sqrt(self.column_squares)

    @property
    def norm_squared(self) -> float:
        """‖W‖² + ‖W̃‖²."""
        return self.squares


@dataclass(frozen=True)
class WholeViews:
    """Both views as whole windows, with the methods of ``als.Views`` that a CPD needs."""

    ready: Preparation
    data: Source
    view: Source | None
    norm_x: float
    norm_v: float
    fresh: ClassVar[bool] = False

    @classmethod
    def from_cores(cls, ready: Preparation, data: Source, view: Any, cores: Any) -> WholeViews:
        """Return the windows that these cores stand for."""
        return cls(replace(ready, bases=None), data, view, cores.norm_x, cores.norm_v)

    def draw(self) -> Any:
        """Return these views: they are the same in each iteration."""
        return self

    def alone(self) -> WholeViews:
        """Return the data without the other view."""
        return replace(self, view=None, norm_v=0.0)

    @property
    def norm_squared(self) -> float:
        """‖X‖² + ‖X̃‖²."""
        return self.norm_x + self.norm_v

    @property
    def n_samples(self) -> int:
        """Number of windows."""
        return self.ready.n_samples

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.ready.center.dtype

    @property
    def _views(self) -> list[Source]:
        return [self.data] if self.view is None else [self.data, self.view]

    def _sums(self, source: Source, function: Any) -> list[Array]:
        """Sum over the blocks of one view."""
        return summed(source, partial(function, self.ready.of_blocks), *self.ready.weights)

    def solve(
        self, factors: Factors, contrast: als.Contrast, alpha: float | Array, memory: als.Memory
    ) -> tuple[als.Features, als.Statistics]:
        """Take the sums of E10 at the features of these factors, one pass over each view."""
        assert contrast is als.no_contrast
        own, *other = (self._sums(source, _Sweep(factors, alpha)) for source in self._views)
        Q, WtW, squares, columns = own
        for more in other:
            Q, WtW, squares = Q + more[0], WtW + more[1], squares + more[2]
        nothing: Any = None
        features = SummedFeatures(
            nothing,
            None,
            squares=float(squares),
            column_squares=columns,
            made_by=(factors, alpha),
        )
        return features, als.Statistics(Q.astype(self.dtype), WtW.astype(self.dtype))

    def residual(self, misfit: float, features: als.Features, factors: Factors) -> float:
        """‖X − WHᵀ‖² of both views from ``‖WHᵀ‖² − 2⟨X, WHᵀ⟩``; from themselves where exact."""
        value = self.norm_squared + misfit
        if not kernels.cancelled(value, self.norm_squared, self.dtype):
            return value
        assert isinstance(features, SummedFeatures)
        direct = _Direct(features.made_by, factors)
        return sum(float(self._sums(source, direct)[0]) for source in self._views)

    def final(
        self, factors: Factors, contrast: als.Contrast, alpha: float | Array, memory: als.Memory
    ) -> tuple[als.Features, float]:
        """Features of both views for fixed factors, and ‖X − WHᵀ‖² of the data's own view.

        Since XH = W(HᵀH + αI), the residual follows from WᵀW alone.
        """
        encoder = Encoder.from_factors(factors, alpha)
        W, V = self.encoded(kernels.khatri_rao(factors), encoder)
        gram = np.asarray(W.T @ W, dtype=np.float64)
        HtH = kernels.gram(kernels.in_float64(factors))
        residual = self.norm_x - kernels.inner(gram, 2.0 * encoder.K - HtH)
        if kernels.cancelled(residual, self.norm_x, self.dtype):
            direct = _Direct((factors, alpha), factors)
            residual = float(self._sums(self.data, direct)[0])
        return als.Features(W, V), max(residual, 0.0)

    def residual_encoded(self, projector: Array, factors: Factors) -> float:
        """‖X − WHᵀ‖² of the data's own view at features W = X·projector; one pass."""
        return float(self._sums(self.data, _Encoded(projector, factors))[0])

    def encoded(self, projector: Array, encoder: Encoder | None = None) -> tuple[Any, Any]:
        """Products of both views with a projector (i, r); of very many windows as Dask arrays."""
        W, *V = (self._features(source, projector, encoder) for source in self._views)
        return W, V[0] if V else None

    def _features(self, source: Source, projector: Array, encoder: Encoder | None) -> Any:
        encode = _Encode(self.ready.of_blocks, projector, encoder)
        rank = projector.shape[1]
        if not is_spread(source):
            centred = self.ready.centred(source)
            rows = [encode.rows(block.reshape(len(block), -1)) for block in centred]
            return np.concatenate(rows)
        found = source.transformed(encode, rank, self.dtype)
        if self.ready.root_weights is not None:
            found = found * self.ready.root_weights.astype(self.dtype)[:, None]
        few = self.n_samples * rank <= self.ready.tuning.max_gathered_values
        return found.compute() if few else found.persist()


def _rows(ready: Preparation, block: Array, roots: Array | None) -> Array:
    return ready.centred_block(block, roots).reshape(len(block), -1)


@dataclass(frozen=True)
class _Sweep:
    """Sums of E10 over a block, ‖W‖² and the squares of the columns of W."""

    factors: Factors
    alpha: float | Array

    def __call__(self, ready: Preparation, block: Array, roots: Array | None = None) -> list[Any]:
        views = als.Views(_rows(ready, block, roots), None, 0.0, 0.0)
        features, _ = als.solve_features(
            views, self.factors, als.no_contrast, self.alpha, als.Memory()
        )
        columns = np.einsum("ij,ij->j", features.W, features.W, dtype=np.float64)
        return [*als.sums_over(views, features), features.norm_squared, columns]


@dataclass(frozen=True)
class _Direct:
    """‖X − WHᵀ‖² of a block without cancellation, at the features of an encoder (E12)."""

    made_by: tuple[Factors, float | Array]
    factors: Factors

    def __call__(self, ready: Preparation, block: Array, roots: Array | None = None) -> list[Any]:
        rows = _rows(ready, block, roots)
        before, alpha = self.made_by
        W = Encoder.from_factors(before, alpha)(rows_times(rows, kernels.khatri_rao(before)))
        return [kernels.residual_direct(rows, W, self.factors)]


@dataclass(frozen=True)
class _Encoded:
    """‖X − WHᵀ‖² of a block at features W = X·projector."""

    projector: Array
    factors: Factors

    def __call__(self, ready: Preparation, block: Array, roots: Array | None = None) -> list[Any]:
        rows = _rows(ready, block, roots)
        return [kernels.residual_direct(rows, rows_times(rows, self.projector), self.factors)]


@dataclass(frozen=True)
class _Encode:
    """Features of a block of raw windows."""

    ready: Preparation
    projector: Array
    encoder: Encoder | None

    def __call__(self, raw: Array) -> Array:
        return self.rows(_rows(self.ready, raw, None))

    def rows(self, flat: Array) -> Array:
        """Features of centred rows."""
        P = rows_times(flat, self.projector)
        return P if self.encoder is None else self.encoder(P)

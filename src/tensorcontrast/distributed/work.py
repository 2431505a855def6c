"""What tasks do with a block of windows, or with the blocks of a partition: the work of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import compress, kernels, scaling, sketch
from tensorcontrast.cp.encoder import rows_times
from tensorcontrast.cp.partition import add
from tensorcontrast.distributed.extra import package
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als, missing
from tensorcontrast.solvers.prepare import Preparation

Array = NDArray[Any]
Factors = Sequence[Array]


@dataclass(frozen=True)
class CoreRows:
    """From a raw block to the rows that are fitted."""

    ready: Preparation
    reader: Callable[[Any, int], Array]

    def __call__(self, raw: Any, start: int, roots: Array | None) -> als.Views:
        """Centre, scale, weigh and project."""
        X, norm = _rows(self.ready, self.reader(raw, start), roots)
        return missing.pair(X, missing.open_gaps(X, norm), norm)


@dataclass(frozen=True)
class WithView:
    """Put the rows of the other view next to those of the data."""

    ready: Preparation
    reader: Callable[[Any, int], Array]

    def __call__(self, block: als.Views, raw: Any, start: int, roots: Array | None) -> als.Views:
        """Centre, scale, weigh and project the other view."""
        V, norm = _rows(self.ready, self.reader(raw, start), roots)
        gaps = block.gaps_x if isinstance(block, missing.MaskedViews) else None
        return missing.pair(block.X, gaps, block.norm_x, V, norm)


def _rows(ready: Preparation, block: Array, roots: Array | None) -> tuple[Array, float]:
    if ready.bases is None and roots is None:
        return scaling.normalised_rows(block, ready.center, ready.scale)
    whole = ready.centred_block(block, roots)
    rows = whole.reshape(len(whole), -1)
    norm = float(kernels.row_norms_squared(rows).sum())
    if ready.bases is None:
        return rows, norm
    if np.isnan(norm):
        raise InvalidInputError(
            "the view holds NaN where X has none; pass compress=None, so that these entries can "
            "be left out"
        )
    return compress.project(whole, ready.bases), norm


def norms(block: als.Views) -> list[float]:
    """Squared norms of both views of a block, and 1 where it has gaps."""
    return [block.norm_x, block.norm_v, float(isinstance(block, missing.MaskedViews))]


@dataclass(frozen=True)
class Sweep:
    """Sums of E10 over a block."""

    factors: Factors
    alpha: float | Array
    paired: bool

    def __call__(self, block: als.Views) -> list[Any]:
        """Give Q, WᵀW, ‖W‖² and the squares of the columns of W."""
        views = block if self.paired else block.alone()
        features, _ = als.solve_features(
            views, self.factors, als.no_contrast, self.alpha, als.Memory()
        )
        W = features.W
        columns = np.einsum("ij,ij->j", W, W, dtype=np.float64)
        return [*als.sums_over(views, features), features.norm_squared, columns]


@dataclass(frozen=True)
class Sketch:
    """Sums over a block from which rows are made that stand for all windows."""

    omega: Array

    def __call__(self, block: als.Views) -> list[Any]:
        """Give YᵀX and YᵀY with Y = XΩ."""
        return list(sketch.sums_over(block.X, self.omega))


@dataclass(frozen=True)
class Direct:
    """``‖X − WHᵀ‖²`` and ‖X‖² of a block as it is fitted, of both views where paired."""

    made_by: tuple[Factors, float | Array] | None
    factors: Factors
    paired: bool

    def __call__(
        self, block: als.Views, W: Array | None = None, V: Array | None = None
    ) -> list[float]:
        """Take features that are given, or make them."""
        views = block if self.paired else block.alone()
        if self.made_by is not None:
            solved, _ = als.solve_features(
                views, self.made_by[0], als.no_contrast, self.made_by[1], als.Memory()
            )
            W, V = solved.W, solved.V
        residual = fitted_norm_squared = 0.0
        for X, features in ((views.X, W), (views.V, V)):
            if X is not None and features is not None:
                residual += kernels.residual_direct(X, features, self.factors)
                fitted_norm_squared += float(kernels.row_norms_squared(X).sum())
        return [residual, fitted_norm_squared]


@dataclass(frozen=True)
class Project:
    """P = XH of both views of a block."""

    factors: Factors
    paired: bool

    def __call__(self, block: als.Views) -> tuple[Array, Array | None]:
        """One matrix product per view."""
        return als.project(block if self.paired else block.alone(), self.factors)


@dataclass(frozen=True)
class ProjectPartition:
    """``XH`` of one view of all blocks of a partition."""

    factors: Factors
    which: str

    def __call__(self, blocks: list[als.Views]) -> Array:
        """Rows of the blocks, one below the other."""
        H = kernels.khatri_rao(self.factors)
        return np.concatenate([rows_times(getattr(block, self.which), H) for block in blocks])


def _each_block(
    blocks: list[als.Views], W: Array, V: Array
) -> Iterator[tuple[als.Views, Array, Array]]:
    """Blocks of a partition with their features."""
    edges = np.cumsum([0, *(block.n_samples for block in blocks)])
    for block, a, b in zip(blocks, edges[:-1], edges[1:], strict=True):
        yield block, W[a:b], V[a:b]


def sums_of_partition(blocks: list[als.Views], W: Array, V: Array) -> list[Any]:
    """Take the sums of E10 over a partition, and the squares of the features."""
    features = als.Features(W, V)
    columns = np.einsum("ij,ij->j", W, W, dtype=np.float64)
    sums: list[Any] = []
    for block, w, v in _each_block(blocks, W, V):
        part = list(als.sums_over(block, als.Features(w, v)))
        sums = add(sums, part) if sums else part
    return [*sums, features.norm_squared, columns]


def fit_sums_of_partition(P: Array, W: Array) -> list[Any]:
    """Give ⟨XH, W⟩ and WᵀW of a partition."""
    return [kernels.inner(P, W), W.T @ W]


@dataclass(frozen=True)
class DirectOfPartition:
    """The same for all blocks of a partition."""

    direct: Direct

    def __call__(self, blocks: list[als.Views], W: Array, V: Array) -> list[Any]:
        """Sum over the blocks."""
        return add(*(self.direct(*each) for each in _each_block(blocks, W, V)))


def with_features(block: als.Views, W: Array, V: Array | None) -> list[Any]:
    """Take the sums of E10 over a block whose features are given."""
    return list(als.sums_over(block, als.Features(W, V)))


@dataclass(frozen=True)
class Encode:
    """Features of a block, and its part of what the residual needs."""

    factors: Factors
    alpha: float | Array
    paired: bool

    def __call__(self, block: als.Views) -> tuple[Array, Array | None, float]:
        """Give W, W̃ and ⟨XH, W⟩."""
        views = block if self.paired else block.alone()
        features, P = als.solve_features(
            views, self.factors, als.no_contrast, self.alpha, als.Memory()
        )
        return features.W, features.V, kernels.inner(P, features.W)


@dataclass(frozen=True)
class Encoded:
    """Products of both views of a block with a projector (i, r)."""

    projector: Array
    paired: bool

    def __call__(self, block: als.Views) -> tuple[Array, Array | None]:
        """Give them."""
        return (block if self.paired else block.alone()).encoded(self.projector)


@dataclass(frozen=True)
class ResidualNorms:
    """‖x − wHᵀ‖ of each window of a block at the best features."""

    factors: Factors
    alpha: float

    def __call__(self, block: als.Views) -> Array:
        """Take what was observed."""
        own = block.copied() if isinstance(block, missing.MaskedViews) else block
        return own.alone().residual_norms(self.factors, self.alpha)


def observed_shares(block: als.Views) -> Array:
    """Share of the entries of each window of a block that were observed."""
    return block.observed_shares()


def reweighted(block: als.Views, gains: Array) -> als.Views:
    """Multiply each window of a block with a number, in memory of its own."""
    rows = block.X * gains[:, None].astype(block.X.dtype)
    if isinstance(block, missing.MaskedViews):
        return missing.masked(rows, block.gaps_x, None, None)
    return als.Views.from_arrays(rows, None)


def fit_sums(encoded: tuple[Array, Array | None, float]) -> list[Any]:
    """Give ⟨XH, W⟩ and WᵀW of what :class:`Encode` gives."""
    W, _, inner = encoded
    return [inner, W.T @ W]


@dataclass(frozen=True)
class Item:
    """One of several results of a task."""

    index: int

    def __call__(self, results: Sequence[Any]) -> Any:
        """Take it."""
        return results[self.index]


@dataclass(frozen=True)
class Take:
    """Some rows of a block."""

    paired: bool

    def __call__(self, block: als.Views, rows: Array) -> tuple[Array, Array | None]:
        """Rows of both views."""
        all_of_it = len(rows) == block.n_samples
        V = block.V if self.paired else None
        if all_of_it:
            return block.X, V
        return block.X[rows], None if V is None else V[rows]


@dataclass(frozen=True)
class TakeWithGaps:
    """Some rows of a block that may have gaps, as NaN."""

    paired: bool

    def __call__(self, block: als.Views, rows: Array) -> tuple[Array, Array | None]:
        """Rows of both views."""
        X, V = block.X[rows], block.V[rows] if self.paired and block.V is not None else None
        if isinstance(block, missing.MaskedViews):
            X[block.gaps_x[rows]] = np.nan
            if V is not None and block.gaps_v is not None:
                V[block.gaps_v[rows]] = np.nan
        return X, V


def _size(views: als.Views) -> int:
    """Bytes of a block, by which schedulers judge whether to move it."""
    gaps = (getattr(views, "gaps_x", None), getattr(views, "gaps_v", None))
    return sum(int(rows.nbytes) for rows in (views.X, views.V, *gaps) if rows is not None)


package("dask.sizeof").sizeof.register(als.Views, _size)

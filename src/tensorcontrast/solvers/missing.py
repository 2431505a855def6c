"""Missing entries (NaN): left out of the objective by an EM step, in a fit and in ``transform``.

The observed-data loss is E8 with ‖M∘(X − WHᵀ)‖² in the place of ‖X − WHᵀ‖², M being 1 where an
entry was observed. An iteration fills what is missing with the current reconstruction (E1) and
then does what it always does: the loss of the filled data bounds that of the observed data from
above and touches it at the current model, so the observed-data loss cannot rise. For fixed factors
the features of a window are the solution of its own normal equations, ``w (H_oᵀH_o + αI) = x_oH_o``
over its observed entries o; windows with the same gaps share a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels, scaling
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als
from tensorcontrast.sources.source import Source, is_spread, summed
from tensorcontrast.utils import checks

Array = NDArray[Any]
Factors = Sequence[Array]
Gaps = NDArray[np.bool_]

#: Values worked on at a time.
BLOCK_VALUES = 2**22


def any_missing(source: Source) -> bool:
    """Whether a source holds NaN; one pass over it."""
    if is_spread(source):
        return bool(source.summed(_has_nan)[0])
    return any(bool(_has_nan(block)[0]) for block in source.blocks())


def _has_nan(block: Array) -> list[Any]:
    return [float(np.isnan(block.sum(dtype=np.float64)))]


def warn_if_compressed(wanted: Any) -> None:
    """Warn where a caller has asked for a compression that gaps do not allow."""
    if wanted is not None and not isinstance(wanted, str):
        checks.warn(
            f"compress={wanted} is not used: X has missing values, which are filled in whole "
            "windows; pass compress=None or 'auto'",
        )


def learn(source: Source, *, center: bool) -> tuple[int, Array, float]:
    """Return number of windows, mean tensor and root mean squared norm of observed entries.

    Every position of the tensor is averaged over the windows in which it was observed.
    """
    if is_spread(source):
        source.keep()
    windows, count, total = summed(source, _observed_sums)
    n = int(windows)
    never = int((count == 0).sum())
    if never == count.size:
        raise InvalidInputError(f"{source.name} holds no value at all: every entry is NaN")
    if never:
        checks.warn(
            f"{source.name}: {never} of the {count.size} positions of a window are NaN in every "
            "window (first: "
            f"{[int(i) for i in np.argwhere(count == 0)[0]]}); nothing can be learned of them",
        )
    times = np.maximum(count, 1)
    mean = (total / times if center else np.zeros(source.dims)).astype(source.dtype)
    (squares,) = summed(source, partial(_observed_squares, mean))
    size = float(np.sqrt((squares / times).sum()))
    scaling.check_spread(
        size, mean.astype(np.float64), (n, *source.dims), source.dtype, center=center
    )
    return n, mean, size


def _observed_sums(block: Array) -> list[Any]:
    seen = np.count_nonzero(~np.isnan(block), axis=0)
    return [len(block), seen, np.nansum(block, axis=0, dtype=np.float64)]


def _observed_squares(mean: Array, block: Array) -> list[Any]:
    return [np.nansum(np.square(block - mean, dtype=np.float64), axis=0)]


def _blocks(rows: int, width: int, block_values: int = BLOCK_VALUES) -> Iterator[slice]:
    step = max(1, block_values // max(width, 1))
    return (slice(start, start + step) for start in range(0, rows, step))


def _observed_grams(gaps: Gaps, H: Array, block_values: int) -> Array:
    """``H_oᵀH_o`` (u, r, r) in float64 for every row of gaps (u, i)."""
    # u = patterns, i = prod(dims), r = rank: one product of (u, i) with (i, r(r+1)/2)
    r = H.shape[1]
    a, b = np.triu_indices(r)
    sums = np.zeros((len(gaps), len(a)))
    for at in _blocks(len(H), len(a), block_values):
        seen = (~gaps[:, at]).astype(H.dtype)
        sums += seen @ (H[at][:, a] * H[at][:, b])
    out = np.empty((len(gaps), r, r))
    out[:, a, b] = out[:, b, a] = sums
    return out


def observed_features(
    X: Array,
    gaps: Gaps,
    factors: Factors,
    alpha: float | Array,
    *,
    block_values: int = BLOCK_VALUES,
) -> Array:
    """Features (n, r) of rows X (n, i) from their observed entries alone. Equation E12.

    Parameters
    ----------
    X : (n, i) array
        Centred, scaled rows; what stands where ``gaps`` is true does not matter, NaN included.
    gaps : (n, i) bool array
    factors : list of (I_k, r) arrays
    alpha : float or (r,) array
    block_values : int
        Values worked on at a time.
    """
    H = kernels.khatri_rao(factors)
    encoder = Encoder.from_factors(factors, alpha)
    r = H.shape[1]
    out = np.empty((len(X), r), dtype=H.dtype)
    ridge = np.broadcast_to(np.asarray(alpha, dtype=np.float64), r)
    for at in _blocks(len(X), max(X.shape[1], r * r), block_values):
        lacks = gaps[at]
        P = np.where(lacks, X.dtype.type(0), X[at]) @ H
        out[at] = encoder(P)
        some = np.flatnonzero(lacks.any(axis=1))
        if not len(some):
            continue
        packed = np.packbits(lacks[some], axis=1)
        keys = np.ascontiguousarray(packed).view([("", packed.dtype, packed.shape[1])]).reshape(-1)
        _, first, pattern = np.unique(keys, return_index=True, return_inverse=True)
        K = _observed_grams(lacks[some[first]], H, block_values)
        # A ridge of the size of rounding, as in kernels.ridge_solve: few entries may be left.
        peak = np.einsum("urr->ur", K).max(axis=1)
        diagonal = np.einsum("urr->ur", K)
        diagonal += ridge + (r * np.finfo(H.dtype).eps * peak + np.finfo(H.dtype).tiny)[:, None]
        inverse = np.linalg.inv(K)
        solved = np.matmul(P[some, None, :].astype(np.float64), inverse[pattern.reshape(-1)])
        out[at][some] = solved[:, 0, :]
    return out


def encode(flat: Array, projector: Array, factors: Factors, ridge: Array) -> Array:
    """Features of centred rows (n, i) that may hold NaN; whole rows by the projector of E12."""
    out = flat @ projector
    gaps = np.isnan(flat)
    some = np.flatnonzero(gaps.any(axis=1))
    empty = np.flatnonzero(gaps[some].all(axis=1))
    if len(empty):
        checks.warn(
            f"{len(empty)} windows hold nothing but NaN (first: {some[empty[:5]].tolist()}); "
            "their features are 0, those of the mean window; drop them",
        )
    if len(some):
        out[some] = observed_features(flat[some], gaps[some], factors, ridge)
    return out


def residual(flat: Array, W: Array, factors: Factors) -> tuple[float, float]:
    """‖X − WHᵀ‖² and ‖X‖² over the observed entries of rows (n, i) with NaN."""
    H, left, norm = kernels.khatri_rao(factors), 0.0, 0.0
    for at in _blocks(len(flat), flat.shape[1]):
        gaps = np.isnan(flat[at])
        seen = np.where(gaps, flat.dtype.type(0), flat[at])
        rest = np.where(gaps, flat.dtype.type(0), seen - W[at] @ H.T)
        norm += float(kernels.row_norms_squared(seen).sum())
        left += float(kernels.row_norms_squared(rest).sum())
    return left, norm


@dataclass
class MaskedViews(als.Views):
    """Views with gaps, filled with the current reconstruction whenever features are asked for.

    ``norm_x`` and ``norm_v`` are those of observed entries. The fill follows from factors and
    features alone, so that nothing else needs to be kept to go on from a checkpoint.
    """

    gaps_x: Gaps = field(kw_only=True)
    gaps_v: Gaps | None = field(kw_only=True)
    #: Features and factors that the gaps are filled by.
    _filled_by: tuple[Any, ...] = field(default=(), kw_only=True)

    def alone(self) -> MaskedViews:
        """Return the data without the other view."""
        return MaskedViews(self.X, None, self.norm_x, 0.0, gaps_x=self.gaps_x, gaps_v=None)

    def copied(self) -> MaskedViews:
        """Return the same in memory of its own, to be filled."""
        V = None if self.V is None else self.V.copy()
        return MaskedViews(
            self.X.copy(),
            V,
            self.norm_x,
            self.norm_v,
            gaps_x=self.gaps_x,
            gaps_v=self.gaps_v,
        )

    def rows(self, index: NDArray[np.intp]) -> MaskedViews:
        """Return some of the windows."""
        return masked(
            self.X[index],
            self.gaps_x[index],
            None if self.V is None else self.V[index],
            None if self.gaps_v is None else self.gaps_v[index],
        )

    def sketch_sums(self, omega: Array) -> None:
        """Nothing: gaps are filled anew in each iteration."""

    def with_partners(self, partners: NDArray[np.intp]) -> MaskedViews:
        """Return the same data, each window with the view of its partner."""
        assert self.V is not None
        return MaskedViews(
            self.X,
            self.V[partners],
            self.norm_x,
            self.norm_v,
            gaps_x=self.gaps_x,
            gaps_v=None if self.gaps_v is None else self.gaps_v[partners],
        )

    def batches(
        self, size: int, rng: np.random.Generator
    ) -> Iterator[tuple[NDArray[np.intp], als.Views]]:
        """Rows and data of mini-batches in random order; a last one of one window is dropped."""
        order = rng.permutation(len(self.X))
        for start in range(0, len(order), size):
            at = order[start : start + size]
            if len(at) > 1:
                yield at, self.rows(at)

    def solve(
        self,
        factors: Factors,
        contrast: als.Contrast,
        alpha: float | Array,
        memory: als.Memory,
    ) -> tuple[als.Features, als.Statistics]:
        """Fill, then features of both views for fixed factors, and the sums of E10."""
        W, V = memory.W, memory.V
        if W is None or (self.V is not None and V is None):
            self._fill_observed(factors, alpha)
        elif not _same(self._filled_by, (W, V, *factors)):
            self._fill(factors, W, V)
        return super().solve(factors, contrast, alpha, memory)

    def residual(self, misfit: float, features: als.Features, factors: Factors) -> float:
        """‖M∘(X − WHᵀ)‖² of both views; fills for the next iteration on the way."""
        left = self._fill(factors, features.W, features.V)
        self._filled_by = (features.W, features.V, *factors)
        return left

    def final(
        self,
        factors: Factors,
        contrast: als.Contrast,
        alpha: float | Array,
        memory: als.Memory,
    ) -> tuple[als.Features, float]:
        """Features for fixed factors, and the squared residual of the data's observed entries."""
        self._fill_observed(factors, alpha)
        features, _ = als.solve_features(self, factors, contrast, alpha, memory)
        return features, self.observed_residual(features.W, None, factors)

    def observed_residual(self, W: Array, V: Array | None, factors: Factors) -> float:
        """‖M∘(X − WHᵀ)‖² of the data, and of the other view where its features are given."""
        left = residual(np.where(self.gaps_x, np.nan, self.X), W, factors)[0]
        if self.V is not None and V is not None:
            rows = self.V if self.gaps_v is None else np.where(self.gaps_v, np.nan, self.V)
            left += residual(rows, V, factors)[0]
        return left

    def residual_norms(self, factors: Factors, alpha: float) -> Array:
        """‖M∘(x − wHᵀ)‖ of each window at the best features."""
        features, _ = self.final(factors, als.no_contrast, alpha, als.Memory())
        return als.norms_of_rest(self.X, features.W, factors, self.gaps_x)

    def observed_shares(self) -> Array:
        """Share of the entries of each window that were observed."""
        return np.asarray((~self.gaps_x).mean(axis=1))

    def reweighted(self, gains: Array) -> MaskedViews:
        """Return the data alone, each window multiplied with a number, in the same memory."""
        self.X *= gains[:, None].astype(self.X.dtype)
        return masked(self.X, self.gaps_x, None, None)

    def filled(
        self, factors: Factors, W: Array | None, V: Array | None, alpha: float | Array
    ) -> als.Views:
        """Both views in memory of their own, gaps filled by features, or by what was observed."""
        out = self.copied()
        if W is None or (self.V is not None and V is None):
            out._fill_observed(factors, alpha)
        else:
            out._fill(factors, W, V)
        return out

    def completed(self, factors: Factors, alpha: float | Array) -> als.Views:
        """Both views with their gaps filled for good by what these factors make of them."""
        self._fill_observed(factors, alpha)
        return als.Views.from_arrays(self.X, self.V)

    def _fill_observed(self, factors: Factors, alpha: float | Array) -> None:
        W = observed_features(self.X, self.gaps_x, factors, alpha)
        V = None
        if self.V is not None:
            gaps = np.zeros_like(self.gaps_x) if self.gaps_v is None else self.gaps_v
            V = observed_features(self.V, gaps, factors, alpha)
        self._fill(factors, W, V)

    def _fill(self, factors: Factors, W: Array, V: Array | None) -> float:
        """Put the reconstruction where an entry is missing; gives the residual of the others."""
        self._filled_by = ()
        H = kernels.khatri_rao(factors)
        left = 0.0
        for data, gaps, features in ((self.X, self.gaps_x, W), (self.V, self.gaps_v, V)):
            if data is None or features is None:
                continue
            for at in _blocks(len(data), data.shape[1]):
                modelled = features[at] @ H.T
                if gaps is not None:
                    np.copyto(data[at], modelled, where=gaps[at])
                left += float(kernels.row_norms_squared(data[at] - modelled).sum())
        return left


def _same(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


def open_gaps(X: Array, norm: float) -> Gaps | None:
    """Where rows (n, i) hold NaN, which become 0; None where their squared norm is a number."""
    if not np.isnan(norm):
        return None
    gaps = np.isnan(X)
    X[gaps] = 0
    return gaps


def masked(X: Array, gaps_x: Gaps, V: Array | None, gaps_v: Gaps | None) -> MaskedViews:
    """Return views with these gaps, in the memory of X and V."""
    norm_v = 0.0 if V is None else _observed_norm(V, gaps_v)
    return MaskedViews(X, V, _observed_norm(X, gaps_x), norm_v, gaps_x=gaps_x, gaps_v=gaps_v)


def _observed_norm(X: Array, gaps: Gaps | None) -> float:
    total = 0.0
    for at in _blocks(len(X), X.shape[1]):
        seen = X[at] if gaps is None else np.where(gaps[at], X.dtype.type(0), X[at])
        total += float(kernels.row_norms_squared(seen).sum())
    return total


def pair(
    X: Array, gaps: Gaps | None, norm: float, V: Array | None = None, norm_v: float = 0.0
) -> als.Views:
    """Return views of rows as they were prepared; with gaps where one of them has some."""
    gaps_v = None if V is None else open_gaps(V, norm_v)
    if gaps is None and gaps_v is None:
        return als.Views(X, V, norm, norm_v)
    return masked(X, np.zeros(X.shape, dtype=bool) if gaps is None else gaps, V, gaps_v)


def completed(views: als.AnyViews, factors: Factors, alpha: float) -> als.AnyViews:
    """Give views without gaps: filled for good by what these factors make of them."""
    if isinstance(views, als.FreshViews):
        draw = views.draw
        return als.FreshViews(lambda: completed_views(draw(), factors, alpha))
    return completed_views(views, factors, alpha)


def completed_views(views: als.Views, factors: Factors, alpha: float) -> als.Views:
    """Return the same, without gaps."""
    found: als.Views = views.completed(factors, alpha) if hasattr(views, "completed") else views
    return found

"""Weights against artefacts: windows that no model explains count less.

A window is drawn in by Huber's weight of its residual norm r, ``h = min(1, limit / r)``, so that
what is left of its residual is at most the limit: it counts with ω = h². Beyond the limit its loss
grows as ``log r``; Huber's own, which is linear, would let an artefact buy any influence by its
amplitude. A weighted window is a scaled one, ``ω‖x − wHᵀ‖² = ‖hx − hwHᵀ‖²``. So the weights are
found once, by a short CPD that is reweighted a few times, and every solver then works on rows
scaled by h, about a weighted mean.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import compress, kernels, scaling
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als, missing, start
from tensorcontrast.solvers.prepare import Preparation
from tensorcontrast.solvers.tuning import TUNING, Tuning
from tensorcontrast.sources.source import (
    Source,
    allows_nan,
    collected,
    is_spread,
    strided,
    summed,
)

Array = NDArray[Any]

#: Robust standard deviations above the median from which a window counts less.
WIDTH = 2.5
#: Windows whose median, entry by entry, the mean starts from.
MEDIAN_SAMPLES = 512
#: Times that mean and weights, then factors and weights, are found from each other.
MEAN_ROUNDS, MODEL_ROUNDS, SWEEPS = 2, 3, 5
#: Ridge of the short CPD.
ALPHA = 1e-3


def huber_weights(sizes: Array) -> Array:
    """``min(1, limit / size)`` of residual norms (n,), the limit from median and spread of them.

    Examples
    --------
    >>> huber_weights(np.array([1.0, 1.1, 0.9, 1.0, 30.0])).round(2).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.05]
    """
    middle = float(np.median(sizes))
    spread = 1.4826 * float(np.median(np.abs(sizes - middle)))
    # Sizes that are all alike have no spread: half as large again is then unlike them.
    limit = middle + max(WIDTH * spread, 0.5 * middle)
    if not limit > 0:
        return np.ones_like(sizes)
    return np.minimum(1.0, limit / np.maximum(sizes, limit))


def prepare(
    source: Source,
    wanted: Any,
    rank: int,
    *,
    center: bool,
    scale: bool,
    block_dims: start.BlockDims = (),
    tuning: Tuning = TUNING,
) -> Preparation:
    """Learn weights, mean, scale and bases; the counterpart of ``prepare.prepare``.

    Of windows elsewhere one number each comes here, and every so many of them for the median.
    """
    gaps = allows_nan(source) and missing.any_missing(source)
    if gaps:
        missing.warn_if_compressed(wanted)
        wanted = None
    _keep(source, wanted, rank, tuning)
    mean = _median(source) if center else np.zeros(source.dims, dtype=source.dtype)
    for _ in range(MEAN_ROUNDS):
        roots = huber_weights(np.sqrt(collected(source, partial(_square_norms, mean))))
        mean, _ = _weighted_mean(source, roots**2, center=center)
    if len(roots) < 2:
        raise InvalidInputError(f"{source.name} has {len(roots)} windows; at least 2 are needed")
    ready = _weighted(source, roots, wanted, rank, center=center, scale=scale, tuning=tuning)
    roots = _by_model(source, ready, roots, rank, block_dims)
    _keep(source, wanted, rank, tuning)
    return _weighted(source, roots, wanted, rank, center=center, scale=scale, tuning=tuning)


def _keep(source: Source, wanted: Any, rank: int, tuning: Tuning) -> None:
    """Read windows on workers once for all passes, where they are fitted as they are."""
    if is_spread(source):
        shape = (source.n_samples, *source.dims)
        if not compress.may_compress(wanted, shape, rank, tuning.compress):
            source.keep()


def _median(source: Source) -> Array:
    """Median of some windows, entry by entry; a mean would follow an artefact anywhere."""
    n = source.n_samples or sum(len(block) for block in source.blocks())
    some = strided(source, max(1, -(-n // MEDIAN_SAMPLES)))
    if not np.isnan(some).any():
        return np.asarray(np.median(some, axis=0), dtype=source.dtype)
    empty = np.isnan(some).all(axis=0)
    some[:, empty] = 0
    return np.asarray(np.nanmedian(some, axis=0), dtype=source.dtype)


def column(values: Array, block: Array) -> Array:
    """One value per window, in a shape that multiplies a block (n, I_1, …, I_K)."""
    return values.astype(block.dtype).reshape(-1, *([1] * (block.ndim - 1)))


def square_rows(flat: Array) -> Array:
    """Squared norm of each row; what is missing counts as the mean of the rest of the row."""
    gaps = np.isnan(flat)
    if not gaps.any():
        return kernels.row_norms_squared(flat)
    seen = np.count_nonzero(~gaps, axis=1)
    sums = kernels.row_norms_squared(np.where(gaps, flat.dtype.type(0), flat))
    return sums * (flat.shape[1] / np.maximum(seen, 1))


def _square_norms(mean: Array, block: Array) -> Array:
    return square_rows((block - mean).reshape(len(block), -1))


def _weighted_mean(source: Source, weights: Array, *, center: bool) -> tuple[Array, Array]:
    """Weighted mean tensor (zeros without ``center``), and each position's sum of weights."""
    counts, *totals = summed(source, partial(_weighted_sums, center), weights)
    total = totals[0] if totals else np.zeros(source.dims)
    mean = total / np.where(counts > 0, counts, 1)
    return mean.astype(source.dtype), counts


def _weighted_sums(center: bool, block: Array, weights: Array) -> list[Any]:
    own, seen = column(weights, block), ~np.isnan(block)
    counts = np.where(seen, own, 0).sum(axis=0, dtype=np.float64)
    if not center:
        return [counts]
    return [counts, np.where(seen, own * block, 0).sum(axis=0, dtype=np.float64)]


def _weighted_squares(mean: Array, block: Array, weights: Array) -> list[Any]:
    squares = np.square(block - mean, dtype=np.float64)
    return [np.nansum(squares * column(weights, block), axis=0)]


def _weighted_grams(ready: Preparation, block: Array, roots: Array) -> list[Any]:
    return list(compress.mode_grams(ready.centred_block(block, roots)))


def _weighted(
    source: Source,
    roots: Array,
    wanted: Any,
    rank: int,
    *,
    center: bool,
    scale: bool,
    tuning: Tuning,
) -> Preparation:
    """Mean, scale and bases of windows that are drawn in by these factors h (n,)."""
    weights = roots**2
    mean, counts = _weighted_mean(source, weights, center=center)
    (squares,) = summed(source, partial(_weighted_squares, mean), weights)
    size = float(np.sqrt((squares / np.where(counts > 0, counts, 1)).sum()))
    n = len(weights)
    scaling.check_spread(
        size, mean.astype(np.float64), (n, *source.dims), source.dtype, center=center
    )
    spread = size / float(np.sqrt(mean.size))
    ready = Preparation(n, mean, size if scale else 1.0, spread, root_weights=roots, tuning=tuning)
    if not compress.may_compress(wanted, (n, *source.dims), rank, tuning.compress):
        return ready
    grams = summed(source, partial(_weighted_grams, ready.of_blocks), *ready.weights)
    return ready.compressed(source, grams, wanted, rank)


def _by_model(
    source: Source, ready: Preparation, roots: Array, rank: int, block_dims: start.BlockDims
) -> Array:
    """Factors h by the residuals of a short CPD, found anew after every few sweeps."""
    views = ready.views(source, None).draw()
    seen = np.sqrt(np.maximum(views.observed_shares(), 1e-12))
    bound, _ = start.allowed_rank(rank, (len(roots), *ready.dims))
    wanted = start.shapes(ready.dims, bound, block_dims)
    drawn = start.drawn(wanted, views.dtype, np.random.default_rng(0))
    factors = als.turned(views, start.in_blocks(drawn, block_dims), ALPHA)
    for _ in range(MODEL_ROUNDS):
        memory = als.Memory()
        for _ in range(SWEEPS):
            factors, *_ = als.sweep(views, factors, als.no_contrast, alpha=ALPHA, memory=memory)
        found = huber_weights(views.residual_norms(factors, ALPHA) / (roots * seen))
        views = views.reweighted(found / roots)
        roots = found
    return roots

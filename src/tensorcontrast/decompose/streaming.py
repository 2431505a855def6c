"""A fitted estimator that learns from one more batch: mean and scale that follow, sums so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels, scaling
from tensorcontrast.solvers import als, robust

Array = NDArray[Any]
Factors = Sequence[Array]


def followed(model: Any, X: Array) -> tuple[Array, float, Array | None]:
    """Mean and scale of a fitted model after a batch X, and what artefacts are multiplied with."""
    typical = imputed(model, X)
    roots: Array | None = None
    if model.robust == "huber":
        typical, roots = weighted_batch(model, typical)
    center, scale = scaling.update(
        typical,
        model.center_,
        model.scale_,
        model.n_samples_seen_,
        center=model._als.center,
        scale=model._als.scale,
    )
    return center, scale, roots


def past_sums(model: Any, factors: Factors) -> als.Statistics:
    """Take the sums over what a model has seen; of one from ``fit`` or a file, WᵀX = (WᵀW)Hᵀ."""
    past: als.Statistics | None = getattr(model, "_stream", None)
    if past is None:
        gram = model.feature_gram_
        past = als.Statistics(gram @ kernels.khatri_rao(factors).T, gram)
    return past


def imputed(model: Any, X: Array) -> Array:
    """X (n, I_1, …, I_K) with its NaN replaced by what a fitted model makes of the window."""
    gaps = np.isnan(X)
    if not gaps.any():
        return X
    return np.where(gaps, model._reconstructed(model._features(X)), X)


def weighted_batch(model: Any, X: Array) -> tuple[Array, Array]:
    """Return a batch of a stream with its artefacts drawn in, and h of its windows (n,)."""
    W = model._features(X)
    rest = X - model._reconstructed(W)
    sizes = np.sqrt(robust.square_rows(rest.reshape(len(X), -1)))
    roots = robust.huber_weights(sizes)
    drawn = model.center_ + robust.column(roots, X) * (X - model.center_)
    return drawn.astype(X.dtype, copy=False), roots

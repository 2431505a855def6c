"""A fitted model on windows, block by block: their features, and how much of them these explain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import gls, kernels
from tensorcontrast.solvers import missing
from tensorcontrast.solvers.prepare import Preparation
from tensorcontrast.sources import source
from tensorcontrast.utils import threads

Array = NDArray[Any]
Factors = Sequence[Array]


def features(
    data: source.Source,
    ready: Preparation,
    factors: Factors,
    ridge: Array,
    *,
    masked: bool,
    metric: gls.GLSMetric | None = None,
    power: float = 1.0,
) -> Array:
    """Features (n, r) of windows; ``masked`` solves over what was observed. Equations E12, E23."""
    projector = gls.projector(factors, ridge, metric, power)
    # With gaps each window has equations of its own (E12). Where features are those of another
    # metric, gaps are first filled with what these solutions reconstruct.
    plain = metric is None and power == 1.0
    oblique = gls.projector(factors, ridge, None) if masked and not plain else projector
    parts = []
    if source.is_spread(data):
        return data.transformed(ready, projector)
    with threads.for_work((data.n_samples or 2**31) * projector.size):
        for block in ready.centred(data):
            flat = block.reshape(len(block), -1)
            if masked:
                coordinates = missing.encode(flat, oblique, factors, ridge)
                if plain:
                    parts.append(coordinates)
                else:
                    parts.append(_filled(flat, coordinates, factors) @ projector)
            else:
                parts.append(flat @ projector)
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _filled(flat: Array, coordinates: Array, factors: Factors) -> Array:
    """Return windows (n, i) with their gaps filled by the model."""
    gaps = np.isnan(flat)
    if not gaps.any():
        return flat
    return np.where(gaps, kernels.cp_to_flat(coordinates, factors), flat)


def explained(data: source.Source, ready: Preparation, factors: Factors, W: Array) -> float:
    """Share of the variance of windows about the model's mean that their features W explain."""
    H = kernels.khatri_rao(factors)
    HtH = kernels.gram(factors)
    residual = total = 0.0
    at = 0
    for block in ready.centred(data):
        rows, flat = W[at : at + len(block)], block.reshape(len(block), -1)
        norm = float(kernels.row_norms_squared(flat).sum())
        if np.isnan(norm):
            left, norm = missing.residual(flat, rows, factors)
        else:
            left = kernels.residual_squared(norm, flat @ H, rows, HtH)
            if kernels.cancelled(left, norm, flat.dtype):
                left = kernels.residual_direct(flat, rows, factors)
        residual += left
        total += norm
        at += len(block)
    return 1.0 - residual / total if total > 0 else 0.0

"""The normal form of a fitted model: unit columns, sorted by weight, dead components at zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose import als, compress, kernels
from tensorcontrast.decompose.runs import Fit

Array = NDArray[Any]


@dataclass(frozen=True)
class NormalForm:
    """A model in normal form: its learned attributes, and the way there."""

    factors: list[Array]
    #: Features of the samples as they were fitted, and of their view.
    W: Array
    V: Array | None
    weights: Array
    #: WᵀW summed over both views.
    gram: Array
    #: Centres of the pseudo classes.
    centers: Array | None
    #: α of each component.
    ridge: Array
    #: What features were multiplied with, and the order of the components before.
    gain: Array
    order: Array

    @classmethod
    def of(
        cls, fit: Fit, features: als.Features, bases: list[Array] | None, alpha: float
    ) -> NormalForm:
        """Bring a fit with these final features there; ``bases`` are those of its core."""
        # Features of very many samples are Dask arrays: what is asked of them is computed here.
        norms = np.sqrt(np.asarray(np.einsum("ij,ij->j", features.W, features.W, dtype=np.float64)))
        whole = compress.expand_factors(fit.factors, bases)
        factors, gain, order = kernels.normal_form(whole, norms)
        # Components that have died away hold rounding only: they become zero.
        weights = np.abs(gain) * norms[order]
        dead = weights <= np.finfo(features.W.dtype).eps * weights.max()
        if dead.any():
            gain = np.where(dead, 0.0, gain)
            for U in factors:
                U[..., dead] = 0.0
        scale = gain.astype(features.W.dtype)
        W = features.W[:, order] * scale
        V = None if features.V is None else features.V[:, order] * scale
        gram = np.asarray(W.T @ W)
        if V is not None:
            gram += np.asarray(V.T @ V)
        centers = fit.memory.centers
        # The ridge acts on features in the scale of the fit. Beyond 1e6 a component, whose columns
        # have unit length, is as good as switched off.
        limit = np.sqrt(max(alpha, np.finfo(float).tiny) / 1e6)
        ridge = alpha / np.maximum(np.where(dead, 1.0, np.abs(gain)), limit) ** 2
        return cls(
            factors,
            W,
            V,
            weights=(np.abs(gain) * norms[order] / np.sqrt(len(features.W))).astype(scale.dtype),
            gram=gram,
            centers=None if centers is None else centers[:, order] * np.sign(scale),
            ridge=np.where(dead, 1.0, ridge),
            gain=gain,
            order=order,
        )

"""The normal form of a fitted model: unit columns, sorted by weight, dead components at zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import compress, kernels
from tensorcontrast.errors import NumericalError
from tensorcontrast.solvers import als
from tensorcontrast.solvers.runs import Fit
from tensorcontrast.utils import checks

Array = NDArray[Any]


@dataclass(frozen=True)
class NormalForm:
    """A model in normal form: its learned attributes, and the way there."""

    factors: kernels.Factors
    #: Features of the windows as they were fitted, and of their view.
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

    def check(self, name: str, size: float, *, streaming: bool) -> None:
        """Raise where features are zero or not finite; warn where all windows have the same.

        ``size`` is the root mean squared norm of the windows. A later batch of a stream may have
        nothing to tell: then the model counts.
        """
        finite = np.isfinite(self.weights).all() and all(np.isfinite(U).all() for U in self.factors)
        if not finite:
            raise NumericalError(
                f"{name}: features or factors are not finite; pass a larger alpha or "
                "dtype='float64'"
            )
        none = not self.gain.any()
        if not streaming:
            none |= bool(self.weights.max() <= np.finfo(self.weights.dtype).eps * size)
        if none:
            raise NumericalError(
                f"{name}: all features are zero, the ridge outweighs the data; pass a smaller "
                "alpha or another random_state"
            )
        if streaming:
            return
        mean = np.asarray(self.W.mean(axis=0, dtype=np.float64))
        spread = self.weights.astype(np.float64) ** 2 - mean**2
        if not (spread > len(mean) * np.finfo(self.W.dtype).eps * self.weights.max() ** 2).any():
            checks.warn(
                f"{name}: every window has the same features; pass a smaller beta or "
                "windows that differ"
            )

    @classmethod
    def from_fit(
        cls, fit: Fit, features: als.Features, bases: list[Array] | None, alpha: float
    ) -> NormalForm:
        """Bring a fit with these final features there; ``bases`` are those of its core."""
        # Features of very many windows are Dask arrays: what is asked of them is computed here.
        norms = np.sqrt(np.asarray(np.einsum("ij,ij->j", features.W, features.W, dtype=np.float64)))
        whole = compress.expand_factors(fit.factors, bases)
        factors, gain, order = kernels.normal_form(whole, norms)
        # Lengths of the columns of H: 1, or more where coupled loadings are part of them.
        lengths = np.sqrt(np.diagonal(kernels.gram(kernels.in_float64(factors))))
        # Components that have died away hold rounding only: they become zero.
        weights = np.abs(gain) * norms[order] * lengths
        dead = weights <= np.finfo(features.W.dtype).eps * weights.max()
        if dead.any():
            gain = np.where(dead, 0.0, gain)
            for U in factors:
                U[:, dead] = 0.0
        scale = gain.astype(features.W.dtype)
        W = features.W[:, order] * scale
        V = None if features.V is None else features.V[:, order] * scale
        gram = np.asarray(W.T @ W)
        if V is not None:
            gram += np.asarray(V.T @ V)
        centers = fit.memory.centers
        # The ridge acts on features in the scale of the fit. Beyond 1e6 times the square of its
        # column of H a component is as good as switched off.
        limit = np.sqrt(max(alpha, np.finfo(float).tiny) / 1e6) / np.maximum(lengths, 1.0)
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

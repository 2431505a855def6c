"""Fits with non-negative factors: what they need, what they cannot do, and their last step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tensorcontrast.cp import kernels
from tensorcontrast.cp import nonnegative as hals
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als
from tensorcontrast.solvers.settings import ALS

Array = NDArray[Any]


def contrast(P: Array, P_view: Array | None, encoder: Encoder, memory: als.Memory) -> als.Features:
    """Non-negative features without a contrast, some passes on from those of the last sweep."""
    start = memory.W if memory.W is not None and memory.W.shape == P.shape else None
    return als.Features(hals.features(P, encoder.K, start), None)


def settings(given: ALS) -> ALS:
    """Return settings for windows as they are: not centred, not compressed."""
    found: ALS = clone(given)
    found.center = False
    if found.compress == "auto":
        found.compress = None
    return found


def check_parameters(name: str, given: ALS, missing: str, solver: str) -> None:
    """Raise where non-negative factors do not go with other parameters."""
    if missing == "mask":
        raise InvalidInputError(
            f"{name}: nonnegative=True needs windows without gaps; pass missing='error' and fill "
            "the gaps, or nonnegative=False"
        )
    if solver != "gls":
        raise InvalidInputError(
            f"{name}: nonnegative=True is for solver='gls'; with solver={solver!r} the contrast "
            "pulls features below zero: pass nonnegative=False"
        )
    if given.compress not in ("auto", None):
        raise InvalidInputError(
            f"{name}: nonnegative=True fits the windows themselves, whose cores have negative "
            "entries; leave compress out"
        )


def check_rows(name: str, X: Array) -> None:
    """Raise where windows (n, i) have negative entries."""
    low = X.min(axis=1)
    if (low < 0).any():
        n = int(low.argmin())
        raise InvalidInputError(
            f"{name}: nonnegative=True, but window {n} of X has negative entries; pass magnitudes, "
            "such as SpectrogramTensor() makes them, without ConvolutionFeatures, or "
            "nonnegative=False"
        )


def final(
    views: als.Views, factors: als.Factors, alpha: float | Array
) -> tuple[als.Features, float]:
    """Return non-negative least-squares features for fixed factors, and ‖X − WHᵀ‖/‖X‖."""
    P, _ = als.project(views, factors)
    W = hals.least_squares(P, Encoder.from_factors(factors, alpha).K)
    residual = kernels.residual_squared(views.norm_x, P, W, kernels.gram(factors))
    if kernels.cancelled(residual, views.norm_x, views.dtype):
        residual = kernels.residual_direct(views.X, W, factors)
    return als.Features(W, None), float(np.sqrt(residual / views.norm_x))

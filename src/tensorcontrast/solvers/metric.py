"""The contrast over the pseudo graph in closed form: the search for the nuisance metric (E23).

What should not be in the features are differences between two draws of a class-preserving
augmentation of one window (transformation invariance, E6), and deviations of windows from the mean
of their pseudo class (the pull of the pseudo graph, E4). The metric of both
(:mod:`tensorcontrast.cp.metric`) is made as strong as the ε-region allows (E14): the smaller its s,
the less of the nuisance is in the features, and the less of the windows they reconstruct.

Shapes used throughout: n windows, i values of a window, r components, q nuisance directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.cp.kmeans import class_sums
from tensorcontrast.cp.metric import (
    OVERLAP_POWER,
    NuisanceMetric,
    gains,
    principal_directions,
    projector,
)
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers.windows import Windows
from tensorcontrast.utils.arrays import as_array

Array = NDArray[Any]
Factors = Sequence[Array]
Labels = NDArray[np.intp]

ROUNDS = 2
"""How often pseudo classes and metric are found anew from each other."""

MAX_DEVIATIONS, MAX_DEVIATION_VALUES = 4096, 2**24
"""Windows whose deviations from their class mean are used, and values of all of them."""

MIN_STRENGTH, N_BISECTIONS = 1e-3, 40
"""Smallest s, relative to the deviation of all nuisance together, and steps of the search for s."""


@dataclass(frozen=True)
class Selected:
    """The metric that was selected, and the reconstruction error relative to that of E12."""

    metric: NuisanceMetric
    strength: float
    rise: float


def contrast_metric(
    windows: Windows,
    factors: Factors,
    alpha: float,
    nuisance: Array | None,
    pseudo_classes: Callable[[Array], Labels],
    *,
    gamma: float,
    epsilon: float,
) -> tuple[Selected | None, Labels]:
    """Find pseudo classes and the metric from each other, in turn. Equations E11, E23.

    Parameters
    ----------
    windows : Windows
        Centred and scaled.
    factors : sequence of (I_k, r) arrays
        Of a CPD, in float64.
    alpha : float
        Ridge.
    nuisance : (m, i) array or None
        Differences between windows that should have the same features.
    pseudo_classes : callable
        From features (n, r) to the pseudo class of each window.
    gamma : float
        Weight of the deviations within pseudo classes, against that of ``nuisance``.
    epsilon : float
        How much the reconstruction error may rise.

    Returns
    -------
    selected : Selected or None
        None where the limit leaves no room.
    classes : (n,) int array
        Pseudo classes of the last round.
    """

    def select(*parts: tuple[Array | None, float]) -> Selected | None:
        directions = principal_directions(_stacked(parts))
        if directions is None:
            return None
        return select_strength(windows, factors, alpha, directions, epsilon)

    selected = select((nuisance, 1.0))
    classes: Labels = np.zeros(windows.n, dtype=np.intp)
    for _ in range(ROUNDS):
        metric = None if selected is None else selected.metric
        to_features = projector(factors, alpha, metric, OVERLAP_POWER).astype(windows.dtype)
        classes = pseudo_classes(windows.map(partial(_product, to_features)))
        selected = select((nuisance, 1.0), (within_class_deviations(windows, classes), gamma))
    return selected, classes


def select_strength(
    windows: Windows,
    factors: Factors,
    alpha: float,
    nuisance: tuple[Array, Array, float],
    epsilon: float,
) -> Selected | None:
    """Select the smallest s that keeps ‖X − cHᵀ‖ within 1 + ε of its least value. E14, E23.

    ``nuisance`` is what :func:`.principal_directions` returns. One pass over the windows serves
    all values of s: features are a linear function of XH and XVᵀ. None where E12 reconstructs the
    windows to rounding.
    """
    V, variances, total = nuisance
    exact = kernels.in_float64(factors)
    H, HtH = kernels.khatri_rao(exact), kernels.gram(exact)
    VH = V @ H
    rank = len(HtH)
    basis = np.concatenate([H.astype(windows.dtype), V.T], axis=1)
    sums, norm_squared = windows.sum(partial(_inner_products, basis))

    def error(g: Array) -> float:
        """Relative reconstruction error for gains g: features are [XH, XVᵀ] A."""
        weighed = HtH - VH.T @ (g[:, None] * VH)
        inverse = Encoder.from_gram(weighed, alpha, np.dtype(np.float64)).K_inverse
        A = np.concatenate([np.eye(rank), -g[:, None] * VH]) @ inverse
        inner, WtW = float((sums[:rank] * A.T).sum()), A.T @ sums @ A
        residual = norm_squared - 2.0 * inner + float((WtW * HtH).sum())
        return float(np.sqrt(max(residual, 0.0) / norm_squared))

    plain = error(np.zeros(len(V)))
    limit = (1.0 + epsilon) * plain
    if kernels.cancelled(plain**2, 1.0, windows.dtype):
        return None
    low = np.log(MIN_STRENGTH * np.sqrt(total))
    high = np.log(1e3 * np.sqrt(variances[0]))
    if error(gains(variances, np.exp(high))) > limit:
        return None
    if error(gains(variances, np.exp(low))) <= limit:
        high = low
    else:
        for _ in range(N_BISECTIONS):
            middle = 0.5 * (low + high)
            if error(gains(variances, np.exp(middle))) <= limit:
                high = middle
            else:
                low = middle
    strength = float(np.exp(high))
    g = gains(variances, strength)
    return Selected(NuisanceMetric(V, g.astype(V.dtype)), strength, error(g) / plain)


def within_class_deviations(windows: Windows, classes: Labels) -> Array:
    """Deviations (m, i) of evenly spaced windows from the mean of their class.

    Their covariance is XᵀL₊X / n, with L₊ the Laplacian of the graph that joins windows of one
    class: the positive part of the pseudo-Laplacian (E3, E4). Windows that are alone in their class
    have no deviation.
    """
    count = int(classes.max()) + 1
    (sums,) = windows.sum(partial(_class_sums, count), classes)
    sizes = np.maximum(np.bincount(classes, minlength=count), 1)[:, None]
    means = (sums / sizes).astype(windows.dtype)
    most = min(windows.n, MAX_DEVIATIONS, max(2, MAX_DEVIATION_VALUES // windows.size))
    some = np.linspace(0, windows.n - 1, most).astype(np.intp)
    return np.asarray(windows.take(some) - means[classes[some]])


def _product(matrix: Array, block: Array) -> Array:
    return np.asarray(block @ matrix)


def _inner_products(basis: Array, block: Array) -> list[Any]:
    """ZᵀZ for the coordinates Z of a block in a basis (i, q), and ‖X‖²."""
    Z = (block @ basis).astype(np.float64)
    return [Z.T @ Z, kernels.row_norms_squared(block).sum()]


def _class_sums(count: int, block: Array, classes: Labels) -> list[Array]:
    return [class_sums(classes, block, count)]


def checked_nuisance(nuisance: ArrayLike, dims: tuple[int, ...], dtype: Any) -> Array:
    """Return nuisance differences (m, I_1, …, I_K) that ``fit`` was given, checked, as rows."""
    rows = as_array(nuisance, "nuisance")
    if rows.ndim != len(dims) + 1 or rows.shape[1:] != tuple(dims) or len(rows) < 2:
        raise InvalidInputError(
            f"nuisance has shape {rows.shape}; it must hold at least 2 differences of windows of "
            f"shape {tuple(dims)}"
        )
    if rows.dtype.kind not in "fiu":
        raise InvalidInputError(f"nuisance is of type {rows.dtype}; real numbers are needed")
    rows = rows.reshape(len(rows), -1)
    limit = np.float64(np.sqrt(np.finfo(dtype).max)) / rows.shape[1]
    with np.errstate(invalid="ignore"):
        bad = ~(np.abs(rows) <= limit).all(axis=1)
    if bad.any():
        raise InvalidInputError(
            f"nuisance[{int(bad.argmax())}] holds NaN, infinity or a value above {limit:.1g}; "
            "leave such rows out"
        )
    return rows.astype(dtype, copy=False)


def _stacked(parts: Sequence[tuple[Array | None, float]]) -> Array | None:
    """Rows whose covariance is the weighted sum of the covariances of all parts; None for none."""
    rows = [
        np.sqrt(weight / len(part)).astype(part.dtype) * (part - part.mean(axis=0))
        for part, weight in parts
        if part is not None and weight > 0 and len(part)
    ]
    if not rows:
        return None
    out = np.concatenate(rows)
    out *= out.dtype.type(np.sqrt(len(out)))
    return out

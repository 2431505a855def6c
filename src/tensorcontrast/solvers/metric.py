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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder, rows_times
from tensorcontrast.cp.kmeans import class_sums
from tensorcontrast.cp.metric import (
    OVERLAP_POWER,
    NuisanceMetric,
    gains,
    principal_directions,
    projector,
)
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import threads
from tensorcontrast.utils.arrays import as_array

Array = NDArray[Any]
Factors = Sequence[Array]
Labels = NDArray[np.intp]

ROUNDS = 2
"""How often pseudo classes and metric are found anew from each other."""

MAX_DEVIATIONS = 4096
"""Windows whose deviations from their class mean are used."""

MIN_STRENGTH, N_BISECTIONS = 1e-3, 40
"""Smallest s, relative to the deviation of all nuisance together, and steps of the search for s."""


@dataclass(frozen=True)
class Selected:
    """The metric that was selected, and the reconstruction error relative to that of E12."""

    metric: NuisanceMetric
    strength: float
    rise: float


def contrast_metric(
    X: Array,
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
    X : (n, i) array
        Windows, centred and scaled.
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
    norm = float(kernels.row_norms_squared(X).sum())
    limit = (1.0 + epsilon) * _ols_error(X, norm, factors, alpha)

    def select(parts: list[tuple[Array, float]]) -> Selected | None:
        rows = _stacked(parts)
        found = None if rows is None else principal_directions(rows)
        return None if found is None else select_strength(X, norm, factors, alpha, found, limit)

    augmented = [] if nuisance is None else [(nuisance, 1.0)]
    selected = select(augmented)
    classes: Labels = np.zeros(len(X), dtype=np.intp)
    for _ in range(ROUNDS):
        metric = None if selected is None else selected.metric
        to_features = projector(factors, alpha, metric, OVERLAP_POWER).astype(X.dtype)
        classes = pseudo_classes(rows_times(X, to_features))
        deviations = within_class_deviations(X, classes, MAX_DEVIATIONS)
        selected = select([*augmented, (deviations, gamma)])
    return selected, classes


def select_strength(
    X: Array,
    norm_squared: float,
    factors: Factors,
    alpha: float,
    nuisance: tuple[Array, Array, float],
    limit: float,
) -> Selected | None:
    """Select the smallest s that keeps ‖X − cHᵀ‖ within ``limit`` times ‖X‖. Equations E14, E23.

    ``nuisance`` is what :func:`.principal_directions` returns. One product with the windows X (n,
    i) serves all values of s: features are a linear function of XH and XVᵀ. None where E12 itself
    is outside the limit, or reconstructs the windows to rounding.
    """
    V, variances, total = nuisance
    H = kernels.khatri_rao(kernels.in_float64(factors))
    rank = H.shape[1]
    Z = rows_times(X, np.concatenate([H.astype(X.dtype), V.T], axis=1))
    sums = _inner(Z, Z)
    VH = V @ H
    HtH = kernels.gram(kernels.in_float64(factors))

    def error(g: Array) -> float:
        """Relative reconstruction error for gains g: features are [XH, XVᵀ] A."""
        weighed = HtH - VH.T @ (g[:, None] * VH)
        inverse = Encoder.from_gram(weighed, alpha, np.dtype(np.float64)).K_inverse
        A = np.concatenate([np.eye(rank), -g[:, None] * VH]) @ inverse
        inner, WtW = float((sums[:rank] * A.T).sum()), A.T @ sums @ A
        residual = norm_squared - 2.0 * inner + float((WtW * HtH).sum())
        return float(np.sqrt(max(residual, 0.0) / norm_squared))

    plain = error(np.zeros(len(V)))
    if plain > limit or kernels.cancelled(plain**2 * norm_squared, norm_squared, X.dtype):
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


def within_class_deviations(X: Array, classes: Labels, most: int) -> Array:
    """Deviations (m, i) of windows X (n, i) from the mean of their class, of ``most`` windows.

    Their covariance is XᵀL₊X / n, with L₊ the Laplacian of the graph that joins windows of one
    class: the positive part of the pseudo-Laplacian (E3, E4). Windows that are alone in their class
    have no deviation.
    """
    count = int(classes.max()) + 1
    sizes = np.maximum(np.bincount(classes, minlength=count), 1)[:, None]
    means = (class_sums(classes, X, count) / sizes).astype(X.dtype)
    some = np.linspace(0, len(X) - 1, min(most, len(X))).astype(np.intp)
    return np.asarray(X[some] - means[classes[some]])


def checked_nuisance(nuisance: ArrayLike, dims: tuple[int, ...], dtype: Any) -> Array:
    """Return nuisance differences (m, I_1, …, I_K) that ``fit`` was given, checked, as rows."""
    rows = as_array(nuisance, "nuisance", way="")
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


def _stacked(parts: Sequence[tuple[Array, float]]) -> Array | None:
    """Rows whose covariance is the weighted sum of the covariances of all parts; None for none."""
    rows = [
        np.sqrt(weight / len(part)).astype(part.dtype) * (part - part.mean(axis=0))
        for part, weight in parts
        if weight > 0 and len(part)
    ]
    if not rows:
        return None
    out = np.concatenate(rows)
    return out * out.dtype.type(np.sqrt(len(out)))


def _ols_error(X: Array, norm_squared: float, factors: Factors, alpha: float) -> float:
    """Relative reconstruction error ‖X − WHᵀ‖/‖X‖ of windows X (n, i) encoded by E12."""
    H = kernels.khatri_rao(kernels.in_float64(factors))
    P = rows_times(X, H.astype(X.dtype))
    W = rows_times(P, Encoder.from_factors(kernels.in_float64(factors), alpha).K_inverse)
    HtH = kernels.gram(kernels.in_float64(factors))
    return float(np.sqrt(kernels.residual_squared(norm_squared, P, W, HtH) / norm_squared))


def _inner(A: Array, B: Array) -> Array:
    """``AᵀB`` in float64, by strips of the rows."""
    out = np.zeros((A.shape[1], B.shape[1]))

    def strip(at: slice) -> Array:
        return np.asarray(A[at].T.astype(np.float64) @ B[at].astype(np.float64))

    for part in threads.over_strips(strip, len(A), out.size):
        out += part
    return out

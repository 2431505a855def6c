"""Pseudo-Laplacian contrast in closed form: generalised least squares in a nuisance metric (E23).

Rows D (m, i) are differences between windows that should have the same features: two draws of a
class-preserving augmentation of one window (transformation invariance, E6), and deviations of
windows from the mean of their pseudo class (the pull of the pseudo graph, E4). With V (q, i) the
directions in which D varies most and σ their standard deviations, features are

    c = x M H (HᵀMH + αI)⁻¹,   M = I − Vᵀ diag(g) V,   g = σ/(σ + s),

the estimate of generalised least squares with a shrunken nuisance covariance. It tends to E12 as
s → ∞. The smaller s, the less of the nuisance is in the features, and the less of the windows they
reconstruct: s is the smallest value that keeps the reconstruction error in the ε-region (E14).

Components overlap, so that the coordinates c are oblique: distances between their rows are not
distances between windows. Features w = c T divide the overlap between the components,

    w = x M Ĥ (ĤᵀMĤ + ρI)^(−p),   T = (HᵀMH + αI) L⁻¹ (ĤᵀMĤ + ρI)^(−p),

with Ĥ = HL⁻¹ the patterns scaled to unit length in the metric, so that the scale of the factors
does not matter.

p = 1 leaves the oblique coordinates; p = ½ is Löwdin's symmetric orthogonalisation, in which
distances between features are distances between reconstructions; the default p = ⅔ is between them.
T is invertible, so that nothing is lost: windows are reconstructed by w T⁻¹ Hᵀ.

References
----------
P.-O. Löwdin (1950), "On the non-orthogonality problem connected with the use of atomic wave
functions in the theory of molecules and crystals", Journal of Chemical Physics 18.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.extmath import randomized_svd

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder, rows_times
from tensorcontrast.cp.kmeans import class_sums
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import threads

Array = NDArray[Any]
Factors = Sequence[Array]

OVERLAP_POWER = 2 / 3
"""Exponent p that divides the overlap between components."""

OVERLAP_RIDGE = 1e-3
"""ρ, for patterns of unit length."""


@dataclass(frozen=True)
class GLSTuning:
    """Tuning numbers of the search for the nuisance metric."""

    #: Nuisance directions that are kept.
    max_directions: int = 128
    #: Smallest s, relative to the standard deviation of all nuisance together.
    min_strength: float = 1e-3
    #: Windows whose deviations from their class mean are used.
    max_deviations: int = 4096
    #: Steps of the search for s.
    n_bisections: int = 12


TUNING = GLSTuning()


@dataclass(frozen=True)
class GLSMetric:
    """The metric M of generalised least squares: orthonormal directions (q, i) and gains g (q,)."""

    directions: Array
    gains: Array

    def times(self, H: Array) -> Array:
        """``MH`` (i, r)."""
        return np.asarray(H - self.directions.T @ (self.gains[:, None] * (self.directions @ H)))


@dataclass(frozen=True)
class Selected:
    """The metric that was selected, and the reconstruction error relative to that of E12."""

    metric: GLSMetric
    strength: float
    rise: float


def checked(nuisance: ArrayLike, dims: tuple[int, ...], dtype: Any) -> Array:
    """Return nuisance differences (m, I_1, …, I_K) that ``fit`` was given, checked."""
    rows = np.asarray(nuisance)
    if rows.ndim != len(dims) + 1 or rows.shape[1:] != tuple(dims) or len(rows) < 2:
        raise InvalidInputError(
            f"nuisance has shape {rows.shape}; it must hold at least 2 differences of windows of "
            f"shape {tuple(dims)}"
        )
    if rows.dtype.kind not in "fiu":
        raise InvalidInputError(f"nuisance is of type {rows.dtype}; real numbers are needed")
    limit = np.float64(np.sqrt(np.finfo(dtype).max)) / rows[0].size
    with np.errstate(invalid="ignore"):
        bad = ~(np.abs(rows.reshape(len(rows), -1)) <= limit).all(axis=1)
    if bad.any():
        raise InvalidInputError(
            f"nuisance[{int(bad.argmax())}] holds NaN, infinity or a value above {limit:.1g}; "
            "leave such rows out"
        )
    return rows.astype(dtype, copy=False)


def principal_directions(
    rows: Array, max_directions: int = TUNING.max_directions
) -> tuple[Array, Array, float] | None:
    """Directions (q, i) in which rows (m, i) vary most, their variances, and the total variance.

    None where the rows do not vary. The result does not depend on the number of threads.
    """
    with threads.single("blas"), threads.single("openmp"):
        centred = rows - rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        total = float(kernels.row_norms_squared(centred).sum()) / len(rows)
        most = min(max_directions, *rows.shape)
        if not total > 0 or not np.isfinite(total):
            return None
        # Rows of unit size: squares of tiny or huge values stay in the range of numbers.
        centred /= rows.dtype.type(np.sqrt(total))
        _, values, found = randomized_svd(centred, most, n_iter=2, random_state=0)
    variances = total * values.astype(np.float64) ** 2 / len(rows)
    real = variances > 1e-6 * variances[0]
    return found[real].astype(rows.dtype), variances[real], total


def gains(variances: Array, strength: float) -> Array:
    """Gain g = σ/(σ + s) of each direction for s = ``strength``. Equation E23."""
    spread = np.sqrt(variances)
    return np.asarray(spread / (spread + strength))


# ----------------------------------------------------------------------------- the encoder


def overlap_mixing(
    gram: Array, ridge: float | Array, power: float, overlap_ridge: float = OVERLAP_RIDGE
) -> Array:
    """T (r, r) that divides the overlap between components, for ``gram`` = HᵀMH in float64.

    ``overlap_ridge`` is ρ. Equation E23.
    """
    rank = len(gram)
    if power == 1.0:
        return np.eye(rank)
    lengths = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    scale = np.divide(1.0, lengths, out=np.zeros(rank), where=lengths > 0)
    values, vectors = np.linalg.eigh(scale[:, None] * gram * scale + overlap_ridge * np.eye(rank))
    root = (vectors * np.maximum(values, overlap_ridge) ** -power) @ vectors.T
    K = gram + np.diag(np.broadcast_to(np.asarray(ridge, dtype=np.float64), rank))
    # Components that are zero stay zero, and T stays invertible.
    return np.asarray(K @ (np.where(lengths > 0, scale, 1.0)[:, None] * root))


def projector(
    factors: Factors,
    ridge: float | Array,
    metric: GLSMetric | None,
    power: float = 1.0,
    overlap_ridge: float = OVERLAP_RIDGE,
) -> Array:
    """Return the matrix (i, r) that maps centred windows to features. Equations E12, E23."""
    H = kernels.khatri_rao(factors)
    if metric is None and power == 1.0:
        return np.asarray(H @ Encoder.from_factors(factors, ridge).K_inverse)
    G = H if metric is None else metric.times(H)
    gram = H.T.astype(np.float64) @ G
    inverse = Encoder.from_gram(gram, ridge, np.dtype(np.float64)).K_inverse
    mixed = inverse @ overlap_mixing(gram, ridge, power, overlap_ridge)
    return np.asarray(G @ mixed.astype(H.dtype))


# ----------------------------------------------------------------------------- the strength


def select_strength(
    X: Array,
    norm_squared: float,
    factors: Factors,
    alpha: float,
    nuisance: tuple[Array, Array, float],
    limit: float,
    tuning: GLSTuning = TUNING,
) -> Selected | None:
    """Select the smallest s that keeps ‖X − cHᵀ‖ within ``limit`` times ‖X‖. Equations E14, E23.

    ``nuisance`` is what :func:`principal_directions` returns. One product with the windows X (n, i)
    serves all values of s: features are a linear function of XH and XVᵀ. None where E12 itself is
    outside the limit, or reconstructs the windows to rounding.
    """
    V, variances, total = nuisance
    H = kernels.khatri_rao(factors)
    rank = H.shape[1]
    Z = rows_times(X, np.concatenate([H, V.T], axis=1))
    sums = _inner(Z, Z)
    VH = (V @ H).astype(np.float64)
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
    low = np.log(tuning.min_strength * np.sqrt(total))
    high = np.log(1e3 * np.sqrt(variances[0]))
    if error(gains(variances, np.exp(high))) > limit:
        return None
    if error(gains(variances, np.exp(low))) <= limit:
        high = low
    else:
        for _ in range(tuning.n_bisections):
            middle = 0.5 * (low + high)
            if error(gains(variances, np.exp(middle))) <= limit:
                high = middle
            else:
                low = middle
    strength = float(np.exp(high))
    g = gains(variances, strength)
    return Selected(GLSMetric(V, g.astype(V.dtype)), strength, error(g) / plain)


def ols_error(X: Array, norm_squared: float, factors: Factors, alpha: float) -> float:
    """Relative reconstruction error ‖X − WHᵀ‖/‖X‖ of windows X (n, i) encoded by E12."""
    P = rows_times(X, kernels.khatri_rao(factors))
    W = Encoder.from_factors(factors, alpha)(P)
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


# ----------------------------------------------------------------------------- the contrast


@dataclass(frozen=True)
class Contrast:
    """What makes the nuisance covariance of a fit: augmentations, and deviations within classes.

    ``graph`` gives the pseudo class of each window from its features (n, r). ``rounds`` is how
    often classes and metric are found anew from each other.
    """

    graph: Callable[[Array], NDArray[np.intp]]
    gamma: float
    rounds: int = 2


def within_class_deviations(X: Array, classes: NDArray[np.intp], most: int) -> Array:
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


def stacked(parts: Sequence[tuple[Array, float]]) -> Array | None:
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


def contrast_metric(
    X: Array,
    norm_squared: float,
    factors: Factors,
    alpha: float,
    nuisance: Array | None,
    contrast: Contrast,
    limit: float,
    tuning: GLSTuning = TUNING,
) -> tuple[Selected | None, NDArray[np.intp]]:
    """Find pseudo classes and the metric from each other, in turn. Equations E11, E23.

    Windows X (n, i) are encoded by the factors, clustered, and encoded again in the metric of
    their augmentations and of their deviations from the class means, as strong as ``limit`` allows.

    Parameters
    ----------
    X : (n, i) array
        Windows, centred and scaled.
    norm_squared : float
        ‖X‖².
    factors : sequence of (I_k, r) arrays
        Of a CPD.
    alpha : float
        Ridge.
    nuisance : (m, i) array or None
        Differences between windows that should have the same features.
    contrast : Contrast
    limit : float
        Largest relative reconstruction error.
    tuning : GLSTuning
        Limits of directions, windows and steps.

    Returns
    -------
    selected : Selected or None
        None where the limit leaves no room.
    classes : (n,) int array
        Pseudo classes of the last round.
    """

    def select(parts: list[tuple[Array, float]]) -> Selected | None:
        rows = stacked(parts)
        found = None if rows is None else principal_directions(rows, tuning.max_directions)
        if found is None:
            return None
        return select_strength(X, norm_squared, factors, alpha, found, limit, tuning)

    augmented = [] if nuisance is None else [(nuisance, 1.0)]
    selected = select(augmented)
    classes = np.zeros(len(X), dtype=np.intp)
    for _ in range(contrast.rounds):
        metric = None if selected is None else selected.metric
        classes = contrast.graph(rows_times(X, projector(factors, alpha, metric, OVERLAP_POWER)))
        deviations = within_class_deviations(X, classes, tuning.max_deviations)
        selected = select([*augmented, (deviations, contrast.gamma)])
    return selected, classes

"""Features read against noise: what is no part of the signal weighs less.

Rows of noise (m, i) show how samples differ where nothing that matters has changed: parts of one
window against each other, repeats of a measurement. With the directions V (q, i) in which they
differ most and their variances ν, features are those of generalised least squares,

    w = x M H (HᵀMH + αI)⁻¹,   M = I − Vᵀ diag(g) V,   g = ν/(ν + λ),

which tends to E12 as λ → ∞. The smaller λ, the less of the noise is in the features, and the less
of the samples they reconstruct: λ is the smallest that stays in the ε-region (E14).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.extmath import randomized_svd

from tensorcontrast import threads
from tensorcontrast.decompose import als, compress, kernels, tied
from tensorcontrast.decompose.encoder import Encoder, rows_times
from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]

#: Directions of noise that are kept.
DIRECTIONS = 64
#: Part of the ε-region that features may use up: another start of the fit moves its error a little.
SHARE = 0.9
#: λ is no less than this part of the variance of all noise: what little varies in one direction
#: may still be signal.
LEAST = 1e-3
_STEPS = 24


@dataclass(frozen=True)
class Reading:
    """The metric M that features are read in: orthonormal directions (q, i) and gains g (q,)."""

    directions: Array
    gains: Array

    def weighed(self, H: Array) -> Array:
        """``MH`` (i, r)."""
        return np.asarray(H - self.directions.T @ (self.gains[:, None] * (self.directions @ H)))


def given(noise: ArrayLike, dims: tuple[int, ...], dtype: Any) -> Array:
    """Return rows of noise that ``fit`` was given, checked."""
    rows = np.asarray(noise)
    if rows.ndim != len(dims) + 1 or rows.shape[1:] != tuple(dims) or len(rows) < 2:
        raise InvalidInputError(
            f"noise has shape {rows.shape}; it must hold at least 2 differences of samples of "
            f"shape {tuple(dims)}"
        )
    if rows.dtype.kind not in "fiu":
        raise InvalidInputError(f"noise is of type {rows.dtype}; real numbers are needed")
    rows = rows.astype(dtype, copy=False)
    bad = ~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)
    if bad.any():
        raise InvalidInputError(
            f"noise[{int(bad.argmax())}] holds NaN or infinity; leave such rows out"
        )
    return rows


def directions(rows: Array) -> tuple[Array, Array, float] | None:
    """Directions (q, i) in which rows (m, i) vary most, their variances, and that of all.

    None where rows do not vary. The result does not depend on the number of threads.
    """
    with threads.single("blas"), threads.single("openmp"):
        centred = rows - rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        total = float(kernels.row_norms_squared(centred).sum()) / len(rows)
        most = min(DIRECTIONS, *rows.shape)
        if not total > 0 or not np.isfinite(total):
            return None
        # Rows of unit size: squares of what is tiny or huge stay in the range of numbers.
        centred /= rows.dtype.type(np.sqrt(total))
        _, values, found = randomized_svd(centred, most, n_iter=2, random_state=0)
    variances = total * values.astype(np.float64) ** 2 / len(rows)
    real = variances > 1e-6 * variances[0]
    return found[real].astype(rows.dtype), variances[real], total


def projector(factors: list[Array], ridge: float | Array, reading: Reading | None) -> Array:
    """Return what features are the product of centred samples with, (i, r). Equation E12."""
    H = kernels.khatri_rao(factors)
    if reading is None:
        return np.asarray(H @ Encoder.from_factors(factors, ridge).K_inverse)
    G = reading.weighed(H)
    inverse = Encoder.from_gram(H.T.astype(np.float64) @ G, ridge, H.dtype).K_inverse
    return np.asarray(G @ inverse)


def chosen(
    X: Array,
    norm_squared: float,
    factors: list[Array],
    ridge: float | Array,
    found: tuple[Array, Array, float],
    limit: float,
) -> tuple[Reading, float] | None:
    """Read against as much of the noise as keeps ‖X − WHᵀ‖ within ``limit`` times ‖X‖.

    One product with the samples X (n, i) serves all λ: P = XH and C = XVᵀ, of which every W is a
    linear function. Returned with the error over that of plain features (E12); None where these
    already reach the limit. Equation E14.
    """
    V, variances, total = found
    H = kernels.khatri_rao(factors)
    rank = H.shape[1]
    VH = (V @ H).astype(np.float64)
    HtH = kernels.gram([U.astype(np.float64) for U in factors])
    sums = _gram(X, np.concatenate([H, V.T], axis=1))

    def error(gains: Array) -> float:
        weighed = HtH - VH.T @ (gains[:, None] * VH)
        inverse = Encoder.from_gram(weighed, ridge, np.dtype(np.float64)).K_inverse
        A = np.concatenate([np.eye(rank), -gains[:, None] * VH]) @ inverse  # W = [P, C] A
        inner, WtW = float((sums[:rank] * A.T).sum()), A.T @ sums @ A
        residual = norm_squared - 2.0 * inner + float((WtW * HtH).sum())
        return float(np.sqrt(max(residual, 0.0) / norm_squared))

    def gains(strength: float) -> Array:
        return np.asarray(variances / (variances + strength))

    plain = error(np.zeros(len(V)))
    if kernels.cancelled(plain**2 * norm_squared, norm_squared, X.dtype):
        return None  # what is reconstructed to rounding has no noise
    low, high = np.log(LEAST * total), np.log(1e3 * variances[0])
    if error(gains(np.exp(high))) > limit:
        return None
    if error(gains(np.exp(low))) <= limit:
        high = low
    else:
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            if error(gains(np.exp(middle))) <= limit:
                high = middle
            else:
                low = middle
    g = gains(np.exp(high))
    return Reading(V, g.astype(V.dtype)), error(g) / plain


def _gram(X: Array, columns: Array) -> Array:
    """``(XB)ᵀXB`` (b, b) for B (i, b) in float64, by strips of the samples X."""
    out = np.zeros((columns.shape[1],) * 2)
    Z = rows_times(X, columns)

    def strip(at: slice) -> Array:
        rows = Z[at].astype(np.float64)
        return rows.T @ rows

    for part in threads.over_strips(strip, len(Z), columns.shape[1] ** 2):
        out += part
    return out


def settle(model: Any, rows: Array, views: als.Views, limit: float) -> None:
    """Let a fitted model read its features against rows of noise (m, I_1, …, I_K).

    Nothing changes where they do not vary or the ``limit`` of the error leaves no room.
    """
    flat = rows.reshape(len(rows), -1) / views.dtype.type(model.scale_)
    if model._bases is not None:
        flat = compress.project(flat.reshape(rows.shape), model._bases)
    found = directions(flat)
    if found is None:
        return
    held = tied.held(views, tied.sampled(views.n_samples, 0))
    assert not callable(held)
    factors = compress.compress_factors(model.factors_, model._bases)
    read = chosen(held.X, held.norm_x, factors, model.ridge_, found, limit)
    if read is None:
        return
    reading, rise = read
    whole = compress.expand_rows(reading.directions, model._bases)
    model.noise_directions_ = whole.reshape(-1, *model.dims_)
    model.noise_gains_ = reading.gains
    model.reconstruction_error_ *= rise
    _read(model, views)


def reading_of(model: Any) -> Reading | None:
    """Return what a model reads its features against; None for nothing, as in files of old."""
    rows, gains = model.noise_directions_, model.noise_gains_
    return None if rows is None or gains is None else Reading(rows.reshape(len(rows), -1), gains)


def _read(model: Any, views: als.Views) -> Array:
    """Let the features of fitted samples be what ``transform`` gives; return those as fitted."""
    columns = projector(model.factors_, model.ridge_, reading_of(model))
    if model._bases is not None:
        rows = np.ascontiguousarray(columns.T).reshape(-1, *model.dims_)
        columns = compress.project(rows, model._bases).T
    W, V = views.encoded(columns)
    model.features_, model.view_features_ = model._unweighted(W, V)
    return W


def follow(model: Any, views: als.Views) -> None:
    """Read the features of one more batch of a stream against what the model reads against."""
    if reading_of(model) is None:
        return
    W = _read(model, views)
    residual = kernels.residual_direct(views.X, W, model.factors_)
    model.reconstruction_error_ = float(np.sqrt(residual / views.norm_x))


def check_whole(reading: Reading | None, *, masked: bool) -> None:
    """Raise where samples with gaps would be read against noise."""
    if masked and reading is not None:
        raise InvalidInputError(
            "missing='mask': this model reads features against noise, which needs whole samples; "
            "fit it with missing='mask', or fill the gaps"
        )


def check_learned(model: Any) -> None:
    """Raise where what a loaded model reads its features against does not fit the model."""
    rows: Any = getattr(model, "noise_directions_", None)
    gains: Any = getattr(model, "noise_gains_", None)
    if rows is None and gains is None:
        return
    if not (
        isinstance(rows, np.ndarray)
        and isinstance(gains, np.ndarray)
        and gains.ndim == 1
        and rows.shape == (len(gains), *model.dims_)
        and rows.dtype == gains.dtype == model.center_.dtype
        and np.isfinite(rows).all()
        and bool(((gains >= 0) & (gains <= 1)).all())
    ):
        raise InvalidInputError(
            f"directions of noise of shape {np.shape(rows)} with gains of shape {np.shape(gains)} "
            f"do not fit tensors {tuple(model.dims_)}"
        )


def refused(solver: str, missing: str) -> None:
    """Raise where a fit cannot take noise."""
    if solver != "tied":
        raise InvalidInputError(
            f"noise= reads the features of solver='tied' against it; with solver={solver!r} "
            "features are free: leave noise out"
        )
    if missing == "mask":
        raise InvalidInputError(
            "noise= needs whole samples; with missing='mask' leave it out, or fill the gaps"
        )

"""Features read against noise: what is no part of the signal weighs less.

Rows of noise (m, i) show how samples differ where nothing that matters has changed: parts of one
window against each other, repeats of a measurement. With the directions V (q, i) in which they
differ most and their standard deviations σ, features are those of generalised least squares,

    w = x M H (HᵀMH + αI)⁻¹,   M = I − Vᵀ diag(g) V,   g = σ/(σ + λ),

which tends to E12 as λ → ∞. Variances of noise count by their roots: where noise is strongest,
signals mostly are as well, and leaving it all out would use up the region. The smaller λ, the less
of the noise is in the features, and the less of the samples they reconstruct: λ is the smallest
that stays in the ε-region (E14). The factors follow by one sweep, so that they are the patterns of
these features. A sweep knows nothing of the contrast: where that has used up the region, by the
labels that it was given for instance, features stay as it has made them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.extmath import randomized_svd

from tensorcontrast import threads
from tensorcontrast.decompose import als, compress, kernels, tied
from tensorcontrast.decompose.encoder import Encoder, rows_times
from tensorcontrast.decompose.runs import Fit
from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]
Factors = Sequence[Array]

#: Directions of noise that are kept: one for so many entries of a sample, but these at the least
#: and at the most.
ENTRIES, FEWEST, MOST = 50, 32, 128
#: Part of the ε-region that features may use up: another start of the fit moves its error a little.
SHARE = 0.9
#: λ is no less than this part of the standard deviation of all noise: what little varies in one
#: direction may still be signal.
LEAST = 1e-3
_STEPS = 12


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


def directions(rows: Array, n_entries: int | None = None) -> tuple[Array, Array, float] | None:
    """Directions (q, i) in which rows (m, i) vary most, their variances, and that of all.

    How many there are is a question of the entries that samples have, i unless the rows are cores
    of larger samples. None where rows do not vary. The result does not depend on the number of
    threads.
    """
    with threads.single("blas"), threads.single("openmp"):
        centred = rows - rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        total = float(kernels.row_norms_squared(centred).sum()) / len(rows)
        most = min(max(FEWEST, (n_entries or rows.shape[1]) // ENTRIES), MOST, *rows.shape)
        if not total > 0 or not np.isfinite(total):
            return None
        # Rows of unit size: squares of what is tiny or huge stay in the range of numbers.
        centred /= rows.dtype.type(np.sqrt(total))
        _, values, found = randomized_svd(centred, most, n_iter=2, random_state=0)
    variances = total * values.astype(np.float64) ** 2 / len(rows)
    real = variances > 1e-6 * variances[0]
    return found[real].astype(rows.dtype), variances[real], total


def gains(variances: Array, strength: float) -> Array:
    """Share g of each direction that features are read without, for λ = ``strength``."""
    spread = np.sqrt(variances)
    return np.asarray(spread / (spread + strength))


def projector(factors: Factors, ridge: float | Array, reading: Reading | None) -> Array:
    """Return what features are the product of centred samples with, (i, r). Equation E12."""
    H = kernels.khatri_rao(factors)
    if reading is None:
        return np.asarray(H @ Encoder.from_factors(factors, ridge).K_inverse)
    G = reading.weighed(H)
    inverse = Encoder.from_gram(H.T.astype(np.float64) @ G, ridge, H.dtype).K_inverse
    return np.asarray(G @ inverse)


@dataclass(frozen=True)
class Settled:
    """How features are read, the factors that go with it, and the error over that of E12."""

    reading: Reading
    factors: Factors
    rise: float


def chosen(
    X: Array,
    norm_squared: float,
    factors: Factors,
    alpha: float,
    found: tuple[Array, Array, float],
    limit: float,
    *,
    sweep: bool = True,
) -> Settled | None:
    """Read against as much of the noise as keeps ‖X − WHᵀ‖ within ``limit`` times ‖X‖.

    For every λ that is tried the factors move by one sweep (E10) to what reconstructs the samples X
    (n, i) best from features read with it, and features are read with these. That brings the
    error down, so that more of the noise can be left out. One product with the samples serves
    the sweeps of all λ, W being a linear function of P = XH and C = XVᵀ; XH of the new factors is
    one more each. ``sweep=False`` leaves the factors as they are. None where features by E12 leave
    no room below the limit: a sweep could make some, by undoing what the factors were moved for.
    Equation E14.
    """
    V, variances, total = found
    H = kernels.khatri_rao(factors)
    rank = H.shape[1]
    Z = rows_times(X, np.concatenate([H, V.T], axis=1))
    alone = als.Views(X, None, norm_squared, 0.0)
    products, sums = als.sums_over(alone, als.Features(Z, None))[0], _inner(Z, Z)
    C = Z[:, rank:]

    def read(factors: Factors, g: Array) -> tuple[Array, Array]:
        """W = [XH, C] A: return A, and HᵀH."""
        VH = (V @ kernels.khatri_rao(factors)).astype(np.float64)
        HtH = kernels.gram(kernels.in_float64(factors))
        weighed = HtH - VH.T @ (g[:, None] * VH)
        inverse = Encoder.from_gram(weighed, alpha, np.dtype(np.float64)).K_inverse
        return np.concatenate([np.eye(rank), -g[:, None] * VH]) @ inverse, HtH

    def error(A: Array, HtH: Array, sums: Array) -> float:
        inner, WtW = float((sums[:rank] * A.T).sum()), A.T @ sums @ A
        residual = norm_squared - 2.0 * inner + float((WtW * HtH).sum())
        return float(np.sqrt(max(residual, 0.0) / norm_squared))

    def swept(g: Array) -> tuple[Factors, float, float]:
        """Factors after a sweep; the error of features read with these, and that of E12."""
        A, HtH = read(factors, g)
        if not sweep:
            return factors, error(A, HtH, sums), plain
        Q, WtW = ((A.T @ a).astype(X.dtype) for a in (products, sums @ A))
        moved, _ = kernels.update_factors(Q, WtW, factors, alpha)
        P = rows_times(X, kernels.khatri_rao(moved))
        own = sums.copy()
        own[:rank, :rank], own[:rank, rank:] = _inner(P, P), _inner(P, C)
        own[rank:, :rank] = own[:rank, rank:].T
        return moved, error(*read(moved, g), own), error(*read(moved, 0 * g), own)

    plain = error(*read(factors, np.zeros(len(V))), sums)
    if kernels.cancelled(plain**2 * norm_squared, norm_squared, X.dtype):
        return None  # what is reconstructed to rounding has no noise
    if plain > limit:
        return None
    low, high = np.log(LEAST * np.sqrt(total)), np.log(1e3 * np.sqrt(variances[0]))
    best, strength = swept(gains(variances, np.exp(high))), high
    if best[1] > limit:
        return None
    most = swept(gains(variances, np.exp(low)))
    if most[1] <= limit:
        best, strength = most, low
    else:
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            trial = swept(gains(variances, np.exp(middle)))
            if trial[1] <= limit:
                best, strength, high = trial, middle, middle
            else:
                low = middle
    g = gains(variances, np.exp(strength)).astype(V.dtype)
    return Settled(Reading(V, g), best[0], best[1] / best[2])


def _inner(A: Array, B: Array) -> Array:
    """``AᵀB`` in float64, by strips of the rows."""
    out = np.zeros((A.shape[1], B.shape[1]))

    def strip(at: slice) -> Array:
        return np.asarray(A[at].T.astype(np.float64) @ B[at].astype(np.float64))

    for part in threads.over_strips(strip, len(A), out.size):
        out += part
    return out


def flat(model: Any, rows: Array) -> Array:
    """Rows of noise (m, i) as samples are fitted, of cores where these are, but for their scale."""
    if model._bases is None:
        return rows.reshape(len(rows), -1)
    return compress.project(rows, model._bases)


def settle(
    model: Any, fit: Fit, rows: Array, views: als.Views, limit: float, *, sweep: bool = True
) -> Settled | None:
    """Choose how a fit reads its features against rows of noise (m, I_1, …, I_K).

    Its factors become those that go with it. None, and nothing changes, where the rows do not vary
    or the ``limit`` of the error leaves no room.
    """
    found = directions(flat(model, rows), int(np.prod(model.dims_)))
    if found is None:
        return None
    V, variances, total = found
    found = V, variances / model.scale_ / model.scale_, total / model.scale_ / model.scale_
    held = tied.held(views, tied.sampled(views.n_samples, 0))
    assert not callable(held)
    settled = chosen(held.X, held.norm_x, fit.factors, model.alpha, found, limit, sweep=sweep)
    if settled is not None:
        fit.factors, fit.final = settled.factors, None
    return settled


def keep(model: Any, settled: Settled | None, views: als.Views) -> None:
    """Let a finished model read its features as was settled; None for E12."""
    model.noise_directions_ = model.noise_gains_ = None
    if settled is None:
        return
    whole = compress.expand_rows(settled.reading.directions, model._bases)
    model.noise_directions_ = whole.reshape(-1, *model.dims_)
    model.noise_gains_ = settled.reading.gains
    model.reconstruction_error_ *= settled.rise
    _read(model, views)


def reading_of(model: Any) -> Reading | None:
    """Return what a model reads its features against; None for nothing, as in files of old."""
    rows, gains = model.noise_directions_, model.noise_gains_
    return None if rows is None or gains is None else Reading(rows.reshape(len(rows), -1), gains)


def _read(model: Any, views: als.Views) -> Array:
    """Let the features of fitted samples be what ``transform`` gives; return those as fitted."""
    columns = projector(model._factors, model.ridge_, reading_of(model))
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
    residual = kernels.residual_direct(views.X, W, model._factors)
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

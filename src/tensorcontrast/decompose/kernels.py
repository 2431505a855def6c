"""Kernels of the CP model (E1): matrix products over samples, any order K ≥ 1, no state.

Shapes used throughout::

    n = samples, r = rank, i = prod(dims), dims = (I_1, …, I_K)
    X        (n, i)     samples, each tensor flattened in C order
    W        (n, r)     features
    factors  K arrays   (I_k, r)
    H        (i, r)     Khatri–Rao product of the factors, rows in the order of the flattened tensor
    Q        (r, i)     Wᵀ X, from which every mode's MTTKRP follows without touching X again

A last factor D of three dimensions (1, p, r) stands beside the others: the last p of the i entries
of a sample have loadings of their own instead of a product of modes, and H is the Khatri–Rao
product of the others with D below it. All sums over entries are those of both parts.

Sums over samples that feed an error are taken in float64 whatever the dtype of the arrays.

Arrays may be of any library with the array API (NumPy, PyTorch on any device, CuPy): results are
of the same library. NumPy has a faster way here and there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_namespace
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from tensorcontrast.errors import InvalidInputError, NumericalError

Array = NDArray[Any]
Factors = Sequence[Array]

__all__ = [
    "balanced",
    "cp_norm_squared",
    "cp_to_flat",
    "entries",
    "factor_match_score",
    "factor_products",
    "fitted_product",
    "gram",
    "inner",
    "khatri_rao",
    "mttkrp",
    "normal_form",
    "parted",
    "residual_direct",
    "residual_squared",
    "ridge_solve",
    "row_norms_squared",
    "update_factors",
]


def _float64(x: Array) -> Array:
    xp = array_namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def _row_products(a: Array, b: Array) -> Array:
    """``⟨a_i, b_i⟩`` of the rows of two arrays (n, i)."""
    xp = array_namespace(a, b)
    return np.einsum("ij,ij->i", a, b) if is_numpy_namespace(xp) else xp.sum(a * b, axis=1)


def inner(a: Array, b: Array) -> float:
    """Sum of products of two arrays of one shape: rows in their dtype, their sum in float64."""
    xp = array_namespace(a, b)
    if 0 in a.shape:
        return 0.0
    if a.ndim == 3:
        a, b = (x.reshape(-1, x.shape[-1]) for x in (a, b))
    elif a.ndim != 2:
        a, b = (x.reshape(len(x) if x.ndim else 1, -1) for x in (a, b))
    # Products of a row are summed in the arrays' dtype by a fast kernel, the rows in float64.
    return float(xp.sum(_row_products(a, b), dtype=xp.float64))


def row_norms_squared(X: Array) -> Array:
    """Squared norm of each row of X (n, i), in float64 without a float64 copy of X."""
    xp = array_namespace(X)
    n, i = X.shape
    step = max(1, 2**22 // max(i, 1))
    parts = []
    for start in range(0, n, step):  # a block of rows at a time: memory stays bounded
        block = _float64(X[start : start + step, :])
        parts.append(_row_products(block, block))
    return xp.concat(parts) if parts else xp.zeros(0, dtype=xp.float64)


def parted(factors: Factors) -> tuple[Factors, Array | None]:
    """Return the factors of the modes, and D (p, r) where one stands beside them."""
    if factors[-1].ndim == 3:
        return factors[:-1], factors[-1][0]
    return factors, None


def entries(factors: Factors) -> int:
    """Return the entries i of a sample, the rows of H."""
    modes, beside = parted(factors)
    size = math.prod(int(U.shape[0]) for U in modes)
    return size if beside is None else size + int(beside.shape[0])


def khatri_rao(factors: Factors) -> Array:
    """Column-wise Kronecker product of the factors: H (i, r), row order of a C-ordered tensor.

    Equation E1.
    """
    modes, beside = parted(factors)
    r = modes[0].shape[1]
    rows = modes[0].T
    for U in modes[1:]:
        # (r, a, 1) * (r, 1, b) -> (r, a·b)
        rows = (rows[:, :, None] * U.T[:, None, :]).reshape(r, -1)
    if beside is not None:
        rows = array_namespace(rows).concat([rows, beside.T], axis=1)
    return rows.T  # in the memory order in which X @ H is fastest


def gram(factors: Factors, skip: int | None = None) -> Array:
    """Gram matrix HᵀH = ∘_k U_kᵀU_k (r, r) by Hadamard products, one mode left out if asked.

    Equation E10: H is never formed for it. A mode left out is one of its own part of H alone.
    """
    modes, beside = parted(factors)
    out = array_namespace(*modes).ones_like(modes[0].T @ modes[0])
    if beside is not None and skip is not None and skip % len(factors) == len(modes):
        return out
    for k, U in enumerate(modes):
        if k != skip:
            out = out * (U.T @ U)
    return out if beside is None or skip is not None else out + beside.T @ beside


def factor_products(X: Array, W: Array) -> Array:
    """Q = WᵀX (r, i): the one pass over the samples that serves all modes (E10)."""
    return _contiguous((X.T @ W).T)  # faster than WᵀX, by the way BLAS packs tall matrices


def _contiguous(X: Array) -> Array:
    """X in C order; as it is where arrays have no order."""
    return np.ascontiguousarray(X) if is_numpy_namespace(array_namespace(X)) else X


def mttkrp(Q: Array, factors: Factors, mode: int) -> Array:
    """Mode-``mode`` MTTKRP (I_mode, r) from Q = WᵀX, summed over all samples.

    ``M[j, r] = Σ Q[r, …, j, …] ∏_{k≠mode} U_k[·, r]``, as two batched matrix–vector products: the
    modes behind ``mode`` are contracted first, then those before it. Equation E10.
    """
    r = Q.shape[0]
    factors, beside = parted(factors)
    if beside is not None:
        size = Q.shape[1] - len(beside)
        if mode == len(factors):
            return _contiguous(Q[:, size:].T)[None]
        Q = Q[:, :size]
    before = math.prod(int(U.shape[0]) for U in factors[:mode])
    behind = math.prod(int(U.shape[0]) for U in factors[mode + 1 :])
    T = Q.reshape(r, before * factors[mode].shape[0], behind)
    if mode + 1 < len(factors):
        right = khatri_rao(factors[mode + 1 :]).T  # (r, behind)
        T = T @ right[:, :, None]
    T = T.reshape(r, before, factors[mode].shape[0])
    if mode > 0:
        left = khatri_rao(factors[:mode]).T  # (r, before)
        T = left[:, None, :] @ T
    return _contiguous(T.reshape(r, -1).T)


def _inverse_root(G: Array, alpha: float | Array) -> Array:
    """``C⁻¹`` in float64 for the Cholesky factor C of G + diag(alpha), lifted a little if needed.

    NumPy alone does it: SciPy brings a BLAS of its own, whose threads would still be spinning
    when the next product over the samples begins.
    """
    xp = array_namespace(G)
    A = _float64(G)
    if not bool(xp.all(xp.isfinite(A))):
        raise NumericalError(
            "the Gram matrix of the factors is not finite: the data or the factors overflow; "
            "fit with scale=True or dtype='float64'"
        )
    unit = xp.eye(len(A), dtype=xp.float64, device=device(A))
    ridge = xp.asarray(alpha, dtype=xp.float64, device=device(A))
    A = A + unit * ridge
    # A ridge of the rounding error of G itself keeps collinear or empty columns solvable. It is
    # far below any alpha that regularises, and without it the solution is not defined at all.
    peak = max(float(xp.max(xp.linalg.diagonal(A))), 0.0)
    floor = len(A) * peak * float(xp.finfo(G.dtype).eps)
    for lift in (0.0, floor, 100.0 * floor, 1e4 * floor):
        try:
            C = xp.linalg.cholesky(A + lift * unit)
        except (np.linalg.LinAlgError, RuntimeError):  # PyTorch raises its own RuntimeError
            continue
        if float(xp.min(xp.linalg.diagonal(C))) ** 2 > 0.5 * floor:
            return xp.linalg.inv(C)
    raise NumericalError(
        f"the {len(A)}×{len(A)} Gram matrix of the factors is singular: components are all zero "
        "or copies of each other; pass alpha > 0, a smaller rank or another random_state"
    )


def ridge_solve(M: Array, G: Array, alpha: float | Array = 0.0) -> Array:
    """Solve ``Y (G + diag(alpha)) = M`` for Y (m, r) by Cholesky; ``alpha`` a number or (r,).

    Where G + αI is singular to working precision, a ridge of the size of its rounding error is
    added; where even that fails a :class:`NumericalError` says so. Equations E10, E12.
    """
    root = _inverse_root(G, alpha)
    xp = array_namespace(M, G)
    if is_numpy_namespace(xp):
        return ((M @ root.T) @ root).astype(M.dtype, copy=False)
    return xp.astype((_float64(M) @ root.T) @ root, M.dtype)


def update_factors(
    Q: Array, WtW: Array, factors: Factors, alpha: float
) -> tuple[list[Array], float]:
    """One sweep over the modes, each at its exact minimum given the others.

    ``U_k ← M_k (Γ_k + αI)⁻¹`` with ``Γ_k = WᵀW ∘ ∘_{j≠k} U_jᵀU_j``.

    Returns
    -------
    factors : list of (I_k, r) arrays
    misfit : float
        ``‖WHᵀ‖² − 2⟨X, WHᵀ⟩`` at the new factors; ‖X‖² added gives the squared residual.

    Notes
    -----
    Equation E10.
    """
    modes, beside = parted(factors)
    if beside is not None:
        # Given W both parts of H are apart: each has its own least squares.
        size = Q.shape[1] - len(beside)
        found, misfit = update_factors(Q[:, :size], WtW, modes, alpha)
        M = _contiguous(Q[:, size:].T)
        D = ridge_solve(M, WtW, alpha)
        return [*found, D[None]], misfit + inner(WtW, D.T @ D) - 2.0 * inner(M, D)
    factors = list(factors)
    misfit = 0.0
    grams = [U.T @ U for U in factors]
    for k in range(len(factors)):
        gamma = WtW
        for j, G in enumerate(grams):
            if j != k:
                gamma = gamma * G
        M = mttkrp(Q, factors, k)
        factors[k] = ridge_solve(M, gamma, alpha)
        grams[k] = factors[k].T @ factors[k]
        misfit = inner(gamma, grams[k]) - 2.0 * inner(M, factors[k])
    return factors, misfit


def fitted_product(Q: Array, factors: Factors) -> float:
    """``⟨X, WHᵀ⟩`` from Q = WᵀX."""
    modes, beside = parted(factors)
    value = inner(mttkrp(Q, factors, 0), modes[0])
    if beside is not None:
        value += inner(Q[:, Q.shape[1] - len(beside) :].T, beside)
    return value


def cp_norm_squared(W: Array, factors: Factors) -> float:
    """``‖WHᵀ‖² = ⟨WᵀW, HᵀH⟩`` without forming WHᵀ."""
    return inner(_float64(W.T @ W), _float64(gram(factors)))


def residual_squared(norm_squared: float, P: Array, W: Array, HtH: Array) -> float:
    """``‖X − WHᵀ‖²`` from ‖X‖², P = XH (n, r), W and HᵀH, without forming WHᵀ; never negative.

    Equation E8, first terms.
    """
    G = _float64(W.T @ W)
    value = norm_squared - 2.0 * inner(P, W) + inner(G, _float64(HtH))
    return max(value, 0.0)


#: Shares of ‖X‖², in units of the dtype's rounding, below which a difference of sums is noise.
_CANCELLED = 2**12


def cancelled(residual: float, norm_squared: float, dtype: Any) -> bool:
    """Whether ‖X‖² − … leaves so little that rounding is a good part of it."""
    return residual < _CANCELLED * float(np.finfo(np.dtype(dtype)).eps) * norm_squared


def lost_squared(norm_squared: float, held: float) -> float:
    """``‖X‖²`` less what cores hold of it; 0 where the two sums differ by their rounding alone."""
    lost = norm_squared - held
    return lost if lost > 1e-13 * norm_squared else 0.0


def residual_direct(X: Array, W: Array, factors: Factors) -> float:
    """``‖X − WHᵀ‖²`` from the differences themselves: right however good the fit is.

    For where :func:`residual_squared` has :func:`cancelled`; it costs a product and memory for a
    block of samples.
    """
    H, total = khatri_rao(factors), 0.0
    step = max(1, 2**22 // max(X.shape[1], 1))
    for start in range(0, len(X), step):
        rest = X[start : start + step] - W[start : start + step] @ H.T
        total += float(row_norms_squared(rest).sum())
    return total


def cp_to_flat(W: Array, factors: Factors) -> Array:
    """``WHᵀ`` (n, i): the reconstruction, for those who want to see it. Equation E1."""
    return W @ khatri_rao(factors).T


def normal_form(factors: Factors, weights: Array) -> tuple[list[Array], Array, Array]:
    """Sign, scale and order normal form of a CP model, so that two runs can be compared.

    Columns get unit length, the entry of largest size in each column becomes positive, and the
    components are sorted by ``weights · ∏‖u_k‖``, largest first. Coupled loadings are divided by
    what features are multiplied with. Where the modes of a component are less than ``WEAK_MODES``
    of its coupled loadings, these get unit length instead, and the column of the first mode is
    shorter: no component, dead or alive, is divided by next to nothing.

    Parameters
    ----------
    factors : K arrays (I_k, r)
    weights : (r,) array
        Size of each component in the features, e.g. the norms of the columns of W.

    Returns
    -------
    factors : list of arrays
        In normal form.
    gain : (r,) array
        Features in normal form are ``W[:, order] * gain``; the reconstruction stays the same.
    order : (r,) int array
    """
    xp = array_namespace(*factors)
    gain = xp.ones(factors[0].shape[1], dtype=xp.float64, device=device(factors[0]))
    unit: list[Array] = []
    modes, beside = parted(factors)
    for U in modes:
        directions, lengths = _unit_columns(_float64(U))
        gain = gain * lengths
        unit.append(directions)
    own: Array | None = None
    if beside is not None:
        own, lengths = _unit_columns(_float64(beside))
        weak = xp.abs(gain) < WEAK_MODES * xp.abs(lengths)
        unit[0] = unit[0] * xp.where(weak, gain / _or_one(lengths), xp.ones_like(gain))
        gain = xp.where(weak, lengths, gain)
        own = own * (lengths / _or_one(gain))
    size = xp.asarray(weights, dtype=xp.float64, device=device(gain))
    order = xp.argsort(-xp.abs(size * gain), stable=True)
    dtype = factors[0].dtype
    columns = [xp.astype(xp.take(U, order, axis=1), dtype) for U in unit]
    if is_numpy_namespace(xp):
        columns = [np.ascontiguousarray(U) for U in columns]
    if own is not None:
        columns.append(xp.astype(xp.take(own, order, axis=1), dtype)[None])
    return columns, xp.take(gain, order), order


def balanced(factors: Factors, sizes: Array) -> tuple[list[Array], Array]:
    """Move the lengths of columns between features and factors to where the ridge is smallest.

    The reconstruction stays the same: features are multiplied by ``gain``, the modes together and
    the coupled loadings are divided by it. The gain t of a component with features of length w,
    modes of lengths with product m and coupled loadings of length d minimises
    ``(wt)² + K(m/t)^(2/K) + (d/t)²``, the ridge of E8 where all modes have the same length.

    Parameters
    ----------
    factors : K arrays (I_k, r)
    sizes : (r,) array
        Norms of the columns of W.

    Returns
    -------
    factors : list of arrays
    gain : (r,) array
        1 for components that are zero.
    """
    modes, beside = parted(factors)
    norms = np.stack([np.linalg.norm(U.astype(np.float64), axis=0) for U in modes])
    own = np.zeros(norms.shape[1])
    if beside is not None:
        own = np.linalg.norm(beside.astype(np.float64), axis=0)
    K = len(modes)
    alive = (np.asarray(sizes) > 0) & (norms > 0).all(axis=0)
    w, d = np.where(alive, sizes, 1.0), np.where(alive, own, 0.0)
    logs = np.log(np.where(alive, norms, 1.0))
    # In x = log t this is convex; Newton starts from the larger of the solutions for d or m = 0.
    m = logs.sum(axis=0)
    x = (m / K - np.log(w)) / (1 + 1 / K)
    x = np.maximum(x, 0.5 * np.log(np.maximum(d, np.finfo(float).tiny) / w))
    for _ in range(6):
        up, modal, coupled = (w * np.exp(x)) ** 2, np.exp(2 * (m - x) / K), (d * np.exp(-x)) ** 2
        x = x - 0.5 * (up - modal - coupled) / (up + modal / K + coupled)
    gain = np.where(alive, np.exp(x), 1.0)
    # Every mode gets the length (m/t)^(1/K).
    scale = np.where(alive, np.exp((m - x) / K - logs), 1.0)
    out = [(U * s).astype(U.dtype) for U, s in zip(modes, scale, strict=True)]
    if beside is not None:
        out.append((factors[-1] / gain).astype(beside.dtype))
    return out, gain


#: Size of a component's modes against its coupled loadings below which the loadings set its scale.
WEAK_MODES = 1e-3


def _or_one(x: Array) -> Array:
    """``x`` with ones in the place of zeros, to divide by."""
    xp = array_namespace(x)
    return xp.where(x == 0, xp.ones_like(x), x)


def _unit_columns(U: Array) -> tuple[Array, Array]:
    """Columns of unit length, and their lengths with the sign of the entry of largest size.

    A column of zeros has no direction: it stays zero, and so is its length.
    """
    xp = array_namespace(U)
    norm = xp.sqrt(xp.sum(U * U, axis=0))
    largest = xp.argmax(xp.abs(U), axis=0)
    rows = xp.arange(U.shape[0], device=device(U))
    peak = xp.sum(xp.where(rows[:, None] == largest[None, :], U, 0.0), axis=0)
    signed = xp.where(peak < 0, -norm, norm)
    return U / _or_one(signed), signed


def factor_match_score(a: Factors, b: Factors) -> float:
    """Factor match score of two CP models: 1 where they agree up to order, sign and scale.

    The mean over components of ``∏_k |cos(u_k, v_k)|`` under the best matching (Hungarian
    method). With different ranks the smaller one is matched into the larger. Loadings beside the
    modes do not count.
    """
    if len(a) != len(b) or any(U.shape[0] != V.shape[0] for U, V in zip(a, b, strict=True)):
        raise InvalidInputError(
            f"the models have modes {[U.shape[0] for U in a]} and {[V.shape[0] for V in b]}: "
            "only models of the same tensor shape can be matched"
        )
    similarity = np.ones((a[0].shape[1], b[0].shape[1]))
    for U, V in zip(parted(a)[0], parted(b)[0], strict=True):
        u = U.astype(np.float64) / np.maximum(np.linalg.norm(U, axis=0), np.finfo(float).tiny)
        v = V.astype(np.float64) / np.maximum(np.linalg.norm(V, axis=0), np.finfo(float).tiny)
        similarity *= np.abs(u.T @ v)
    rows, columns = linear_sum_assignment(-similarity)
    return float(similarity[rows, columns].mean())

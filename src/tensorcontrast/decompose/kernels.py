"""Kernels of the CP model (E1): matrix products over samples, any order K ≥ 1, no state.

Shapes used throughout::

    n = samples, r = rank, i = prod(dims), dims = (I_1, …, I_K)
    X        (n, i)     samples, each tensor flattened in C order
    W        (n, r)     features
    factors  K arrays   (I_k, r)
    H        (i, r)     Khatri–Rao product of the factors, rows in the order of the flattened tensor
    Q        (r, i)     Wᵀ X, from which every mode's MTTKRP follows without touching X again

Sums over samples that feed an error are taken in float64 whatever the dtype of the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from tensorcontrast.errors import InvalidInputError, NumericalError

Array = NDArray[Any]
Factors = Sequence[Array]

__all__ = [
    "cp_norm_squared",
    "cp_to_flat",
    "factor_match_score",
    "factor_products",
    "gram",
    "inner",
    "khatri_rao",
    "mttkrp",
    "normal_form",
    "residual_squared",
    "ridge_solve",
    "row_norms_squared",
    "update_factors",
]


def inner(a: Array, b: Array) -> float:
    """Sum of products of two arrays of one shape: rows in their dtype, their sum in float64."""
    if a.size == 0:
        return 0.0
    if a.ndim != 2:
        a, b = (x.reshape(len(x) if x.ndim else 1, -1) for x in (a, b))
    # Products of a row are summed in the arrays' dtype by a fast kernel, the rows in float64.
    return float(np.einsum("ij,ij->i", a, b).sum(dtype=np.float64))


def row_norms_squared(X: Array) -> NDArray[np.float64]:
    """Squared norm of each row of X (n, i), in float64 without a float64 copy of X."""
    n, i = X.shape
    out = np.empty(n)
    step = max(1, 2**22 // max(i, 1))
    for start in range(0, n, step):  # a block of rows at a time: memory stays bounded
        block = X[start : start + step].astype(np.float64)
        np.einsum("ij,ij->i", block, block, out=out[start : start + step])
    return out


def khatri_rao(factors: Factors) -> Array:
    """Column-wise Kronecker product of the factors: H (i, r), row order of a C-ordered tensor.

    Equation E1.
    """
    r = factors[0].shape[1]
    rows = np.ascontiguousarray(factors[0].T)
    for U in factors[1:]:
        # (r, a, 1) * (r, 1, b) -> (r, a·b)
        rows = (rows[:, :, None] * U.T[:, None, :]).reshape(r, -1)
    return rows.T  # in the memory order in which X @ H is fastest


def gram(factors: Factors, skip: int | None = None) -> Array:
    """Gram matrix HᵀH = ∘_k U_kᵀU_k (r, r) by Hadamard products, one mode left out if asked.

    Equation E10: H is never formed for it.
    """
    r = factors[0].shape[1]
    out = np.ones((r, r), dtype=factors[0].dtype)
    for k, U in enumerate(factors):
        if k != skip:
            out *= U.T @ U
    return out


def factor_products(X: Array, W: Array) -> Array:
    """Q = WᵀX (r, i): the one pass over the samples that serves all modes (E10)."""
    return W.T @ X


def mttkrp(Q: Array, factors: Factors, mode: int) -> Array:
    """Mode-``mode`` MTTKRP (I_mode, r) from Q = WᵀX, summed over all samples.

    ``M[j, r] = Σ Q[r, …, j, …] ∏_{k≠mode} U_k[·, r]``, as two batched matrix–vector products: the
    modes behind ``mode`` are contracted first, then those before it. Equation E10.
    """
    r = Q.shape[0]
    before = int(np.prod([U.shape[0] for U in factors[:mode]], dtype=np.int64))
    behind = int(np.prod([U.shape[0] for U in factors[mode + 1 :]], dtype=np.int64))
    T = Q.reshape(r, before * factors[mode].shape[0], behind)
    if mode + 1 < len(factors):
        right = khatri_rao(factors[mode + 1 :]).T  # (r, behind)
        T = np.matmul(T, right[:, :, None])
    T = T.reshape(r, before, factors[mode].shape[0])
    if mode > 0:
        left = khatri_rao(factors[:mode]).T  # (r, before)
        T = np.matmul(left[:, None, :], T)
    return np.ascontiguousarray(T.reshape(r, -1).T)


def _inverse_root(G: Array, alpha: float | Array) -> Array:
    """``C⁻¹`` in float64 for the Cholesky factor C of G + diag(alpha), lifted a little if needed.

    NumPy alone does it: SciPy brings a BLAS of its own, whose threads would still be spinning
    when the next product over the samples begins.
    """
    A = np.array(G, dtype=np.float64)
    if not np.isfinite(A).all():
        raise NumericalError(
            "the Gram matrix of the factors is not finite: the data or the factors overflow; "
            "fit with scale=True or dtype='float64'"
        )
    diagonal = np.einsum("ii->i", A)
    diagonal += alpha
    # A ridge of the rounding error of G itself keeps collinear or empty columns solvable. It is
    # far below any alpha that regularises, and without it the solution is not defined at all.
    peak = float(diagonal.max(initial=0.0))
    floor = len(A) * peak * np.finfo(G.dtype).eps
    for lift in (0.0, floor, 100.0 * floor, 1e4 * floor):
        try:
            C = np.linalg.cholesky(A + lift * np.eye(len(A)))
        except np.linalg.LinAlgError:
            continue
        if np.diag(C).min() ** 2 > 0.5 * floor:
            return np.linalg.inv(C)
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
    return ((M @ root.T) @ root).astype(M.dtype, copy=False)


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
    factors = list(factors)
    misfit = 0.0
    grams = [U.T @ U for U in factors]
    for k in range(len(factors)):
        gamma = WtW.copy()
        for j, G in enumerate(grams):
            if j != k:
                gamma *= G
        M = mttkrp(Q, factors, k)
        factors[k] = ridge_solve(M, gamma, alpha)
        grams[k] = factors[k].T @ factors[k]
        misfit = inner(gamma, grams[k]) - 2.0 * inner(M, factors[k])
    return factors, misfit


def cp_norm_squared(W: Array, factors: Factors) -> float:
    """``‖WHᵀ‖² = ⟨WᵀW, HᵀH⟩`` without forming WHᵀ."""
    return inner((W.T @ W).astype(np.float64), gram(factors).astype(np.float64))


def residual_squared(norm_squared: float, P: Array, W: Array, HtH: Array) -> float:
    """``‖X − WHᵀ‖²`` from ‖X‖², P = XH (n, r), W and HᵀH, without forming WHᵀ; never negative.

    Equation E8, first terms.
    """
    G = (W.T @ W).astype(np.float64)
    value = norm_squared - 2.0 * inner(P, W) + inner(G, HtH.astype(np.float64))
    return max(value, 0.0)


def cp_to_flat(W: Array, factors: Factors) -> Array:
    """``WHᵀ`` (n, i): the reconstruction, for those who want to see it. Equation E1."""
    return W @ khatri_rao(factors).T


def normal_form(factors: Factors, weights: Array) -> tuple[list[Array], Array, Array]:
    """Sign, scale and order normal form of a CP model, so that two runs can be compared.

    Columns get unit length, the entry of largest size in each column becomes positive, and the
    components are sorted by ``weights · ∏‖u_k‖``, largest first.

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
    r = factors[0].shape[1]
    gain = np.ones(r, dtype=np.float64)
    unit: list[Array] = []
    for U in factors:
        norm = np.linalg.norm(U.astype(np.float64), axis=0)
        peak = U[np.abs(U).argmax(axis=0), np.arange(r)]
        signed = np.where(peak < 0, -norm, norm)
        gain *= signed
        # A column of zeros has no direction: it stays zero and its gain becomes zero.
        unit.append(U / np.where(norm > 0, signed, 1.0))
    order = np.argsort(-np.abs(np.asarray(weights, dtype=np.float64) * gain), kind="stable")
    dtype = factors[0].dtype
    return [np.ascontiguousarray(U[:, order], dtype=dtype) for U in unit], gain[order], order


def factor_match_score(a: Factors, b: Factors) -> float:
    """Factor match score of two CP models: 1 where they agree up to order, sign and scale.

    The mean over components of ``∏_k |cos(u_k, v_k)|`` under the best matching (Hungarian
    method). With different ranks the smaller one is matched into the larger.
    """
    if len(a) != len(b) or any(U.shape[0] != V.shape[0] for U, V in zip(a, b, strict=True)):
        raise InvalidInputError(
            f"the models have modes {[U.shape[0] for U in a]} and {[V.shape[0] for V in b]}: "
            "only models of the same tensor shape can be matched"
        )
    similarity = np.ones((a[0].shape[1], b[0].shape[1]))
    for U, V in zip(a, b, strict=True):
        u = U.astype(np.float64) / np.maximum(np.linalg.norm(U, axis=0), np.finfo(float).tiny)
        v = V.astype(np.float64) / np.maximum(np.linalg.norm(V, axis=0), np.finfo(float).tiny)
        similarity *= np.abs(u.T @ v)
    rows, columns = linear_sum_assignment(-similarity)
    return float(similarity[rows, columns].mean())

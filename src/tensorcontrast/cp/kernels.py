"""Kernels of the CP model (E1): matrix products over windows, any order K ≥ 1, no state.

Shapes used throughout::

    n = windows, r = rank, i = prod(dims), dims = (I_1, …, I_K)
    X        (n, i)     windows, each tensor flattened in C order
    W        (n, r)     features
    factors  K arrays   (I_k, r)
    H        (i, r)     Khatri–Rao product of the factors, rows in the order of the flattened tensor
    Q        (r, i)     Wᵀ X, from which every mode's MTTKRP follows without touching X again

Coupled blocks (E22) have factors of their own and share W: :class:`CoupledFactors` holds those of
all blocks. X has the blocks side by side, H has their Khatri–Rao products below each other, and all
sums over entries are sums over the blocks. A plain list of factors is one block.

Sums over windows that feed an error are taken in float64 whatever the dtype of the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError, NumericalError

Array = NDArray[Any]
Factors = Sequence[Array]

__all__ = [
    "CoupledFactors",
    "balanced",
    "blocks_of",
    "cp_norm_squared",
    "cp_to_flat",
    "cross_gram",
    "entries",
    "factor_products",
    "fitted_product",
    "gram",
    "inner",
    "inner_products",
    "khatri_rao",
    "like",
    "mttkrp",
    "normal_form",
    "residual_direct",
    "residual_squared",
    "ridge_solve",
    "row_norms_squared",
    "update_factors",
]


class CoupledFactors(Sequence[Array]):
    """Factors of several blocks: a sequence of all arrays, block after block. Equation E22.

    Parameters
    ----------
    blocks : iterable of sequences of (I_k, r) arrays
        The factors of each block.

    Examples
    --------
    >>> factors = CoupledFactors([[np.ones((2, 3)), np.ones((4, 3))], [np.ones((5, 3))]])
    >>> len(factors), [len(block) for block in factors.blocks], khatri_rao(factors).shape
    (3, [2, 1], (13, 3))
    """

    def __init__(self, blocks: Iterable[Sequence[Array]]) -> None:
        self.blocks = tuple(tuple(block) for block in blocks)

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    @overload
    def __getitem__(self, at: int) -> Array: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Array]: ...
    def __getitem__(self, at: int | slice) -> Array | Sequence[Array]:
        return [U for block in self.blocks for U in block][at]

    def like(self, arrays: Iterable[Array]) -> CoupledFactors:
        """Return other arrays in the same blocks."""
        left = iter(arrays)
        coupled = CoupledFactors([[next(left) for _ in block] for block in self.blocks])
        if next(left, None) is not None:
            raise InvalidInputError(f"more than {len(self)} arrays for the factors of the blocks")
        return coupled


def blocks_of(factors: Factors) -> tuple[Factors, ...]:
    """Return the factors of each block; a plain list is one block."""
    return factors.blocks if isinstance(factors, CoupledFactors) else (factors,)


def like(factors: Factors, arrays: Iterable[Array]) -> Factors:
    """Return other arrays in the blocks that these factors have; a list for a list."""
    return factors.like(arrays) if isinstance(factors, CoupledFactors) else list(arrays)


def in_float64(factors: Factors) -> Factors:
    """Return the factors in float64."""
    return like(factors, [_float64(U) for U in factors])


def _sizes(factors: Factors) -> list[int]:
    """Entries ∏I_k of each block."""
    return [math.prod(int(U.shape[0]) for U in block) for block in blocks_of(factors)]


def _block_of(factors: Factors, mode: int) -> tuple[Factors, int, slice]:
    """Return the block that has the ``mode`` of all, which one it is there, and its entries."""
    at = 0
    for block, size in zip(blocks_of(factors), _sizes(factors), strict=True):
        if mode < len(block):
            return block, mode, slice(at, at + size)
        mode, at = mode - len(block), at + size
    raise IndexError(f"no mode {mode} behind the last block")


def _float64(x: Array) -> Array:
    return x.astype(np.float64, copy=False)


def inner(a: Array, b: Array) -> float:
    """Sum of products of two arrays of one shape: rows in their dtype, their sum in float64."""
    if 0 in a.shape:
        return 0.0
    if a.ndim != 2:
        a, b = (x.reshape(len(x) if x.ndim else 1, -1) for x in (a, b))
    # Products of a row are summed in the arrays' dtype by a fast kernel, the rows in float64.
    return float(np.einsum("ij,ij->i", a, b).sum(dtype=np.float64))


def row_norms_squared(X: Array) -> Array:
    """Squared norm of each row of X (n, i), in float64 without a float64 copy of X."""
    n, i = X.shape
    step = max(1, 2**22 // max(i, 1))
    out = np.zeros(n)
    for start in range(0, n, step):  # a block of rows at a time: memory stays bounded
        block = _float64(X[start : start + step])
        out[start : start + step] = np.einsum("ij,ij->i", block, block)
    return out


def inner_products(X: Array) -> Array:
    """``XXᵀ`` (n, n) in float64 without a float64 copy of X (n, i), for few rows."""
    n, i = X.shape
    step = max(1, 2**22 // max(n, 1))
    out = np.zeros((n, n))
    for start in range(0, i, step):
        part = _float64(X[:, start : start + step])
        out += part @ part.T
    return out


def entries(factors: Factors) -> int:
    """Return the entries i of a window, the rows of H."""
    return sum(_sizes(factors))


def khatri_rao(factors: Factors) -> Array:
    """Column-wise Kronecker product of the factors: H (i, r), row order of a C-ordered tensor.

    Those of coupled blocks are below each other. Equations E1, E22.
    """
    parts = [_rows(block) for block in blocks_of(factors)]
    rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    return rows.T  # in the memory order in which X @ H is fastest


def _rows(modes: Factors) -> Array:
    """``Hᵀ`` (r, i) of one block."""
    r = modes[0].shape[1]
    rows = modes[0].T
    for U in modes[1:]:
        # (r, a, 1) * (r, 1, b) -> (r, a·b)
        rows = (rows[:, :, None] * U.T[:, None, :]).reshape(r, -1)
    return rows


def gram(factors: Factors, skip: int | None = None) -> Array:
    """Gram matrix HᵀH = Σ_b ∘_k U_kᵀU_k (r, r) by Hadamard products, one mode left out if asked.

    H is never formed for it. A mode left out is one of its own block, and the other blocks are no
    part of the sum. Equations E10, E22.
    """
    if skip is not None:
        block, mode, _ = _block_of(factors, skip)
        return _block_gram(block, mode)
    first, *others = (_block_gram(block) for block in blocks_of(factors))
    for G in others:
        first = first + G
    return first


def _block_gram(modes: Factors, skip: int | None = None) -> Array:
    out = np.ones_like(modes[0].T @ modes[0])
    for k, U in enumerate(modes):
        if k != skip:
            out = out * (U.T @ U)
    return out


def factor_products(X: Array, W: Array) -> Array:
    """Q = WᵀX (r, i): the one pass over the windows that serves all modes (E10)."""
    return np.ascontiguousarray((X.T @ W).T)  # faster than WᵀX, by the way BLAS packs tall matrices


def mttkrp(Q: Array, factors: Factors, mode: int) -> Array:
    """Mode-``mode`` MTTKRP (I_mode, r) from Q = WᵀX, summed over all windows.

    ``M[j, r] = Σ Q[r, …, j, …] ∏_{k≠mode} U_k[·, r]``, as two batched matrix–vector products: the
    modes behind ``mode`` are contracted first, then those before it. Modes of coupled blocks are
    counted through, and only the entries of the mode's own block take part. Equations E10, E22.
    """
    r = Q.shape[0]
    factors, mode, place = _block_of(factors, mode)
    Q = Q[:, place]
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
    return np.ascontiguousarray(T.reshape(r, -1).T)


def _inverse_root(G: Array, alpha: float | Array) -> Array:
    """``C⁻¹`` in float64 for the Cholesky factor C of G + diag(alpha), lifted a little if needed.

    NumPy alone does it: SciPy brings a BLAS of its own, whose threads would still be spinning
    when the next product over the windows begins.
    """
    A = _float64(G)
    if not np.isfinite(A).all():
        raise NumericalError(
            "the Gram matrix of the factors is not finite: the data or the factors overflow; "
            "fit with dtype='float64', or scale the data"
        )
    A = A + np.diag(np.broadcast_to(np.asarray(alpha, dtype=np.float64), len(A)))
    # A ridge of the rounding error of G itself keeps collinear or empty columns solvable. It is
    # far below any alpha that regularises, and without it the solution is not defined at all.
    peak = max(float(np.diagonal(A).max()), 0.0)
    floor = len(A) * peak * float(np.finfo(G.dtype).eps)
    for lift in (0.0, floor, 100.0 * floor, 1e4 * floor):
        try:
            C = np.linalg.cholesky(A + lift * np.eye(len(A)))
        except np.linalg.LinAlgError:
            continue
        if float(np.diagonal(C).min()) ** 2 > 0.5 * floor:
            return np.asarray(np.linalg.inv(C))
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


def update_factors(Q: Array, WtW: Array, factors: Factors, alpha: float) -> tuple[Factors, float]:
    """One sweep over the modes, each at its exact minimum given the others.

    ``U_k ← M_k (Γ_k + αI)⁻¹`` with ``Γ_k = WᵀW ∘ ∘_{j≠k} U_jᵀU_j``. Given W, coupled blocks do not
    depend on each other: each is updated from its own entries.

    Returns
    -------
    factors : sequence of (I_k, r) arrays
        In the blocks that the old ones have.
    misfit : float
        ``‖WHᵀ‖² − 2⟨X, WHᵀ⟩`` at the new factors; ‖X‖² added gives the squared residual.

    Notes
    -----
    Equations E10, E22.
    """
    new: list[Array] = []
    misfit, at = 0.0, 0
    for block, size in zip(blocks_of(factors), _sizes(factors), strict=True):
        Q_block = Q if size == Q.shape[1] else Q[:, at : at + size]
        updated, part = _update_block(Q_block, WtW, list(block), alpha)
        new += updated
        misfit, at = misfit + part, at + size
    return like(factors, new), misfit


def _update_block(
    Q: Array, WtW: Array, factors: list[Array], alpha: float
) -> tuple[list[Array], float]:
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
    """``⟨X, WHᵀ⟩`` from Q = WᵀX, summed over the blocks."""
    value, first = 0.0, 0
    for block in blocks_of(factors):
        value += inner(mttkrp(Q, factors, first), block[0])
        first += len(block)
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


def residual_direct(X: Array, W: Array, factors: Factors) -> float:
    """``‖X − WHᵀ‖²`` from the differences themselves: right however good the fit is.

    For where :func:`residual_squared` has :func:`cancelled`; it costs a product and memory for a
    block of windows.
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


#: Size of a component in the first block, against the block where it is largest, from which the
#: first block sets the scale of the component.
WEAK_BLOCK = 1e-3


def normal_form(factors: Factors, weights: Array) -> tuple[Factors, Array, Array]:
    """Sign, scale and order normal form of a CP model, so that two runs can be compared.

    Columns get unit length, the entry of largest size in each column becomes positive, and the
    components are sorted by ``weights · ∏‖u_k‖``, largest first.

    Features have one scale for all coupled blocks. The first block sets it, or, for a component
    that is less there than ``WEAK_BLOCK`` of what it is in another one, the first block where it is
    not. In the others the first mode's columns carry length and sign. So no component, dead or
    alive, is divided by next to nothing.

    Parameters
    ----------
    factors : sequence of (I_k, r) arrays
    weights : (r,) array
        Size of each component in the features, e.g. the norms of the columns of W.

    Returns
    -------
    factors : sequence of arrays
        In normal form, in the blocks that the old ones have.
    gain : (r,) array
        Features in normal form are ``W[:, order] * gain``; the reconstruction stays the same.
    order : (r,) int array
    """
    unit: list[list[Array]] = []
    gains: list[Array] = []
    for block in blocks_of(factors):
        size = np.ones(factors[0].shape[1])
        columns = []
        for U in block:
            directions, lengths = _unit_columns(_float64(U))
            size = size * lengths
            columns.append(directions)
        unit.append(columns)
        gains.append(size)
    gain = gains[0]
    if len(gains) > 1:
        least = WEAK_BLOCK * np.abs(np.stack(gains)).max(axis=0)
        for size in reversed(gains):
            gain = np.where(np.abs(size) >= least, size, gain)
        for columns, size in zip(unit, gains, strict=True):
            columns[0] = columns[0] * np.where(size == gain, 1.0, size / _or_one(gain))
    order = np.argsort(-np.abs(np.asarray(weights, dtype=np.float64) * gain), kind="stable")
    dtype = factors[0].dtype
    columns_ = [np.ascontiguousarray(U[:, order], dtype) for columns in unit for U in columns]
    return like(factors, columns_), gain[order], order


def balanced(factors: Factors, sizes: Array) -> tuple[Factors, Array]:
    """Move the lengths of columns between features and factors to where the ridge is smallest.

    The reconstruction stays the same: features are multiplied by ``gain``, the modes of each block
    together are divided by it. The gain t of a component with features of length w and, in block b
    of K_b modes, columns of lengths with product m_b minimises ``(wt)² + Σ_b K_b(m_b/t)^(2/K_b)``,
    the ridge of E8 where all modes of a block have the same length.

    Parameters
    ----------
    factors : sequence of (I_k, r) arrays
    sizes : (r,) array
        Norms of the columns of W.

    Returns
    -------
    factors : sequence of arrays
    gain : (r,) array
        1 for components that are zero.
    """
    blocks = blocks_of(factors)
    norms = [
        np.stack([np.linalg.norm(U.astype(np.float64), axis=0) for U in block]) for block in blocks
    ]
    there = np.stack([(lengths > 0).all(axis=0) for lengths in norms])  # (blocks, r)
    alive = (np.asarray(sizes) > 0) & there.any(axis=0)
    w = np.log(np.where(alive, sizes, 1.0))
    logs = [np.log(np.where(lengths > 0, lengths, 1.0)) for lengths in norms]
    K = np.array([[len(block)] for block in blocks])
    m = np.where(there, np.stack([lengths.sum(axis=0) for lengths in logs]), -np.inf)
    # In x = log t this is convex; Newton starts from the largest of the solutions for one block.
    x = np.where(alive, ((m / K - w) / (1 + 1 / K)).max(axis=0), 0.0)
    for _ in range(6):
        up, modal = np.exp(2 * (w + x)), np.exp(2 * (m - x) / K)
        x = x - 0.5 * (up - modal.sum(axis=0)) / (up + (modal / K).sum(axis=0))
    x = np.where(alive, x, 0.0)
    # Every mode of a block gets the length (m/t)^(1/K).
    out = []
    for block, lengths, m_block, k, live in zip(blocks, logs, m, K, there & alive, strict=True):
        for U, length in zip(block, lengths, strict=True):
            scale = np.where(live, np.exp((np.where(live, m_block, 0.0) - x) / k - length), 1.0)
            out.append((U * scale).astype(U.dtype))
    return like(factors, out), np.exp(x)


def _or_one(x: Array) -> Array:
    """``x`` with ones in the place of zeros, to divide by."""
    return np.where(x == 0, 1.0, x)


def _unit_columns(U: Array) -> tuple[Array, Array]:
    """Columns of unit length, and their lengths with the sign of the entry of largest size.

    A column of zeros has no direction: it stays zero, and so is its length.
    """
    norm = np.linalg.norm(U, axis=0)
    peak = U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])]
    signed = np.where(peak < 0, -norm, norm)
    return U / _or_one(signed), signed


def cross_gram(a: Factors, b: Factors) -> Array:
    """``H_aᵀH_b`` (r, r') of two models of one tensor shape, by Hadamard products; NumPy, float64.

    Equations E10, E22.
    """
    shapes = [[[U.shape[0] for U in block] for block in blocks_of(model)] for model in (a, b)]
    if shapes[0] != shapes[1]:
        named = [part[0] if len(part) == 1 else part for part in shapes]
        raise InvalidInputError(
            f"the models have modes {named[0]} and {named[1]}: "
            "only models of the same tensor shape can be matched"
        )
    total = np.zeros((a[0].shape[1], b[0].shape[1]))
    for left, right in zip(blocks_of(a), blocks_of(b), strict=True):
        part = np.ones_like(total)
        for U, V in zip(left, right, strict=True):
            part *= U.astype(np.float64).T @ V.astype(np.float64)
        total += part
    return total

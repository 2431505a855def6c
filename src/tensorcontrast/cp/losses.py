"""The losses, one function per equation, each with its value and its gradient.

``W`` and ``V`` (n, r) are the features of the data and of the augmented view (W̃ in the
equations); a hat means rows of unit length. Rows of zeros have no direction: they count as zero
in every cosine and get no gradient.

Units: the paper's E6 is a mean over windows and its E5 a sum, so that their balance would change
with N. The fit uses :func:`plc`, in which every term is a sum over windows; against the paper's
symbols ``β_code = β_paper / N`` and ``γ_code = N γ_paper``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tensorcontrast.cp import kernels
from tensorcontrast.cp.graph import SignedGraph

Array = NDArray[Any]


def unit_rows(W: Array) -> tuple[Array, Array]:
    """``Ŵ`` (n, r) and the norms ‖w‖ (n, 1); rows of zeros stay zero."""
    norm = np.sqrt(np.einsum("ij,ij->i", W, W))[:, None]
    return W / np.where(norm > 0, norm, 1), norm


def through_unit_rows(grad: Array, W_hat: Array, norm: Array) -> Array:
    """Gradient for W from the gradient for Ŵ: ``(g − ⟨g,ŵ⟩ŵ)/‖w‖``, as in E9."""
    along = np.einsum("ij,ij->i", grad, W_hat)[:, None]
    return (grad - along * W_hat) / np.where(norm > 0, norm, np.inf)


def same_view(W: Array, graph: SignedGraph, *, identity: bool = True) -> tuple[float, Array]:
    """``Tr(ŴᵀLŴ)``; without ``identity`` L is −S/(N−1). Equation E4."""
    W_hat, norm = unit_rows(W)
    LW = _laplacian(W_hat, graph, identity)
    return kernels.inner(W_hat, LW), through_unit_rows(2.0 * LW, W_hat, norm)


def cross_view(
    W: Array, V: Array, graph: SignedGraph, *, identity: bool = False
) -> tuple[float, tuple[Array, Array]]:
    """``Tr(ŴᵀLV̂)``; without ``identity`` (the default) L is −S/(N−1). Equation E5."""
    W_hat, w_norm = unit_rows(W)
    V_hat, v_norm = unit_rows(V)
    LV = _laplacian(V_hat, graph, identity)
    LW = _laplacian(W_hat, graph, identity)  # L is symmetric
    gradients = (through_unit_rows(LV, W_hat, w_norm), through_unit_rows(LW, V_hat, v_norm))
    return kernels.inner(W_hat, LV), gradients


def trans_inv(W: Array, V: Array) -> tuple[float, tuple[Array, Array]]:
    """``(1/N) Tr(ŴᵀV̂)``, the mean cosine of a window and its own view. Equation E6."""
    W_hat, w_norm = unit_rows(W)
    V_hat, v_norm = unit_rows(V)
    n = len(W)
    gradients = (
        through_unit_rows(V_hat / n, W_hat, w_norm),
        through_unit_rows(W_hat / n, V_hat, v_norm),
    )
    return kernels.inner(W_hat, V_hat) / n, gradients


def plc_pull(
    V_hat: Array,
    graph: SignedGraph,
    gamma: float,
    *,
    invariance: float = 1.0,
    identity: bool = False,
) -> Array:
    """Rows h (n, r) with ``ℓ_PLC = Σ_n ⟨h_n, ŵ_n⟩``: what each window is pulled against.

    ``h = −V̂ − γ S V̂/(N−1)``, plus γV̂ where the identity inside L is kept. S is symmetric, so
    the same function of Ŵ gives the rows for V. Equation E9.
    """
    h = graph.product(V_hat)
    h *= -gamma / graph.degree
    h += (gamma * identity - invariance) * V_hat
    return h


def plc(
    W: Array,
    V: Array,
    graph: SignedGraph,
    gamma: float,
    *,
    invariance: float = 1.0,
    identity: bool = False,
) -> tuple[float, tuple[Array, Array]]:
    """``Σ_n [−⟨ŵ_n, v̂_n⟩ − γ/(N−1) Σ_j S_nj⟨ŵ_n, v̂_j⟩]``: E7 with every term a sum.

    N times E7 with ``γ = N γ_paper``. ``invariance`` weights the first term (0: the paper's
    ablation without it), ``identity`` keeps the identity inside L. Equation E7.
    """
    W_hat, w_norm = unit_rows(W)
    V_hat, v_norm = unit_rows(V)
    h_w = plc_pull(V_hat, graph, gamma, invariance=invariance, identity=identity)
    h_v = plc_pull(W_hat, graph, gamma, invariance=invariance, identity=identity)
    gradients = (through_unit_rows(h_w, W_hat, w_norm), through_unit_rows(h_v, V_hat, v_norm))
    return kernels.inner(W_hat, h_w), gradients


def expanded_plc(
    W: Array, V: Array, graph: SignedGraph, gamma: float
) -> tuple[float, tuple[Array, Array]]:
    """``−(1/N)Σ⟨ŵ_i,v̂_i⟩ + γ/(N−1) ΣΣ(−S_ij)⟨ŵ_i,v̂_j⟩``, in the paper's units. Equation E16."""
    invariant, (gi_w, gi_v) = trans_inv(W, V)
    cross, (gc_w, gc_v) = cross_view(W, V, graph, identity=False)
    return -invariant + gamma * cross, (gamma * gc_w - gi_w, gamma * gc_v - gi_v)


def infonce(W: Array, V: Array, temperature: float) -> tuple[float, tuple[Array, Array]]:
    """``−(1/N)Σ⟨ŵ_i,v̂_i⟩ + (τ/N)Σ_i log Σ_j exp(⟨ŵ_i,v̂_j⟩/τ)``: for batches, n×n. Equation E15."""
    n = len(W)
    W_hat, w_norm = unit_rows(W)
    V_hat, v_norm = unit_rows(V)
    logits = (W_hat @ V_hat.T) / temperature  # (n, n), a batch
    partition = logsumexp(logits, axis=1)
    weights = np.exp(logits - partition[:, None])
    value = -kernels.inner(W_hat, V_hat) / n + temperature * float(partition.mean())
    g_w = (weights @ V_hat - V_hat) / n
    g_v = (weights.T @ W_hat - W_hat) / n
    return value, (through_unit_rows(g_w, W_hat, w_norm), through_unit_rows(g_v, V_hat, v_norm))


def block_similarities(W: Array, V: Array, graph: SignedGraph) -> tuple[Array, Array]:
    """``P_i = ⟨ŵ_i, Σ_{j+} v̂_j⟩`` and ``Q_i`` over the negative block, j ≠ i. Equation E17."""
    W_hat, V_hat = unit_rows(W)[0], unit_rows(V)[0]
    others = V_hat.sum(axis=0) - V_hat
    signed = graph.product(V_hat)
    positive = np.einsum("ij,ij->i", W_hat, 0.5 * (others + signed))
    negative = np.einsum("ij,ij->i", W_hat, 0.5 * (others - signed))
    return positive, negative


def block_contrast(W: Array, V: Array, graph: SignedGraph) -> tuple[Array, Array]:
    """Block loss ``−P + Q`` and the pairwise one ``P + Q`` of each window. Equation E17.

    The first is bounded by the second if and only if P ≥ 0.
    """
    positive, negative = block_similarities(W, V, graph)
    return negative - positive, negative + positive


def atd_pull(V_hat: Array, delta: float) -> Array:
    """Rows of ``G V̂`` with ``G = 11ᵀ/N − (1/N + δ)I``. Equation E21."""
    n = len(V_hat)
    mean = V_hat.mean(axis=0, dtype=np.float64)
    return mean.astype(V_hat.dtype) - V_hat.dtype.type(1.0 / n + delta) * V_hat


def atd(W: Array, V: Array, delta: float) -> tuple[float, tuple[Array, Array]]:
    """``Tr(ŴᵀGV̂)``: every pair pushed apart a little, a window pulled to its view. Equation E21."""
    W_hat, w_norm = unit_rows(W)
    V_hat, v_norm = unit_rows(V)
    h_w, h_v = atd_pull(V_hat, delta), atd_pull(W_hat, delta)
    gradients = (through_unit_rows(h_w, W_hat, w_norm), through_unit_rows(h_v, V_hat, v_norm))
    return kernels.inner(W_hat, h_w), gradients


def reconstruction(
    X: Array, W: Array, factors: Sequence[Array]
) -> tuple[float, tuple[Array, list[Array]]]:
    """``½‖X − WHᵀ‖²`` for X (n, i), with gradients for W and each factor. Equations E1, E8."""
    H = kernels.khatri_rao(factors)
    P = X @ H
    HtH = kernels.gram(factors)
    value = 0.5 * kernels.residual_squared(float(kernels.row_norms_squared(X).sum()), P, W, HtH)
    Q, WtW = kernels.factor_products(X, W), W.T @ W
    g_factors = [
        U @ (WtW * kernels.gram(factors, skip=k)) - kernels.mttkrp(Q, factors, k)
        for k, U in enumerate(factors)
    ]
    return value, (W @ HtH - P, g_factors)


def ridge(W: Array, V: Array | None, factors: Sequence[Array]) -> float:
    """``½(‖W‖² + ‖W̃‖² + Σ‖U_k‖²)``: the regularisation inside E8."""
    parts = [W, *factors] if V is None else [W, V, *factors]
    return 0.5 * sum(kernels.inner(part, part) for part in parts)


def objective(
    X: Array,
    X_view: Array,
    W: Array,
    V: Array,
    factors: Sequence[Array],
    graph: SignedGraph,
    *,
    alpha: float,
    beta: float,
    gamma: float,
) -> tuple[float, tuple[Array, Array, list[Array]]]:
    """Give the whole objective with gradients for W, W̃ and the factors. Equation E8."""
    f_x, (gx_w, gx_u) = reconstruction(X, W, factors)
    f_v, (gv_w, gv_u) = reconstruction(X_view, V, factors)
    contrast, (gc_w, gc_v) = plc(W, V, graph, gamma)
    value = f_x + f_v + alpha * ridge(W, V, factors) + beta * contrast
    g_factors = [a + b + alpha * U for a, b, U in zip(gx_u, gv_u, factors, strict=True)]
    return value, (gx_w + alpha * W + beta * gc_w, gv_w + alpha * V + beta * gc_v, g_factors)


def _laplacian(V: Array, graph: SignedGraph, identity: bool) -> Array:
    return graph.laplacian_product(V) if identity else graph.product(V) / -graph.degree

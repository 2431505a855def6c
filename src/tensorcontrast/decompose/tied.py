"""Features tied to the encoder (E19): the contrast moves the factors through E12 itself.

W = XH(HᵀH + αI)⁻¹ is a function of the factors, so the contrast reaches them through the very
encoder that ``transform`` uses. With D = ∂ℓ/∂W and K = HᵀH + αI,

    dH = Xᵀ(D K⁻¹) − H (S + Sᵀ),   S = WᵀD K⁻¹,

and by the envelope theorem the reconstruction adds HWᵀW − XᵀW without any dW. Both share one
product with Xᵀ: a step is two matrix products a view, as in ALS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose import kernels
from tensorcontrast.decompose.updates import Encoder

Array = NDArray[Any]

#: ``(W, V) -> value, (dW, dV)``.
Loss = Callable[[Array, Array], tuple[float, tuple[Array, Array]]]


def standardise(W: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Columns of zero mean and unit variance, and the map of gradients back through that."""
    mean = W.mean(axis=0)
    Z = W - mean
    spread = np.sqrt(np.einsum("ij,ij->j", Z, Z) / len(Z))
    floor = 1e-6 * max(float(spread.max(initial=0.0)), float(np.finfo(W.dtype).tiny))
    spread = np.maximum(spread, floor).astype(W.dtype)
    Z /= spread

    def back(grad: Array) -> Array:
        inner = np.einsum("ij,ij->j", grad, Z) / len(Z)
        return (grad - grad.mean(axis=0) - Z * inner) / spread

    return Z, back


def tied_objective(
    X: Array,
    X_view: Array,
    factors: Sequence[Array],
    loss: Loss,
    *,
    alpha: float,
    beta: float,
) -> tuple[float, list[Array], dict[str, float]]:
    """Mean reconstruction of both views plus β times a contrast of their encoded features.

    ``(1/2n)Σ(‖x − wHᵀ‖² + α‖w‖²)`` over X (n, i) and its view, plus β ``loss(W, W̃)``, where both
    W and W̃ are E12 of the factors and are standardised before the loss.

    Returns
    -------
    value : float
    gradients : list of (I_k, r) arrays
    terms : dict

    Notes
    -----
    Equation E19.
    """
    n = len(X)
    H = kernels.khatri_rao(factors)
    encoder = Encoder.from_factors(list(factors), alpha)
    W, V = encoder(X @ H), encoder(X_view @ H)
    Z_w, back_w = standardise(W)
    Z_v, back_v = standardise(V)
    contrast, (g_w, g_v) = loss(Z_w, Z_v)
    HtH = kernels.gram(factors)
    Q = np.zeros((H.shape[1], len(H)), dtype=X.dtype)
    B = np.zeros_like(HtH)
    residual = 0.0
    for data, features, gradient in ((X, W, back_w(g_w)), (X_view, V, back_v(g_v))):
        D = (beta * gradient) @ encoder.K_inverse
        S = features.T @ D
        FtF = features.T @ features
        # One product with the data for both terms: Xᵀ(DK⁻¹ − W/n).
        Q += kernels.factor_products(data, D - features / n)
        B += FtF / n - (S + S.T)
        # At the encoder ‖x − wHᵀ‖² + α‖w‖² = ‖x‖² − ⟨xH, w⟩ = ‖x‖² − wKwᵀ.
        residual += float(kernels.row_norms_squared(data).sum()) - kernels.inner(FtF, encoder.K)
    gradients = [
        kernels.mttkrp(Q, factors, k) + U @ (B * kernels.gram(factors, skip=k))
        for k, U in enumerate(factors)
    ]
    reconstruction = 0.5 * residual / n
    terms = {"reconstruction": reconstruction, "contrast": contrast}
    return reconstruction + beta * contrast, gradients, terms


@dataclass
class Adam:
    """Adam for a list of arrays, with a step that falls by a cosine from ``rate`` to zero."""

    rate: float
    total: int
    first: float = 0.9
    second: float = 0.999
    step: int = 0
    _m: list[Array] = field(default_factory=list)
    _v: list[Array] = field(default_factory=list)

    def update(self, arrays: Sequence[Array], gradients: Sequence[Array]) -> list[Array]:
        """Return the arrays after one step."""
        if not self._m:
            self._m = [np.zeros_like(a) for a in arrays]
            self._v = [np.zeros_like(a) for a in arrays]
        rate = 0.5 * self.rate * (1 + np.cos(np.pi * min(self.step / max(self.total, 1), 1.0)))
        self.step += 1
        correction = np.sqrt(1 - self.second**self.step) / (1 - self.first**self.step)
        out = []
        for a, g, m, v in zip(arrays, gradients, self._m, self._v, strict=True):
            m += (1 - self.first) * (g - m)
            v += (1 - self.second) * (g * g - v)
            out.append((a - rate * correction * m / (np.sqrt(v) + 1e-8)).astype(a.dtype))
        return out

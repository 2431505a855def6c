"""Whether a CP model can be trusted: core consistency, matching of models, leverage, degeneracy.

Shapes as in :mod:`.kernels`: X (n, i) windows, W (n, r) features, factors (I_k, r) of each mode.
Everything is computed in float64, from strips of windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from tensorcontrast.cp import kernels
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks

Array = NDArray[Any]
Factors = Sequence[Array]

#: Congruence below which two components count as cancelling each other.
CANCELS = -0.9

#: Values of the windows that are looked at together.
STRIP_VALUES = 2**22


# ------------------------------------------------------------------------------- two models


@dataclass(frozen=True)
class Match:
    """Which component of a second model is which component of a first one."""

    order: NDArray[np.intp]
    """(r,) component of the second model for each of the first; −1 where there is none."""
    signs: Array
    """(r,) ±1: features of the second model times these have the signs of the first."""
    similarity: Array
    """(r,) 1 where both components are the same up to scale; 0 where there is no partner."""

    @property
    def score(self) -> float:
        """Factor match score: the mean similarity of the components that have a partner."""
        there = self.order >= 0
        return float(self.similarity[there].mean()) if there.any() else 0.0

    def apply(self, W: Array) -> Array:
        """Features (n, r) of the second model in the order and with the signs of the first.

        A component without a partner gets zeros.
        """
        matched = np.asarray(W)[:, np.maximum(self.order, 0)]
        return np.asarray(
            matched * np.where(self.order >= 0, self.signs, 0.0).astype(matched.dtype)
        )


def cosines(a: Factors, b: Factors) -> Array:
    """Cosines (r, r') between the components of two models.

    The product over modes of the cosines between columns; of coupled blocks, the cosine between
    the columns of H, which hold all blocks. 0 where a component is empty.
    """
    lengths = [np.sqrt(np.diagonal(kernels.cross_gram(model, model))) for model in (a, b)]
    return kernels.cross_gram(a, b) / _positive(np.outer(*lengths))


def match(a: Factors, b: Factors) -> Match:
    """Match the components of a second model to those of a first one, each at most once.

    The matching has the largest sum of ``|cosines|`` (Hungarian method). Its mean is the factor
    match score.

    References
    ----------
    Acar, Dunlavy, Kolda, Mørup: Scalable tensor factorizations for incomplete data.
    Chemometrics and Intelligent Laboratory Systems 106, 2011.
    """
    return _assigned(cosines(a, b))


def correlations(W_a: Array, W_b: Array) -> Array:
    """Correlations (r, r') between the features of two models over the same windows.

    0 where a feature does not vary.
    """
    if len(W_a) != len(W_b):
        raise InvalidInputError(
            f"features of {len(W_a)} and of {len(W_b)} windows: they can be compared over the same "
            "windows only"
        )
    units = [centred / _positive(np.linalg.norm(centred, axis=0)) for centred in _centred(W_a, W_b)]
    return np.asarray(units[0].T @ units[1])


def match_features(W_a: Array, W_b: Array) -> Match:
    """Match the features of a second model to those of a first one, over the same windows.

    Each is matched at most once; the sum of ``|correlations|`` is the largest (Hungarian method).
    Features can come back where factors do not: the nuisance metric (E23) mixes components.
    """
    return _assigned(correlations(W_a, W_b))


def space_similarity(W_a: Array, W_b: Array) -> float:
    """Mean squared canonical correlation between the features of two models over the same windows.

    1 where the features of one are linear combinations of those of the other: both then hold the
    same information, whether or not single features agree. Directions without variance do not
    count.
    """
    bases = []
    for centred in _centred(W_a, W_b):
        U, values, _ = np.linalg.svd(centred, full_matrices=False)
        bases.append(U[:, values > 1e-5 * values[0]])
    squares = np.square(bases[0].T @ bases[1])
    return float(squares.sum() / max(min(squares.shape), 1))


def _centred(*features: Array) -> list[Array]:
    return [W.astype(np.float64) - W.mean(axis=0, dtype=np.float64) for W in features]


def _assigned(found: Array) -> Match:
    """Best one-to-one matching by size of the entries."""
    rows, columns = linear_sum_assignment(-np.abs(found))
    order = np.full(len(found), -1, dtype=np.intp)
    order[rows] = columns
    signs, similarity = np.ones(len(found)), np.zeros(len(found))
    signs[rows] = np.where(found[rows, columns] < 0, -1.0, 1.0)
    similarity[rows] = np.abs(found[rows, columns])
    return Match(order, signs, similarity)


# --------------------------------------------------------------------------------- one model


def core_consistency(X: Array, W: Array, factors: Factors) -> list[float | None]:
    """Core consistency (CORCONDIA) of each coupled block, in percent; 100 at most.

    ``100 (1 − ‖G − I‖²/r)`` with I the superdiagonal core of a CP model and
    ``G = X ×_0 W⁺ ×_1 U_1⁺ … ×_K U_K⁺`` the least-squares core. The pseudo-inverses are applied
    mode by mode, the windows first: no Kronecker product is formed. None where the core is not
    determined: in a block of one mode, whose core is superdiagonal for every rotation, and where a
    mode does not have full column rank.

    References
    ----------
    Bro, Kiers: A new efficient method for determining the number of components in PARAFAC models.
    J. Chemometrics 17, 2003.
    """
    rank = W.shape[1]
    if _matrix_rank(W) < rank:
        return [None for _ in kernels.blocks_of(factors)]
    inverse = np.linalg.pinv(W.astype(np.float64))  # (r, n)
    rows = np.zeros((rank, X.shape[1]))
    for at in _strips(X):
        rows += inverse[:, at] @ X[at]
    out: list[float | None] = []
    first = 0
    for block in kernels.blocks_of(factors):
        size = int(np.prod([len(U) for U in block]))
        G: Array = rows[:, first : first + size].reshape(rank, *(len(U) for U in block))
        first += size
        if len(block) < 2 or any(_matrix_rank(U) < rank for U in block):
            out.append(None)
            continue
        for U in block:  # each contraction moves its mode to the end: at last they are in order
            scale = np.linalg.norm(U)
            G = np.tensordot(G, np.linalg.pinv(U.astype(np.float64) / scale) / scale, (1, 1))
        diagonal = G[tuple([np.arange(rank)] * G.ndim)]
        misfit = float((G**2).sum() - 2.0 * diagonal.sum() + rank)
        out.append(100.0 * (1.0 - misfit / rank))
    return out


def _matrix_rank(A: Array) -> int:
    return int(np.linalg.matrix_rank(A.astype(np.float64))) if len(A) >= A.shape[1] else 0


def component_shares(W: Array, factors: Factors, total: float) -> Array:
    """Sum of squares ``‖w_r‖²‖h_r‖²`` of each component (r,) over that of the windows, ``total``.

    Components overlap, so that the shares need not sum to what all explain together.
    """
    squares = (W.astype(np.float64) ** 2).sum(axis=0)
    lengths = np.diagonal(kernels.cross_gram(factors, factors))
    return np.asarray(squares * lengths / total if total > 0 else np.zeros(len(squares)))


def unique_shares(W: Array, factors: Factors, ridge: float | Array, total: float) -> Array:
    """Return what is lost without each component (r,), the features of the others solved anew.

    W minimises ``‖x − wHᵀ‖² + Σ_r ρ_r w_r²`` for each window. Without component r the minimum is
    higher by ``w_r² / [(HᵀH + diag(ρ))⁻¹]_rr``: the sum over windows, over ``total``.
    """
    HtH = kernels.cross_gram(factors, factors)
    K = HtH + np.diag(np.broadcast_to(np.asarray(ridge, dtype=np.float64), len(HtH)))
    lengths = _positive(np.sqrt(np.maximum(np.diagonal(K), 0.0)))
    inverse = np.linalg.pinv(K / np.outer(lengths, lengths), hermitian=True)
    squares = (W.astype(np.float64) ** 2).sum(axis=0) * lengths**2
    lost = squares / _positive(np.diagonal(inverse))
    return np.asarray(lost / total if total > 0 else np.zeros(len(lost)))


def leverage(W: Array) -> Array:
    """Leverage (n,) of each window: the diagonal of ``W(WᵀW)⁺Wᵀ``, 0 to 1; the sum is the rank."""
    U, values, _ = np.linalg.svd(W.astype(np.float64), full_matrices=False)
    there = values > max(W.shape) * np.finfo(W.dtype).eps * values.max(initial=0.0)
    return np.asarray((U[:, there] ** 2).sum(axis=1))


def residuals(X: Array, W: Array, factors: Factors) -> tuple[Array, Array]:
    """Squared residual and squared norm (n,) of each window."""
    H = kernels.khatri_rao(factors)
    left, norms = np.empty(len(X)), np.empty(len(X))
    for at in _strips(X):
        norms[at] = kernels.row_norms_squared(X[at])
        left[at] = kernels.row_norms_squared(X[at] - W[at] @ H.T)
    return left, norms


def congruence(factors: Factors, feature_gram: Array) -> Array:
    """Congruence (r, r) of the components of one model: the product of all cosines, windows too.

    −1 where one component takes back what the other one adds (a two-factor degeneracy); 0 on the
    diagonal. ``feature_gram`` is WᵀW.

    References
    ----------
    Mitchell, Burdick: Slowly converging PARAFAC sequences. J. Chemometrics 8, 1994.
    """
    gram = np.asarray(feature_gram, dtype=np.float64)
    size = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    congruences = gram / np.where(size > 0, size, 1)[:, None] / np.where(size > 0, size, 1)
    HtH = kernels.gram(kernels.in_float64(factors))
    length = np.sqrt(np.maximum(np.diagonal(HtH), np.finfo(float).tiny))
    congruences = congruences * (HtH / length[:, None] / length)
    np.fill_diagonal(congruences, 0.0)
    return congruences


def most_opposed(factors: Factors, feature_gram: Array) -> tuple[float, int, int]:
    """Most negative :func:`congruence` of two components, and which they are; 0 without any.

    ``factors`` have columns of unit length or zero; ``feature_gram`` is WᵀW.
    """
    congruences = congruence(factors, feature_gram)
    a, b = np.unravel_index(int(np.argmin(congruences)), congruences.shape)
    return min(float(congruences[a, b]), 0.0), int(min(a, b)), int(max(a, b))


def warn_if_degenerate(name: str, value: float, a: int, b: int) -> None:
    """Warn where two components cancel each other, with the way out."""
    if value < CANCELS:
        checks.warn(
            f"{name}: components {a} and {b} cancel each other (congruence {value:.3f}): the fit "
            "is degenerate, and these two mean nothing by themselves; pass a larger alpha or a "
            "smaller rank",
        )


def _strips(X: Array) -> Iterator[slice]:
    step = max(1, STRIP_VALUES // max(X.shape[1], 1))
    for start in range(0, len(X), step):
        yield slice(start, start + step)


def _positive(x: Array) -> Array:
    return np.asarray(np.maximum(x, np.finfo(float).tiny))

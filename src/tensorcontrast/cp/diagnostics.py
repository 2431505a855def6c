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


def cosines(a: Factors, b: Factors, W_a: Array | None = None, W_b: Array | None = None) -> Array:
    """Cosines (r, r') between the components of two models.

    The product over modes of the cosines between columns; of coupled blocks, the cosine between
    the columns of H, which hold all blocks. With features of the same windows, times the
    cosine between these. 0 where a component is empty.
    """
    cosine = kernels.cross_gram(a, b)
    lengths = [np.sqrt(np.diagonal(kernels.cross_gram(model, model))) for model in (a, b)]
    cosine /= _positive(np.outer(*lengths))
    if W_a is not None and W_b is not None:
        if len(W_a) != len(W_b):
            raise InvalidInputError(
                f"features of {len(W_a)} and of {len(W_b)} windows: components can be compared "
                "over the same windows only"
            )
        left, right = W_a.astype(np.float64), W_b.astype(np.float64)
        sizes = np.outer(np.linalg.norm(left, axis=0), np.linalg.norm(right, axis=0))
        cosine *= left.T @ right / _positive(sizes)
    return cosine


def match(a: Factors, b: Factors, W_a: Array | None = None, W_b: Array | None = None) -> Match:
    """Match the components of a second model to those of a first one, each at most once.

    The matching has the largest sum of ``|cosines|`` (Hungarian method). Its mean is the factor
    match score.

    References
    ----------
    Acar, Dunlavy, Kolda, Mørup: Scalable tensor factorizations for incomplete data.
    Chemometrics and Intelligent Laboratory Systems 106, 2011.
    """
    # The sign of a component is that of its pattern: features follow it.
    patterns = None if W_a is None else cosines(a, b)
    return _assigned(cosines(a, b, W_a, W_b), patterns)


def correlations(W_a: Array, W_b: Array) -> Array:
    """Correlations (r, r') between the features of two models over the same windows.

    0 where a feature does not vary.
    """
    if len(W_a) != len(W_b):
        raise InvalidInputError(
            f"features of {len(W_a)} and of {len(W_b)} windows: they can be compared over the same "
            "windows only"
        )
    units = []
    for W in (W_a, W_b):
        centred = W.astype(np.float64) - W.mean(axis=0, dtype=np.float64)
        units.append(centred / _positive(np.linalg.norm(centred, axis=0)))
    return np.asarray(units[0].T @ units[1])


def match_features(W_a: Array, W_b: Array) -> Match:
    """Match the features of a second model to those of a first one, over the same windows.

    Each is matched at most once; the sum of ``|correlations|`` is the largest (Hungarian method).
    Features can come back where factors do not: the nuisance metric (E23) mixes components.
    """
    return _assigned(correlations(W_a, W_b))


def _assigned(found: Array, patterns: Array | None = None) -> Match:
    """Best one-to-one matching by size of the entries; signs are those of ``patterns``."""
    rows, columns = linear_sum_assignment(-np.abs(found))
    order = np.full(len(found), -1, dtype=np.intp)
    order[rows] = columns
    signs, similarity = np.ones(len(found)), np.zeros(len(found))
    signed = found if patterns is None else patterns
    signs[rows] = np.where(signed[rows, columns] < 0, -1.0, 1.0)
    similarity[rows] = np.abs(found[rows, columns])
    return Match(order, signs, similarity)


def subspace_similarity(a: Factors, b: Factors) -> float:
    """Mean squared cosine of the principal angles between the spans of the components of a and b.

    1 where the components of b can be combined to those of a, whether or not they are the same one
    by one: features of both models then hold the same information. Empty components do not count.
    """
    roots = []
    for model in (a, b):
        values, vectors = np.linalg.eigh(_unit_gram(model))
        there = values > 1e-10 * values[-1]
        roots.append(vectors[:, there] / np.sqrt(values[there]))
    angles = roots[0].T @ cosines(a, b) @ roots[1]
    return float((angles**2).sum() / max(min(angles.shape), 1))


# --------------------------------------------------------------------------------- one model


def core_consistency(
    X: Array, W: Array, factors: Factors, *, strip_values: int = STRIP_VALUES
) -> list[float]:
    """Core consistency (CORCONDIA) of each coupled block, in percent; 100 at most.

    ``100 (1 − ‖G − I‖²/r)`` with I the superdiagonal core of a CP model and
    ``G = X ×_0 W⁺ ×_1 U_1⁺ … ×_K U_K⁺`` the least-squares core. The pseudo-inverses are applied
    mode by mode, the windows first: no Kronecker product is formed.

    Where a factor has fewer rows than columns the core is not determined, and G is the smallest of
    many: see :func:`determined`.

    References
    ----------
    Bro, Kiers: A new efficient method for determining the number of components in PARAFAC models.
    J. Chemometrics 17, 2003.
    """
    rank = W.shape[1]
    inverse = np.linalg.pinv(W.astype(np.float64))  # (r, n)
    rows = np.zeros((rank, X.shape[1]))
    for at in _strips(X, strip_values):
        rows += inverse[:, at] @ X[at]
    out, first = [], 0
    for block in kernels.blocks_of(factors):
        dims = [len(U) for U in block]
        size = int(np.prod(dims))
        G: Array = rows[:, first : first + size].reshape(rank, *dims)
        for U in block:  # each contraction moves its mode to the end: at last they are in order
            scale = np.linalg.norm(U)
            unit = U.astype(np.float64) / (scale if scale > 0 else 1.0)
            G = np.tensordot(G, np.linalg.pinv(unit) / (scale if scale > 0 else 1.0), (1, 1))
        diagonal = G[tuple([np.arange(rank)] * G.ndim)]
        misfit = float((G**2).sum() - 2.0 * diagonal.sum() + rank)
        out.append(100.0 * (1.0 - misfit / rank))
        first += size
    return out


def determined(W: Array, factors: Factors) -> list[bool]:
    """Whether the core of each block is determined: two modes at least, all of full column rank.

    A block with one mode is a matrix, whose core is superdiagonal for every rotation.
    """
    rank = W.shape[1]
    if len(W) < rank or np.linalg.matrix_rank(W.astype(np.float64)) < rank:
        return [False for _ in kernels.blocks_of(factors)]
    return [
        len(block) > 1 and all(np.linalg.matrix_rank(U.astype(np.float64)) == rank for U in block)
        for block in kernels.blocks_of(factors)
    ]


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


def residuals(
    X: Array, W: Array, factors: Factors, *, strip_values: int = STRIP_VALUES
) -> tuple[Array, Array]:
    """Squared residual and squared norm (n,) of each window."""
    H = kernels.khatri_rao(factors)
    left, norms = np.empty(len(X)), np.empty(len(X))
    for at in _strips(X, strip_values):
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


def _strips(X: Array, values: int) -> Iterator[slice]:
    step = max(1, values // max(X.shape[1], 1))
    for start in range(0, len(X), step):
        yield slice(start, start + step)


def _unit_gram(factors: Factors) -> Array:
    """``HᵀH`` (r, r) with columns of H of unit length."""
    G = kernels.cross_gram(factors, factors)
    lengths = np.sqrt(np.diagonal(G))
    return np.asarray(G / _positive(np.outer(lengths, lengths)))


def _positive(x: Array) -> Array:
    return np.asarray(np.maximum(x, np.finfo(float).tiny))

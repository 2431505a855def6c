"""The signed pseudo graph (E2, E3) and its products in O(N·R): no N×N array is ever made.

``S = 2ZZᵀ − 11ᵀ − I`` for one-hot labels Z, so S·V needs only the sums of V over each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp.kmeans import class_sums

__all__ = ["SignedGraph", "label_change"]

Array = NDArray[Any]


@dataclass(frozen=True)
class SignedGraph:
    """S_ij = +1 in the same class, −1 in different ones, 0 on the diagonal.

    Parameters
    ----------
    labels : (n,) int array
        Pseudo class of each window, 0-based.
    known : (n,) int array, optional
        Labels with −1 for unknown. Pairs of known windows are joined by these, all other pairs by
        ``labels``.
    weights : (n,) array, optional
        How surely each label is known, from 0 to 1. A pair is joined by label with the product of
        both weights and by ``labels`` with the rest. Default: 1.

    Notes
    -----
    Equations E2, E3.

    Examples
    --------
    >>> import numpy as np
    >>> graph = SignedGraph(np.array([0, 0, 1]))
    >>> graph.dense()
    array([[ 0.,  1., -1.],
           [ 1.,  0., -1.],
           [-1., -1.,  0.]])
    >>> graph.product(np.eye(3)).tolist() == graph.dense().tolist()
    True
    """

    labels: NDArray[np.intp]
    known: NDArray[np.intp] | None = None
    weights: Array | None = None

    @property
    def n_samples(self) -> int:
        """Number of nodes."""
        return len(self.labels)

    @property
    def degree(self) -> int:
        """``d_i = Σ_j |S_ij| = N − 1`` for every window (E3)."""
        return max(self.n_samples - 1, 1)

    def product(self, V: Array) -> Array:
        """``S V`` (n, r) in O(n·r): ``2Z(ZᵀV) − 1(1ᵀV) − V``. Equation E2."""
        sums = class_sums(self.labels, V, _count(self.labels))
        out: Array = (2.0 * sums - sums.sum(axis=0)).astype(V.dtype)[self.labels]
        out -= V
        if self.known is not None:
            # Among known windows the cluster's verdict is taken out and the label's put in.
            c = self._certainty(V.dtype)
            Vk = V * c  # zero where no label is known
            put = class_sums(np.maximum(self.known, 0), Vk, _count(self.known)).astype(V.dtype)
            take = class_sums(self.labels, Vk, _count(self.labels)).astype(V.dtype)
            at = np.flatnonzero(self.known >= 0)
            out[at] += 2.0 * c[at] * (put[self.known[at]] - take[self.labels[at]])
        return out

    def _certainty(self, dtype: np.dtype[Any]) -> Array:
        """How surely each label is known (n, 1), 0 where it is not."""
        assert self.known is not None
        c = (self.known >= 0).astype(dtype)
        if self.weights is not None:
            c *= self.weights.astype(dtype)
        return c[:, None]

    def laplacian_product(self, V: Array) -> Array:
        """``L V`` with ``L = I − S/(N−1)``. Equation E3."""
        return V - self.product(V) / self.degree

    def among(self, rows: NDArray[np.intp]) -> SignedGraph:
        """Return the graph among some of the windows."""
        known = None if self.known is None else self.known[rows]
        weights = None if self.weights is None else self.weights[rows]
        return SignedGraph(self.labels[rows], known, weights)

    def dense(self, rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """S among the given windows (all by default): N×N, for plots and tests of small N."""
        at = np.arange(self.n_samples) if rows is None else np.asarray(rows)
        S = 2.0 * self.among(at).joined() - 1.0
        S[at[:, None] == at[None, :]] = 0.0
        return S

    def joined(self) -> NDArray[np.float64]:
        """How much i and j are of one class, 0 to 1: N×N, for batches; 1 on the diagonal."""
        same = (self.labels[:, None] == self.labels[None, :]).astype(np.float64)
        if self.known is not None:
            true = self.known
            c = (true >= 0).astype(np.float64)
            if self.weights is not None:
                c *= self.weights
            both = c[:, None] * c[None, :]
            same += both * ((true[:, None] == true[None, :]) - same)
        return same


def _count(labels: NDArray[np.intp]) -> int:
    return max(int(labels.max(initial=-1)) + 1, 1)


def label_change(old: NDArray[np.intp] | None, new: NDArray[np.intp]) -> float:
    """Share of windows that changed their pseudo class (warm starts keep the numbering)."""
    return 1.0 if old is None or len(old) != len(new) else float(np.mean(old != new))

"""The signed pseudo graph (E2, E3) and its products in O(N·R): no N×N array is ever made.

``S = 2ZZᵀ − 11ᵀ − I`` for one-hot labels Z, so S·V needs only the sums of V over each class.
These are taken over strips of windows, so that parts of them can be on other machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp.kmeans import class_sums, cluster, cluster_space, nearest

__all__ = [
    "GraphPart",
    "SignedGraph",
    "class_sums",
    "cluster",
    "cluster_space",
    "label_change",
    "nearest",
]

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
        return self.given(V, self.sums(V))

    def sums(
        self, V: Array, n_classes: int | None = None, n_known: int | None = None
    ) -> list[Array]:
        """Take the sums over windows that :meth:`product` needs: of V over each class.

        Where labels are known, also of their V, weighted, over each label and each pseudo class.
        """
        pseudo = _count(self.labels) if n_classes is None else n_classes
        out = [class_sums(self.labels, V, pseudo)]
        if self.known is not None:
            true = _count(self.known) if n_known is None else n_known
            Vk = V * self._certainty(V.dtype)  # zero where no label is known
            out += [class_sums(np.maximum(self.known, 0), Vk, true)]
            out += [class_sums(self.labels, Vk, pseudo)]
        return out

    def given(self, V: Array, sums: list[Array]) -> Array:
        """Return the rows of ``S V`` from rows of V and :meth:`sums` over all windows."""
        total = sums[0].sum(axis=0)
        out: Array = (2.0 * sums[0] - total).astype(V.dtype)[self.labels]
        out -= V
        if self.known is not None:
            # Among known windows the cluster's verdict is taken out and the label's put in.
            at = np.flatnonzero(self.known >= 0)
            put, take = (a.astype(V.dtype) for a in sums[1:])
            c = self._certainty(V.dtype)[at]
            out[at] += 2.0 * c * (put[self.known[at]] - take[self.labels[at]])
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


@dataclass(frozen=True)
class GraphPart(SignedGraph):
    """Some rows of the graph, with the sums over all windows that their products need."""

    totals: tuple[Array, ...] = ()
    of: int = 0

    @property
    def degree(self) -> int:
        """``d_i = N − 1``, of all N windows."""
        return max(self.of - 1, 1)

    def product(self, V: Array) -> Array:
        """Rows of ``S V`` for this part. Equation E2."""
        return self.given(V, list(self.totals))


def label_change(old: NDArray[np.intp] | None, new: NDArray[np.intp]) -> float:
    """Share of windows that changed their pseudo class (warm starts keep the numbering)."""
    return 1.0 if old is None or len(old) != len(new) else float(np.mean(old != new))

"""The signed pseudo graph (E2, E3) and its products in O(N·R): no N×N array is ever made.

``S = 2ZZᵀ − 11ᵀ − I`` for one-hot labels Z, so S·V needs only the sums of V over each class.
Clustering turns features into the labels of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast import threads
from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]

#: Above this many samples the default clustering is mini-batch k-means.
MINI_BATCH_ABOVE = 20_000
#: Rows whose distances to all centres are in memory at a time.
_ROWS = 2**16


def class_sums(labels: NDArray[np.intp], V: Array, n_classes: int) -> Array:
    """``ZᵀV`` (k, r): sums of the rows of V (n, r) over each class. Equation E2."""
    n = len(labels)
    Z = sparse.csc_array(
        (np.ones(n, dtype=V.dtype), labels, np.arange(n + 1)), shape=(n_classes, n)
    )
    return np.asarray(Z @ V)


@dataclass(frozen=True)
class SignedGraph:
    """S_ij = +1 in the same class, −1 in different ones, 0 on the diagonal.

    Parameters
    ----------
    labels : (n,) int array
        Pseudo class of each sample, 0-based.
    known : (n,) int array, optional
        Labels with −1 for unknown. Pairs of known samples are joined by these, all other pairs by
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
        """``d_i = Σ_j |S_ij| = N − 1`` for every sample (E3)."""
        return max(self.n_samples - 1, 1)

    def product(self, V: Array) -> Array:
        """``S V`` (n, r) in O(n·r): ``2Z(ZᵀV) − 1(1ᵀV) − V``. Equation E2."""
        labels = self.labels
        total = V.sum(axis=0, dtype=np.float64).astype(V.dtype)
        sums = class_sums(labels, V, int(labels.max(initial=-1)) + 1)
        out = (2.0 * sums - total).astype(V.dtype, copy=False)[labels]
        out -= V
        if self.known is not None:
            # Among known samples the cluster's verdict is taken out and the label's put in.
            at = np.flatnonzero(self.known >= 0)
            true, pseudo, Vk = self.known[at], labels[at], V[at]
            c = 1.0 if self.weights is None else self.weights[at, None].astype(V.dtype)
            Vk = Vk * c
            put = class_sums(true, Vk, int(true.max(initial=-1)) + 1)[true]
            take = class_sums(pseudo, Vk, int(pseudo.max(initial=-1)) + 1)[pseudo]
            out[at] += 2.0 * c * (put - take)
        return out

    def laplacian_product(self, V: Array) -> Array:
        """``L V`` with ``L = I − S/(N−1)``. Equation E3."""
        return V - self.product(V) / self.degree

    def among(self, rows: NDArray[np.intp]) -> SignedGraph:
        """Return the graph among some of the samples."""
        known = None if self.known is None else self.known[rows]
        weights = None if self.weights is None else self.weights[rows]
        return SignedGraph(self.labels[rows], known, weights)

    def dense(self, rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """S among the given samples (all by default): N×N, for plots and tests of small N."""
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


def cluster_space(W: Array) -> Array:
    """Features as the clustering sees them: each column centred and scaled to unit variance."""
    V = W - W.mean(axis=0, dtype=np.float64).astype(W.dtype)
    spread = np.sqrt(np.einsum("ij,ij->j", V, V) / len(V))
    # Components that are constant carry nothing; rounding noise must not be blown up.
    floor = np.finfo(W.dtype).eps * 10 * np.abs(W).max(initial=0.0)
    V *= np.where(spread > floor, 1.0 / np.maximum(spread, np.finfo(W.dtype).tiny), 0.0)
    return V


def cluster(
    W: Array,
    n_clusters: int,
    *,
    clusterer: Any = None,
    centers: Array | None = None,
    seed: int = 0,
) -> tuple[NDArray[np.intp], Array]:
    """Pseudo labels of the features W (n, r).

    Parameters
    ----------
    W : (n, r) array
    n_clusters : int
        Used by the default clustering only.
    clusterer : scikit-learn clusterer, optional
        Anything with ``fit_predict``; it is cloned. By default k-means, mini-batch k-means above
        ``MINI_BATCH_ABOVE`` samples, warm-started from ``centers``.
    centers : (k, r) array, optional
        Last centres, in the space of :func:`cluster_space`.
    seed : int
        For the first centres.

    Returns
    -------
    labels : (n,) int array, 0-based
        Of the default clustering below ``n_clusters``, where a cluster may be empty; of any other
        without gaps.
    centers : (k, r) array
        Means of the clusters in the space of :func:`cluster_space`.
    """
    n = len(W)
    V = cluster_space(W)
    if clusterer is not None:
        raw = np.asarray(clone(clusterer).fit_predict(V))
        if raw.shape != (n,):
            raise InvalidInputError(
                f"clusterer {clusterer!r} gave labels of shape {raw.shape} for {n} samples; "
                "fit_predict must give one label a sample"
            )
        # Noise points (−1 in DBSCAN and HDBSCAN) each stay alone: they are like no other sample.
        noise = raw < 0
        labels = np.unique(raw, return_inverse=True)[1].astype(np.intp)
        if noise.any():
            labels[noise] = labels.max() + 1 + np.arange(noise.sum())
            labels = np.unique(labels, return_inverse=True)[1].astype(np.intp)
    else:
        if n < n_clusters:
            raise InvalidInputError(
                f"n_samples={n} is fewer than n_clusters={n_clusters}; "
                "pass a smaller n_clusters or more samples"
            )
        warm = centers is not None and centers.shape == (n_clusters, W.shape[1])
        options: dict[str, Any] = {
            "n_clusters": n_clusters,
            "init": centers if warm else "k-means++",
            "n_init": 1 if warm else 3,
            "random_state": seed,
        }
        if n > MINI_BATCH_ABOVE:
            model = MiniBatchKMeans(
                batch_size=4096, max_iter=2 if warm else 10, max_no_improvement=None, **options
            )
        else:
            model = KMeans(max_iter=10 if warm else 50, **options)
        # One OpenMP thread: sums over threads come in no fixed order, and a fit must be
        # repeatable to the bit. Duplicate points are no reason to warn at every iteration.
        with threads.single("openmp"), threads.quiet(ConvergenceWarning):
            labels = model.fit_predict(V).astype(np.intp)
        return labels, model.cluster_centers_
    k = int(labels.max()) + 1
    return labels, class_sums(labels, V, k) / np.bincount(labels)[:, None].astype(V.dtype)


def nearest(V: Array, centers: Array) -> NDArray[np.intp]:
    """Nearest centre of each row of V (n, r), both in the space of :func:`cluster_space`."""
    half = 0.5 * np.einsum("ij,ij->i", centers, centers, dtype=np.float64)
    out = np.empty(len(V), dtype=np.intp)
    for start in range(0, len(V), _ROWS):
        at = slice(start, start + _ROWS)
        out[at] = (half - V[at] @ centers.T).argmin(axis=1)
    return out


def label_change(old: NDArray[np.intp] | None, new: NDArray[np.intp]) -> float:
    """Share of samples that changed their pseudo class (warm starts keep the numbering)."""
    return 1.0 if old is None or len(old) != len(new) else float(np.mean(old != new))

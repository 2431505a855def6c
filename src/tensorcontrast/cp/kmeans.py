"""Clustering: from features to the labels of the pseudo graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import threads

__all__ = ["class_sums", "cluster", "cluster_space", "first_centers", "nearest"]

Array = NDArray[Any]

MAX_STEPS, MAX_WARM_STEPS = 10, 4
"""Lloyd steps: from the first centres, and from those of the last iteration."""


def class_sums(labels: NDArray[np.intp], V: Array, n_classes: int) -> Array:
    """``ZᵀV`` (k, r): sums of the rows of V (n, r) over each class, in float64. Equation E2."""
    n = len(labels)
    Z = sparse.csc_array((np.ones(n), labels, np.arange(n + 1)), shape=(n_classes, n))
    return np.asarray(Z @ V.astype(np.float64))


def cluster_space(W: Array) -> Array:
    """Features as the clustering sees them: each column centred and scaled to unit variance."""
    exact = W.astype(np.float64)
    exact -= exact.mean(axis=0)
    spread = exact.std(axis=0)
    # Components that are constant carry nothing; rounding noise must not be blown up.
    floor = 10 * float(np.finfo(W.dtype).eps) * float(np.abs(W).max(initial=0.0))
    exact *= np.where(spread > floor, 1.0 / np.maximum(spread, np.finfo(W.dtype).tiny), 0.0)
    return exact.astype(W.dtype)


def cluster(
    W: Array,
    n_clusters: int,
    *,
    clusterer: Any = None,
    centers: Array | None = None,
) -> tuple[NDArray[np.intp], Array]:
    """Pseudo labels of the features W (n, r).

    Parameters
    ----------
    W : (n, r) array
    n_clusters : int
        Used by the default clustering only.
    clusterer : scikit-learn clusterer, optional
        Anything with ``fit_predict``; it is cloned. By default k-means, from ``centers`` where
        these are given, or else from :func:`first_centers`.
    centers : (k, r) array, optional
        Last centres, in the space of :func:`cluster_space`.

    Returns
    -------
    labels : (n,) int array, 0-based
        Of the default clustering below ``n_clusters``, where a cluster may be empty; of any other
        without gaps.
    centers : (k, r) array
        Means of the clusters in the space of :func:`cluster_space`.
    """
    V = cluster_space(W)
    if clusterer is not None:
        return _by(clusterer, V)
    if len(W) < n_clusters:
        raise InvalidInputError(
            f"n_samples={len(W)} is fewer than n_clusters={n_clusters}; pass a smaller n_clusters "
            "or more windows"
        )
    steps = MAX_WARM_STEPS
    if centers is None or centers.shape != (n_clusters, W.shape[1]):
        centers, steps = first_centers(V, n_clusters), MAX_STEPS
    # One OpenMP thread: sums over threads come in no fixed order, and a fit must be repeatable
    # to the bit. Duplicate points are no reason to warn at every iteration.
    with threads.single("openmp"), threads.quiet(ConvergenceWarning):
        model = KMeans(n_clusters, init=centers, n_init=1, max_iter=steps)
        found = model.fit(V.astype(np.float64)).cluster_centers_.astype(V.dtype)
    return nearest(V, found), found


def first_centers(V: Array, n_clusters: int) -> Array:
    """Centres (k, r) that k-means starts from: the rows of V (n, r), divided again and again.

    The part with the largest sum of squared deviations is divided at its mean along its leading
    principal component, until there are as many parts as clusters. Nothing is drawn, so that rows
    that differ by rounding, or come in another order, give the same clusters.

    References
    ----------
    T. Su, J. G. Dy (2007), "In search of deterministic methods for initializing K-means and
    Gaussian mixture clustering", Intelligent Data Analysis 11 (PCA-Part).

    Examples
    --------
    >>> rows = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]])
    >>> first_centers(rows, 2).tolist()
    [[0.0, 0.5], [9.0, 0.5]]
    """
    exact = V.astype(np.float64)
    parts = [_Part.of(exact)]
    with threads.single("blas"):
        while len(parts) < n_clusters:
            place = max(range(len(parts)), key=lambda i: (parts[i].scatter, len(parts[i].rows)))
            parts[place : place + 1] = parts[place].halves()
    return np.stack([part.mean for part in parts])


@dataclass(frozen=True)
class _Part:
    """Some rows, their mean, and the sum of their squared deviations from it."""

    rows: Array
    mean: Array
    scatter: float

    @classmethod
    def of(cls, rows: Array) -> _Part:
        mean = rows.mean(axis=0)
        return cls(rows, mean, float(np.square(rows - mean).sum()))

    def halves(self) -> list[_Part]:
        centred = self.rows - self.mean
        _, vectors = scipy.linalg.eigh(centred.T @ centred)
        axis = vectors[:, -1]
        along = centred @ (axis * np.sign(axis.sum() or 1.0))
        above = along > 0
        if not above.any() or above.all():  # rows that are all alike
            above = np.arange(len(along)) >= len(along) // 2
        return [_Part.of(self.rows[~above]), _Part.of(self.rows[above])]


def _by(clusterer: Any, V: Array) -> tuple[NDArray[np.intp], Array]:
    """Labels and means of a clusterer of the caller's."""
    raw = np.asarray(clone(clusterer).fit_predict(V))
    if raw.shape != (len(V),):
        raise InvalidInputError(
            f"clusterer {clusterer!r} gave labels of shape {raw.shape} for {len(V)} windows; "
            "fit_predict must give one label per window"
        )
    # Noise points (−1 in DBSCAN and HDBSCAN) each stay alone: they are like no other window.
    noise = raw < 0
    labels = np.unique(raw, return_inverse=True)[1].astype(np.intp)
    if noise.any():
        labels[noise] = labels.max() + 1 + np.arange(noise.sum())
        labels = np.unique(labels, return_inverse=True)[1].astype(np.intp)
    k = int(labels.max()) + 1
    means = class_sums(labels, V, k) / np.bincount(labels)[:, None]
    return labels, means.astype(V.dtype)


def nearest(V: Array, centers: Array) -> NDArray[np.intp]:
    """Nearest centre of each row of V (n, r), both in the space of :func:`cluster_space`."""
    centers = np.asarray(centers, dtype=V.dtype)
    half = 0.5 * np.einsum("ij,ij->i", centers, centers, dtype=np.float64)
    out = np.empty(len(V), dtype=np.intp)

    def strip(at: slice) -> None:
        (half - V[at] @ centers.T).argmin(axis=1, out=out[at])

    for _ in threads.over_strips(strip, len(V), centers.size):
        pass
    return out

"""Clustering: from features to the labels of the pseudo graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import threads

__all__ = ["class_sums", "cluster", "cluster_space", "nearest"]

Array = NDArray[Any]

MAX_STEPS = 4
"""Lloyd steps from one set of centres."""


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
    n_starts: int = 10,
    seed: int = 0,
) -> tuple[NDArray[np.intp], Array]:
    """Pseudo labels of the features W (n, r).

    Parameters
    ----------
    W : (n, r) array
    n_clusters : int
        Used by the default clustering only.
    clusterer : scikit-learn clusterer, optional
        Anything with ``fit_predict``; it is cloned. By default a few steps of k-means, from
        ``centers`` where these are given, or else from rows that are drawn.
    centers : (k, r) array, optional
        Last centres, in the space of :func:`cluster_space`.
    n_starts : int, default=10
        Sets of rows that are drawn; the tightest clusters are kept. With 1, rows that differ by
        rounding give nearly the same clusters: nothing is compared.
    seed : int
        For the rows that are drawn.

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
    if centers is not None and centers.shape == (n_clusters, W.shape[1]):
        starts = [centers]
    else:
        rng = np.random.default_rng(seed)
        drawn = [rng.choice(len(V), n_clusters, replace=False) for _ in range(n_starts)]
        starts = [V[np.sort(rows)] for rows in drawn]
    # One OpenMP thread: sums over threads come in no fixed order, and a fit must be repeatable
    # to the bit. Duplicate points are no reason to warn at every iteration.
    exact = V.astype(np.float64)
    with threads.single("openmp"), threads.quiet(ConvergenceWarning):
        models = [
            KMeans(n_clusters, init=start, n_init=1, max_iter=MAX_STEPS).fit(exact)
            for start in starts
        ]
    best = min(models, key=lambda one: float(one.inertia_))
    found = best.cluster_centers_.astype(V.dtype)
    return nearest(V, found), found


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

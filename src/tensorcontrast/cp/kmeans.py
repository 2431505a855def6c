"""Clustering: from features to the labels of the pseudo graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import threads

__all__ = ["check_count", "class_sums", "cluster", "cluster_space", "nearest"]

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


def check_count(n_clusters: int, n: int) -> None:
    """Raise where there are fewer windows than clusters."""
    if n < n_clusters:
        raise InvalidInputError(
            f"n_samples={n} is fewer than n_clusters={n_clusters}; pass a smaller n_clusters or "
            "more windows"
        )


def cluster(
    W: Array,
    n_clusters: int,
    *,
    centers: Array | None = None,
    n_starts: int = 10,
    seed: int = 0,
) -> tuple[NDArray[np.intp], Array]:
    """Pseudo labels of the features W (n, r), by a few steps of k-means.

    Parameters
    ----------
    W : (n, r) array
    n_clusters : int
    centers : (k, r) array, optional
        Centres to start from, such as the last ones, in the space of :func:`cluster_space`; else
        rows are drawn.
    n_starts : int, default=10
        Sets of rows that are drawn; the tightest clusters are kept. With 1, rows that differ by
        rounding give nearly the same clusters: nothing is compared.
    seed : int
        For the rows that are drawn.

    Returns
    -------
    labels : (n,) int array, 0-based
        A cluster may be empty.
    centers : (k, r) array
        Means of the clusters in the space of :func:`cluster_space`.
    """
    V = cluster_space(W)
    check_count(n_clusters, len(W))
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

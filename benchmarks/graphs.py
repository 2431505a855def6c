"""Other ways to the clusters of the pseudo graph, for ``python -m benchmarks.draws``.

Each is a scikit-learn clusterer for ``PLC(clusterer=)``; the estimator clones it for every epoch.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.neighbors import kneighbors_graph


def _kmeans(Z: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    count = min(count, len(Z))
    return np.asarray(KMeans(count, n_init=1, max_iter=30, random_state=seed).fit_predict(Z))


class MutualNeighbours(ClusterMixin, BaseEstimator):
    """Ward's merging along pairs of samples that are among each other's nearest."""

    def __init__(self, n_clusters: int = 100, n_neighbours: int = 10) -> None:
        self.n_clusters = n_clusters
        self.n_neighbours = n_neighbours

    def fit_predict(self, X: np.ndarray, y: None = None) -> np.ndarray:
        """Return the clusters."""
        near = kneighbors_graph(X, min(self.n_neighbours, len(X) - 1))
        merging = AgglomerativeClustering(
            min(self.n_clusters, len(X)), connectivity=near.minimum(near.T)
        )
        with warnings.catch_warnings():  # parts that no pair joins are joined by distance
            warnings.simplefilter("ignore", UserWarning)
            return np.asarray(merging.fit_predict(X))


class Consensus(ClusterMixin, BaseEstimator):
    """Clusters of what several clusterings of several sizes say together."""

    def __init__(self, n_clusters: int = 100, counts: tuple[int, ...] = (100, 50, 25)) -> None:
        self.n_clusters = n_clusters
        self.counts = counts

    def fit_predict(self, X: np.ndarray, y: None = None) -> np.ndarray:
        """Return the clusters."""
        said = [
            np.eye(count, dtype=np.float32)[_kmeans(X, count, seed)]
            for count in self.counts
            for seed in (0, 1)
        ]
        return _kmeans(np.concatenate(said, axis=1), self.n_clusters)


@dataclass
class Past:
    """Features of the epochs before; one object, however often its owner is cloned."""

    mean: np.ndarray | None = None
    calls: int = 0

    def __deepcopy__(self, memo: Any) -> Past:
        return self


class MovingAverage(ClusterMixin, BaseEstimator):
    """k-means of features averaged over the epochs so far, the last ones counting most."""

    def __init__(self, past: Past, n_clusters: int = 100, keep: float = 0.7) -> None:
        self.past = past
        self.n_clusters = n_clusters
        self.keep = keep

    def fit_predict(self, X: np.ndarray, y: None = None) -> np.ndarray:
        """Return the clusters; the average begins anew with each fit of 25 epochs."""
        past = self.past
        if past.calls % 25 == 0 or past.mean is None or past.mean.shape != X.shape:
            past.mean, past.calls = X, 0
        past.mean = self.keep * past.mean + (1 - self.keep) * X
        past.calls += 1
        return _kmeans(past.mean, self.n_clusters)

"""Clustering: from features to the labels of the pseudo graph, by sums over windows.

k-means begins from the centres of a bounded sample of the rows, or from those of the last
iteration, and goes on by Lloyd's steps over all rows. A step needs the sums and the counts of the
clusters, so that the rows may be in many partitions (:mod:`.partition`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast.cp.partition import InMemory, PartitionedArray, Partitions
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import threads

Array = NDArray[Any]


@dataclass(frozen=True)
class KMeansTuning:
    """Tuning numbers of the clustering."""

    #: Rows from which the first centres are found, in all; of more rows, so many are drawn.
    max_first_rows: int = 20_000
    #: The same for each cluster.
    max_first_rows_per_cluster: int = 25
    #: Lloyd steps from last centres, for up to ``max_first_rows`` rows; a fit has many iterations.
    max_warm_steps: int = 4
    #: The same for more rows.
    max_warm_steps_of_many: int = 2
    #: Lloyd steps from the centres of a sample of the rows.
    max_first_steps: int = 10
    #: Squared shift of all centres, in cluster space, at which a step was the last.
    max_last_shift: float = 1e-4


TUNING = KMeansTuning()


def class_sums(
    labels: NDArray[np.intp], V: Array, n_classes: int, *, max_one_hot_classes: int = 512
) -> Array:
    """``ZᵀV`` (k, r): sums of the rows of V (n, r) over each class, in float64.

    Up to ``max_one_hot_classes`` classes they are products with one-hot rows. Equation E2.
    """
    if n_classes > max_one_hot_classes:
        n = len(labels)
        Z = sparse.csc_array((np.ones(n), labels, np.arange(n + 1)), shape=(n_classes, n))
        return np.asarray(Z @ V.astype(np.float64))
    out = np.zeros((n_classes, V.shape[1]))
    for part in threads.over_strips(
        lambda at: one_hot(labels[at], n_classes, V.dtype) @ V[at],
        len(V),
        n_classes * V.shape[1],
    ):
        out += part
    return out


def one_hot(labels: NDArray[np.intp], n_classes: int, dtype: np.dtype[Any]) -> Array:
    """``Zᵀ`` (k, n) of a few labels."""
    Z = np.zeros((n_classes, len(labels)), dtype=dtype)
    Z[labels, np.arange(len(labels))] = 1
    return Z


# ---------------------------------------------------------------------------- the space


@dataclass(frozen=True)
class ColumnStatistics:
    """Count, means and squared deviations of columns, and the largest magnitude."""

    n: int
    mean: Array
    squares: Array
    peak: float

    def merge(self, other: ColumnStatistics) -> ColumnStatistics:
        """Statistics of both, without cancellation (Chan, Golub and LeVeque)."""
        n = self.n + other.n
        if not n:
            return self
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.n / n)
        squares = self.squares + other.squares + apart**2 * (self.n * other.n / n)
        return ColumnStatistics(n, mean, squares, max(self.peak, other.peak))


def column_statistics(W: Array) -> list[ColumnStatistics]:
    """Mean and squares of the columns of W (n, r), strip by strip in float64."""

    def strip(at: slice) -> ColumnStatistics:
        w = W[at].astype(np.float64)
        mean = w.mean(axis=0)
        peak = max(float(w.max()), -float(w.min()))
        w -= mean
        return ColumnStatistics(len(w), mean, np.einsum("ij,ij->j", w, w), peak)

    zero = np.zeros(W.shape[1])
    out = ColumnStatistics(0, zero, zero, 0.0)
    for part in threads.over_strips(strip, len(W), W.shape[1]):
        out = out.merge(part)
    return [out]


@dataclass(frozen=True)
class Space:
    """Features as the clustering sees them: each column centred and scaled to unit variance."""

    mean: Array
    factor: Array

    @classmethod
    def from_statistics(cls, found: ColumnStatistics, dtype: np.dtype[Any]) -> Space:
        """Make the space of these columns."""
        spread = np.sqrt(found.squares / max(found.n, 1))
        info = np.finfo(dtype)
        # Components that are constant carry nothing; rounding noise must not be blown up.
        floor = 10 * float(info.eps) * found.peak
        factor = np.where(spread > floor, 1.0 / np.maximum(spread, float(info.tiny)), 0.0)
        return cls(found.mean.astype(dtype), factor.astype(dtype))

    def __call__(self, W: Array) -> Array:
        """Centre and scale."""
        V = W - self.mean
        V *= self.factor
        return V

    @property
    def n_used(self) -> int:
        """Number of columns that are not constant."""
        return int(np.count_nonzero(self.factor))


def cluster_space(W: Array) -> Array:
    """Features as the clustering sees them: each column centred and scaled to unit variance."""
    return Space.from_statistics(column_statistics(W)[0], W.dtype)(W)


# ---------------------------------------------------------------------------- centres and labels


@dataclass(frozen=True)
class Cells:
    """Which centre (k, r), in a space, each row belongs to."""

    space: Space
    centers: Array

    @property
    def _half(self) -> Array:
        half = 0.5 * np.einsum("ij,ij->i", self.centers, self.centers, dtype=np.float64)
        return half.astype(self.centers.dtype)

    def labels(self, W: Array) -> NDArray[np.intp]:
        """Nearest centre of each row of W (n, r)."""
        out, half, turned = np.empty(len(W), dtype=np.intp), self._half, self.centers.T

        def strip(at: slice) -> None:
            (half - self.space(W[at]) @ turned).argmin(axis=1, out=out[at])

        for _ in threads.over_strips(strip, len(W), self.centers.size):
            pass
        return out

    def sums(self, W: Array) -> list[Array]:
        """Give sums (k, r) and counts (k,) of the rows of each centre: a step of Lloyd's."""
        k, half, turned = len(self.centers), self._half, self.centers.T
        sums, counts = np.zeros(self.centers.shape), np.zeros(k)

        def strip(at: slice) -> tuple[Array, Array]:
            v = self.space(W[at])
            labels = (half - v @ turned).argmin(axis=1)
            return one_hot(labels, k, v.dtype) @ v, np.bincount(labels, minlength=k)

        for part, count in threads.over_strips(strip, len(W), 2 * self.centers.size):
            sums += part
            counts += count
        return [sums, counts]

    def farthest(self, most: int, W: Array) -> list[Farthest]:
        """Give the rows that are farthest from their centres, ``most`` of them."""
        none = np.empty((0, self.centers.shape[1]), dtype=self.centers.dtype)
        out = Farthest(most, np.empty(0), np.empty(0, dtype=np.intp), none)

        def strip(at: slice) -> Farthest:
            v = self.space(W[at])
            labels = (self._half - v @ self.centers.T).argmin(axis=1)
            away = v - self.centers[labels]
            distance = np.einsum("ij,ij->i", away, away, dtype=np.float64)
            first = np.argsort(-distance, kind="stable")[:most]
            return Farthest(most, distance[first], labels[first], v[first])

        for part in threads.over_strips(strip, len(W), 2 * self.centers.size):
            out = out.merge(part)
        return [out]


@dataclass(frozen=True)
class Farthest:
    """Rows far from their centres: squared distances, falling, with their labels and themselves."""

    most: int
    distance: Array
    labels: NDArray[np.intp]
    rows: Array

    def merge(self, other: Farthest) -> Farthest:
        """Give the farthest of both."""
        distance = np.concatenate([self.distance, other.distance])
        first = np.argsort(-distance, kind="stable")[: self.most]
        return Farthest(
            self.most,
            distance[first],
            np.concatenate([self.labels, other.labels])[first],
            np.concatenate([self.rows, other.rows])[first],
        )


def find_cells(
    partitions: Partitions,
    W: PartitionedArray,
    n_clusters: int,
    dtype: np.dtype[Any],
    *,
    centers: Array | None = None,
    seed: int = 0,
    space: Space | None = None,
    tuning: KMeansTuning = TUNING,
) -> Cells:
    """k-means of features W (n, r) in any partitions, by sums over these.

    Parameters
    ----------
    partitions : Partitions
    W : array of each partition
    n_clusters : int
    dtype : float32 or float64
    centers : (k, r) array, optional
        Last centres. Without them those of a sample of the rows come first.
    seed : int
        For these rows and centres.
    space : Space, optional
        Where distances are taken. Default: columns of unit variance.
    tuning : KMeansTuning
        Limits of rows and steps.
    """
    n = partitions.n_samples
    if n < n_clusters:
        raise InvalidInputError(
            f"n_samples={n} is fewer than n_clusters={n_clusters}; "
            "pass a smaller n_clusters or more windows"
        )
    if space is None:
        space = Space.from_statistics(partitions.summed(column_statistics, W)()[0], dtype)
    if centers is not None and centers.shape == (n_clusters, len(space.mean)):
        cells = Cells(space, centers.astype(dtype, copy=False))
        few = n <= tuning.max_first_rows
        steps = tuning.max_warm_steps if few else tuning.max_warm_steps_of_many
    else:
        most = min(tuning.max_first_rows, tuning.max_first_rows_per_cluster * n_clusters)
        every = n <= most
        rng = np.random.default_rng(seed)
        index = np.arange(n) if every else np.sort(rng.choice(n, most, replace=False))
        cells = Cells(space, _first_centers(space(partitions.rows(W, index)), n_clusters, seed))
        steps = 0 if every else tuning.max_first_steps
    # As a share of the mean variance.
    tolerance = tuning.max_last_shift * space.n_used / max(len(space.mean), 1)
    for _ in range(steps):
        new = _moved(partitions, W, cells)
        shift = float(np.square(new.centers - cells.centers, dtype=np.float64).sum())
        cells = new
        if shift <= tolerance:
            break
    return cells


def _first_centers(V: Array, n_clusters: int, seed: int) -> Array:
    model = KMeans(n_clusters, n_init=3, max_iter=50, random_state=seed)
    # One OpenMP thread: sums over threads come in no fixed order, and a fit must be repeatable
    # to the bit. Duplicate points are no reason to warn at every iteration.
    with threads.single("openmp"), threads.quiet(ConvergenceWarning):
        found = model.fit(V.astype(np.float64))  # of float32 it would copy parts at every step
    return np.asarray(found.cluster_centers_, dtype=V.dtype)


def _moved(partitions: Partitions, W: PartitionedArray, cells: Cells) -> Cells:
    """Take a step of Lloyd's; a centre without rows goes to the row that is farthest from its own.

    Where all rows lie on centres it stays.
    """
    sums, counts = (np.array(a) for a in partitions.summed(cells.sums, W)())
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        (far,) = partitions.summed(partial(cells.farthest, len(empty)), W)()
        for k, distance, old, row in zip(empty, far.distance, far.labels, far.rows, strict=False):
            if distance > 0 and counts[old] > 1:
                sums[old] -= row
                counts[old] -= 1
                sums[k], counts[k] = row, 1
    means = sums / np.maximum(counts, 1)[:, None]
    centers = np.where(counts[:, None] > 0, means, cells.centers)
    return Cells(cells.space, centers.astype(cells.centers.dtype))


def cluster(
    W: Array,
    n_clusters: int,
    *,
    clusterer: Any = None,
    centers: Array | None = None,
    seed: int = 0,
    tuning: KMeansTuning = TUNING,
) -> tuple[NDArray[np.intp], Array]:
    """Pseudo labels of the features W (n, r).

    Parameters
    ----------
    W : (n, r) array
    n_clusters : int
        Used by the default clustering only.
    clusterer : scikit-learn clusterer, optional
        Anything with ``fit_predict``; it is cloned. By default k-means, warm-started from
        ``centers``: see :func:`find_cells`.
    centers : (k, r) array, optional
        Last centres, in the space of :func:`cluster_space`.
    seed : int
        For the first centres.
    tuning : KMeansTuning
        Limits of the default clustering.

    Returns
    -------
    labels : (n,) int array, 0-based
        Of the default clustering below ``n_clusters``, where a cluster may be empty; of any other
        without gaps.
    centers : (k, r) array
        Means of the clusters in the space of :func:`cluster_space`.
    """
    n = len(W)
    if clusterer is None:
        cells = find_cells(
            InMemory(n), W, n_clusters, W.dtype, centers=centers, seed=seed, tuning=tuning
        )
        return cells.labels(W), cells.centers
    V = cluster_space(W)
    raw = np.asarray(clone(clusterer).fit_predict(V))
    if raw.shape != (n,):
        raise InvalidInputError(
            f"clusterer {clusterer!r} gave labels of shape {raw.shape} for {n} windows; "
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
    r = V.shape[1]
    plain = Space(np.zeros(r, dtype=V.dtype), np.ones(r, dtype=V.dtype))
    return Cells(plain, np.asarray(centers, dtype=V.dtype)).labels(V)

"""Clustering: from features to the labels of the pseudo graph, by sums over windows.

k-means begins from the centres of a bounded sample of the rows, or from those of the last
iteration, and goes on by Lloyd's steps over all rows. A step needs the sums and the counts of the
clusters, so that the rows may be in many parts (:mod:`.parts`).
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

from tensorcontrast.cp.partition import Held, Parts, Whole
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import threads

Array = NDArray[Any]

#: Rows that the first centres are found from, at most and for each cluster; of more, so many are
#: drawn.
FIRST_ROWS, ROWS_EACH = 20_000, 25
#: Steps from last centres, for this many rows and for more; a fit has many iterations for them.
WARM_STEPS, WARM_STEPS_OF_MANY = 4, 2
#: Steps from the centres of a sample of the rows.
FIRST_STEPS = 10
#: Squared shift of all centres, in cluster space, at which a step was the last.
SHIFT = 1e-4
#: Classes up to which sums over them are products with one-hot rows.
MAX_CLASSES_FOR_ONE_HOT = 512


def class_sums(labels: NDArray[np.intp], V: Array, n_classes: int) -> Array:
    """``ZᵀV`` (k, r): sums of the rows of V (n, r) over each class, in float64. Equation E2."""
    if n_classes > MAX_CLASSES_FOR_ONE_HOT:
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
class Moments:
    """Count, means and squared deviations of columns, and the largest magnitude."""

    n: int
    mean: Array
    squares: Array
    peak: float

    def merge(self, other: Moments) -> Moments:
        """Moments of both, without cancellation (Chan, Golub and LeVeque)."""
        n = self.n + other.n
        if not n:
            return self
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.n / n)
        squares = self.squares + other.squares + apart**2 * (self.n * other.n / n)
        return Moments(n, mean, squares, max(self.peak, other.peak))


def moments(W: Array) -> list[Moments]:
    """Moments of the columns of W (n, r), strip by strip in float64."""

    def strip(at: slice) -> Moments:
        w = W[at].astype(np.float64)
        mean = w.mean(axis=0)
        peak = max(float(w.max()), -float(w.min()))
        w -= mean
        return Moments(len(w), mean, np.einsum("ij,ij->j", w, w), peak)

    zero = np.zeros(W.shape[1])
    out = Moments(0, zero, zero, 0.0)
    for part in threads.over_strips(strip, len(W), W.shape[1]):
        out = out.merge(part)
    return [out]


@dataclass(frozen=True)
class Space:
    """Features as the clustering sees them: each column centred and scaled to unit variance."""

    mean: Array
    factor: Array

    @classmethod
    def from_moments(cls, found: Moments, dtype: np.dtype[Any]) -> Space:
        """Make the space of these moments."""
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
    return Space.from_moments(moments(W)[0], W.dtype)(W)


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
    parts: Parts,
    W: Held,
    n_clusters: int,
    dtype: np.dtype[Any],
    *,
    centers: Array | None = None,
    seed: int = 0,
    space: Space | None = None,
) -> Cells:
    """k-means of features W (n, r) in any parts, by sums over these.

    Parameters
    ----------
    parts : Parts
    W : held by the parts
    n_clusters : int
    dtype : float32 or float64
    centers : (k, r) array, optional
        Last centres. Without them those of ``ROWS_EACH`` rows a cluster come first.
    seed : int
        For these rows and centres.
    space : Space, optional
        Where distances are taken. Default: columns of unit variance.
    """
    n = parts.n_samples
    if n < n_clusters:
        raise InvalidInputError(
            f"n_samples={n} is fewer than n_clusters={n_clusters}; "
            "pass a smaller n_clusters or more windows"
        )
    if space is None:
        space = Space.from_moments(parts.summed(moments, W)()[0], dtype)
    if centers is not None and centers.shape == (n_clusters, len(space.mean)):
        cells = Cells(space, centers.astype(dtype, copy=False))
        steps = WARM_STEPS if n <= FIRST_ROWS else WARM_STEPS_OF_MANY
    else:
        most = min(FIRST_ROWS, ROWS_EACH * n_clusters)
        every = n <= most
        rng = np.random.default_rng(seed)
        index = np.arange(n) if every else np.sort(rng.choice(n, most, replace=False))
        cells = Cells(space, _first_centers(space(parts.rows(W, index)), n_clusters, seed))
        steps = 0 if every else FIRST_STEPS
    tolerance = SHIFT * space.n_used / max(len(space.mean), 1)  # as a share of the mean variance
    for _ in range(steps):
        new = _moved(parts, W, cells)
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


def _moved(parts: Parts, W: Held, cells: Cells) -> Cells:
    """Take a step of Lloyd's; a centre without rows goes to the row that is farthest from its own.

    Where all rows lie on centres it stays.
    """
    sums, counts = (np.array(a) for a in parts.summed(cells.sums, W)())
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        (far,) = parts.summed(partial(cells.farthest, len(empty)), W)()
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
        cells = find_cells(Whole(n), W, n_clusters, W.dtype, centers=centers, seed=seed)
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

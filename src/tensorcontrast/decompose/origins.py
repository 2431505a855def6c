"""Where samples come from: a pseudo graph by what noise cannot have made.

Rows of noise show how two samples of one origin differ: parts of one window, the same heart through
electrodes that sit elsewhere. In directions in which samples differ by much more than noise does,
and in units of the noise, what is near has an origin alike. Clusters of samples there are purer
than those of any features that reconstruct well, and they stand before a descent begins.

That holds where every sample has an origin of its own. Of recordings that were cut into many
windows, the near ones are windows of the same recording, and clusters would be people, not classes.
Such samples have a neighbour that is no farther than noise takes them: they are repeats, and their
graph is that of their features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.extmath import randomized_svd

from tensorcontrast import threads
from tensorcontrast.decompose.clusters import Space, class_sums, cluster_space, find_cells
from tensorcontrast.decompose.encoder import rows_times
from tensorcontrast.decompose.parts import Whole

Array = NDArray[Any]

#: Samples that directions are found from at most, and at the least: of few nobody knows whether
#: they are repeats.
MOST_SAMPLES, FEWEST_SAMPLES = 4096, 1000
#: Principal components of the samples that the directions lie in, and the directions kept.
COMPONENTS, DIRECTIONS = 200, 32
#: Variance that noise has in every direction at the least, as a share of its mean.
FLOOR = 0.01
#: Samples, and first directions, in which neighbours are looked for.
TRIED, FIRST = 2000, 8
#: Squared distance of neighbours, in that of repeats, from which samples are none.
APART = 1.5


@dataclass(frozen=True)
class Origins:
    """Directions (i, q) in units of noise, and the distance of neighbours in these."""

    columns: Array
    #: Median squared distance to the nearest sample, over what two repeats have between them.
    distance: float

    @property
    def apart(self) -> bool:
        """Whether samples are no repeats of each other."""
        return self.distance >= APART

    def labels(self, X: Array, counts: tuple[int, ...], seed: int) -> tuple[NDArray[np.intp], ...]:
        """Clusters of the samples X (n, i), for each of these numbers of them."""
        G = rows_times(X, self.columns)
        plain = Space(G.mean(axis=0), np.ones(G.shape[1], dtype=G.dtype))
        whole, n = Whole(len(G)), len(G)
        return tuple(
            find_cells(whole, G, min(k, n), G.dtype, seed=seed, space=plain).labels(G)
            for k in counts
        )


def find(X: Array, noise: Array, scale: float) -> Origins | None:
    """Directions of samples X (n, i) that differ by more than noise (m, i), in the units of X.

    ``noise`` is ``scale`` times as large as that. They are the first eigenvectors of the
    covariance of the samples against that of the noise, among the first principal components. None
    for few samples, and where samples or noise do not vary. The result does not depend on the
    number of threads.
    """
    if len(X) < FEWEST_SAMPLES:
        return None
    with threads.single("blas"), threads.single("openmp"):
        centred = X - X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        most = min(COMPONENTS, *X.shape)
        _, sizes, basis = randomized_svd(centred, most, n_iter=2, random_state=0)
        basis = basis[sizes > 1e-6 * sizes[0]].astype(X.dtype)
        P, N = (np.asarray(a @ basis.T, dtype=np.float64) for a in (centred, noise))
        signal, spread = P.T @ P / len(P), N.T @ N / len(N) / scale / scale
        floor = FLOOR * float(np.trace(spread)) / max(len(spread), 1)
        if not (np.isfinite(floor) and floor > 0 and len(basis)):
            return None
        values, vectors = eigh(signal, spread + floor * np.eye(len(spread)))
        vectors = vectors[:, np.argsort(-values)[:DIRECTIONS]]
        distance = neighbour_distance(P @ vectors[:, :FIRST])
        columns = basis.T @ vectors.astype(X.dtype)
    return Origins(np.ascontiguousarray(columns), distance)


def neighbour_distance(G: Array) -> float:
    """Median squared distance of rows (n, q), in units of noise, to the nearest, over 2q."""
    n, q = G.shape
    drawn = np.random.default_rng(0).permutation(n)[:TRIED]
    near, _ = NearestNeighbors(n_neighbors=1).fit(G[drawn]).kneighbors()
    return float(np.median(near[:, 0] ** 2)) / (2 * q)


def centres(W: Array, labels: NDArray[np.intp], count: int) -> Array:
    """Means (k, r) of features W (n, r) of each cluster, in the space of ``cluster_space``."""
    V = cluster_space(W)
    sizes = np.bincount(labels, minlength=count)[:, None]
    return np.asarray(class_sums(labels, V, count) / np.maximum(sizes, 1), dtype=W.dtype)

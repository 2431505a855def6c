"""Pseudo classes of more samples than one process should hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose import tied
from tensorcontrast.decompose.graph import cluster, nearest
from tensorcontrast.distributed._extra import package

Array = NDArray[Any]


def lazy_labels(features: Any, n_clusters: int, centers: Array | None) -> Any:
    """Cluster of each row of a Dask array of features (n, r), as a Dask array (n,).

    Centres that the fit has left are used; else those of a sample of the rows. Each row belongs
    to the nearest one, in the space of :func:`~tensorcontrast.decompose.graph.cluster_space`.
    """
    mean = features.mean(axis=0, dtype=np.float64)
    spread = features.std(axis=0, dtype=np.float64)
    mean, spread, largest = (np.asarray(a) for a in _together(mean, spread, abs(features).max()))
    floor = np.finfo(features.dtype).eps * 10 * float(largest)
    space = _Space(mean, np.where(spread > floor, 1.0 / np.maximum(spread, floor), 0.0))
    if centers is None:
        rows = tied.sampled(len(features), seed=0)
        some = features if rows is None else features[rows]
        centers = cluster(np.asarray(some), n_clusters, seed=0)[1]
    return features.map_blocks(
        _Nearest(space, centers),
        dtype=np.intp,
        meta=np.empty(0, dtype=np.intp),
        drop_axis=1,
    )


def _together(*arrays: Any) -> tuple[Any, ...]:
    return tuple(package("dask").compute(*arrays))


@dataclass(frozen=True)
class _Space:
    mean: Array
    factor: Array

    def __call__(self, W: Array) -> Array:
        return np.asarray((W - self.mean) * self.factor, dtype=W.dtype)


@dataclass(frozen=True)
class _Nearest:
    space: _Space
    centers: Array

    def __call__(self, W: Array) -> NDArray[np.intp]:
        return nearest(self.space(W), self.centers)

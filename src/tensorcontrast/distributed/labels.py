"""Pseudo classes of more windows than one process should hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp.kmeans import (
    TUNING,
    Cells,
    KMeansTuning,
    Space,
    column_statistics,
    find_cells,
)
from tensorcontrast.distributed.blocks import Groups
from tensorcontrast.distributed.spread import Spread, WorkerArrays

Array = NDArray[Any]


def lazy_labels(
    features: Any, n_clusters: int, centers: Array | None, tuning: KMeansTuning = TUNING
) -> Any:
    """Cluster of each row of a Dask array of features (n, r), as a Dask array (n,).

    Centres that the fit has left are used; else k-means finds them by sums over blocks, as the
    clustering of an array does. Each row belongs to the nearest one.
    """
    sizes = [int(size) for size in features.chunks[0]]
    spread = Spread(sizes, Groups.single(len(sizes)))
    W = WorkerArrays(features.to_delayed().ravel().tolist(), spread)
    if centers is None:
        cells = find_cells(spread, W, n_clusters, features.dtype, tuning=tuning)
    else:
        space = Space.from_statistics(spread.summed(column_statistics, W)()[0], features.dtype)
        cells = Cells(space, np.asarray(centers, dtype=features.dtype))
    return features.map_blocks(
        cells.labels, dtype=np.intp, meta=np.empty(0, dtype=np.intp), drop_axis=1
    )

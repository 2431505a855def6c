"""How many clusters the pseudo graphs of a descent have: from fine to coarse, in turns.

Many small clusters are nearly pure, but hold samples of one class apart as much as those of two;
few large ones join classes that are alike. Graphs of several sizes that take turns from epoch to
epoch agree only where it is safe (:meth:`.tied.TiedContrast.epoch`). Where another start of the
clustering parts the samples in another way, large clusters are no more than a way to cut a cloud
into pieces, and say nothing of classes: such graphs have no turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from tensorcontrast.decompose.clusters import cluster
from tensorcontrast.errors import InvalidInputError

#: Clusters of the finest graph at most, and samples for each of them at least.
MOST, SAMPLES_EACH = 100, 10
#: Parts of that number that the graphs have.
PARTS = (1, 2, 4, 8)
#: Agreement of two clusterings (adjusted Rand index) from which coarser graphs have their turn.
STABLE = 0.5
#: Samples that are clustered for that at most.
TRIED = 4_000


def levels(n_clusters: Any, n_samples: int) -> tuple[int, ...]:
    """Numbers of clusters, the finest first, for the parameter ``n_clusters`` of ``PLC``."""
    if n_clusters is None:
        count = max(2, min(MOST, n_samples // SAMPLES_EACH))
        return tuple(dict.fromkeys(max(2, count // part) for part in PARTS))
    if not isinstance(n_clusters, Sequence):
        return (int(n_clusters),)
    if not n_clusters or not all(_is_count(count) for count in n_clusters):
        raise InvalidInputError(
            f"n_clusters={n_clusters!r}: pass a number of at least 1, or several of them, such as "
            "(100, 50, 25, 12)"
        )
    return tuple(sorted({int(count) for count in n_clusters}, reverse=True))


def stable(counts: tuple[int, ...], W: NDArray[Any], seed: int) -> tuple[int, ...]:
    """Return these numbers of clusters where two starts agree on the features W (n, r), or none.

    One answer for all, by the mean agreement: that of a single number varies with the starts.
    """
    if not counts:
        return ()
    tried = W if len(W) <= TRIED else W[np.linspace(0, len(W) - 1, TRIED).astype(np.intp)]
    agreed = np.mean([_agreement(tried, count, seed) for count in counts])
    return counts if agreed >= STABLE else ()


def _agreement(W: NDArray[Any], count: int, seed: int) -> float:
    first, second = (cluster(W, count, seed=seed + other)[0] for other in (0, 1))
    return float(adjusted_rand_score(first, second))


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1

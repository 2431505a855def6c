"""Whether labels in the graph pay, asked of labels that were left out.

Labels can teach features what is true of the labelled subjects alone. Where there are many, one
half of them is left out of the graph and predicted from the other half: from features that the
other half has shaped, and from features that no label has. Labels that do not pay both ways stay
out of the graph. Few labels cannot tell, and are believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorcontrast.decompose import als, kernels
from tensorcontrast.decompose.encoder import Encoder, rows_times

Array = NDArray[Any]
IntArray = NDArray[np.intp]

#: Labels from which on they are asked: with fewer, chance outweighs what labels are worth.
ENOUGH = 2000
#: Labelled samples that are predicted at most, evenly spread over all.
ROWS = 20_000


def halves(known: IntArray, sequence: ArrayLike | None = None) -> tuple[IntArray, IntArray] | None:
    """Labels of either half, −1 elsewhere; None where there are too few to be asked.

    Recordings (``sequence``) stay whole. Without them the first half of each class, in the order
    of the samples, is one half: windows of a recording mostly follow each other.
    """
    at = np.flatnonzero(known >= 0)
    if len(at) < ENOUGH:
        return None
    if sequence is None:
        first = np.zeros(len(at), dtype=bool)
        for label in np.unique(known[at]):
            of = np.flatnonzero(known[at] == label)
            first[of[: (len(of) + 1) // 2]] = True
    else:
        _, begin, of, sizes = np.unique(
            np.asarray(sequence)[at], return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(begin)
        middle = np.empty(len(order))
        middle[order] = np.cumsum(sizes[order]) - sizes[order] / 2
        first = middle[of] < len(at) / 2
    parts = at[first], at[~first]
    if any(len(np.unique(known[part])) < 2 for part in parts):
        return None
    return _only(known, parts[0]), _only(known, parts[1])


def _only(known: IntArray, at: IntArray) -> IntArray:
    out = np.full_like(known, -1)
    out[at] = known[at]
    return out


def accuracy(
    views: als.Views, factors: Sequence[Array], alpha: float, learn: IntArray, ask: IntArray
) -> float:
    """Share of the labels ``ask`` that a logistic classifier of the labels ``learn`` predicts.

    It sees features by E12. Labels are (n,) arrays, −1 for samples that do not take part.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    at = np.flatnonzero((learn >= 0) | (ask >= 0))
    if len(at) > ROWS:
        at = at[np.linspace(0, len(at) - 1, ROWS).astype(np.intp)]
    encoder = Encoder.from_factors(list(factors), alpha)
    W = encoder(rows_times(views.rows(at).X, kernels.khatri_rao(factors))).astype(np.float64)
    train, test = learn[at] >= 0, ask[at] >= 0
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    found = probe.fit(W[train], learn[at][train]).predict(W[test])
    return float((found == ask[at][test]).mean())

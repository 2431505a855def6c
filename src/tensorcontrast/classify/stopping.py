"""When to stop labelling: the accuracy to expect.

References
----------
Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.
Loog, Nearest Neighbor-Based Importance Weighting, MLSP 2012.
Kish, Survey Sampling, 1965 (effective number of windows).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from tensorcontrast.classify.linear import select_length
from tensorcontrast.classify.suggest import feature_rows
from tensorcontrast.utils import checks
from tensorcontrast.utils.labels import check_length, read_labels

__all__ = [
    "AccuracyEstimate",
    "estimate_from_answers",
    "estimate_from_rows",
    "estimated_accuracy",
    "represented_windows",
]

Array = NDArray[Any]

#: Variance of an estimate over that of as many independent windows (design effect). The labelled
#: windows are of few people, and each that is held out leaves its neighbours without a label. On
#: the choosing sets of the archive, the interval of 95 % then holds the true accuracy in 94 % of
#: the runs.
DESIGN_EFFECT = 4.0

#: Windows that are counted to find how many each labelled one represents, at most.
MAX_COUNTED = 2000


@dataclass(frozen=True)
class AccuracyEstimate:
    """Accuracy on labelled windows that were held out.

    Attributes
    ----------
    accuracy : float or None
        None where no window could be held out.
    low, high : float
        Ends of the interval of Wilson; 0 and 1 where no window could be held out.
    n : int
        Windows that were held out.
    """

    accuracy: float | None
    low: float
    high: float
    n: int


def estimated_accuracy(
    W: Any,
    y: Any,
    groups: Any = None,
    random_state: int | np.random.RandomState | None = None,
) -> AccuracyEstimate:
    """Cross-validated accuracy over the labelled windows, with its interval.

    Each labelled window that is held out counts by the number of windows to which it is the nearest
    labelled one, since suggested windows stand for clusters of different size.

    Parameters
    ----------
    W : (n_windows, r) array
        Features of all windows, labelled or not.
    y : (n_windows,) array-like
        Labels; −1, None, NaN or "" for unknown.
    groups : (n_windows,) array-like, optional
        Subject of each window; windows are held out by group.
    random_state : int, RandomState or None
        Seed of the parts that are held out.

    Notes
    -----
    The interval is that of Wilson for a quarter of the effective number of windows. The design
    effect of 4 allows for windows of other people, and for the labels that a held-out window takes
    away from its neighbours. It was chosen on the choosing sets of ``python -m
    benchmarks.labelling``, which prints how often the interval holds the true accuracy. Windows of
    a class with no other label cannot be judged and are left out.

    Examples
    --------
    >>> W = np.repeat(6 * np.eye(2, 8), 100, axis=0)
    >>> W += np.random.default_rng(0).normal(size=W.shape)
    >>> y = np.where(np.arange(200) % 10 == 0, np.arange(200) // 100, -1)  # 20 labels
    >>> found = estimated_accuracy(W, y, random_state=0)
    >>> found.accuracy, found.n
    (1.0, 20)
    """
    return estimate_from_rows(feature_rows(W), y, groups, random_state)


def estimate_from_rows(
    rows: Array,
    y: Any,
    groups: Any = None,
    random_state: int | np.random.RandomState | None = None,
) -> AccuracyEstimate:
    """Estimate as :func:`estimated_accuracy`, with rows of about unit length as they are."""
    labels = read_labels(y, len(rows))
    check_length(groups, len(rows), "groups")
    known = np.flatnonzero(labels.codes >= 0)
    if len(labels.classes) < 2:
        return AccuracyEstimate(None, 0.0, 1.0, 0)
    codes = labels.codes[known]
    own = None if groups is None else np.asarray(groups)[known]
    rng = checks.generator(random_state)
    _, scores, judged = select_length(rows[known], codes, len(labels.classes), own, rng)
    right = scores.argmax(axis=1) == codes
    weight = represented_windows(rows, known)
    return estimate_from_answers(right[judged], weight[judged])


def estimate_from_answers(right: Array, weight: Array) -> AccuracyEstimate:
    """Weighted share of right answers, with the interval of Wilson for the effective number.

    That number is the effective number of windows (Kish) over the design effect.

    Parameters
    ----------
    right : (m,) bool array
        Whether the answers for windows that were held out are right.
    weight : (m,) array
        Windows that each of them represents.

    Examples
    --------
    >>> found = estimate_from_answers(np.array([True, True, False]), np.array([2.0, 1.0, 1.0]))
    >>> found.accuracy, found.n
    (0.75, 3)
    """
    if not len(right):
        return AccuracyEstimate(None, 0.0, 1.0, 0)
    share = float(weight @ right / weight.sum())
    effective = float(weight.sum() ** 2 / (weight @ weight))
    alike = effective / DESIGN_EFFECT
    low, high = wilson_interval(share * alike, alike)
    return AccuracyEstimate(share, low, high, len(right))


def represented_windows(rows: Array, known: Array) -> Array:
    """Count the windows to which each labelled one is the nearest labelled one, at least one each.

    Of more than 2,000 windows so many are counted, evenly taken, and the counts scaled up.

    Parameters
    ----------
    rows : (n, q) array
        Rows of all windows.
    known : (m,) int array
        Numbers of the labelled windows.

    Examples
    --------
    >>> rows = np.array([[0.0], [0.1], [0.2], [5.0]])
    >>> represented_windows(rows, np.array([0, 3]))
    array([3., 1.])
    """
    counted = np.linspace(0, len(rows) - 1, min(len(rows), MAX_COUNTED)).astype(np.intp)
    marks = np.asarray(rows[known])
    away = np.einsum("mq,mq->m", marks, marks) - 2 * (np.asarray(rows[counted]) @ marks.T)
    count = np.bincount(away.argmin(axis=1), minlength=len(known))
    return np.asarray(np.maximum(count * (len(rows) / len(counted)), 1.0))


def wilson_interval(right: float, n: float) -> tuple[float, float]:
    """Interval of 95 % of a share, ``right`` of ``n``, that Wilson gives.

    Examples
    --------
    >>> [round(end, 3) for end in wilson_interval(9, 10)]
    [0.596, 0.982]
    """
    z = float(norm.ppf(0.975))
    share, scale = right / n, 1 + z**2 / n
    middle = (share + z**2 / (2 * n)) / scale
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / scale
    # Without rounding, the ends are 0 and 1 where none or all are right.
    low = 0.0 if share <= 0 else float(max(middle - half, 0.0))
    return low, 1.0 if share >= 1 else float(min(middle + half, 1.0))

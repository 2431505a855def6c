"""Which windows to label next, and when to stop.

Typical windows come first, then those that the classifier is unsure of.

References
----------
Hacohen, Dekel and Weinshall, Active Learning on a Budget: Opposite Strategies Suit High and Low
Budgets, ICML 2022 (typicality).
Scheffer, Decomain and Wrobel, Active Hidden Markov Models for Information Extraction, 2001 (margin
sampling).
Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.
Loog, Nearest Neighbor-Based Importance Weighting, MLSP 2012.
Kish, Survey Sampling, 1965 (effective number of windows).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import norm
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast.classify.block_rows import principal_components, unit_rows
from tensorcontrast.classify.linear import fit_logistic, select_length
from tensorcontrast.cp import kmeans
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks, threads
from tensorcontrast.utils.arrays import as_array, evenly
from tensorcontrast.utils.labels import check_groups, check_length, read_labels

__all__ = [
    "AccuracyEstimate",
    "class_probabilities",
    "estimate_from_answers",
    "estimate_from_rows",
    "estimated_accuracy",
    "feature_rows",
    "order_rows",
    "reduced_rows",
    "represented_windows",
    "suggest_windows",
]

Array = NDArray[Any]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

#: Labels from which on the margin counts; a classifier of fewer knows little of what it is unsure.
MIN_LABELS_FOR_MARGIN = 12
#: Windows that are clustered, at most; of more, so many are drawn.
MAX_WINDOWS = 10_000
#: Steps of k-means, at most.
MAX_STEPS = 50
#: Principal components that clusters of longer rows are found in, and rows that they are from.
MAX_COMPONENTS, MAX_FOR_COMPONENTS = 128, 2000
#: Labelled and excluded windows from which the last suggestions keep away, at most.
MAX_COMPARED = 500
#: Distance between rows of unit length below which two windows are near-duplicates.
DUPLICATE_DISTANCE = 1e-3
#: Variance of an estimate over that of as many independent windows (design effect). The labelled
#: windows are of few people, and each that is held out leaves its neighbours without a label. On
#: the choosing sets of the archive, the interval of 95 % then holds the true accuracy in 94 % of
#: the runs.
DESIGN_EFFECT = 4.0

#: Windows that are counted to find how many each labelled one represents, at most.
MAX_COUNTED = 2000


def suggest_windows(
    W: Any,
    y: Any = None,
    n: int = 10,
    groups: Any = None,
    *,
    exclude: Any = None,
    probability: Any = None,
    random_state: int | np.random.RandomState | None = None,
) -> Index:
    """Windows to label next, the most useful first. Equation E24.

    All windows are clustered into as many clusters as there are labels so far and suggestions
    wanted. A cluster with a labelled window is covered. Of each other cluster the window nearest
    to its centre is suggested, the largest cluster first. From 12 labels of two classes on,
    clusters come in the order of Σ (1 − p₁ + p₂) over their windows instead of their size, with p₁
    and p₂ the two largest probabilities of a window.

    Parameters
    ----------
    W : (n_windows, r) array
        Features of all windows, labelled or not. They are standardised and scaled to unit length.
    y : (n_windows,) array-like, optional
        Labels so far; −1, None, NaN or "" for unknown. Labelled windows are not suggested.
        Default: none is known.
    n : int, default=10
        Number of windows wanted. Fewer are returned where no more are left.
    groups : (n_windows,) array-like, optional
        Recording or subject of each window. Of the half of a cluster that is nearest to its centre,
        a window of the group with the fewest labels is suggested. Default: the nearest window.
    exclude : int or bool array, optional
        Windows that must not be suggested, by their numbers or as a mask, such as those for which
        the annotator could not tell.
    probability : (n_windows, k) array, optional
        Probability of each class, by a classifier of your own. Default: from 12 labels of two
        classes on, a logistic regression on W.
    random_state : int, RandomState or None
        Seed of the clustering.

    Returns
    -------
    (m,) int array
        Numbers of windows, m ≤ n. Near-duplicates of one another, of labelled and of excluded
        windows are left out. The first few alone are useful as well.

    Notes
    -----
    Of more than 10,000 windows so many are drawn and clustered.

    Examples
    --------
    >>> kinds = np.repeat(6 * np.eye(3, 8), 100, axis=0)
    >>> W = kinds + np.random.default_rng(0).normal(size=(300, 8))
    >>> first = suggest_windows(W, n=3, random_state=0)
    >>> sorted((first // 100).tolist())  # one of each kind
    [0, 1, 2]
    """
    rows = feature_rows(W)
    return order_rows(
        rows, y, n, groups, exclude=exclude, probability=probability, random_state=random_state
    )


def feature_rows(W: Any) -> Array:
    """Features (n, r) with columns of unit variance and rows of unit length, in float32."""
    W = as_array(W, name="W")
    if W.ndim != 2 or not W.size:
        raise InvalidInputError(
            f"W has shape {W.shape}; pass the features of windows (n_windows, n_features), as "
            "transform gives them"
        )
    W = np.asarray(W, dtype=np.float64 if W.dtype == np.float64 else np.float32)
    checks.check_values(W, "W")
    return unit_rows(kmeans.cluster_space(W)).astype(np.float32)


def reduced_rows(rows: Array) -> Array:
    """Rows (n, q) on their first principal components, 128 at most: distances stay about the same.

    The components are those of at most 2,000 rows, evenly taken.
    """
    if rows.shape[1] <= MAX_COMPONENTS:
        return rows
    some = rows[evenly(len(rows), MAX_FOR_COMPONENTS)]
    mean = some.mean(axis=0)
    axes = principal_components(np.asarray(some - mean, dtype=np.float64), MAX_COMPONENTS)
    return np.asarray((rows - mean) @ axes.astype(rows.dtype))


def order_rows(
    rows: Array,
    y: Any = None,
    n: int = 10,
    groups: Any = None,
    *,
    exclude: Any = None,
    probability: Any = None,
    random_state: int | np.random.RandomState | None = None,
) -> Index:
    """Suggest windows by rows (n, q) of about unit length, which are taken as they are.

    Parameters as in :func:`suggest_windows`. Equation E24.
    """
    n_windows = len(rows)
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise InvalidInputError(f"n is {n!r}; pass the number of windows wanted, at least 1")
    labels = read_labels(np.full(n_windows, -1) if y is None else y, n_windows)
    codes = labels.codes
    group_of = None
    if groups is not None:
        group_of = np.unique(check_groups(groups, n_windows), return_inverse=True)[1]
    barred = _excluded(exclude, n_windows)
    unsure = _unsureness(rows, codes, len(labels.classes), probability)
    rng = checks.generator(random_state)

    free, known = (codes < 0) & ~barred, np.flatnonzero(codes >= 0)
    some = np.flatnonzero(free)
    if len(some) > MAX_WINDOWS:
        some = np.sort(rng.choice(some, MAX_WINDOWS, replace=False))
    if not len(some):
        return np.empty(0, dtype=np.intp)
    seen = np.union1d(some, known)  # what is clustered
    if len(known) > MAX_WINDOWS:
        seen = np.union1d(some, np.sort(rng.choice(known, MAX_WINDOWS, replace=False)))
    cluster_of, centers = _clusters(rows[seen], min(len(known) + n, len(seen)), rng)
    taken = _of_clusters(
        rows[seen],
        cluster_of,
        centers,
        free[seen],
        None if unsure is None else unsure[seen],
        None if group_of is None else group_of[seen],
    )
    return _distinct(rows, seen[taken], some, np.union1d(known, np.flatnonzero(barred)), int(n))


def class_probabilities(rows: Array, codes: Array, n_classes: int) -> Array | None:
    """Probabilities (n, k) by a logistic regression on the labelled rows; None below two classes.

    Parameters
    ----------
    rows : (n, q) array
        Rows of about unit length of all windows.
    codes : (n,) int array
        Class of each window; −1 for unknown.
    n_classes : int
    """
    known = np.flatnonzero(codes >= 0)
    if len(np.unique(codes[known])) < 2:
        return None
    coef, intercept = fit_logistic(rows[known], codes[known], n_classes)
    return np.asarray(softmax(rows @ coef.T + intercept, axis=1))


def _excluded(exclude: Any, n_windows: int) -> Mask:
    """Mask of the windows that must not be suggested."""
    out = np.zeros(n_windows, dtype=bool)
    given = np.asarray([] if exclude is None else exclude)
    if not given.size:
        return out
    try:
        out[given] = True
        wrong = given.dtype != bool and bool((given < 0).any())
    except IndexError:
        wrong = True
    if wrong:
        raise InvalidInputError(
            f"exclude holds {given.dtype} of shape {given.shape}; pass the numbers of windows, "
            f"from 0 to {n_windows - 1}, or a mask with one truth value per window"
        )
    return out


def _unsureness(rows: Array, codes: Array, n_classes: int, probability: Any) -> Array | None:
    """1 − p₁ + p₂ of each window; None where no classifier can tell."""
    if probability is None:
        if int((codes >= 0).sum()) < MIN_LABELS_FOR_MARGIN:
            return None
        probability = class_probabilities(rows, codes, n_classes)
        if probability is None:
            return None
    p = np.asarray(probability, dtype=np.float64)
    if p.ndim != 2 or len(p) != len(rows) or p.shape[1] < 2 or not np.isfinite(p).all():
        raise InvalidInputError(
            f"probability has shape {p.shape}, but there are {len(rows)} windows; pass one finite "
            "value per window and class, of two classes or more"
        )
    best = np.partition(p, -2, axis=1)
    return np.asarray(np.clip(1 - best[:, -1] + best[:, -2], 1e-6, None))


def _clusters(rows: Array, k: int, rng: np.random.Generator) -> tuple[Index, Array]:
    """k-means of the rows: cluster of each row, and centres (k, q)."""
    seed = int(rng.integers(2**31 - 1))
    model = KMeans(k, n_init=1, max_iter=MAX_STEPS, random_state=seed)
    # One OpenMP thread, so that sums come in a fixed order; duplicates are no reason to warn.
    with threads.single("openmp"), threads.quiet(ConvergenceWarning):
        found = model.fit(rows)
    return found.labels_.astype(np.intp), np.asarray(found.cluster_centers_, dtype=rows.dtype)


def _of_clusters(
    rows: Array,
    cluster_of: Index,
    centers: Array,
    free: Mask,
    unsure: Array | None,
    group_of: Array | None,
) -> Index:
    """One free row of each cluster without a label, the heaviest cluster first. Equation E24."""
    k = len(centers)
    weight = np.bincount(cluster_of, unsure, minlength=k)
    labelled = ~free  # of what is clustered, all that is not free has a label
    covered = np.bincount(cluster_of[labelled], minlength=k) > 0
    distance = _squares(rows, centers[cluster_of])
    open_rows = np.flatnonzero(free & ~covered[cluster_of])
    # By cluster, heaviest first; within a cluster the nearest to its centre first.
    order = open_rows[
        np.lexsort(
            (
                distance[open_rows],
                cluster_of[open_rows],
                -weight[cluster_of[open_rows]],
            )
        )
    ]
    first = np.flatnonzero(np.r_[True, np.diff(cluster_of[order]) != 0][: len(order)])
    if group_of is None:
        return order[first]
    n_labels = np.bincount(group_of[labelled], minlength=int(group_of.max()) + 1)
    out = []
    for begin, end in zip(first, np.append(first[1:], len(order)), strict=True):
        near = order[begin : begin + max(1, (end - begin + 1) // 2)]
        best = near[n_labels[group_of[near]].argmin()]
        n_labels[group_of[best]] += 1
        out.append(best)
    return np.array(out, dtype=np.intp)


def _distinct(rows: Array, wanted: Index, others: Index, known: Index, n: int) -> Index:
    """First n of the wanted rows without near-duplicates; then others, the farthest first."""
    limit = DUPLICATE_DISTANCE**2
    chosen: list[int] = []

    def is_new(row: int) -> bool:
        near = np.concatenate([known, np.array(chosen, dtype=np.intp)])
        return not len(near) or float(_squares(rows[near], rows[row]).min()) > limit

    for row in wanted.tolist():
        if len(chosen) < n and is_new(row):
            chosen.append(row)
    if len(chosen) < n:
        some = known[evenly(len(known), MAX_COMPARED)]
        distance = np.full(len(others), np.inf)
        for row in [*some.tolist(), *chosen]:
            distance = np.minimum(distance, _squares(rows[others], rows[row]))
        while len(chosen) < n and distance.max() > limit:
            row = int(others[distance.argmax()])
            if is_new(row):
                chosen.append(row)
            distance = np.minimum(distance, _squares(rows[others], rows[row]))
    return np.array(chosen, dtype=np.intp)


def _squares(rows: Array, one: Array) -> Array:
    """Squared distances of rows (n, q) to one row."""
    away = rows - one
    return np.asarray(np.einsum("nq,nq->n", away, away))


# ------------------------------------------------------------------------- when to stop


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

    Examples
    --------
    >>> AccuracyEstimate(0.8, low=0.5, high=0.9, n=24).low
    0.5
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
    counted = evenly(len(rows), MAX_COUNTED)
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

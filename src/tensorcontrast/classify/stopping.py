"""When to stop labelling: the accuracy to expect, and how far the last labels changed answers.

References
----------
Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from tensorcontrast.classify.linear import select_length
from tensorcontrast.classify.suggest import feature_rows
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks
from tensorcontrast.utils.labels import check_length, label_array, read_labels

__all__ = ["AccuracyEstimate", "changed_predictions", "estimate_from_rows", "estimated_accuracy"]

Array = NDArray[Any]


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

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain data."""
        return asdict(self)


def estimated_accuracy(
    W: Any,
    y: Any,
    groups: Any = None,
    random_state: int | np.random.RandomState | None = None,
    *,
    level: float = 0.95,
) -> AccuracyEstimate:
    """Cross-validated accuracy over the labelled windows, with its interval.

    Suggested windows are no random sample: over twelve sets of ``python -m benchmarks.labelling``
    the estimate is about five points too low for them, and the interval does not allow for this.
    Windows of a class with no other label cannot be judged and are left out.

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
    level : float, default=0.95
        Confidence of the interval.
    """
    rows = feature_rows(W)
    return estimate_from_rows(rows, y, groups, random_state, level=level)


def estimate_from_rows(
    rows: Array,
    y: Any,
    groups: Any = None,
    random_state: int | np.random.RandomState | None = None,
    *,
    level: float = 0.95,
) -> AccuracyEstimate:
    """Estimate as :func:`estimated_accuracy`, with rows of about unit length as they are."""
    if not 0 < level < 1:
        raise InvalidInputError(f"level is {level!r}; pass a confidence between 0 and 1")
    labels = read_labels(y, len(rows))
    check_length(groups, len(rows), "groups")
    known = np.flatnonzero(labels.codes >= 0)
    if len(labels.classes) < 2:
        return AccuracyEstimate(None, 0.0, 1.0, 0)
    codes = labels.codes[known]
    own = None if groups is None else np.asarray(groups)[known]
    rng = checks.generator(random_state)
    _, scores, judged = select_length(rows[known], codes, len(labels.classes), own, rng)
    n = int(judged.sum())
    if not n:
        return AccuracyEstimate(None, 0.0, 1.0, 0)
    right = int((scores[judged].argmax(axis=1) == codes[judged]).sum())
    low, high = wilson_interval(right, n, level)
    return AccuracyEstimate(right / n, low, high, n)


def wilson_interval(right: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Interval of a share, ``right`` of ``n``, that Wilson gives.

    Examples
    --------
    >>> [round(end, 3) for end in wilson_interval(9, 10)]
    [0.596, 0.982]
    """
    z = float(norm.ppf(0.5 + level / 2))
    share, scale = right / n, 1 + z**2 / n
    middle = (share + z**2 / (2 * n)) / scale
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / scale
    return float(max(middle - half, 0.0)), float(min(middle + half, 1.0))


def changed_predictions(before: Any, after: Any) -> float:
    """Share of windows whose answer differs between two classifiers, from 0 to 1.

    Parameters
    ----------
    before, after : (n,) array-likes
        Answers of both for the same windows.

    Examples
    --------
    >>> changed_predictions(["rest", "walk", "walk"], ["rest", "rest", "walk"])
    0.3333333333333333
    """
    first, second = label_array(before), label_array(after)
    if first.ndim != 1 or first.shape != second.shape or not len(first):
        raise InvalidInputError(
            f"before has shape {first.shape} and after {second.shape}; pass the answers of both "
            "for the same windows"
        )
    return float(np.mean(first != second))

"""Calibration of probabilities: temperature scaling, and how well probabilities can be trusted.

References
----------
Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks, ICML 2017.
Platt, Probabilistic Outputs for Support Vector Machines, 1999 (smoothed targets).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from tensorcontrast.errors import InvalidInputError

__all__ = ["expected_calibration_error", "fit_temperature", "reliability_curve"]

Array = NDArray[Any]

#: Range of temperatures that are tried.
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 100.0
#: Held-out windows at which the logarithm of the temperature is half of the best one.
SHRINKAGE_WINDOWS = 20


def fit_temperature(scores: Array, codes: Array) -> float:
    """Softmax temperature with the smallest log loss on held-out windows, shrunk towards 1.

    Targets are smoothed as Platt's: the true class has n / (n + 1), and all classes share the
    rest, so that a few windows that are all right do not give a temperature of 0. Few windows tell
    little about the best temperature T, so that T^(n / (n + 20)) is returned for n windows.

    Parameters
    ----------
    scores : (n, k) array
        Held-out scores; −∞ for classes that the model of a window does not know.
    codes : (n,) int array
        Class of each window, one that its model knows.

    Examples
    --------
    >>> scores = np.array([[9.0, 0.0], [9.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    >>> codes = np.array([0, 0, 1, 1])  # the third answer is wrong
    >>> fit_temperature(scores, codes) < fit_temperature(np.tile(scores, (9, 1)), np.tile(codes, 9))
    True
    """
    n = len(scores)
    if not n:
        return 1.0
    known = np.isfinite(scores)
    share = known / known.sum(axis=1, keepdims=True) / (n + 1)
    target = share
    target[np.arange(n), codes] += n / (n + 1)

    def loss(log_temperature: float) -> float:
        logs = log_softmax(scores / np.exp(log_temperature), axis=1)
        return float(-(target[known] * logs[known]).sum() / n)

    bounds = (np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE))
    best = float(minimize_scalar(loss, bounds=bounds, method="bounded").x)
    return float(np.exp(best * n / (n + SHRINKAGE_WINDOWS)))


def reliability_curve(
    probability: Any, correct: Any, *, n_bins: int = 10
) -> dict[str, NDArray[np.float64]]:
    """Accuracy of answers against their probability, in bins of equal width.

    Parameters
    ----------
    probability : (n,) array
        Probability of each answer, from 0 to 1.
    correct : (n,) bool array
        Whether it was right.
    n_bins : int, default=10

    Returns
    -------
    dict
        ``probability`` and ``accuracy``: the means of each bin that holds an answer, and ``count``.

    Examples
    --------
    >>> curve = reliability_curve([0.55, 0.95, 0.97], [False, True, True])
    >>> curve["accuracy"].tolist(), curve["count"].tolist()
    ([0.0, 1.0], [1.0, 2.0])
    """
    p = np.asarray(probability, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    if p.ndim != 1 or p.shape != right.shape or not len(p):
        raise InvalidInputError(
            f"probability has shape {p.shape} and correct {right.shape}; pass one value of each "
            "per answer"
        )
    place = np.minimum((p * n_bins).astype(np.intp), n_bins - 1)
    count = np.bincount(place, minlength=n_bins).astype(np.float64)
    there = count > 0
    means = [np.bincount(place, v, minlength=n_bins)[there] / count[there] for v in (p, right)]
    return {"probability": means[0], "accuracy": means[1], "count": count[there]}


def expected_calibration_error(probability: Any, correct: Any, *, n_bins: int = 10) -> float:
    """Mean difference between accuracy and probability over the bins of a reliability curve.

    Each bin counts by its number of answers.

    Examples
    --------
    >>> round(expected_calibration_error([0.9, 0.9, 0.9, 0.9], [True, True, True, False]), 3)
    0.15
    """
    curve = reliability_curve(probability, correct, n_bins=n_bins)
    apart = np.abs(curve["accuracy"] - curve["probability"])
    return float((apart * curve["count"]).sum() / curve["count"].sum())

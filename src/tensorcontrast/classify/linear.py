"""Logistic regression on rows of unit length, and its scores on windows that were held out."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from scipy.stats import t as student_t
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from tensorcontrast.classify.calibration import fit_temperature
from tensorcontrast.utils.threads import single

__all__ = ["fit_logistic", "folds", "held_out_scores", "select_length"]

Array = NDArray[Any]

#: Lengths that rows may get for a logistic regression with C = 1; a smaller one regularises more.
ROW_LENGTHS = (14.0, 5.0, 2.0)
#: Level of the test by which a smaller length must lower the log loss.
GAIN_LEVEL = 0.025
#: Parts of the labelled windows that are held out in turn.
N_FOLDS = 5
#: Labels above which only the first part is held out: it alone holds enough windows.
MAX_LABELS_FOR_ALL_FOLDS = 2000


def fit_logistic(
    rows: Array, codes: Array, n_classes: int, length: float = ROW_LENGTHS[0]
) -> tuple[Array, Array]:
    """Coefficients (k, q) and intercepts (k,) of a multinomial logistic regression.

    Classes without a label get an intercept of −∞.

    Parameters
    ----------
    rows : (n, q) array
        Rows of about unit length.
    codes : (n,) int array
        Class of each row, from 0.
    n_classes : int
        Number of classes k.
    length : float, default=14
        What rows are multiplied with, the square root of the inverse penalty.
    """
    model = LogisticRegression(C=1.0, max_iter=1000)
    with warnings.catch_warnings(), single("blas"), single("openmp"):
        # The last digits do not change an answer.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Few labels of many classes are what this is for.
        warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
        model.fit(np.asarray(rows, dtype=np.float64) * length, codes)
    coef, intercept = model.coef_ * length, model.intercept_
    if len(model.classes_) == 2:  # scikit-learn has the log-odds of the second class
        coef, intercept = np.vstack([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
    all_coef, all_intercept = np.zeros((n_classes, rows.shape[1])), np.full(n_classes, -np.inf)
    all_coef[model.classes_], all_intercept[model.classes_] = coef, intercept
    return all_coef, all_intercept


def select_length(
    rows: Array, codes: Array, n_classes: int, groups: Array | None, rng: np.random.Generator
) -> tuple[float, Array, NDArray[np.bool_]]:
    """Select the penalty on held-out windows, and return their scores with it.

    The first of :data:`ROW_LENGTHS` is kept unless another has a smaller log loss by a paired
    t-test at 2.5 %, each with its own softmax temperature.

    Returns
    -------
    length : float
    scores, judged : arrays
        Of :func:`held_out_scores`.
    """
    fold_of = folds(codes, groups, rng)
    best, scores, judged = ROW_LENGTHS[0], *held_out_scores(rows, codes, n_classes, fold_of)
    if not judged.any():
        return best, scores, judged
    loss = _losses(scores[judged], codes[judged])
    for length in ROW_LENGTHS[1:]:
        other, _ = held_out_scores(rows, codes, n_classes, fold_of, length)
        new = _losses(other[judged], codes[judged])
        gain = loss - new
        if _is_gain(gain):
            best, scores, loss = length, other, new
    return best, scores, judged


def _is_gain(gain: Array) -> bool:
    """Whether the mean gain of held-out windows is above zero by a one-sided t-test."""
    n = len(gain)
    if n < 2:
        return False
    limit = float(student_t.ppf(1 - GAIN_LEVEL, n - 1)) * gain.std(ddof=1) / np.sqrt(n)
    return bool(gain.mean() > limit)


def _losses(scores: Array, codes: Array) -> Array:
    """Log loss of each held-out window, with the softmax temperature of all of them."""
    logs = log_softmax(scores / fit_temperature(scores, codes), axis=1)
    return np.asarray(-logs[np.arange(len(codes)), codes])


def held_out_scores(
    rows: Array, codes: Array, n_classes: int, fold_of: Array, length: float = ROW_LENGTHS[0]
) -> tuple[Array, NDArray[np.bool_]]:
    """Scores (n, k) of labelled windows by models that have not seen the windows of their fold.

    A window whose class has no label elsewhere cannot be judged, and neither can one that is left
    with a single class to learn from.

    Returns
    -------
    scores : (n, k) array
    judged : (n,) bool array
        Which windows have scores.
    """
    n = len(codes)
    scores, judged = np.full((n, n_classes), -np.inf), np.zeros(n, dtype=bool)
    last = int(fold_of.max()) if n <= MAX_LABELS_FOR_ALL_FOLDS else 0
    for fold in range(last + 1):
        train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        there = np.unique(codes[train])
        test = test[np.isin(codes[test], there)]
        if len(there) < 2 or not len(test):
            continue
        coef, intercept = fit_logistic(rows[train], codes[train], n_classes, length)
        scores[test] = rows[test] @ coef.T + intercept
        judged[test] = True
    return scores, judged


def folds(codes: Array, groups: Array | None, rng: np.random.Generator) -> NDArray[np.intp]:
    """Fold of each window: whole groups where there are two, else by class and chance."""
    n = len(codes)
    fold_of = np.zeros(n, dtype=np.intp)
    if groups is not None:
        names, group_of = np.unique(groups, return_inverse=True)
        if len(names) > 1:
            splitter = GroupKFold(min(N_FOLDS, len(names)))
            for fold, (_, test) in enumerate(splitter.split(codes, codes, group_of)):
                fold_of[test] = fold
            return fold_of
    order = np.lexsort((rng.permutation(n), codes))
    fold_of[order] = np.arange(n) % min(N_FOLDS, n)
    return fold_of

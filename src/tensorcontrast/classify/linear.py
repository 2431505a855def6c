"""Logistic regression on rows of unit length, and its scores on windows that were held out."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from tensorcontrast.utils.threads import single

__all__ = ["fit_logistic", "held_out_scores"]

Array = NDArray[Any]

#: Length that rows get for a logistic regression with C = 1; a larger one regularises less.
ROW_LENGTH = 14.0
#: Parts of the labelled windows that are held out in turn.
N_FOLDS = 5
#: Labels above which only the first part is held out: it alone holds enough windows.
MAX_LABELS_FOR_ALL_FOLDS = 2000


def fit_logistic(rows: Array, codes: Array, n_classes: int) -> tuple[Array, Array]:
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
    """
    model = LogisticRegression(C=1.0, max_iter=1000)
    with warnings.catch_warnings(), single("blas"), single("openmp"):
        # The last digits do not change an answer.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Few labels of many classes are what this is for.
        warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
        model.fit(np.asarray(rows, dtype=np.float64) * ROW_LENGTH, codes)
    coef, intercept = model.coef_ * ROW_LENGTH, model.intercept_
    if len(model.classes_) == 2:  # scikit-learn has the log-odds of the second class
        coef, intercept = np.vstack([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
    all_coef, all_intercept = np.zeros((n_classes, rows.shape[1])), np.full(n_classes, -np.inf)
    all_coef[model.classes_], all_intercept[model.classes_] = coef, intercept
    return all_coef, all_intercept


def held_out_scores(
    rows: Array, codes: Array, n_classes: int, groups: Array | None, rng: np.random.Generator
) -> tuple[Array, NDArray[np.bool_]]:
    """Scores (n, k) of labelled windows by models that have not seen them, nor their group.

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
    fold_of = _folds(codes, groups, rng)
    last = int(fold_of.max()) if n <= MAX_LABELS_FOR_ALL_FOLDS else 0
    for fold in range(last + 1):
        train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        there = np.unique(codes[train])
        test = test[np.isin(codes[test], there)]
        if len(there) < 2 or not len(test):
            continue
        coef, intercept = fit_logistic(rows[train], codes[train], n_classes)
        scores[test] = rows[test] @ coef.T + intercept
        judged[test] = True
    return scores, judged


def _folds(codes: Array, groups: Array | None, rng: np.random.Generator) -> NDArray[np.intp]:
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

"""Cross-validation by subject of a logistic probe: no subject is in train and in test."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.evaluate.protocol import label_budget, linear_probe
from tensorcontrast.utils.threads import single

__all__ = ["Score", "cross_validate", "subject_folds"]

Array = NDArray[Any]
Budget = int | str


@dataclass
class Score:
    """Scores of one label budget over the folds."""

    budget: Budget
    accuracy: list[float] = field(default_factory=list)
    balanced_accuracy: list[float] = field(default_factory=list)
    macro_f1: list[float] = field(default_factory=list)
    n_labels: list[int] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def mean_sd(self, name: str) -> tuple[float, float]:
        """Mean and standard deviation over folds; NaN where there are too few."""
        values = getattr(self, name)
        mean = float(np.mean(values)) if values else float("nan")
        return mean, float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def subject_folds(groups: Array, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Fold of each sample: whole groups, drawn at random, each to the fold with fewest samples.

    Examples
    --------
    >>> subject_folds(np.array([7, 7, 8, 9, 9, 9]), 3, seed=0).tolist()
    [1, 1, 2, 0, 0, 0]
    """
    code = in_order(groups)
    counts = np.bincount(code)
    if not 2 <= n_folds <= len(counts):
        raise InvalidInputError(
            f"{n_folds} folds need 2 to {len(counts)}, the number of subjects; none may be in two"
        )
    sizes = np.zeros(n_folds, dtype=np.int64)
    members = np.zeros(n_folds, dtype=np.int64)
    fold_of = np.empty(len(counts), dtype=np.int64)
    for subject in np.random.default_rng(seed).permutation(len(counts)):
        # an empty fold first, then the smallest
        fold = int(np.lexsort((sizes, members > 0))[0])
        fold_of[subject] = fold
        sizes[fold] += counts[subject]
        members[fold] += 1
    return fold_of[code]


def in_order(values: Array) -> NDArray[np.int64]:
    """Numbers of values in the order in which they come first, whatever they are called.

    Examples
    --------
    >>> in_order(np.array(["10", "2", "10", "1"])).tolist()
    [0, 1, 0, 2]
    """
    _, first, code = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[code].astype(np.int64)


def cross_validate(
    features: Array,
    y: Array,
    groups: Array,
    budgets: Sequence[Budget],
    *,
    n_folds: int,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[Score], Array]:
    """Probe the features in every fold at every label budget.

    What is drawn depends on the order of the samples, not on how classes and groups are called or
    numbered: a store and the file that it was made of have the same folds and budgets.

    Returns
    -------
    scores : list of Score
        One a budget.
    predictions : (n,) int array
        Of every sample by the probe of the last budget, −1 where there is none.
    """
    fold_of = subject_folds(groups, n_folds, seed)
    code = np.where(y >= 0, in_order(y), -1)
    label_of = np.full(int(code.max(initial=0)) + 1, -1, dtype=np.int64)
    label_of[code[y >= 0]] = y[y >= 0]
    scores = [Score(budget) for budget in budgets]
    predictions = np.full(len(y), -1, dtype=np.int64)
    total, done = n_folds * len(scores), 0
    for fold in range(n_folds):
        train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        test = test[y[test] >= 0]
        for score in scores:
            progress(done, total)
            done += 1
            try:
                if not len(test):
                    raise InvalidInputError("its subjects have no labels to test on")
                chosen = train[label_budget(code[train], score.budget, seed=seed + fold)]
                if len(np.unique(y[chosen])) < 2:
                    raise InvalidInputError(
                        f"the training labels are all {y[chosen[0]]}; take a larger label budget"
                    )
                # Products this small wait for threads much longer than they take.
                with warnings.catch_warnings(), single("blas"), single("openmp"):
                    # reported once for all folds by the caller, with the names of the classes
                    warnings.simplefilter("ignore", TensorContrastWarning)
                    result = linear_probe(
                        features[chosen], code[chosen], features[test], code[test]
                    )
            except InvalidInputError as error:
                score.skipped.append(f"fold {fold + 1}: {error}")
                continue
            score.accuracy.append(result.accuracy)
            score.balanced_accuracy.append(result.balanced_accuracy)
            score.macro_f1.append(result.macro_f1)
            score.n_labels.append(result.n_train)
            if score is scores[-1]:
                predictions[test] = label_of[result.predictions]
    return scores, predictions

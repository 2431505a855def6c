"""How good answers are, by class and by group, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, roc_auc_score

from tensorcontrast.classify.calibration import expected_calibration_error, reliability_curve
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.tensorize.blocks import block_names

if TYPE_CHECKING:
    from tensorcontrast.classify.classifier import ContrastiveClassifier

__all__ = ["AnswerScores", "score_answers", "what_decides"]

Array = NDArray[Any]


@dataclass(frozen=True)
class AnswerScores:
    """Scores of answers against true labels.

    Attributes
    ----------
    n_windows, n_unknown : int
        Windows with a label, and how many of these have no answer (which counts as wrong).
    accuracy, balanced_accuracy, macro_f1 : float
        The last two are means over the classes of the labels.
    macro_auc : float or None
        Mean over classes of the area under the curve, one class against the others; None where no
        class allows it.
    majority : float
        Accuracy of always answering the most frequent class.
    calibration_error : float
        Expected calibration error over ten bins.
    reliability : dict
        See :func:`tensorcontrast.classify.calibration.reliability_curve`.
    classes : tuple of str
        Rows and columns of the confusion matrix; the last column is "unknown" where answers are.
    confusion : (k, k) or (k, k + 1) int array
        True classes by answers.
    by_class, by_group : list of dict
    """

    n_windows: int
    n_unknown: int
    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    macro_auc: float | None
    majority: float
    calibration_error: float
    reliability: dict[str, NDArray[np.float64]]
    classes: tuple[str, ...]
    confusion: NDArray[np.int64]
    by_class: list[dict[str, Any]]
    by_group: list[dict[str, Any]]


def score_answers(
    true: Any,
    answers: Any,
    probabilities: Array,
    classes: Sequence[str],
    groups: Any = None,
) -> AnswerScores:
    """Compare answers with labels.

    Parameters
    ----------
    true : (n,) array of str
        Label of each window.
    answers : (n,) array of str
        Answers; "" for unknown.
    probabilities : (n, k) array
        Of each class of the model.
    classes : sequence of str
        These classes.
    groups : (n,) array, optional
        Subject of each window.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]])
    >>> scores = score_answers(["a", "b", "b", "b"], ["a", "a", "b", "b"], p, ["a", "b"])
    >>> scores.accuracy, round(scores.balanced_accuracy, 3), scores.confusion.tolist()
    (0.75, 0.833, [[1, 0], [1, 2]])
    """
    truth, found = np.asarray(true, dtype=np.str_), np.asarray(answers, dtype=np.str_)
    if not len(truth) or truth.shape != found.shape or len(probabilities) != len(truth):
        raise InvalidInputError(
            f"there are {len(truth)} labels, {len(found)} answers and probabilities of "
            f"{len(probabilities)} windows; pass one of each per window, and at least one"
        )
    names = [*classes, *(c for c in np.unique(truth).tolist() if c not in classes)]
    k, place = len(names), {name: i for i, name in enumerate([*names, ""])}
    rows = np.array([place[v] for v in truth.tolist()])
    columns = np.array([place[v] for v in found.tolist()])
    confusion = confusion_matrix(rows, columns, labels=np.arange(k + 1))[:k]
    by_class = [
        _of_class(confusion, c, name, rows == c, probabilities[:, c] if c < len(classes) else None)
        for c, name in enumerate(names)
    ]
    there = [row for row in by_class if row["windows"]]
    areas = [row["auc"] for row in there if row["auc"] is not None]
    best, likely = probabilities.max(axis=1), probabilities.argmax(axis=1)
    n_unknown = int((columns == k).sum())
    return AnswerScores(
        n_windows=len(truth),
        n_unknown=n_unknown,
        accuracy=float((rows == columns).mean()),
        balanced_accuracy=float(np.mean([row["recall"] for row in there])),
        macro_f1=float(np.mean([row["f1"] for row in there])),
        macro_auc=float(np.mean(areas)) if areas else None,
        majority=float(confusion.sum(axis=1).max() / len(truth)),
        calibration_error=expected_calibration_error(best, likely == rows),
        reliability=reliability_curve(best, likely == rows),
        classes=(*names, "unknown") if n_unknown else tuple(names),
        confusion=confusion if n_unknown else confusion[:, :k],
        by_class=by_class,
        by_group=[] if groups is None else _by_group(rows == columns, rows, np.asarray(groups)),
    )


def _of_class(
    confusion: Array, c: int, name: str, own: NDArray[np.bool_], probability: Array | None
) -> dict[str, Any]:
    hits, there, predicted = confusion[c, c], confusion[c].sum(), confusion[:, c].sum()
    area = None
    if probability is not None and 0 < own.sum() < len(own):
        area = float(roc_auc_score(own, probability))
    return {
        "class": name,
        "windows": int(there),
        "recall": float(hits / there) if there else None,
        "precision": float(hits / predicted) if predicted else None,
        "f1": float(2 * hits / (there + predicted)) if there + predicted else 0.0,
        "auc": area,
    }


def _by_group(right: Array, rows: Array, groups: Array) -> list[dict[str, Any]]:
    out = []
    for group in np.unique(groups):
        own = groups == group
        recalls = [right[own & (rows == c)].mean() for c in np.unique(rows[own])]
        out.append(
            {
                "group": str(group),
                "windows": int(own.sum()),
                "accuracy": float(right[own].mean()),
                "balanced_accuracy": float(np.mean(recalls)),
            }
        )
    return out


# ------------------------------------------------------------------------- what decides


def what_decides(model: ContrastiveClassifier) -> dict[str, Any]:
    """Say what a fitted classifier decides by.

    Returns
    -------
    dict
        ``n_features`` and ``n_components``: inputs of the logistic regression that are features,
        and principal components of the coupled ``blocks``; ``temperature``; ``smooth``: whether
        neighbouring windows count; ``abstain``; and ``classifier``, all of it in words.
    """
    n_features = len(model.feature_mean_)
    n_components = int(model.coef_.shape[1]) - n_features
    blocks = block_names(model.extractor_.signal_blocks.transformers) if n_components else []
    parts = [f"{n_features} features"]
    if n_components:
        parts.append(f"{n_components} principal components of {' and '.join(blocks)}")
    return {
        "classifier": f"logistic regression on {' and '.join(parts)}",
        "n_features": n_features,
        "n_components": n_components,
        "blocks": blocks,
        "temperature": float(model.temperature_),
        "smooth": model.smooth is not None,
        "abstain": model.abstain,
    }

"""Why a window is answered as it is: contributions that add up to the log odds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.classify import ContrastiveClassifier
from tensorcontrast.tensorize.blocks import block_names

__all__ = ["PredictionExplanation", "explain_predictions"]

Array = NDArray[Any]


@dataclass(frozen=True)
class PredictionExplanation:
    """Log odds of the answers of windows, each as a sum of contributions.

    The log odds are those of the most likely class of a window against the second most likely one,
    for each window by itself: without smoothing, and whatever ``abstain`` is.

    Attributes
    ----------
    classes : tuple of str
    answer, against : (n,) int arrays
        Places of the two classes in ``classes``.
    log_odds : (n,) array
        log p(answer) − log p(against), calibrated.
    features : (n, r) array
        Contribution of each feature.
    blocks : (n, b) array
        Contribution of the principal components of each coupled block, which the classifier sees
        besides the features; no column with missing values.
    block_names : tuple of str
    intercept : (n,) array
        Contribution that is the same for all windows of the two classes.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveClassifier, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.explain import explain_predictions
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, n_classes=3, random_state=0)
    >>> features = ContrastiveFeatures(decompose=PLC(rank=4))
    >>> model = ContrastiveClassifier(features, random_state=0).fit(rec)
    >>> found = explain_predictions(model, rec[:5])
    >>> found.log_odds.shape, found.features.shape, found.block_names
    ((5,), (5, 4), ('spectrogram', 'random convolutions'))
    """

    classes: tuple[str, ...]
    answer: NDArray[np.intp]
    against: NDArray[np.intp]
    log_odds: Array
    features: Array
    blocks: Array
    block_names: tuple[str, ...]
    intercept: Array

    def columns(self) -> dict[str, Array]:
        """Return one column per contribution, by name, behind ``against`` and ``log_odds``."""
        out: dict[str, Array] = {
            "against": np.array(self.classes)[self.against],
            "log_odds": self.log_odds,
        }
        out |= {f"from_feature_{k}": column for k, column in enumerate(self.features.T)}
        for name, column in zip(self.block_names, self.blocks.T, strict=True):
            out[f"from_{name.replace(' ', '_')}"] = column
        return out | {"from_intercept": self.intercept}


def explain_predictions(model: ContrastiveClassifier, X: Any) -> PredictionExplanation:
    """Divide the log odds of answers into contributions of features and of coupled blocks.

    Parameters
    ----------
    model : ContrastiveClassifier
        Fitted.
    X : Recordings or array [n, channel, time]
        Windows.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveClassifier, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.explain import explain_predictions
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, n_classes=3, random_state=0)
    >>> features = ContrastiveFeatures(decompose=PLC(rank=4))
    >>> model = ContrastiveClassifier(features, random_state=0).fit(rec)
    >>> found = explain_predictions(model, rec[:5])
    >>> total = found.features.sum(axis=1) + found.blocks.sum(axis=1) + found.intercept
    >>> bool(abs(total - found.log_odds).max() < 1e-9)
    True
    """
    check_is_fitted(model, "coef_")
    rows = model.rows(X)
    scores = rows @ model.coef_.T + model.intercept_
    order = np.argsort(-scores, axis=1, kind="stable")
    answer, against = order[:, 0], order[:, 1]
    coef = model.coef_ / model.temperature_
    parts = rows * (coef[answer] - coef[against])
    level = model.intercept_ / model.temperature_
    n_features = len(model.feature_mean_)
    names: list[str] = []
    sums: list[Array] = []
    at = n_features
    if model.components_ is not None:
        names = block_names(model.extractor_.signal_blocks.transformers)
        for projection in model.components_["projections"]:
            size = int(projection.shape[1])
            sums.append(parts[:, at : at + size].sum(axis=1))
            at += size
    own = np.arange(len(scores))
    return PredictionExplanation(
        tuple(str(c) for c in model.classes_.tolist()),
        answer,
        against,
        (scores[own, answer] - scores[own, against]) / model.temperature_,
        parts[:, :n_features],
        np.stack(sums, axis=1) if sums else np.zeros((len(scores), 0)),
        tuple(names),
        level[answer] - level[against],
    )

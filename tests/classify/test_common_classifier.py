"""scikit-learn's own checks on ContrastiveClassifier.

The checks pass matrices (n, f). An adapter makes each column a channel: a short wave whose size
grows with the entry and is positive. Whatever is no matrix of numbers goes to the estimator as it
is. Checks that are about matrices alone, or about labels that mean something else here, are listed
with the reason.
"""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorcontrast import CPD, ContrastiveClassifier, ContrastiveFeatures, SpectrogramTensor

WAVE = np.sin(np.arange(32) * 1.1 + 0.3) + np.sin(np.arange(32) ** 2 * 0.05)

EXPECTED = {
    "check_estimators_empty_data_messages": "a message about (n, 0): windows have a third axis",
    "check_classifiers_classes": "-1 stands for an unknown label, so that -1 and 1 are refused",
}


def waves(X):
    """Signals (n, f, 32) of a matrix (n, f)."""
    if hasattr(X, "toarray"):
        return X
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind == "c":
        return X
    if array.dtype == object:
        return np.repeat(array[:, :, None], len(WAVE), axis=2)
    array = array.astype(array.dtype if array.dtype.kind == "f" else float)
    with np.errstate(all="ignore"):  # some checks pass infinity
        size = (array + np.sqrt(array * array + 4)) / 2
    return size[:, :, None] * WAVE.astype(array.dtype)


class ClassifierOfMatrices(ContrastiveClassifier):
    """ContrastiveClassifier with the adapter."""

    def fit(self, X, y=None, **more):
        return super().fit(waves(X), y, **more)

    def answers(self, X, **more):
        return super().answers(waves(X), **more)

    def predict_proba(self, X, **more):
        return super().predict_proba(waves(X), **more)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


# In float64, as the checks ask for the same probabilities to seven digits in any batch.
SMALL = ContrastiveFeatures(
    tensorize=SpectrogramTensor(dtype="float64"),
    decompose=CPD(rank=2, max_iter=20, tol=1e-3),
)


@pytest.mark.filterwarnings("ignore::tensorcontrast.errors.TensorContrastWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [ClassifierOfMatrices(SMALL)], expected_failed_checks=lambda estimator: EXPECTED
)
def test_scikit_learn_check(estimator, check):
    check(estimator)

"""scikit-learn's own checks on the estimators that take signals [n, channel, time].

The checks pass matrices (n, f). An adapter makes each column a channel: a short wave whose size is
the entry. Whatever is no matrix of numbers goes to the estimator as it is. Checks that are about
matrices alone are listed with the reason.

ContrastiveFeatures is checked with a small CPD: the checks fit some sixty times.
"""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorcontrast import CPD, ContrastiveFeatures, ConvolutionFeatures, SpectrogramTensor

WAVE = np.sin(np.arange(32) * 1.1 + 0.3) + np.sin(np.arange(32) ** 2 * 0.05)

MATRICES_ONLY = {
    "check_n_features_in_after_fitting": "the error names channels and samples, not features",
    "check_estimators_empty_data_messages": "the error says that there is no channel",
    "check_dtype_object": "arrays of objects are refused, as signals of unequal lengths come so",
    "check_fit2d_predict1d": "the error says how one window becomes [n, channel, time]",
}


def waves(X):
    """Signals (n, f, 32) of a matrix (n, f)."""
    if hasattr(X, "toarray"):
        return X
    array = np.asarray(X)
    if array.ndim != 2:
        return X
    if array.dtype == object:
        return np.repeat(array[:, :, None], len(WAVE), axis=2)
    return array[:, :, None] * WAVE.astype(array.dtype if array.dtype.kind == "f" else float)


class OfMatrices:
    """Give an estimator of signals matrices."""

    def fit(self, X, y=None, **more):
        return super().fit(waves(X), y, **more)

    def transform(self, X):
        return super().transform(waves(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


class FeaturesOfMatrices(OfMatrices, ContrastiveFeatures):
    """ContrastiveFeatures with the adapter."""


class SpectrogramsOfMatrices(OfMatrices, SpectrogramTensor):
    """SpectrogramTensor with the adapter."""


class ConvolutionsOfMatrices(OfMatrices, ConvolutionFeatures):
    """ConvolutionFeatures with the adapter."""


ESTIMATORS = [
    FeaturesOfMatrices(decompose=CPD(rank=2, max_iter=20, tol=1e-3)),
    SpectrogramsOfMatrices(),
    ConvolutionsOfMatrices(n_components=4, n_biases=1),
]


@pytest.mark.filterwarnings("ignore::tensorcontrast.errors.TensorContrastWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: MATRICES_ONLY)
def test_scikit_learn_check(estimator, check):
    check(estimator)

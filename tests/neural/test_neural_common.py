"""scikit-learn's own checks on the neural estimators, with few epochs.

The checks use data with fewer samples than a batch and fewer columns than the rank, which give
TensorContrastWarnings that are let through here only.
"""

import pytest

pytest.importorskip("torch", reason="needs the extra 'neural'")

from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorcontrast.neural import BYOL, DeepTensor, SimCLR

SMALL = {"max_iter": 1, "batch_size": 64}


@pytest.mark.filterwarnings("ignore::tensorcontrast.errors.TensorContrastWarning")
@parametrize_with_checks(
    [
        SimCLR(4, projection=4, **SMALL),
        BYOL(4, projection=4, hidden=4, **SMALL),
        DeepTensor(4, hidden=8, **SMALL),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)

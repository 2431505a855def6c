"""scikit-learn's own checks on every estimator with its defaults, and on Algorithm 1.

Two warnings are let through, and only here: the checks use matrices that cannot have rank 32, so
that the rank is cut with a TensorContrastWarning, and they set a small max_iter, which gives
scikit-learn's ConvergenceWarning.

scikit-learn itself skips its array-API check unless SCIPY_ARRAY_API is set before SciPy is
imported: the estimators take NumPy arrays only.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorcontrast import ATD, CPD, PLC, Algorithm1


@pytest.mark.filterwarnings("ignore::tensorcontrast.errors.TensorContrastWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([CPD(), ATD(), PLC(), Algorithm1()])
def test_scikit_learn_check(estimator, check):
    check(estimator)

"""Temperature scaling and calibration error on probabilities whose truth is known."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from tensorcontrast.classify.calibration import (
    expected_calibration_error,
    fit_temperature,
    reliability_curve,
)
from tensorcontrast.errors import InvalidInputError


@pytest.fixture(scope="module")
def drawn():
    """Scores, and classes drawn with the softmax of a quarter of them."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 3)) * 8
    cumulative = softmax(scores / 4, axis=1).cumsum(axis=1)
    return scores, (rng.random((4000, 1)) > cumulative).sum(axis=1)


def test_the_true_temperature_is_found(drawn):
    assert fit_temperature(*drawn) == pytest.approx(4, rel=0.1)


def test_it_makes_probabilities_calibrated(drawn):
    scores, codes = drawn
    errors = []
    for temperature in (1, fit_temperature(scores, codes)):
        probability = softmax(scores / temperature, axis=1)
        right = probability.argmax(axis=1) == codes
        errors.append(expected_calibration_error(probability.max(axis=1), right))
    assert errors[0] > 0.1 > 0.04 > errors[1]


@pytest.mark.parametrize("n", [4, 20, 180])
def test_few_windows_change_little(drawn, n):
    scores, codes = drawn[0][:n], drawn[1][:n]
    tried = np.exp(np.linspace(np.log(0.05), np.log(100), 20_000))
    target = np.full((n, 3), 1 / 3 / (n + 1))
    target[np.arange(n), codes] += n / (n + 1)
    losses = [-(target * log_softmax(scores / t, axis=1)).sum() for t in tried]
    best = tried[np.argmin(losses)]
    assert fit_temperature(scores, codes) == pytest.approx(best ** (n / (n + 20)), rel=0.01)


def test_classes_that_a_model_does_not_know():
    scores = np.array([[2.0, 0.0, -np.inf], [0.0, 2.0, -np.inf], [0.0, 1.0, 2.0]])
    assert np.isfinite(fit_temperature(scores, np.array([0, 1, 0])))


@pytest.mark.parametrize("size", [4.0, 40.0])
def test_few_right_answers_do_not_make_answers_surer(size):
    scores = np.array([[size, 0.0], [0.0, size]])
    assert fit_temperature(scores, np.array([0, 1])) > 1
    assert fit_temperature(np.empty((0, 2)), np.empty(0, dtype=int)) == 1.0


def test_reliability_curve_has_the_means_of_bins():
    probability = np.array([0.31, 0.39, 0.72, 1.0])
    curve = reliability_curve(probability, [True, False, True, True])
    np.testing.assert_allclose(curve["probability"], [0.35, 0.72, 1.0])
    np.testing.assert_allclose(curve["accuracy"], [0.5, 1, 1])
    np.testing.assert_allclose(curve["count"], [2, 1, 1])
    slow = (2 * abs(0.5 - 0.35) + abs(1 - 0.72) + 0) / 4
    assert expected_calibration_error(probability, [True, False, True, True]) == pytest.approx(slow)


def test_shapes_that_differ_are_refused():
    with pytest.raises(InvalidInputError, match="one value of each"):
        reliability_curve([0.5, 0.5], [True])

"""The nuisance metric in closed form: its strength, its classes, the ε-region (E14, E23)."""

import numpy as np
import pytest

from tensorcontrast.cp import kernels
from tensorcontrast.cp.metric import OVERLAP_POWER, OVERLAP_RIDGE, gains
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import metric
from tensorcontrast.solvers.windows import ArrayWindows

ALPHA = 1e-3


def noisy(seed=0, n=100, i=20, r=3, q=4):
    """Windows of a CP model with nuisance in a few directions V of given variances."""
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(4, r)), rng.normal(size=(5, r))]
    V, variances = np.linalg.qr(rng.normal(size=(i, q)))[0].T, np.array([3.0, 1.0, 0.5, 0.1])
    X = rng.normal(size=(n, r)) @ kernels.khatri_rao(factors).T
    X += rng.normal(size=(n, q)) @ (V * variances[:, None])
    return X, factors, V, variances


def dense_metric(V, g):
    """``M`` (i, i)."""
    return np.eye(V.shape[1]) - V.T @ np.diag(g) @ V


def slow_error(X, factors, alpha, M):
    """‖X − WHᵀ‖/‖X‖ of features by generalised least squares, window by window."""
    H = kernels.khatri_rao(factors)
    left = 0.0
    for x in X:
        w = np.linalg.solve(H.T @ M @ H + alpha * np.eye(H.shape[1]), H.T @ M @ x)
        left += float(((x - H @ w) ** 2).sum())
    return np.sqrt(left / (X**2).sum())


def selected(X, factors, V, variances, room):
    """Select within ``room`` times the error of E12."""
    nuisance = (V, variances, float(variances.sum()))
    return metric.select_strength(ArrayWindows(X), factors, ALPHA, nuisance, room - 1)


# ----------------------------------------------------------------------------- the strength


def test_E14_the_metric_is_as_strong_as_the_region_allows():
    X, factors, V, variances = noisy()
    plain = slow_error(X, factors, ALPHA, np.eye(20))
    before = np.zeros(4)
    for room in (1.02, 1.1, 1.18):
        found = selected(X, factors, V, variances, room)
        g = found.metric.gains
        np.testing.assert_allclose(g, gains(variances, found.strength))
        error = slow_error(X, factors, ALPHA, dense_metric(V, g))
        assert error == pytest.approx(found.rise * plain, rel=1e-6)
        assert plain < error <= room * plain * (1 + 1e-9)
        if found.strength > 2 * metric.MIN_STRENGTH * np.sqrt(variances.sum()):
            stronger = gains(variances, 0.97 * found.strength)
            assert slow_error(X, factors, ALPHA, dense_metric(V, stronger)) > room * plain
        assert (g > before).all()
        before = g
    # All of the room that there could be: s ends at its least.
    most = selected(X, factors, V, variances, 100.0)
    assert most.strength == pytest.approx(metric.MIN_STRENGTH * np.sqrt(variances.sum()))


def test_what_is_reconstructed_to_rounding_has_no_metric():
    X, factors, V, variances = noisy()
    X = np.random.default_rng(1).normal(size=(50, 3)) @ kernels.khatri_rao(factors).T
    found = (V, variances, float(variances.sum()))
    assert metric.select_strength(ArrayWindows(X), factors, 1e-9, found, 1.0) is None


# ----------------------------------------------------------------------------- deviations


def some_classes():
    rng = np.random.default_rng(3)
    classes = rng.integers(0, 5, 40)
    classes[classes == 2] = 3  # a number that no window has
    classes[7] = 5  # a window that is alone
    return rng.normal(size=(40, 6)) + classes[:, None], classes


def test_deviations_are_those_from_the_mean_of_each_class(monkeypatch):
    X, classes = some_classes()
    deviations = metric.within_class_deviations(ArrayWindows(X), classes)
    for x, c, own in zip(X, classes, deviations, strict=True):
        np.testing.assert_allclose(own, x - X[classes == c].mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(deviations[7], 0, atol=1e-12)
    every = metric.within_class_deviations(ArrayWindows(X.astype("f4")), classes)
    monkeypatch.setattr(metric, "MAX_DEVIATIONS", 9)
    some = metric.within_class_deviations(ArrayWindows(X.astype("f4")), classes)
    assert some.shape == (9, 6) and some.dtype == np.float32
    np.testing.assert_array_equal(some, every[np.linspace(0, 39, 9).astype(int)])


def test_E4_covariance_of_deviations_is_that_of_the_positive_laplacian():
    X, classes = some_classes()
    deviations = metric.within_class_deviations(ArrayWindows(X), classes)
    joined = (classes[:, None] == classes[None, :]).astype(float)
    joined /= joined.sum(axis=1, keepdims=True)
    laplacian = np.diag(joined.sum(axis=1)) - joined
    np.testing.assert_allclose(deviations.T @ deviations, X.T @ laplacian @ X, atol=1e-11)


# ----------------------------------------------------------------------------- both in turn


def covariance(rows):
    centred = rows - rows.mean(axis=0)
    return centred.T @ centred / len(rows)


def dense_features(X, factors, M):
    """``xMĤ(ĤᵀMĤ + ρI)^(−p)``, with Ĥ of unit length in the metric."""
    H = kernels.khatri_rao(factors)
    unit = H / np.sqrt(np.diag(H.T @ M @ H))
    values, vectors = np.linalg.eigh(unit.T @ M @ unit + OVERLAP_RIDGE * np.eye(H.shape[1]))
    return X @ M @ unit @ vectors @ np.diag(values**-OVERLAP_POWER) @ vectors.T


def dense_selection(X, factors, C, limit):
    """M and s from the covariance of the nuisance: bisection over the error of slow features."""
    values, vectors = np.linalg.eigh(C)
    values, V = values[::-1], vectors.T[::-1]
    V, values = V[values > 1e-6 * values[0]], values[values > 1e-6 * values[0]]
    low, high = np.log(metric.MIN_STRENGTH * np.sqrt(values.sum())), np.log(1e3 * values[0] ** 0.5)

    def is_inside(s):
        return slow_error(X, factors, ALPHA, dense_metric(V, gains(values, np.exp(s)))) <= limit

    if is_inside(low):
        high = low
    for _ in range(metric.N_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_inside(middle) else (middle, high)
    return dense_metric(V, gains(values, np.exp(high))), np.exp(high)


@pytest.mark.parametrize("augmented", [True, False])
@pytest.mark.parametrize("epsilon", [0.002, 0.3])
def test_E23_classes_and_metric_are_found_from_each_other_in_turn(epsilon, augmented):
    X, factors, *_ = noisy()
    rng = np.random.default_rng(5)
    nuisance = rng.normal(size=(30, 20)) * np.linspace(0.1, 1, 20) if augmented else None
    gamma, seen = 0.7, []
    given = [rng.integers(0, 8, len(X)) for _ in range(metric.ROUNDS)]

    def pseudo_classes(W):
        seen.append(W)
        return given[len(seen) - 1]

    found, classes = metric.contrast_metric(
        ArrayWindows(X), factors, ALPHA, nuisance, pseudo_classes, gamma=gamma, epsilon=epsilon
    )
    np.testing.assert_array_equal(classes, given[-1])
    limit = (1 + epsilon) * slow_error(X, factors, ALPHA, np.eye(20))
    base = covariance(nuisance) if augmented else np.zeros((20, 20))
    M, strength = dense_selection(X, factors, base, limit) if augmented else (np.eye(20), None)
    for W, labels in zip(seen, given, strict=True):
        np.testing.assert_allclose(W, dense_features(X, factors, M), atol=1e-5)
        deviations = metric.within_class_deviations(ArrayWindows(X), labels)
        M, strength = dense_selection(X, factors, base + gamma * covariance(deviations), limit)
    assert found.strength == pytest.approx(strength, rel=1e-4)
    own = dense_metric(found.metric.directions, found.metric.gains)
    np.testing.assert_allclose(own, M, atol=1e-4)
    assert slow_error(X, factors, ALPHA, own) <= limit * (1 + 1e-9)


def test_without_nuisance_and_graph_there_is_no_metric():
    X, factors, *_ = noisy()
    classes = np.arange(len(X)) % 4
    weights = {"gamma": 0.0, "epsilon": 0.1}
    found, same = metric.contrast_metric(
        ArrayWindows(X), factors, ALPHA, None, lambda W: classes, **weights
    )
    assert found is None
    np.testing.assert_array_equal(same, classes)
    weights["gamma"] = 1.0
    assert metric.contrast_metric(
        ArrayWindows(X), factors, ALPHA, None, lambda W: classes, **weights
    )[0]


def test_stacked_rows_have_the_sum_of_the_covariances():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(30, 5)) + 4, rng.normal(size=(12, 5)) * [1, 2, 3, 4, 5]
    rows = metric._stacked([(A, 1.0), (B, 0.3), (A + B[:1], 0.0), (A[:0], 1.0), (None, 1.0)])
    assert rows.shape == (42, 5)
    np.testing.assert_allclose(covariance(rows), covariance(A) + 0.3 * covariance(B), atol=1e-10)
    assert metric._stacked([(A, 0.0)]) is metric._stacked([]) is None
    assert metric._stacked([(A.astype("f4"), 0.5)]).dtype == np.float32


# ----------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (np.zeros((9, 5)), "shape"),
        (np.zeros((1, 5, 6)), "at least 2"),
        (np.full((3, 5, 6), "a"), "real"),
        (np.full((3, 5, 6), np.nan), r"nuisance\[0\]"),
        (np.full((3, 5, 6), 1e300), r"nuisance\[0\]"),
    ],
)
def test_wrong_nuisance(rows, word):
    with pytest.raises(InvalidInputError, match=word):
        metric.checked_nuisance(rows, (5, 6), np.dtype("float32"))
    assert metric.checked_nuisance(np.ones((3, 5, 6), int), (5, 6), "float32").shape == (3, 30)

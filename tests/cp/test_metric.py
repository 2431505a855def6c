"""The nuisance metric: generalised least squares written out, the overlap, directions (E23)."""

import numpy as np
import pytest

from tensorcontrast.cp import kernels, metric
from tensorcontrast.cp.metric import NuisanceMetric
from tensorcontrast.utils import threads


def made_up(seed=0, i=20, r=3, q=4):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(4, r)), rng.normal(size=(5, r))]
    V = np.linalg.qr(rng.normal(size=(i, q)))[0].T
    return rng, factors, V, np.array([3.0, 1.0, 0.5, 0.1])


def dense(nuisance):
    """``M`` (i, i)."""
    V = nuisance.directions
    return np.eye(V.shape[1]) - V.T @ np.diag(nuisance.gains) @ V


# ----------------------------------------------------------------------------- the projector


@pytest.mark.parametrize("strength", [1e-3, 0.3, 10.0])
def test_E23_with_power_1_is_weighted_least_squares(strength):
    rng, factors, V, variances = made_up()
    X, H = rng.normal(size=(7, 20)), kernels.khatri_rao(factors)
    alpha = np.array([0.1, 0.2, 0.3])
    nuisance = NuisanceMetric(V, metric.gains(variances, strength))
    np.testing.assert_allclose(nuisance.times(H), dense(nuisance) @ H, atol=1e-12)
    W = X @ metric.projector(factors, alpha, nuisance)
    # Nuisance of these deviations in these directions, on top of a unit variance in all.
    inverse = np.linalg.inv(np.eye(20) + V.T @ np.diag(np.sqrt(variances) / strength) @ V)
    for x, w in zip(X, W, strict=True):
        np.testing.assert_allclose(
            np.linalg.solve(H.T @ inverse @ H + np.diag(alpha), H.T @ inverse @ x), w, rtol=1e-7
        )
    # Another check, without normal equations: no small step makes the weighted misfit smaller.
    root = np.linalg.cholesky(inverse)

    def misfit(w):
        return float((((X[0] - H @ w) @ root) ** 2).sum() + (alpha * w**2).sum())

    for step in rng.normal(size=(20, 3)) * 1e-3:
        assert misfit(W[0] + step) > misfit(W[0])


@pytest.mark.parametrize("power", [0.5, 2 / 3, 1.0])
@pytest.mark.parametrize("given", [False, True])
def test_E23_written_out(given, power):
    _, factors, V, variances = made_up()
    nuisance = NuisanceMetric(V, metric.gains(variances, 0.3)) if given else None
    found = metric.projector(factors, 0.05, nuisance, power)
    M, H = dense(nuisance) if given else np.eye(20), kernels.khatri_rao(factors)
    if power == 1.0:
        slow = M @ H @ np.linalg.inv(H.T @ M @ H + 0.05 * np.eye(3))
    else:
        unit = H / np.sqrt(np.diag(H.T @ M @ H))
        values, vectors = np.linalg.eigh(unit.T @ M @ unit + metric.OVERLAP_RIDGE * np.eye(3))
        slow = M @ unit @ vectors @ np.diag(values**-power) @ vectors.T
    np.testing.assert_allclose(found, slow, rtol=1e-8, atol=1e-10)


def test_gains_of_zero_are_the_identity():
    _, factors, V, _ = made_up()
    none = NuisanceMetric(V, np.zeros(4))
    for power in (2 / 3, 1.0):
        np.testing.assert_allclose(
            metric.projector(factors, 0.1, none, power),
            metric.projector(factors, 0.1, None, power),
            rtol=1e-9,
        )


# ----------------------------------------------------------------------------- the overlap


def test_power_1_leaves_the_oblique_coordinates():
    _, factors, *_ = made_up()
    gram = kernels.gram(factors)
    np.testing.assert_array_equal(metric.overlap_mixing(gram, 0.1, 1.0), np.eye(3))


def test_power_one_half_keeps_distances_between_reconstructions():
    rng, factors, *_ = made_up()
    X, H = rng.normal(size=(9, 20)), kernels.khatri_rao(factors)
    oblique = X @ metric.projector(factors, 1e-12, None, 1.0)
    rows, made = X @ metric.projector(factors, 1e-12, None, 0.5, 1e-13), oblique @ H.T

    def distances(A):
        return np.linalg.norm(A[:, None] - A[None, :], axis=2)

    np.testing.assert_allclose(distances(rows), distances(made), rtol=1e-6, atol=1e-9)
    assert not np.allclose(distances(oblique), distances(made), rtol=0.05)


@pytest.mark.parametrize("given", [False, True])
def test_features_do_not_depend_on_scale_order_and_sign_of_components(given):
    rng, (A, B), V, variances = made_up()
    X, nuisance = rng.normal(size=(9, 20)), None
    if given:
        nuisance = NuisanceMetric(V, metric.gains(variances, 0.3))
    W = X @ metric.projector([A, B], 1e-3, nuisance, metric.OVERLAP_POWER)
    scaled = [A * [3.0, 0.2, 40.0], B * [0.5, 7.0, 1.0]]
    np.testing.assert_allclose(
        X @ metric.projector(scaled, 1e-3, nuisance, metric.OVERLAP_POWER), W, rtol=1e-7, atol=1e-9
    )
    order = [2, 0, 1]
    moved = [A[:, order], B[:, order]]
    np.testing.assert_allclose(
        X @ metric.projector(moved, 1e-3, nuisance, metric.OVERLAP_POWER), W[:, order], atol=1e-9
    )
    signs = np.array([1.0, -1.0, 1.0])
    np.testing.assert_allclose(
        X @ metric.projector([A * signs, B], 1e-3, nuisance, metric.OVERLAP_POWER),
        W * signs,
        atol=1e-9,
    )


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-40, 1e-20, 1e-9])
def test_a_component_that_died_away_disturbs_no_other(size):
    rng, (A, B), *_ = made_up()
    X = rng.normal(size=(9, 20))
    W = X @ metric.projector([A * [1, size, 1], B], 1e-6, None, metric.OVERLAP_POWER)
    others = [U[:, [0, 2]] for U in (A, B)]
    alone = X @ metric.projector(others, 1e-6, None, metric.OVERLAP_POWER)
    np.testing.assert_allclose(W[:, [0, 2]], alone, atol=1e-6)
    assert np.abs(W[:, 1]).max() < 1e-6


def test_the_mixing_is_invertible_even_for_a_component_of_zero():
    rng, (A, B), *_ = made_up()
    X, H = rng.normal(size=(9, 20)), kernels.khatri_rao([A, B])
    T = metric.overlap_mixing(H.T @ H, 1e-3, metric.OVERLAP_POWER)
    W = X @ metric.projector([A, B], 1e-3, None, metric.OVERLAP_POWER)
    np.testing.assert_allclose(W @ np.linalg.inv(T), X @ metric.projector([A, B], 1e-3, None))
    A = A * [1.0, 0.0, 1.0]
    H = kernels.khatri_rao([A, B])
    T = metric.overlap_mixing(H.T @ H, 1e-3, metric.OVERLAP_POWER)
    assert np.linalg.matrix_rank(T) == 3
    W = X @ metric.projector([A, B], 1e-3, None, metric.OVERLAP_POWER)
    np.testing.assert_allclose(W[:, 1], 0, atol=1e-12)
    assert np.abs(W[:, [0, 2]]).min(axis=0).all()


# ----------------------------------------------------------------------------- directions


@pytest.mark.parametrize("size", [1.0, 1e-18, 1e15])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [100, metric.MAX_EXACT_ROWS + 100])
def test_directions_are_those_of_the_covariance(size, dtype, n):
    rng = np.random.default_rng(1)
    rows = (size * (rng.normal(size=(n, 6)) @ rng.normal(size=(6, 30)) + 5)).astype(dtype)
    V, variances, total = metric.principal_directions(rows.copy())
    values, vectors = np.linalg.eigh(np.cov(rows.T.astype("f8") / size, bias=True))
    assert V.shape == (6, 30)
    assert V.dtype == rows.dtype
    np.testing.assert_allclose(variances / size**2, values[::-1][:6], rtol=1e-3)
    assert total / size**2 == pytest.approx(values.sum(), rel=1e-4)
    overlap = np.abs(V @ vectors[:, ::-1][:, :6])
    np.testing.assert_allclose(np.diag(overlap), 1, atol=1e-3)
    np.testing.assert_allclose(V @ V.T, np.eye(6), atol=1e-5)


@pytest.mark.parametrize("n", [300, metric.MAX_EXACT_ROWS + 100])
def test_directions_do_not_depend_on_threads(n):
    rows = np.random.default_rng(0).normal(size=(n, 200)).astype("f4")
    first = metric.principal_directions(rows.copy())
    with threads.limited("blas", 1):
        again = metric.principal_directions(rows.copy())
    np.testing.assert_array_equal(again[0], first[0])
    np.testing.assert_array_equal(again[1], first[1])
    assert 100 < len(first[0]) <= metric.MAX_DIRECTIONS


def test_rows_that_do_not_vary_have_no_direction():
    assert metric.principal_directions(np.ones((9, 4), "f4")) is None


def test_gains_fall_with_the_strength_and_rise_with_the_deviation():
    variances = np.array([4.0, 1.0, 0.25])
    np.testing.assert_allclose(metric.gains(variances, 1.0), [2 / 3, 1 / 2, 1 / 3])
    assert (metric.gains(variances, 0.1) > metric.gains(variances, 1.0)).all()
    np.testing.assert_allclose(metric.gains(variances, 1e12), 0, atol=1e-11)

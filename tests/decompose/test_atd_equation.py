"""ATD is its paper's equation, not its public code: gradient, fixed point, every row.

The public code updates only the first R rows of a batch and turns the projector I − ŵŵᵀ into a
scalar; both are tested for here.
"""

import numpy as np
import pytest
from scipy.optimize import minimize

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.cp.losses import atd_pull
from tensorcontrast.cp.updates import contrast_features
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.atd import ATDContrast
from tensorcontrast.solvers import als
from tensorcontrast.sources.tensor_noise import TensorNoise

ALPHA, BETA, DELTA = 0.05, 0.02, 0.01
N, RANK = 12, 3  # more rows than components


def unit(W):
    return W / np.linalg.norm(W, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def problem():
    """Samples (N, i) of both views, H and the factors, all in double precision."""
    X = make_cp_tensor(N, (4, 5), RANK, noise=0.3, random_state=0)[0]
    V = TensorNoise(noise=0.5)(X, np.random.default_rng(1))
    factors = [np.random.default_rng(2 + d).normal(size=(d, RANK)) for d in (4, 5)]
    return X.reshape(N, -1), V.reshape(N, -1), kernels.khatri_rao(factors), factors


def objective(W, V, X, X_view, H):
    """E8 with the contrast of E21, written out pair by pair."""
    value = 0.5 * np.sum((X - W @ H.T) ** 2) + 0.5 * np.sum((X_view - V @ H.T) ** 2)
    value += 0.5 * ALPHA * (np.sum(W**2) + np.sum(V**2))
    for i in range(N):
        for j in range(N):
            g = 1.0 / N - (1.0 / N + DELTA if i == j else 0.0)
            cosine = W[i] @ V[j] / (np.linalg.norm(W[i]) * np.linalg.norm(V[j]))
            value += BETA * g * cosine
    return value


def fast_objective(W, V, X, X_view, H):
    """Return the same by matrix products, for tests that need it often."""
    G = np.full((N, N), 1.0 / N) - (1.0 / N + DELTA) * np.eye(N)
    value = 0.5 * np.sum((X - W @ H.T) ** 2) + 0.5 * np.sum((X_view - V @ H.T) ** 2)
    value += 0.5 * ALPHA * (np.sum(W**2) + np.sum(V**2))
    return value + BETA * np.trace(unit(W).T @ G @ unit(V))


def test_the_objective_pair_by_pair_is_its_matrix_form(problem):
    X, X_view, H, _ = problem
    W, V, *_ = solved(problem)
    assert objective(W, V, X, X_view, H) == pytest.approx(fast_objective(W, V, X, X_view, H))


def numerical_gradient(function, W, step=1e-6):
    gradient = np.empty_like(W)
    for index in np.ndindex(W.shape):
        up, down = W.copy(), W.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


def solved(problem, beta=BETA):
    """Features of W for given W̃, by the update of the library, to a tight tolerance."""
    X, X_view, H, factors = problem
    encoder = Encoder.from_factors(factors, ALPHA)
    V = encoder(X_view @ H)
    h = atd_pull(unit(V), DELTA)
    update = contrast_features(X @ H, encoder, h, beta, tol=1e-13, max_iter=500)
    return update.W, V, h, encoder


def test_the_update_ends_where_the_gradient_of_the_objective_is_zero(problem):
    X, X_view, H, _ = problem
    W, V, *_ = solved(problem)
    gradient = numerical_gradient(lambda W: objective(W, V, X, X_view, H), W)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)
    start = solved(problem, beta=0.0)[0]
    before = numerical_gradient(lambda W: objective(W, V, X, X_view, H), start)
    assert np.abs(before).max() > 1e-4  # without the contrast it is not


def test_the_update_is_a_fixed_point_of_its_equation(problem):
    """w = (xH − β(I − ŵŵᵀ)h/‖w‖)(HᵀH + αI)⁻¹, row by row, projectors made in full."""
    X, _, H, _ = problem
    W, _, h, _ = solved(problem)
    K = H.T @ H + ALPHA * np.eye(RANK)
    for n in range(N):
        length = np.linalg.norm(W[n])
        projector = np.eye(RANK) - np.outer(W[n], W[n]) / length**2
        expected = np.linalg.solve(K, X[n] @ H - BETA * projector @ h[n] / length)
        np.testing.assert_allclose(W[n], expected, rtol=1e-8)


def test_a_scalar_in_the_place_of_the_projector_would_end_elsewhere(problem):
    X, _, H, _ = problem
    W, _, h, _ = solved(problem)
    K = H.T @ H + ALPHA * np.eye(RANK)
    lengths = np.linalg.norm(W, axis=1, keepdims=True)
    scalar = 1.0 - np.sum(unit(W) ** 2, axis=1, keepdims=True)  # what ŵŵᵀ is as a number: 1
    elsewhere = np.linalg.solve(K, (X @ H - BETA * scalar * h / lengths).T).T
    assert np.abs(W - elsewhere).max() > 1e-5


def test_every_row_is_pulled_not_only_the_first_of_a_batch(problem):
    moved = np.linalg.norm(solved(problem)[0] - solved(problem, beta=0.0)[0], axis=1)
    assert len(moved) == N > RANK
    assert (moved > 1e-6).all()


def test_the_contrast_minimises_the_objective_over_w_as_a_general_solver_does(problem):
    X, X_view, H, _ = problem
    W, V, *_ = solved(problem)
    found = minimize(
        lambda w: fast_objective(w.reshape(N, RANK), V, X, X_view, H),
        solved(problem, beta=0.0)[0].ravel(),
        tol=1e-12,
    )
    assert objective(W, V, X, X_view, H) <= found.fun + 1e-9
    np.testing.assert_allclose(W, found.x.reshape(N, RANK), atol=1e-4)


def test_alternating_both_views_ends_where_both_gradients_are_zero(problem):
    X, X_view, H, factors = problem
    encoder = Encoder.from_factors(factors, ALPHA)
    memory = als.Memory()
    for _ in range(60):
        features = ATDContrast(BETA, DELTA)(X @ H, X_view @ H, encoder, memory)
        memory.W, memory.V = features.W, features.V
    W, V = features.W, features.V
    for gradient in (
        numerical_gradient(lambda W: objective(W, V, X, X_view, H), W),
        numerical_gradient(lambda V: objective(W, V, X, X_view, H), V),
    ):
        np.testing.assert_allclose(gradient, 0.0, atol=1e-4)


def test_sweeps_end_where_the_gradient_of_the_factors_is_zero_too(problem):
    X, X_view, _, factors = problem
    views = als.Views(X, X_view, float(np.sum(X**2)), float(np.sum(X_view**2)))
    memory = als.Memory()

    def slope(factors, W, V):
        def value(k, U):
            changed = [U if j == k else F for j, F in enumerate(factors)]
            ridge = 0.5 * ALPHA * sum(np.sum(F**2) for F in changed)
            return fast_objective(W, V, X, X_view, kernels.khatri_rao(changed)) + ridge

        return max(
            np.abs(numerical_gradient(lambda U, k=k: value(k, U), U)).max()
            for k, U in enumerate(factors)
        )

    slopes = []
    for _ in range(1000):  # sweeps turn the last of the scale between modes slowly
        factors, features, *_ = als.sweep(
            views, factors, ATDContrast(BETA, DELTA), alpha=ALPHA, memory=memory
        )
        if not slopes:
            slopes.append(slope(factors, features.W, features.V))
    slopes.append(slope(factors, features.W, features.V))
    assert slopes[1] < 1e-3 * slopes[0]

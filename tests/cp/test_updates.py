"""The feature update E9 and its contraction E13."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tensorcontrast.cp import kernels, losses, updates
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.cp.graph import SignedGraph

N, R, DIMS = 40, 4, (5, 4)


def problem(seed=0, dtype="float64", alpha=1e-2, gamma=1.0, n=N, scale=1.0):
    """P = XH, the encoder and the pull h of a random problem that is not near a fit."""
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((d, R)) for d in DIMS]
    factors = [(U / np.linalg.norm(U, axis=0)).astype(dtype) for U in factors]
    X = (scale * rng.standard_normal((n, int(np.prod(DIMS))))).astype(dtype)
    V_hat = losses.unit_rows(rng.standard_normal((n, R)).astype(dtype))[0]
    h = losses.plc_pull(V_hat, SignedGraph(rng.integers(0, 3, n)), gamma)
    encoder = Encoder.from_factors(factors, alpha)
    return X @ kernels.khatri_rao(factors), encoder, h


def gradient(W, P, encoder, h, beta):
    return W @ encoder.K - P + beta * losses.through_unit_rows(h, *losses.unit_rows(W))


def slow_E9(w, p, K_inverse, h, beta):
    """One E9 of one sample, as it is written."""
    norm = np.sqrt(sum(x * x for x in w))
    w_hat = w / norm
    along = sum(a * b for a, b in zip(h, w_hat, strict=True))
    return (p - beta * (h - along * w_hat) / norm) @ K_inverse


# -------------------------------------------------------------------- encoder and objective


def test_row_objective_is_E8_as_a_function_of_a_row():
    P, encoder, h = problem()
    W = np.random.default_rng(1).standard_normal(P.shape)
    values = updates.row_objective(W, P, encoder, h, 0.7)
    for n in range(N):
        slow = 0.5 * W[n] @ encoder.K @ W[n] - P[n] @ W[n]
        slow += 0.7 * h[n] @ W[n] / np.linalg.norm(W[n])
        assert values[n] == pytest.approx(slow)


def test_rows_of_the_objective_add_up_to_E8():
    """E8 with everything but W fixed is Σ f(w_n) and a constant."""
    rng = np.random.default_rng(2)
    X, X_view = rng.standard_normal((2, 12, 20))
    V, graph = rng.standard_normal((12, R)), SignedGraph(rng.integers(0, 3, 12))
    factors = [rng.standard_normal((d, R)) for d in DIMS]
    P = X @ kernels.khatri_rao(factors)
    encoder = Encoder.from_factors(factors, 0.2)
    h = losses.plc_pull(losses.unit_rows(V)[0], graph, 0.8)
    gaps = []
    for _ in range(4):
        W = rng.standard_normal((12, R))
        whole = losses.objective(X, X_view, W, V, factors, graph, alpha=0.2, beta=0.6, gamma=0.8)[0]
        gaps.append(whole - updates.row_objective(W, P, encoder, h, 0.6).sum())
    np.testing.assert_allclose(gaps, gaps[0])


# -------------------------------------------------------------------- E9


def test_fixed_point_is_E9_row_by_row():
    P, encoder, h = problem()
    W = np.random.default_rng(1).standard_normal(P.shape)
    step = updates.fixed_point(W, P, encoder, h, 0.3)
    for n in range(N):
        np.testing.assert_allclose(step[n], slow_E9(W[n], P[n], encoder.K_inverse, h[n], 0.3))
    # It is also w − ∇f(w)K⁻¹.
    newton = W - gradient(W, P, encoder, h, 0.3) @ encoder.K_inverse
    np.testing.assert_allclose(step, newton, atol=1e-11)


@pytest.mark.parametrize("beta", [1e-3, 1e-2, 0.05])
@pytest.mark.parametrize("seed", range(3))
def test_features_are_the_fixed_point(beta, seed):
    P, encoder, h = problem(seed)
    result = updates.contrast_features(P, encoder, h, beta, tol=1e-14, max_iter=300)
    assert result.contraction < updates.SLOW_CONTRACTION and result.damped == 0.0
    np.testing.assert_allclose(gradient(result.W, P, encoder, h, beta), 0.0, atol=1e-12)
    W = encoder(P)
    for _ in range(100):
        W = updates.fixed_point(W, P, encoder, h, beta)
    np.testing.assert_allclose(result.W, W, atol=1e-11)
    np.testing.assert_allclose(
        updates.fixed_point(result.W, P, encoder, h, beta), result.W, atol=1e-11
    )


def test_features_equal_a_loop_over_samples():
    P, encoder, h = problem(4)
    beta, tol = 0.03, 1e-4
    result = updates.contrast_features(P, encoder, h, beta, tol=tol)
    assert result.damped == 0.0 and 2 <= result.n_iter < 20
    W = np.array([p @ encoder.K_inverse for p in P])  # from β = 0
    steps = np.zeros(N, dtype=int)
    for n in range(N):  # each sample until it has settled
        change = np.inf
        while change > tol:
            new = slow_E9(W[n], P[n], encoder.K_inverse, h[n], beta)
            change = np.linalg.norm(new - W[n]) / np.linalg.norm(new)
            W[n] = new
            steps[n] += 1
    assert len(set(steps)) > 1
    assert result.n_iter == steps.max()
    np.testing.assert_allclose(result.W, W, atol=1e-11)


@pytest.mark.parametrize("beta", [2.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_stationary_where_E9_alone_would_not_contract(seed, beta):
    """Every row ends at a stationary point or, where f has none in reach, at its infimum at zero.

    Along ŵ = −ĥ the contrast is at its lowest whatever the length. Where p points to the other
    side, f falls all the way to w = 0, at which E9 is not defined.
    """
    P, encoder, h = problem(seed, scale=3.0, alpha=1e-3)
    W = updates.contrast_features(P, encoder, h, beta, tol=0.0, max_iter=300)
    assert W.damped > 0
    W = W.W
    length = np.linalg.norm(W, axis=1)
    long = length > 0.1
    assert long.any() and (length[~long] < 1e-8).all()  # nothing in between
    np.testing.assert_allclose(gradient(W, P, encoder, h, beta)[long], 0.0, atol=1e-6)
    h_hat = losses.unit_rows(h)[0]
    cosine = np.einsum("ij,ij->i", losses.unit_rows(W)[0], h_hat)
    np.testing.assert_allclose(cosine[~long], -1.0, atol=1e-6)
    assert (np.einsum("ij,ij->i", P, h_hat)[~long] >= 0).all()


def test_damped_rows_reach_the_minimum_of_a_general_solver():
    P, encoder, h = problem(1, scale=4.0, n=12)
    beta = 1.0
    result = updates.contrast_features(P, encoder, h, beta, tol=1e-12, max_iter=1000)
    found = updates.row_objective(result.W, P, encoder, h, beta)
    for n in range(12):

        def f(w, n=n):
            at = slice(n, n + 1)
            return updates.row_objective(w[None], P[at], encoder, h[at], beta)[0]

        slow = minimize(
            f, result.W[n], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10}
        )
        assert found[n] <= slow.fun + 1e-6 * max(1.0, abs(slow.fun))


def test_beta_zero_is_E12():
    P, encoder, h = problem()
    result = updates.contrast_features(P, encoder, h, 0.0, previous=np.ones_like(P))
    np.testing.assert_array_equal(result.W, encoder(P))
    assert (result.n_iter, result.contraction, result.damped) == (0, 0.0, 0.0)
    small = updates.contrast_features(P, encoder, h, 1e-9).W
    np.testing.assert_allclose(small, encoder(P), atol=1e-6)


def test_contraction_is_measured():
    P, encoder, h = problem(2)
    beta = 0.05
    result = updates.contrast_features(P, encoder, h, beta)
    w_0 = encoder(P)
    w_1 = updates.fixed_point(w_0, P, encoder, h, beta)
    w_2 = updates.fixed_point(w_1, P, encoder, h, beta)
    ratio = np.linalg.norm(w_2 - w_1, axis=1) / np.linalg.norm(w_1 - w_0, axis=1)
    assert result.contraction == pytest.approx(ratio.max(), rel=1e-6)


@pytest.mark.parametrize("tol", [0.0, 1e-3])
@pytest.mark.parametrize("beta", [0.02, 0.5, 20.0])
def test_blocks_change_nothing(beta, tol):
    P, encoder, h = problem(3)
    whole = updates.contrast_features(P, encoder, h, beta, tol=tol, max_iter=12)
    previous = np.random.default_rng(0).standard_normal(P.shape)
    warm = updates.contrast_features(P, encoder, h, beta, previous=previous, tol=tol, max_iter=12)
    for rows in (1, 7, N - 1):
        options = {"tol": tol, "max_iter": 12, "block_rows": rows}
        parts = updates.contrast_features(P, encoder, h, beta, **options)
        # Rounding may differ; rows that shrink towards zero are compared by their length.
        np.testing.assert_allclose(parts.W, whole.W, rtol=1e-6, atol=1e-9)
        assert parts.contraction == pytest.approx(whole.contraction, rel=1e-6)
        assert parts.damped == whole.damped
        again = updates.contrast_features(P, encoder, h, beta, previous=previous, **options)
        np.testing.assert_allclose(again.W, warm.W, rtol=1e-6, atol=1e-9)


# -------------------------------------------------------------------- E13


def iterates(P, encoder, h, beta, steps=80):
    W = [encoder(P)]
    for _ in range(steps):
        W.append(updates.fixed_point(W[-1], P, encoder, h, beta))
    return np.array(W)  # (t, n, r)


def bounds(path, encoder, h, beta):
    """β(2m + M)‖h‖‖K⁻¹‖/m³ of each row.

    With w, v of norms ≥ m: ‖φ(w) − φ(v)‖ ≤ 3‖h‖‖w − v‖/m² for φ(w) = (h − ⟨h,ŵ⟩ŵ)/‖w‖ (one part
    each from 1/‖w‖, from w/‖w‖² and from ŵ), and 3/m² ≤ (2m + M)/m³.
    """
    norms = np.linalg.norm(path, axis=2)
    m, M = norms.min(axis=0), norms.max(axis=0)
    inverse = np.linalg.norm(np.linalg.inv(encoder.K), 2)
    return beta * (2 * m + M) * np.linalg.norm(h, axis=1) * inverse / m**3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.99, 0.3])
def test_contraction_is_within_the_bound_of_E13(seed, share):
    P, encoder, h = problem(seed, alpha=0.2, scale=3.0)
    # The largest β whose bound stays below `share` for every row (the bound grows with β).
    beta = 1e-3
    while (bounds(iterates(P, encoder, h, 1.1 * beta), encoder, h, 1.1 * beta) < share).all():
        beta *= 1.1
    path = iterates(P, encoder, h, beta)
    bound = bounds(path, encoder, h, beta)
    assert bound.max() < share and bound.max() > 0.8 * share
    error = np.linalg.norm(path - path[-1], axis=2)  # (t, n), against the fixed point
    seen = error[:-1] > 1e-10
    ratio = np.divide(error[1:], error[:-1], out=np.zeros_like(error[1:]), where=seen)
    assert (ratio <= bound + 1e-6).all()
    # Linear convergence: the error is under bound^t of the first.
    t = np.arange(len(path))[:, None]
    assert (error <= error[0] * bound**t + 1e-12).all()
    # What the update reports is within the bound too, and nothing had to be damped away.
    result = updates.contrast_features(P, encoder, h, beta, tol=1e-13, max_iter=200)
    assert 0 < result.contraction <= bound.max()
    np.testing.assert_allclose(result.W, path[-1], atol=1e-10)


def test_the_papers_bound_needs_the_inverse():
    """With ‖K‖ in the place of ‖K⁻¹‖, as printed, the bound does not hold for small K."""
    P, encoder, h = problem(0, alpha=0.2, scale=3.0)
    encoder = Encoder(
        0.01 * encoder.K, 100 * encoder.K_inverse, 0.01 * encoder.eigenvalues, encoder.eigenvectors
    )
    beta = 1.0
    path = iterates(P, encoder, h, beta, steps=3)
    norms = np.linalg.norm(path, axis=2)
    m, M = norms.min(axis=0), norms.max(axis=0)
    printed = beta * (2 * m + M) * np.linalg.norm(h, axis=1) * np.linalg.norm(encoder.K) / m**3
    step = np.linalg.norm(np.diff(path, axis=0), axis=2)
    assert (step[1] / step[0] > printed).any()
    assert (step[1] / step[0] <= bounds(path, encoder, h, beta)).all()


# -------------------------------------------------------------------- any β


BETAS = [0.0, 1e-3, 0.03, 0.3, 1.0, 3.0, 10.0, 100.0]


@pytest.mark.parametrize("beta", [*BETAS, 1e4, 1e8])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_objective_never_rises_over_iterations(dtype, beta):
    eps = float(np.finfo(dtype).eps)
    P, encoder, h = problem(5, dtype=dtype)
    exact = Encoder(*(np.float64(getattr(encoder, a)) for a in encoder.__dataclass_fields__))
    last = updates.row_objective(np.float64(encoder(P)), np.float64(P), exact, np.float64(h), beta)
    for max_iter in range(1, 16):
        # The same iteration, stopped one step later each time.
        W = updates.contrast_features(P, encoder, h, beta, tol=0.0, max_iter=max_iter).W
        assert W.dtype == dtype and np.isfinite(W).all()
        value = updates.row_objective(np.float64(W), np.float64(P), exact, np.float64(h), beta)
        assert (value <= last + 40 * eps * (np.abs(last) + beta + 1)).all()
        last = value


@pytest.mark.parametrize(
    "dtype",
    [
        "float64",
        "float32",
    ],
)
def test_many_warm_updates_stay_finite(dtype):
    for beta in (3.0, 1e4):
        for seed in range(4):
            P, encoder, h = problem(seed, dtype=dtype, n=200)
            W = None
            for _ in range(5):
                result = updates.contrast_features(P, encoder, h, beta, previous=W)
                W = result.W
                assert np.isfinite(W).all() and np.isfinite(result.contraction)


@pytest.mark.parametrize("beta", BETAS[1:])
def test_start_from_previous_features_is_never_worse(beta):
    P, encoder, h = problem(6)
    for seed in range(4):
        previous = np.random.default_rng(seed).standard_normal(P.shape)
        result = updates.contrast_features(P, encoder, h, beta, previous=previous)
        value = updates.row_objective(result.W, P, encoder, h, beta)
        before = updates.row_objective(previous, P, encoder, h, beta)
        plain = updates.row_objective(encoder(P), P, encoder, h, beta)
        tolerance = 1e-12 * (1 + beta)
        assert (value <= np.minimum(before, plain) + tolerance).all()
        again = updates.contrast_features(P, encoder, h, beta, previous=result.W)
        assert (updates.row_objective(again.W, P, encoder, h, beta) <= value + tolerance).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("beta", [0.1, 10.0])
def test_rows_of_zeros_and_rows_without_pull(dtype, beta):
    P, encoder, h = problem(7, dtype=dtype)
    P[3] = 0.0  # an all-zero sample
    h[5] = 0.0
    result = updates.contrast_features(P, encoder, h, beta)
    assert np.isfinite(result.W).all()
    np.testing.assert_array_equal(result.W[3], 0.0)
    np.testing.assert_allclose(result.W[5], encoder(P)[5], atol=1e-5)


def test_no_samples():
    P, encoder, h = problem()
    result = updates.contrast_features(P[:0], encoder, h[:0], 0.1)
    assert result.W.shape == (0, R) and result.damped == 0.0

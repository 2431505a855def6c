"""Each loss against loops over an explicit N×N matrix, each gradient by central differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorcontrast.cp import losses
from tensorcontrast.cp.graph import SignedGraph

N, R = 7, 3
LABELS = np.array([0, 1, 0, 2, 1, 0, 2])
KNOWN = np.array([0, -1, 1, -1, 0, 1, -1])

graphs = pytest.mark.parametrize(
    "graph", [SignedGraph(LABELS), SignedGraph(LABELS, KNOWN)], ids=["pseudo", "mixed"]
)


@pytest.fixture
def features():
    rng = np.random.default_rng(0)
    return rng.standard_normal((N, R)), 2.0 * rng.standard_normal((N, R)) + 0.5


def unit(W):
    return np.array([w / np.linalg.norm(w) if np.linalg.norm(w) > 0 else 0 * w for w in W])


def laplacian(graph, identity):
    n = graph.n_samples
    return identity * np.eye(n) - graph.dense() / (n - 1)


def slow_trace(W, M, V):
    """``Tr(ŴᵀMV̂)`` by loops."""
    W, V = unit(W), unit(V)
    total = 0.0
    for i in range(len(W)):
        for j in range(len(V)):
            for r in range(W.shape[1]):
                total += M[i, j] * W[i, r] * V[j, r]
    return total


def central_differences(f, arrays, step=1e-6):
    """Gradient of ``f(*arrays)`` for each array."""
    gradients = []
    for k, array in enumerate(arrays):
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            sides = []
            for sign in (1.0, -1.0):
                moved = [a.copy() for a in arrays]
                moved[k][index] += sign * step
                sides.append(f(*moved))
            gradient[index] = (sides[0] - sides[1]) / (2 * step)
        gradients.append(gradient)
    return gradients


def check_gradients(f, arrays, analytic):
    numeric = central_differences(lambda *a: f(*a)[0], arrays)
    for slow, fast in zip(numeric, analytic, strict=True):
        assert fast.shape == slow.shape and fast.dtype == np.float64
        np.testing.assert_allclose(fast, slow, rtol=1e-6, atol=1e-7 * max(1, np.abs(slow).max()))


# -------------------------------------------------------------------- rows of unit length


def test_unit_rows():
    W = np.array([[3.0, 4.0], [0.0, 0.0], [-2.0, 0.0]])
    W_hat, norm = losses.unit_rows(W)
    np.testing.assert_allclose(W_hat, [[0.6, 0.8], [0.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_allclose(norm, [[5.0], [0.0], [2.0]])


def test_through_unit_rows_is_the_projector_of_E9(features):
    W, g = features
    W_hat, norm = losses.unit_rows(W)
    through = losses.through_unit_rows(g, W_hat, norm)
    for n in range(N):
        projector = np.eye(R) - np.outer(W_hat[n], W_hat[n])
        np.testing.assert_allclose(through[n], projector @ g[n] / norm[n], atol=1e-14)
        assert through[n] @ W[n] == pytest.approx(0.0, abs=1e-12)  # no change along w


# -------------------------------------------------------------------- E4, E5, E6


@graphs
@pytest.mark.parametrize("identity", [True, False])
def test_same_view_E4(features, graph, identity):
    W, _ = features
    value, gradient = losses.same_view(W, graph, identity=identity)
    assert value == pytest.approx(slow_trace(W, laplacian(graph, identity), W), abs=1e-12)
    check_gradients(lambda W: losses.same_view(W, graph, identity=identity), [W], [gradient])


@graphs
@pytest.mark.parametrize("identity", [True, False])
def test_cross_view_E5(features, graph, identity):
    W, V = features
    value, gradients = losses.cross_view(W, V, graph, identity=identity)
    assert value == pytest.approx(slow_trace(W, laplacian(graph, identity), V), abs=1e-12)
    check_gradients(
        lambda W, V: losses.cross_view(W, V, graph, identity=identity), [W, V], gradients
    )


def test_trans_inv_E6(features):
    W, V = features
    value, gradients = losses.trans_inv(W, V)
    assert value == pytest.approx(slow_trace(W, np.eye(N), V) / N, abs=1e-12)
    check_gradients(losses.trans_inv, [W, V], gradients)
    assert losses.trans_inv(W, 3 * W)[0] == pytest.approx(1.0)
    assert losses.trans_inv(W, -W)[0] == pytest.approx(-1.0)


# -------------------------------------------------------------------- E7, E16


@graphs
@pytest.mark.parametrize("gamma", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("invariance", [1.0, 0.0])
@pytest.mark.parametrize("identity", [True, False])
def test_plc_E7(features, graph, gamma, invariance, identity):
    W, V = features
    options = {"invariance": invariance, "identity": identity}
    value, gradients = losses.plc(W, V, graph, gamma, **options)
    M = gamma * laplacian(graph, identity) - invariance * np.eye(N)
    assert value == pytest.approx(slow_trace(W, M, V), abs=1e-12)
    check_gradients(lambda W, V: losses.plc(W, V, graph, gamma, **options), [W, V], gradients)


@graphs
@pytest.mark.parametrize("gamma", [0.0, 0.02, 1.5])
def test_expanded_plc_E16(features, graph, gamma):
    W, V = features
    value, gradients = losses.expanded_plc(W, V, graph, gamma)
    S, W_hat, V_hat = graph.dense(), unit(W), unit(V)
    slow = 0.0
    for i in range(N):
        slow -= W_hat[i] @ V_hat[i] / N
        for j in range(N):
            slow += gamma / (N - 1) * -S[i, j] * (W_hat[i] @ V_hat[j])
    assert value == pytest.approx(slow, abs=1e-12)
    check_gradients(lambda W, V: losses.expanded_plc(W, V, graph, gamma), [W, V], gradients)


@graphs
@pytest.mark.parametrize("identity", [True, False])
def test_N_times_the_papers_E7_is_the_codes(features, graph, identity):
    W, V = features
    gamma = 0.9
    paper = -losses.trans_inv(W, V)[0]
    paper += gamma / N * losses.cross_view(W, V, graph, identity=identity)[0]
    code, gradients = losses.plc(W, V, graph, gamma, identity=identity)
    assert code == pytest.approx(N * paper, abs=1e-12)
    if not identity:
        slow, slow_gradients = losses.expanded_plc(W, V, graph, gamma / N)
        assert code == pytest.approx(N * slow, abs=1e-12)
        for a, b in zip(gradients, slow_gradients, strict=True):
            np.testing.assert_allclose(a, N * b, atol=1e-12)


# -------------------------------------------------------------------- E15


def slow_infonce(W, V, temperature):
    W, V = unit(W), unit(V)
    n, total = len(W), 0.0
    for i in range(n):
        total -= W[i] @ V[i] / n
        total += temperature / n * np.log(sum(np.exp(W[i] @ v / temperature) for v in V))
    return total


@pytest.mark.parametrize("temperature", [0.1, 0.5, 3.0])
def test_infonce_E15(features, temperature):
    W, V = features
    value, gradients = losses.infonce(W, V, temperature)
    assert value == pytest.approx(slow_infonce(W, V, temperature), abs=1e-12)
    check_gradients(lambda W, V: losses.infonce(W, V, temperature), [W, V], gradients)


def test_infonce_at_high_temperature_is_the_contrast_of_ATD(features):
    """τ log Σ exp(s/τ) = τ log N + mean s + O(1/τ): all pairs pushed apart, own view pulled."""
    W, V = features
    delta = 1.0 - 1.0 / N  # G = 11ᵀ/N − I
    limit, (limit_w, limit_v) = losses.atd(W, V, delta)
    gaps = []
    for temperature in (1e2, 1e3, 1e4):
        value, (g_w, g_v) = losses.infonce(W, V, temperature)
        gaps.append(abs(value - temperature * np.log(N) - limit / N))
        np.testing.assert_allclose(g_w, limit_w / N, atol=1 / temperature)
        np.testing.assert_allclose(g_v, limit_v / N, atol=1 / temperature)
    assert gaps[0] < 1e-2 and gaps[1] < 0.11 * gaps[0] and gaps[2] < 1e-4


# -------------------------------------------------------------------- E17


@graphs
def test_block_similarities_E17(features, graph):
    W, V = features
    S, W_hat, V_hat = graph.dense(), unit(W), unit(V)
    P, Q = losses.block_similarities(W, V, graph)
    for i in range(N):
        positive = sum(W_hat[i] @ V_hat[j] for j in range(N) if S[i, j] > 0)
        negative = sum(W_hat[i] @ V_hat[j] for j in range(N) if S[i, j] < 0)
        assert P[i] == pytest.approx(positive, abs=1e-12)
        assert Q[i] == pytest.approx(negative, abs=1e-12)
    block, pairwise = losses.block_contrast(W, V, graph)
    np.testing.assert_allclose(block, -P + Q, atol=1e-13)
    np.testing.assert_allclose(pairwise, P + Q, atol=1e-13)
    # Σ(−P + Q) is the graph part of E16.
    assert block.sum() / (N - 1) == pytest.approx(losses.cross_view(W, V, graph)[0], abs=1e-12)


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(2, 12),
    rank=st.integers(1, 4),
    classes=st.integers(1, 4),
    offset=st.floats(-2, 2),
    seed=st.integers(0, 2**20),
)
def test_block_inequality_holds_exactly_where_P_is_not_negative(n, rank, classes, offset, seed):
    rng = np.random.default_rng(seed)
    W, V = rng.standard_normal((n, rank)) + offset, rng.standard_normal((n, rank)) - offset / 2
    graph = SignedGraph(rng.integers(0, classes, n))
    P, _ = losses.block_similarities(W, V, graph)
    block, pairwise = losses.block_contrast(W, V, graph)
    bounded = block <= pairwise
    assert bounded[P >= 0].all()  # if
    rounding = 1e-12 * n
    assert (P[bounded] >= -rounding).all()  # and only if
    assert not bounded[P < -rounding].any()


# -------------------------------------------------------------------- E21


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.5])
def test_atd_E21(features, delta):
    W, V = features
    G = np.ones((N, N)) / N - (1 / N + delta) * np.eye(N)
    value, gradients = losses.atd(W, V, delta)
    assert value == pytest.approx(slow_trace(W, G, V), abs=1e-12)
    np.testing.assert_allclose(losses.atd_pull(unit(V), delta), G @ unit(V), atol=1e-13)
    check_gradients(lambda W, V: losses.atd(W, V, delta), [W, V], gradients)


# -------------------------------------------------------------------- E8


def problem(order, seed=0):
    rng = np.random.default_rng([seed, order])
    dims = {1: (6,), 2: (4, 3), 3: (3, 2, 4), 4: (2, 3, 2, 2)}[order]
    X, X_view = rng.standard_normal((2, N, int(np.prod(dims))))
    W, V = rng.standard_normal((2, N, R))
    return X, X_view, W, V, [rng.standard_normal((d, R)) for d in dims]


def slow_fit(X, W, factors):
    """½‖X − WHᵀ‖² entry by entry."""
    dims = [len(U) for U in factors]
    total = 0.0
    for n in range(len(X)):
        for flat, index in enumerate(np.ndindex(*dims)):
            entry = sum(
                W[n, r] * np.prod([U[i, r] for U, i in zip(factors, index, strict=True)])
                for r in range(R)
            )
            total += 0.5 * (X[n, flat] - entry) ** 2
    return total


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_reconstruction(order):
    X, _, W, _, factors = problem(order)
    value, (g_w, g_factors) = losses.reconstruction(X, W, factors)
    assert value == pytest.approx(slow_fit(X, W, factors))
    check_gradients(lambda W, *U: losses.reconstruction(X, W, U), [W, *factors], [g_w, *g_factors])


def test_ridge():
    _, _, W, V, factors = problem(3)
    slow = 0.5 * sum((U**2).sum() for U in factors)
    slow += 0.5 * (W**2).sum()
    assert losses.ridge(W, None, factors) == pytest.approx(slow)
    assert losses.ridge(W, V, factors) == pytest.approx(slow + 0.5 * (V**2).sum())


@graphs
@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize(("alpha", "beta", "gamma"), [(0.3, 0.0, 1.0), (0.0, 2.0, 0.7)])
def test_objective_E8(graph, order, alpha, beta, gamma):
    X, X_view, W, V, factors = problem(order)
    weights = {"alpha": alpha, "beta": beta, "gamma": gamma}
    value, (g_w, g_v, g_factors) = losses.objective(X, X_view, W, V, factors, graph, **weights)
    M = -np.eye(N) - gamma / (N - 1) * graph.dense()
    slow = slow_fit(X, W, factors) + slow_fit(X_view, V, factors) + beta * slow_trace(W, M, V)
    slow += 0.5 * alpha * sum((A**2).sum() for A in (W, V, *factors))
    assert value == pytest.approx(slow)
    check_gradients(
        lambda W, V, *U: losses.objective(X, X_view, W, V, U, graph, **weights),
        [W, V, *factors],
        [g_w, g_v, *g_factors],
    )


# -------------------------------------------------------------------- rows of zeros, float32


def all_losses(W, V, graph):
    return {
        "same": losses.same_view(W, graph, identity=False),
        "cross": losses.cross_view(W, V, graph, identity=True),
        "trans": losses.trans_inv(W, V),
        "plc": losses.plc(W, V, graph, 1.3),
        "expanded": losses.expanded_plc(W, V, graph, 1.3),
        "infonce": losses.infonce(W, V, 0.5),
        "atd": losses.atd(W, V, 0.01),
    }


def test_rows_of_zeros_have_no_direction(features):
    W, V = (a.copy() for a in features)
    W[2] = 0.0
    V[4] = 0.0
    graph = SignedGraph(LABELS)
    M = -np.eye(N) - 1.3 / (N - 1) * graph.dense()
    assert losses.plc(W, V, graph, 1.3)[0] == pytest.approx(slow_trace(W, M, V), abs=1e-12)
    assert losses.infonce(W, V, 0.5)[0] == pytest.approx(slow_infonce(W, V, 0.5), abs=1e-12)
    for name, (value, gradients) in all_losses(W, V, graph).items():
        pair = gradients if isinstance(gradients, tuple) else (gradients,)
        assert np.isfinite(value), name
        assert all(np.isfinite(g).all() for g in pair), name
        np.testing.assert_array_equal(pair[0][2], 0.0, err_msg=name)
        if len(pair) > 1:
            np.testing.assert_array_equal(pair[1][4], 0.0, err_msg=name)


def test_all_losses_ignore_the_length_of_rows(features):
    W, V = features
    graph = SignedGraph(LABELS)
    scale = np.random.default_rng(3).uniform(0.1, 10, (N, 1))
    scaled = all_losses(W * scale, V / scale, graph)
    for name, (value, _) in all_losses(W, V, graph).items():
        assert scaled[name][0] == pytest.approx(value, abs=1e-12), name


def test_float32_stays_float32_and_agrees(features):
    W, V = features
    graph = SignedGraph(LABELS)
    exact, single = all_losses(W, V, graph), all_losses(*np.float32((W, V)), graph)
    for name, (value, gradients) in exact.items():
        assert single[name][0] == pytest.approx(value, rel=1e-4, abs=1e-4), name
        fast = single[name][1]
        slow = gradients if isinstance(gradients, tuple) else (gradients,)
        for a, b in zip(fast if isinstance(fast, tuple) else (fast,), slow, strict=True):
            assert a.dtype == np.float32, name
            np.testing.assert_allclose(a, b, atol=1e-4, err_msg=name)

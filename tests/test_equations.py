"""Each equation once, in a few lines, under its own name; the details are in the other tests.

E18, the information criteria, is tested beside ``evaluate.rank``.
"""

import numpy as np
import pytest

from tensorcontrast import CPD, PLC, Algorithm1, suggest_windows
from tensorcontrast.cp import kernels, losses, updates
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.cp.graph import SignedGraph
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.solvers import als
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.solvers.paper import PLCContrast, TwoViewStep

N, R, DIMS = 12, 3, (4, 3, 5)
LABELS = np.arange(N) % 3
GRAPH = SignedGraph(LABELS)
RNG = np.random.default_rng(0)
X, X_VIEW = RNG.standard_normal((2, N, 60))
W, V = RNG.standard_normal((2, N, R))
FACTORS = [RNG.standard_normal((d, R)) for d in DIMS]

# What the equations are written in.
H = np.stack(
    [np.einsum("i,j,k->ijk", *(U[:, r] for U in FACTORS)).ravel() for r in range(R)], axis=1
)
W_HAT = W / np.linalg.norm(W, axis=1, keepdims=True)
V_HAT = V / np.linalg.norm(V, axis=1, keepdims=True)
S = np.where(LABELS[:, None] == LABELS, 1.0, -1.0) - np.eye(N)
L = np.eye(N) - S / (N - 1)


def trace(A, M, B):
    return np.trace(A.T @ M @ B)


@pytest.fixture(scope="module")
def data():
    return make_cp_tensor(
        n_samples=80, dims=(5, 4, 6), rank=3, n_classes=3, noise=0.4, random_state=0
    )[0]


def test_E1_cp_model():
    tensor = np.einsum("nr,ir,jr,kr->nijk", W, *FACTORS)
    np.testing.assert_allclose(kernels.cp_to_flat(W, FACTORS).reshape(tensor.shape), tensor)
    np.testing.assert_allclose(kernels.khatri_rao(FACTORS), H)


def test_E2_signed_graph():
    Z = np.eye(3)[LABELS]
    np.testing.assert_array_equal(S, 2 * Z @ Z.T - np.ones((N, N)) - np.eye(N))
    np.testing.assert_array_equal(GRAPH.dense(), S)
    np.testing.assert_allclose(GRAPH.product(V), S @ V, atol=1e-12)
    cheap = 2 * Z @ (Z.T @ V) - V.sum(axis=0) - V
    np.testing.assert_allclose(GRAPH.product(V), cheap, atol=1e-12)


def test_E3_laplacian():
    np.testing.assert_array_equal(np.abs(S).sum(axis=1), N - 1)
    assert GRAPH.degree == N - 1
    np.testing.assert_allclose(GRAPH.laplacian_product(V), L @ V, atol=1e-12)


def test_E4_same_view():
    assert losses.same_view(W, GRAPH)[0] == pytest.approx(trace(W_HAT, L, W_HAT))


def test_E5_cross_view():
    assert losses.cross_view(W, V, GRAPH, identity=True)[0] == pytest.approx(trace(W_HAT, L, V_HAT))
    dropped = trace(W_HAT, -S / (N - 1), V_HAT)
    assert losses.cross_view(W, V, GRAPH)[0] == pytest.approx(dropped)


def test_E6_trans_inv():
    assert losses.trans_inv(W, V)[0] == pytest.approx(trace(W_HAT, np.eye(N), V_HAT) / N)


@pytest.mark.parametrize("identity", [True, False])
def test_E7_plc(identity):
    gamma_paper = 0.07
    cross = losses.cross_view(W, V, GRAPH, identity=identity)[0]
    paper = -losses.trans_inv(W, V)[0] + gamma_paper * cross
    # Every term a sum over samples: N times the paper's, γ = N γ_paper.
    code = losses.plc(W, V, GRAPH, N * gamma_paper, identity=identity)[0]
    assert code == pytest.approx(N * paper)


def test_E8_objective():
    alpha, beta, gamma = 0.2, 0.5, 0.8
    value = losses.objective(X, X_VIEW, W, V, FACTORS, GRAPH, alpha=alpha, beta=beta, gamma=gamma)[
        0
    ]
    expected = 0.5 * ((X - W @ H.T) ** 2).sum() + 0.5 * ((X_VIEW - V @ H.T) ** 2).sum()
    expected += alpha * 0.5 * sum((A**2).sum() for A in (W, V, *FACTORS))
    expected += beta * losses.plc(W, V, GRAPH, gamma)[0]
    assert value == pytest.approx(expected)


def test_E9_feature_update():
    beta, gamma, alpha = 0.02, 0.7, 0.1
    h = (-np.eye(N) - gamma * S / (N - 1)) @ V_HAT
    np.testing.assert_allclose(losses.plc_pull(V_HAT, GRAPH, gamma), h, atol=1e-12)
    encoder = Encoder.from_factors(FACTORS, alpha)
    K = H.T @ H + alpha * np.eye(R)
    w = updates.contrast_features(X @ H, encoder, h, beta, tol=1e-13, max_iter=500).W
    norm = np.linalg.norm(w, axis=1, keepdims=True)
    w_hat = w / norm
    across = h - (h * w_hat).sum(axis=1, keepdims=True) * w_hat
    np.testing.assert_allclose(w, (X @ H - beta * across / norm) @ np.linalg.inv(K), atol=1e-9)


def test_E10_factor_update():
    alpha = 0.1
    Q = kernels.factor_products(X, W) + kernels.factor_products(X_VIEW, V)
    new, _ = kernels.update_factors(Q, W.T @ W + V.T @ V, FACTORS, alpha)
    U = list(FACTORS)
    both = X.reshape(N, *DIMS), X_VIEW.reshape(N, *DIMS)
    modes = ["nijk,nr,jr,kr->ir", "nijk,nr,ir,kr->jr", "nijk,nr,ir,jr->kr"]
    for k, product in enumerate(modes):
        others = [U[j] for j in range(3) if j != k]
        M = np.einsum(product, both[0], W, *others) + np.einsum(product, both[1], V, *others)
        G = W.T @ W + V.T @ V
        for other in others:
            G = G * (other.T @ other)
        U[k] = M @ np.linalg.inv(G + alpha * np.eye(R))
        np.testing.assert_allclose(new[k], U[k], atol=1e-10)
    np.testing.assert_allclose(kernels.gram(FACTORS), H.T @ H, atol=1e-10)


def test_E11_algorithm_1():
    alpha, beta, gamma = 0.1, 0.02, 0.7
    step = TwoViewStep(X, lambda: X_VIEW, PLCContrast(beta, gamma, 3, known=LABELS), alpha)
    monitor = Monitor("E11", max_iter=1, tol=0)
    factors = als.run(step, FACTORS, alpha=alpha, monitor=monitor, balance=False).factors
    encoder = Encoder.from_factors(FACTORS, alpha)

    def pull(other):
        return losses.plc_pull(losses.unit_rows(other)[0], GRAPH, gamma)

    # W, W̃ with β = 0 → graph → E9 for W, W̃ → E10 for each mode.
    first = updates.contrast_features(X @ H, encoder, pull(encoder(X_VIEW @ H)), beta).W
    second = updates.contrast_features(X_VIEW @ H, encoder, pull(first), beta).W
    np.testing.assert_allclose(step.memory.W, first, atol=1e-10)
    np.testing.assert_allclose(step.memory.V, second, atol=1e-10)
    Q = kernels.factor_products(X, first) + kernels.factor_products(X_VIEW, second)
    gram = first.T @ first + second.T @ second
    expected, _ = kernels.update_factors(Q, gram, FACTORS, alpha)
    for U, E in zip(factors, expected, strict=True):
        np.testing.assert_allclose(U, E, atol=1e-9)


def test_E12_transform(data):
    model = CPD(rank=3, alpha=0.05, random_state=0).fit(data)
    new = data[:7] * 1.3 + 0.2
    x = (new - model.center_).reshape(7, -1) / model.scale_
    D = np.einsum("ir,jr,kr->ijkr", *model.factors_).reshape(-1, 3)
    K = D.T @ D + np.diag(model.ridge_)
    np.testing.assert_allclose(model.transform(new), x @ D @ np.linalg.inv(K), atol=1e-9)
    np.testing.assert_allclose(model.center_, data.mean(axis=0), atol=1e-12)
    squared = ((data - data.mean(axis=0)) ** 2).reshape(len(data), -1).sum(axis=1)
    assert model.scale_ == pytest.approx(np.sqrt(squared.mean()))


def test_E13_linear_convergence():
    beta, alpha = 0.05, 0.1
    h = losses.plc_pull(V_HAT, GRAPH, 0.7)
    encoder = Encoder.from_factors(FACTORS, alpha)
    path = [encoder(X @ H)]
    for _ in range(60):
        path.append(updates.fixed_point(path[-1], X @ H, encoder, h, beta))
    norms = np.linalg.norm(path, axis=2)
    m, M = norms.min(axis=0), norms.max(axis=0)
    inverse = np.linalg.norm(np.linalg.inv(encoder.K), 2)
    bound = beta * (2 * m + M) * np.linalg.norm(h, axis=1) * inverse / m**3
    small = bound < 1
    assert small.any()
    error = np.linalg.norm(np.array(path) - path[-1], axis=2)
    assert (error[1:, small] <= bound[small] * error[:-1, small] + 1e-13).all()
    result = updates.contrast_features(X[small] @ H, encoder, h[small], beta)
    assert 0 < result.contraction <= bound[small].max()


@pytest.mark.parametrize("epsilon", [0.02, 0.2])
def test_E14_epsilon_region(data, epsilon):
    settings = {"rank": 3, "n_clusters": 3, "epsilon": epsilon, "random_state": 0, "tol": 1e-4}
    settings["max_iter"] = 200
    plain = Algorithm1(**settings, beta=0.0).fit(data)
    model = Algorithm1(**settings, beta="auto").fit(data)
    assert model.beta_ > 0
    limit = (1 + epsilon) * plain.reconstruction_error_
    assert plain.reconstruction_error_ < model.reconstruction_error_ <= limit * (1 + 1e-9)
    closed = PLC(**settings).fit(data)
    cpd = CPD(3, tol=1e-4, random_state=0).fit(data)
    limit = (1 + epsilon) * cpd.reconstruction_error_
    assert cpd.reconstruction_error_ < closed.reconstruction_error_ <= limit * (1 + 1e-6)


def test_E15_infonce():
    tau = 0.4
    cosines = W_HAT @ V_HAT.T
    expected = -np.trace(cosines) / N + tau * np.log(np.exp(cosines / tau).sum(axis=1)).mean()
    assert losses.infonce(W, V, tau)[0] == pytest.approx(expected)


def test_E16_expanded_plc():
    gamma = 0.3
    cosines = W_HAT @ V_HAT.T
    expected = -np.trace(cosines) / N + gamma / (N - 1) * (-S * cosines).sum()
    assert losses.expanded_plc(W, V, GRAPH, gamma)[0] == pytest.approx(expected)
    in_terms = -losses.trans_inv(W, V)[0] + gamma * losses.cross_view(W, V, GRAPH)[0]
    assert expected == pytest.approx(in_terms)  # E7 with the identity dropped


def test_E17_block_contrast():
    cosines = W_HAT @ V_HAT.T
    P, Q = (np.where(sign * S > 0, cosines, 0).sum(axis=1) for sign in (1, -1))
    block, pairwise = losses.block_contrast(W, V, GRAPH)
    np.testing.assert_allclose(block, -P + Q, atol=1e-12)
    np.testing.assert_allclose(pairwise, P + Q, atol=1e-12)
    assert (P < 0).any() and (P > 0).any()
    np.testing.assert_array_equal(block <= pairwise, P >= 0)


def test_E21_atd():
    delta = 0.01
    G = np.ones((N, N)) / N - (1 / N + delta) * np.eye(N)
    assert losses.atd(W, V, delta)[0] == pytest.approx(trace(W_HAT, G, V_HAT))
    np.testing.assert_allclose(losses.atd_pull(V_HAT, delta), G @ V_HAT, atol=1e-12)


def test_E22_coupled_blocks():
    own, scale = RNG.standard_normal((7, R)), 1.5  # a second block, and √λ of it
    Y = RNG.standard_normal((N, 7))
    factors = kernels.CoupledFactors([FACTORS, [scale * own]])
    both = np.concatenate([X, scale * Y], axis=1)
    np.testing.assert_allclose(kernels.khatri_rao(factors), np.concatenate([H, scale * own]))
    np.testing.assert_allclose(kernels.gram(factors), H.T @ H + scale**2 * own.T @ own)
    XH = X @ H + scale**2 * Y @ own
    np.testing.assert_allclose(both @ kernels.khatri_rao(factors), XH)
    new, _ = kernels.update_factors(W.T @ both, W.T @ W, factors, 0.1)
    alone, _ = kernels.update_factors(W.T @ X, W.T @ W, FACTORS, 0.1)
    np.testing.assert_allclose(new[0], alone[0])
    np.testing.assert_allclose(new[3], scale * Y.T @ W @ np.linalg.inv(W.T @ W + 0.1 * np.eye(R)))


def test_E23_nuisance_metric(data):
    model = PLC(rank=3, epsilon=0.2, random_state=0).fit(data)
    V, g = model.nuisance_directions_, model.nuisance_gains_
    M = np.eye(V.shape[1]) - V.T @ np.diag(g) @ V
    D = np.einsum("ir,jr,kr->ijkr", *model.factors_).reshape(-1, 3)
    x = (data - model.center_).reshape(len(data), -1) / model.scale_
    c = x @ M @ D @ np.linalg.inv(D.T @ M @ D + np.diag(model.ridge_))
    made = (c @ D.T * model.scale_).reshape(data.shape) + model.center_
    np.testing.assert_allclose(model.inverse_transform(model.transform(data)), made, atol=1e-8)
    assert ((g > 0) & (g < 1)).all() and (np.diff(g) < 1e-9).all()


def test_E24_suggestions():
    kind = np.repeat(np.arange(4), [30, 10, 20, 40])
    features = np.eye(4)[kind] + 0.05 * np.random.default_rng(0).normal(size=(100, 4))
    y = np.where(np.arange(100) == 99, 1, -1)  # a window of the largest cluster
    rows = (features - features.mean(0)) / features.std(0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    medoids = []
    for cluster in (0, 2, 1):  # uncovered, by size
        own = np.flatnonzero(kind == cluster)
        away = np.linalg.norm(rows[own] - rows[own].mean(0), axis=1)
        medoids.append(own[away.argmin()])
    assert suggest_windows(features, y, n=3, random_state=0).tolist() == medoids
    p = np.where((kind == 1)[:, None], [0.5, 0.5], [0.95, 0.05])  # 10·1 against 30·0.1 and 20·0.1
    first = suggest_windows(features, y, n=3, probability=p, random_state=0)
    assert first.tolist() == [medoids[2], medoids[0], medoids[1]]

"""Algorithm 1 and ATD: sweeps against slow loops, objectives that fall, epochs, the ε-region.

ATD is its paper's equation, not its public code, which updates only the first R rows of a batch and
turns the projector I − ŵŵᵀ into a scalar; both are tested for here.
"""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize

from tensorcontrast import Algorithm1
from tensorcontrast.cp import kernels, losses, updates
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.cp.graph import SignedGraph
from tensorcontrast.cp.kmeans import cluster
from tensorcontrast.errors import TensorContrastWarning
from tensorcontrast.solvers import als, paper
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.solvers.paper import ATDContrast, NoContrast, PLCContrast, TwoViewStep
from tensorcontrast.solvers.windows import ArrayWindows

ALPHA = 1e-3


def tensors(n=50, dims=(4, 3, 5), rank=3, seed=0):
    """Rows with classes, their noisy view, labels and factors to start from; mean norm² 1."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    means = 2.0 * np.eye(3, rank)[y]
    H = kernels.khatri_rao([rng.standard_normal((d, rank)) for d in dims])
    X = (means + 0.5 * rng.standard_normal((n, rank))) @ H.T
    X += 0.3 * X.std() * rng.standard_normal(X.shape)
    X -= X.mean(axis=0)
    X /= np.sqrt((X**2).sum(axis=1).mean())
    V = X + 0.3 * X.std() * rng.standard_normal(X.shape)
    start = [rng.standard_normal((d, rank + 1)) for d in dims]
    return X, V, y, [U / np.linalg.norm(U, axis=0) for U in start]


def two_views(X, V, contrast, alpha=ALPHA, **more):
    return TwoViewStep(X, lambda: V, contrast, alpha, **more)


def sweep(step, factors):
    """One sweep: new factors and its terms; features are in ``step.memory``."""
    monitor = Monitor("test", max_iter=1, tol=0)
    fit = als.run(step, factors, alpha=step.alpha, monitor=monitor, balance=False)
    return fit.factors, {name: values[-1] for name, values in fit.history.items()}


# ---------------------------------------------------------------------------- Algorithm 1


@pytest.mark.parametrize("beta", [0.0, 0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 20.0])
def test_sweeps_never_raise_E8(beta, gamma):
    X, V, y, factors = tensors()
    step = two_views(X, V, PLCContrast(beta, gamma, 3, known=y))  # all known: the graph is fixed
    last = np.inf
    for _ in range(10):
        factors, terms = sweep(step, factors)
        exact = losses.objective(
            X, V, step.memory.W, step.memory.V, factors, SignedGraph(y),
            alpha=ALPHA, beta=beta, gamma=gamma,
        )[0]  # fmt: skip
        assert terms["objective"] == pytest.approx(exact, rel=1e-9, abs=1e-9)
        assert exact <= last + 1e-10 * (1 + abs(exact))
        last = exact


CONTRASTS = {
    "no invariance": {"invariance": 0.0},
    "literal Laplacian": {"identity": True},
}


@pytest.mark.parametrize("beta", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("name", [*CONTRASTS, "ATD"])
def test_sweeps_of_the_other_contrasts_never_rise(name, beta):
    X, V, y, factors = tensors(seed=1)
    contrast = (
        ATDContrast(beta, 0.01)
        if name == "ATD"
        else PLCContrast(beta, 1.0, 3, known=y, **CONTRASTS[name])
    )
    step, last = two_views(X, V, contrast), np.inf
    for _ in range(10):
        factors, terms = sweep(step, factors)
        assert last == np.inf or terms["objective"] <= last + 1e-10 * (1 + abs(last))
        last = terms["objective"]


def test_terms_of_a_sweep():
    X, V, y, factors = tensors()
    step = two_views(X, V, PLCContrast(0.1, 0.8, 3, known=y), alpha=0.01)
    factors, terms = sweep(step, factors)
    W, W_view = step.memory.W, step.memory.V
    fit = losses.reconstruction(X, W, factors)[0] + losses.reconstruction(V, W_view, factors)[0]
    assert terms["reconstruction"] == pytest.approx(fit)
    error = np.sqrt(2 * fit / ((X**2).sum() + (V**2).sum()))
    assert terms["reconstruction_error"] == pytest.approx(error)
    assert terms["regularisation"] == pytest.approx(0.01 * losses.ridge(W, W_view, factors))
    graph = SignedGraph(y)
    assert terms["contrast"] == pytest.approx(losses.plc(W, W_view, graph, 0.8)[0])
    assert terms["trans_inv"] == pytest.approx(losses.trans_inv(W, W_view)[0])
    assert terms["cross_view"] == pytest.approx(losses.cross_view(W, W_view, graph)[0])


def test_alternate_views_is_E9_for_one_view_then_the_other():
    X, V, y, factors = tensors()
    H, encoder = kernels.khatri_rao(factors), Encoder.from_factors(factors, ALPHA)
    P, P_view, beta = X @ H, V @ H, 0.05

    def pull(rows):
        return losses.plc_pull(rows, SignedGraph(y), 1.2)

    W, W_view, terms = paper.alternate_views(P, P_view, encoder, pull, beta, paper.Memory())
    h = pull(losses.unit_rows(encoder(P_view))[0])
    np.testing.assert_array_equal(W, updates.contrast_features(P, encoder, h, beta).W)
    h = pull(losses.unit_rows(W)[0])
    np.testing.assert_array_equal(W_view, updates.contrast_features(P_view, encoder, h, beta).W)
    assert terms["contrast"] == pytest.approx(losses.plc(W, W_view, SignedGraph(y), 1.2)[0])
    assert terms["contraction"] > 0 and terms["inner_iterations"] >= 2


def slow_features(P, K_inverse, h, beta, tol=1e-3, max_iter=20):
    """E9 as it is written, for each window until it has settled."""
    W = np.array([p @ K_inverse for p in P])
    for n in range(len(P)):
        for _ in range(max_iter):
            norm = np.sqrt(sum(x * x for x in W[n]))
            w_hat = W[n] / norm
            across = h[n] - sum(a * b for a, b in zip(h[n], w_hat, strict=True)) * w_hat
            new = (P[n] - beta * across / norm) @ K_inverse
            change = np.linalg.norm(new - W[n]) / np.linalg.norm(new)
            W[n] = new
            if change <= tol:
                break
    return W


def slow_iteration(X, V, factors, y, alpha, beta, gamma):
    """One iteration of Algorithm 1 (E11) with loops over windows and N×N matrices."""
    n, rank = len(X), factors[0].shape[1]
    dims = [len(U) for U in factors]

    def outer(vectors):
        T = vectors[0]
        for v in vectors[1:]:
            T = np.multiply.outer(T, v)
        return T

    H = np.stack([outer([U[:, r] for U in factors]).ravel() for r in range(rank)], axis=1)
    K_inverse = np.linalg.inv(H.T @ H + alpha * np.eye(rank))
    W_0, V_0 = X @ H @ K_inverse, V @ H @ K_inverse  # β = 0
    if y is None:
        y = cluster(W_0, 3)[0]
    S = np.array([[0 if i == j else 1 if y[i] == y[j] else -1 for j in range(n)] for i in range(n)])
    M = -np.eye(n) - gamma * S / (n - 1)

    def unit(A):
        return np.array([a / np.linalg.norm(a) for a in A])

    W = slow_features(X @ H, K_inverse, M @ unit(V_0), beta)
    V_new = slow_features(V @ H, K_inverse, M @ unit(W), beta)
    both, samples = np.vstack([W, V_new]), np.vstack([X, V]).reshape(-1, *dims)
    factors = [U.copy() for U in factors]
    for k in range(len(dims)):
        design = np.zeros((len(both), *(d for j, d in enumerate(dims) if j != k), rank))
        for i in range(len(both)):
            for r in range(rank):
                others = [U[:, r] for j, U in enumerate(factors) if j != k]
                design[i, ..., r] = both[i, r] * (outer(others) if others else 1.0)
        A = design.reshape(-1, rank)
        unfolded = np.moveaxis(samples, k + 1, -1).reshape(-1, dims[k])
        factors[k] = np.linalg.solve(A.T @ A + alpha * np.eye(rank), A.T @ unfolded).T
    return W, V_new, factors, y


@pytest.mark.parametrize("dims", [(9,), (4, 5), (4, 3, 5), (3, 2, 3, 2)])
@pytest.mark.parametrize("labels", ["known", "clustered"])
def test_E11_a_sweep_is_one_iteration_of_algorithm_1(dims, labels):
    X, V, y, factors = tensors(n=30, dims=dims)
    known = y if labels == "known" else None
    alpha, beta, gamma = 0.1, 1e-4, 1.3
    step = two_views(X, V, PLCContrast(beta, gamma, 3, known=known), alpha)
    new, terms = sweep(step, factors)
    assert terms["damped"] == 0.0  # so that the plain E9 of the loop is what was done
    W, W_view, slow, classes = slow_iteration(X, V, factors, known, alpha, beta, gamma)
    graphs = [SignedGraph(np.asarray(c)).dense() for c in (step.memory.labels, classes)]
    np.testing.assert_array_equal(*graphs)
    np.testing.assert_allclose(step.memory.W, W, atol=1e-10)
    np.testing.assert_allclose(step.memory.V, W_view, atol=1e-10)
    plain = Encoder.from_factors(factors, alpha)(X @ kernels.khatri_rao(factors))
    assert np.abs(plain - W).max() > 1e-5  # the contrast did move the features
    for U, expected in zip(new, slow, strict=True):
        np.testing.assert_allclose(U, expected, atol=1e-9 * np.abs(expected).max())


def test_a_fit_of_50000_windows_makes_nothing_of_size_N_squared():
    n = 50_000
    rng = np.random.default_rng(0)
    W = rng.standard_normal((n, 5), dtype=np.float32)
    X = (W @ rng.standard_normal((5, 48), dtype=np.float32)).reshape(n, 6, 8)
    X += 0.1 * rng.standard_normal(X.shape, dtype=np.float32)
    model = Algorithm1(32, warm_up=1, n_clusters=5, max_iter=3, tol=0, random_state=0)
    tracemalloc.start()
    try:
        model.fit(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.rank_ == 32 and model.n_iter_ == 3 and model.labels_.shape == (n,)
    assert peak < 600e6  # one byte a pair of windows would be 2.5 GB


# ---------------------------------------------------------------------------- ATD

DELTA, BETA = 0.01, 0.02


def unit(W):
    return W / np.linalg.norm(W, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def problem():
    """Both views, H and the encoder of some factors: more windows than components."""
    X, V, _, factors = tensors(n=12, dims=(4, 5), rank=2)
    return X, V, factors, Encoder.from_factors(factors, 0.05)


def atd_objective(W, V, X, X_view, H, alpha=0.05):
    """E8 with the contrast of E21, written out."""
    n = len(X)
    G = np.full((n, n), 1.0 / n) - (1.0 / n + DELTA) * np.eye(n)
    value = 0.5 * np.sum((X - W @ H.T) ** 2) + 0.5 * np.sum((X_view - V @ H.T) ** 2)
    value += 0.5 * alpha * (np.sum(W**2) + np.sum(V**2))
    return value + BETA * np.trace(unit(W).T @ G @ unit(V))


def numerical_gradient(function, W, step=1e-6):
    gradient = np.empty_like(W)
    for index in np.ndindex(W.shape):
        up, down = W.copy(), W.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


def atd_features(problem, beta=BETA):
    """Features W for given W̃, by E9 to a tight tolerance."""
    X, X_view, factors, encoder = problem
    H = kernels.khatri_rao(factors)
    V = encoder(X_view @ H)
    h = losses.atd_pull(unit(V), DELTA)
    found = updates.contrast_features(X @ H, encoder, h, beta, tol=1e-13, max_iter=500)
    return found.W, V, h, H


def test_E21_the_update_is_the_minimum_of_the_objective(problem):
    X, X_view, *_ = problem
    W, V, _, H = atd_features(problem)

    def value(W):
        return atd_objective(W, V, X, X_view, H)

    np.testing.assert_allclose(numerical_gradient(value, W), 0.0, atol=1e-6)
    start = atd_features(problem, beta=0.0)[0]
    assert np.abs(numerical_gradient(value, start)).max() > 1e-4  # without the contrast it is not
    found = minimize(lambda w: value(w.reshape(W.shape)), start.ravel(), tol=1e-12)
    assert value(W) <= found.fun + 1e-9
    np.testing.assert_allclose(W, found.x.reshape(W.shape), atol=1e-4)


def test_E21_every_row_is_pulled_across_its_direction(problem):
    """w = (xH − β(I − ŵŵᵀ)h/‖w‖)(HᵀH + αI)⁻¹, projectors made in full; no scalar does it."""
    X, encoder = problem[0], problem[3]
    W, _, h, H = atd_features(problem)
    for n in range(len(X)):
        length = np.linalg.norm(W[n])
        projector = np.eye(len(W[n])) - np.outer(W[n], W[n]) / length**2
        expected = np.linalg.solve(encoder.K, X[n] @ H - BETA * projector @ h[n] / length)
        np.testing.assert_allclose(W[n], expected, rtol=1e-7)
    scalar = 1.0 - np.sum(unit(W) ** 2, axis=1, keepdims=True)  # what ŵŵᵀ is as a number: 1
    lengths = np.linalg.norm(W, axis=1, keepdims=True)
    elsewhere = np.linalg.solve(encoder.K, (X @ H - BETA * scalar * h / lengths).T).T
    assert np.abs(W - elsewhere).max() > 1e-5
    moved = np.linalg.norm(W - atd_features(problem, beta=0.0)[0], axis=1)
    assert len(moved) > W.shape[1] and (moved > 1e-6).all()


def test_E21_alternating_both_views_ends_where_both_gradients_are_zero(problem):
    X, X_view, factors, encoder = problem
    H, memory = kernels.khatri_rao(factors), paper.Memory()
    for _ in range(60):
        found = ATDContrast(BETA, DELTA)(X @ H, X_view @ H, encoder, memory)
        memory.W, memory.V = found.W, found.V
    W, V = found.W, found.V
    for gradient in (
        numerical_gradient(lambda W: atd_objective(W, V, X, X_view, H), W),
        numerical_gradient(lambda V: atd_objective(W, V, X, X_view, H), V),
    ):
        np.testing.assert_allclose(gradient, 0.0, atol=1e-4)


def test_E21_sweeps_end_where_the_gradient_of_the_factors_is_zero_too(problem):
    X, X_view, factors, _ = problem
    step, slopes = two_views(X, X_view, ATDContrast(BETA, DELTA), alpha=0.05), []

    def slope(factors):
        W, V = step.memory.W, step.memory.V

        def value(k, U):
            changed = [U if j == k else F for j, F in enumerate(factors)]
            ridge = 0.5 * 0.05 * sum(np.sum(F**2) for F in changed)
            return atd_objective(W, V, X, X_view, kernels.khatri_rao(changed)) + ridge

        gradients = [
            numerical_gradient(lambda U, k=k: value(k, U), U) for k, U in enumerate(factors)
        ]
        return max(np.abs(gradient).max() for gradient in gradients)

    for sweeps in range(1000):  # the last of the scale moves between modes slowly
        factors, _ = sweep(step, factors)
        if sweeps == 0:
            slopes.append(slope(factors))
    assert slope(factors) < 1e-3 * slopes[0]


# ---------------------------------------------------------------------------- no contrast


def test_without_contrast_it_is_the_cp_model_of_the_windows_of_both_views():
    X, V, y, factors = tensors()
    both = als.PlainStep(ArrayWindows(np.concatenate([X, V])), ALPHA)
    wanted = als.run(
        both, factors, alpha=ALPHA, monitor=Monitor("test", max_iter=9, tol=0), balance=False
    )
    for contrast in (NoContrast(), PLCContrast(0.0, 1.0, 3, known=y), ATDContrast(0.0, 0.01)):
        found = paper.fit_two_views(
            two_views(X, V, contrast), factors, monitor=Monitor("test", max_iter=9, tol=0),
            warm_up=0, batch_size=None, step_size=1.0, rng=np.random.default_rng(0),
        )  # fmt: skip
        for U, expected in zip(found.factors, wanted.factors, strict=True):
            np.testing.assert_allclose(U, expected, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------------- mini-batches


def test_a_step_goes_its_share_of_the_way_to_the_solution_of_the_batch():
    """U + s (U_batch − U), every mode."""
    X, V, _, factors = tensors()
    step = two_views(X, V, NoContrast())
    target, _ = sweep(step, factors)
    moved, terms = step.epoch(factors, len(X), 5e-3, np.random.default_rng(0))
    for U, T, M in zip(factors, target, moved, strict=True):
        np.testing.assert_allclose(M, U + 5e-3 * (T - U), rtol=1e-9)
    whole, own = step.epoch(factors, len(X), 1.0, np.random.default_rng(0))
    for T, M in zip(target, whole, strict=True):
        np.testing.assert_allclose(M, T, rtol=1e-9)
    assert np.isfinite([*terms.values(), *own.values()]).all()


@pytest.mark.parametrize(
    "contrast", [NoContrast(), ATDContrast(1e-3, 0.01), PLCContrast(1e-3, 1, 3)]
)
def test_epochs_of_mini_batches_lower_the_error(contrast):
    X, V, _, factors = tensors(n=200)
    monitor = Monitor("test", max_iter=40, tol=0)
    found = paper.fit_two_views(
        two_views(X, V, contrast), factors, monitor=monitor, warm_up=2, batch_size=33,
        step_size=0.2, rng=np.random.default_rng(0),
    )  # fmt: skip
    course = found.history["reconstruction_error"]
    assert course[0] > course[3] > course[-1]
    assert len(course) == 40 and found.gram.shape == (4, 4)
    full = paper.fit_two_views(
        two_views(X, V, NoContrast()), factors, monitor=Monitor("test", max_iter=200, tol=0),
        warm_up=0, batch_size=None, step_size=1.0, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found.error == pytest.approx(full.error, rel=0.05)


def test_known_labels_follow_their_windows_into_the_batches():
    X, V, y, factors = tensors(n=60)
    known = np.where(np.arange(60) % 2, y, -1)
    step = two_views(X, V, PLCContrast(0.01, 1.0, 3, known=known))
    factors, terms = step.epoch(factors, 20, 0.2, np.random.default_rng(0))
    assert np.isfinite(list(terms.values())).all()
    assert step.memory.rows is None


# ---------------------------------------------------------------------------- the ε-region


def search(epsilon, error_of, interrupt_at=None):
    """The β that is found where a fit with β has the error ``error_of(β)``."""
    tried = []

    def result(beta, interrupted=False):
        return als.FitResult([], np.zeros((1, 1)), {}, error_of(beta), True, interrupted)

    def trial(beta):
        tried.append(beta)
        if len(tried) == interrupt_at:
            raise KeyboardInterrupt
        return result(beta)

    beta, best = paper.largest_beta(result(0.0), trial, epsilon)
    assert best.error == error_of(beta)
    return beta, tried, best


@pytest.mark.parametrize("limit", [1e-4, 0.03, 0.5, 7.0])
def test_E14_the_largest_beta_within_the_region(limit):
    beta, tried, _ = search(0.1, lambda beta: 1.0 + 0.1 * beta / limit)
    assert 0.8 * limit <= beta <= limit
    assert len(tried) < 20


def test_E14_no_beta_at_all_and_any_beta():
    with pytest.warns(TensorContrastWarning, match="no β"):
        beta, *_ = search(0.1, lambda beta: 1.0 + (beta > 0))
    assert beta == 0.0
    assert search(0.1, lambda beta: 1.0)[0] == paper.MAX_BETA


def test_E14_ctrl_c_ends_the_search_with_the_best_so_far():
    beta, tried, best = search(0.1, lambda beta: 1.0 + 0.1 * beta, interrupt_at=3)
    assert len(tried) == 3 and best.interrupted
    assert beta == max(b for b in tried[:2] if b <= 1)

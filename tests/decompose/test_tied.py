"""E19 and E20: closed-form gradients against central differences, and their limits."""

import numpy as np
import pytest

from tensorcontrast.decompose import kernels, losses
from tensorcontrast.decompose.tied import Adam, standardise, tied_objective

RNG = np.random.default_rng(0)


def central(f, x, h=1e-6):
    out = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += h
        down[at] -= h
        out[at] = (f(up) - f(down)) / (2 * h)
    return out


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_E20_value_and_gradient(temperature):
    W, V = RNG.normal(size=(7, 4)), RNG.normal(size=(7, 4))
    labels = np.array([0, 1, 0, 2, 1, 0, 3])
    value, (g_w, g_v) = losses.graph_softmax(W, V, labels, temperature)
    slow = 0.0
    for i in range(7):
        w = W[i] / np.linalg.norm(W[i])
        logits = np.array([w @ v / np.linalg.norm(v) / temperature for v in V])
        log_softmax = logits - np.log(np.exp(logits).sum())
        slow -= np.mean([log_softmax[j] for j in range(7) if labels[j] == labels[i]]) / 7
    assert value == pytest.approx(slow, rel=1e-12)
    f = losses.graph_softmax
    np.testing.assert_allclose(g_w, central(lambda x: f(x, V, labels, temperature)[0], W), 1e-5)
    np.testing.assert_allclose(g_v, central(lambda x: f(W, x, labels, temperature)[0], V), 1e-5)


def test_E20_with_every_sample_its_own_class_is_E15():
    W, V = RNG.normal(size=(9, 3)), RNG.normal(size=(9, 3))
    value, (g_w, _) = losses.graph_softmax(W, V, np.arange(9), 0.3)
    infonce, (i_w, _) = losses.infonce(W, V, 0.3)
    assert value == pytest.approx(infonce / 0.3, rel=1e-12)
    np.testing.assert_allclose(g_w, i_w / 0.3, rtol=1e-10)


def test_E20_pulls_like_the_graph_for_a_large_temperature():
    W, V = RNG.normal(size=(8, 3)), RNG.normal(size=(8, 3))
    labels = np.array([0, 0, 1, 1, 0, 1, 0, 1])
    _, (g_w, _) = losses.graph_softmax(W, V, labels, 1e6)
    W_hat, norm = losses.unit_rows(W)
    V_hat = losses.unit_rows(V)[0]
    same = (labels[:, None] == labels) / 4
    pull = -(same - 1 / 8) @ V_hat / 8
    np.testing.assert_allclose(
        g_w * 1e6, losses.through_unit_rows(pull, W_hat, norm), rtol=1e-4, atol=1e-9
    )


def test_standardise_and_its_gradient():
    W, T = RNG.normal(size=(11, 3)) * [1, 5, 0.1] + 2, RNG.normal(size=(11, 3))
    Z, back = standardise(W)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=0), 1)
    f = lambda x: float((np.sin(standardise(x)[0]) * T).sum())  # noqa: E731
    np.testing.assert_allclose(back(np.cos(Z) * T), central(f, W), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("dims", [(6,), (3, 4), (2, 3, 4), (2, 3, 2, 2)])
@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_E19_gradient_for_every_factor(dims, beta):
    rng = np.random.default_rng(len(dims))
    X = rng.normal(size=(12, int(np.prod(dims))))
    V = X + 0.3 * rng.normal(size=X.shape)
    factors = [rng.normal(size=(d, 3)) for d in dims]
    labels = rng.integers(0, 3, size=12)

    def objective(factors):
        loss = lambda W, V: losses.graph_softmax(W, V, labels, 0.5)  # noqa: E731
        return tied_objective(X, V, factors, loss, alpha=0.05, beta=beta)

    value, gradients, terms = objective(factors)
    # The value by its definition.
    H = kernels.khatri_rao(factors)
    K = H.T @ H + 0.05 * np.eye(3)
    slow = 0.0
    features = []
    for data in (X, V):
        W = data @ H @ np.linalg.inv(K)
        features.append((W - W.mean(axis=0)) / W.std(axis=0))
        slow += (np.sum((data - W @ H.T) ** 2) + 0.05 * np.sum(W**2)) / 24
    assert terms["reconstruction"] == pytest.approx(slow, rel=1e-10)
    contrast = losses.graph_softmax(*features, labels, 0.5)[0]
    assert value == pytest.approx(slow + beta * contrast, rel=1e-10)
    for k, gradient in enumerate(gradients):

        def at(U, k=k):
            return objective([*factors[:k], U, *factors[k + 1 :]])[0]

        np.testing.assert_allclose(gradient, central(at, factors[k]), rtol=2e-4, atol=1e-7)


def test_adam_reaches_a_minimum_and_keeps_dtype():
    target = RNG.normal(size=(4, 2)).astype(np.float32)
    x, adam = [np.zeros((4, 2), dtype=np.float32)], Adam(0.1, total=300)
    for _ in range(300):
        x = adam.update(x, [x[0] - target])
    assert x[0].dtype == np.float32
    np.testing.assert_allclose(x[0], target, atol=1e-3)

"""E19 and E20: closed-form gradients against central differences, and their limits."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from tensorcontrast import CPD, PLC, Gradient, TensorContrastError, load_model
from tensorcontrast.cp import kernels, losses
from tensorcontrast.cp.graph import SignedGraph
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.solvers.gradient import Adam, standardise, tied_objective

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
    value, (g_w, g_v) = losses.graph_softmax(W, V, SignedGraph(labels), temperature)
    slow = 0.0
    for i in range(7):
        w = W[i] / np.linalg.norm(W[i])
        logits = np.array([w @ v / np.linalg.norm(v) / temperature for v in V])
        log_softmax = logits - np.log(np.exp(logits).sum())
        slow -= np.mean([log_softmax[j] for j in range(7) if labels[j] == labels[i]]) / 7
    assert value == pytest.approx(slow, rel=1e-12)
    f = losses.graph_softmax
    np.testing.assert_allclose(
        g_w, central(lambda x: f(x, V, SignedGraph(labels), temperature)[0], W), 1e-5
    )
    np.testing.assert_allclose(
        g_v, central(lambda x: f(W, x, SignedGraph(labels), temperature)[0], V), 1e-5
    )


def test_E20_of_a_very_low_temperature_stays_finite():
    W, V = (RNG.normal(size=(20, 40)).astype(np.float32) for _ in range(2))  # cosines far from 1
    labels = np.arange(20) % 4
    value, gradients = losses.graph_softmax(W, V, SignedGraph(labels), 1e-3)
    exact, wanted = losses.graph_softmax(
        W.astype(np.float64), V.astype(np.float64), SignedGraph(labels), 1e-3
    )
    assert value == pytest.approx(exact, rel=1e-4)
    for found, true in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(found, true, rtol=0, atol=1e-3 * np.abs(true).max())


def test_E20_with_every_sample_its_own_class_is_E15():
    W, V = RNG.normal(size=(9, 3)), RNG.normal(size=(9, 3))
    value, (g_w, _) = losses.graph_softmax(W, V, SignedGraph(np.arange(9)), 0.3)
    infonce, (i_w, _) = losses.infonce(W, V, 0.3)
    assert value == pytest.approx(infonce / 0.3, rel=1e-12)
    np.testing.assert_allclose(g_w, i_w / 0.3, rtol=1e-10)


def test_E20_pulls_like_the_graph_for_a_large_temperature():
    W, V = RNG.normal(size=(8, 3)), RNG.normal(size=(8, 3))
    labels = np.array([0, 0, 1, 1, 0, 1, 0, 1])
    _, (g_w, _) = losses.graph_softmax(W, V, SignedGraph(labels), 1e6)
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
        loss = lambda W, V: losses.graph_softmax(W, V, SignedGraph(labels), 0.5)  # noqa: E731
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
    contrast = losses.graph_softmax(*features, SignedGraph(labels), 0.5)[0]
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


def test_E20_weights_of_own_view_and_of_the_class():
    W, V = RNG.normal(size=(8, 3)), RNG.normal(size=(8, 3))
    labels = np.array([0, 0, 1, 1, 0, 2, 0, 1])
    known = np.array([-1, 0, -1, 1, 1, -1, -1, -1])
    graph = SignedGraph(labels, known)
    value, (g_w, g_v) = losses.graph_softmax(W, V, graph, 0.4, gamma=0.5, invariance=0.0)
    slow = 0.0
    for i in range(8):
        w = W[i] / np.linalg.norm(W[i])
        logits = np.array([w @ v / np.linalg.norm(v) / 0.4 for v in V])
        log_softmax = logits - np.log(np.exp(logits).sum())
        same = [j for j in range(8) if graph.dense()[i, j] > 0]
        slow -= np.mean([log_softmax[j] for j in same]) / 8 if same else 0.0
    assert value == pytest.approx(slow, rel=1e-12)  # the sample alone in its class is left out

    def f(W, V):
        return losses.graph_softmax(W, V, graph, 0.4, gamma=0.5, invariance=0.0)[0]

    np.testing.assert_allclose(g_w, central(lambda x: f(x, V), W), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(g_v, central(lambda x: f(W, x), V), rtol=1e-5, atol=1e-9)
    infonce = losses.graph_softmax(W, V, graph, 0.4, gamma=0.0)[0]
    assert infonce == pytest.approx(losses.infonce(W, V, 0.4)[0] / 0.4, rel=1e-12)


@pytest.fixture(scope="module")
def planted():
    X, y, *_ = make_cp_tensor(
        n_samples=300, dims=(5, 8, 6), rank=4, n_classes=3, n_nuisance=3, noise=0.5, random_state=1
    )
    return X.astype(np.float32), y


def tied_plc(**params):
    settings = {"rank": 6, "n_epochs": 8, "batch_size": 100, "n_clusters": 12, "random_state": 0}
    return build(PLC, solver="tied", **(settings | params))


def test_features_are_those_of_the_encoder(planted):
    X, _ = planted
    model = tied_plc().fit(X)
    np.testing.assert_allclose(model.features_, model.transform(X), rtol=1e-3, atol=1e-5)
    assert model.labels_.max() < 12
    for U in model.factors_:
        np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1, rtol=1e-5)
    assert model.score(X) == pytest.approx(1 - model.reconstruction_error_**2, abs=1e-4)


def test_the_contrast_falls_and_the_reconstruction_stays(planted):
    X, _ = planted
    # One temperature throughout: values at others are not to be compared.
    model = tied_plc(n_epochs=15, temperature=0.2).fit(X)
    contrast = np.array(model.history_["contrast"])
    contrast = contrast[np.isfinite(contrast)]
    assert len(contrast) == 15
    assert contrast[-1] < contrast[0]
    plain = CPD(rank=6, random_state=0).fit(X)
    assert model.reconstruction_error_ < 1.1 * plain.reconstruction_error_
    assert len({len(column) for column in model.history_.values()}) == 1


def test_true_labels_in_the_graph_bring_the_classes_out(planted):
    X, y = planted
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    def agreement(model):
        Z = StandardScaler().fit_transform(model.transform(X))
        found = KMeans(3, n_init=5, random_state=0).fit_predict(Z)
        return adjusted_rand_score(y, found)

    plain = CPD(rank=6, random_state=0).fit(X)
    taught = tied_plc(graph="true", n_epochs=40, beta=3.0, learning_rate=0.02).fit(X, y)
    assert agreement(taught) > agreement(plain) + 0.1
    half = np.where(np.arange(len(y)) % 2, y, -1)
    assert agreement(
        tied_plc(graph="true", n_epochs=40, beta=3.0, learning_rate=0.02).fit(X, half)
    ) > agreement(plain)


@pytest.mark.parametrize(
    "params",
    [
        {"contrast": "signed"},
        {"graph": "same-view"},
        {"gamma": 0.0},
        {"trans_inv": False},
        {"beta": 0.0},
        {"fresh_views": True},
        {"n_init": 2},
        {"dtype": "float64"},
        {"batch_size": Gradient().batch_size},
    ],
)
def test_every_form_gives_finite_features_and_is_repeatable(planted, params):
    X, _ = planted
    first, second = (tied_plc(**params).fit(X) for _ in range(2))
    assert np.isfinite(first.transform(X)).all()
    for U, V in zip(first.factors_, second.factors_, strict=True):
        np.testing.assert_array_equal(U, V)


def test_without_weight_it_stays_a_cpd(planted):
    X, _ = planted
    model = tied_plc(beta=0.0, n_epochs=3, learning_rate=1e-6).fit(X)
    plain = CPD(rank=6, random_state=0)
    plain.fit(X, view=None)
    assert model.reconstruction_error_ == pytest.approx(plain.reconstruction_error_, rel=0.05)


def test_epsilon_region_of_the_tied_solver(planted):
    X, _ = planted
    model = tied_plc(beta="auto", epsilon=0.02).fit(X)
    plain = tied_plc(beta=0.0, learning_rate=1e-9, n_epochs=1).fit(X)
    assert model.beta_ > 0
    assert model.reconstruction_error_ <= 1.02 * plain.reconstruction_error_ * 1.001


def test_callback_stops_and_ctrl_c_leaves_a_model(planted):
    X, _ = planted

    def stop(terms):
        return "contrast" in terms

    assert tied_plc(callback=stop).fit(X).history_["contrast"][-1] > 0

    def interrupt(terms):
        if "contrast" in terms:
            raise KeyboardInterrupt

    model = tied_plc(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.interrupted_
    assert np.isfinite(model.transform(X)).all()


def test_stream_and_file(planted, tmp_path):
    X, _ = planted
    model = tied_plc()
    for start in range(0, 300, 100):
        model.partial_fit(X[start : start + 100])
    assert model.n_samples_seen_ == 300
    assert model.score(X) > 0.3
    model.save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    loaded.partial_fit(X[:100])
    assert np.isfinite(loaded.transform(X)).all()


@pytest.mark.parametrize(
    "params",
    [{"temperature": 0.0}, {"n_epochs": 0}, {"learning_rate": -1.0}, {"contrast": "hinge"}],
)
def test_bad_parameters_of_the_tied_solver(planted, params):
    with pytest.raises(TensorContrastError, match=next(iter(params))):
        tied_plc(**params).fit(planted[0])

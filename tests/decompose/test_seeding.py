"""A few labels in the graph (decompose/seeding.py) and windows that follow each other."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tensorcontrast import PLC, ContrastiveFeatures
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.decompose import seeding
from tensorcontrast.decompose.graph import SignedGraph
from tensorcontrast.decompose.neighbours import Neighbours
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.evaluate.protocol import linear_probe


def blobs(n=300, r=4, distance=4.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    centres = distance * np.eye(3, r)
    return centres[y] + rng.normal(size=(n, r)), y


def test_log_likelihoods_are_those_of_the_normal_density():
    Z, y = blobs()
    found = seeding.log_likelihoods(Z, Z[:40], y[:40], 4)
    assert np.isneginf(found[:, 3]).all()
    means = np.stack([Z[:40][y[:40] == c].mean(axis=0) for c in range(3)])
    within = Z[:40] - means[y[:40]]
    from sklearn.covariance import ledoit_wolf

    covariance = ledoit_wolf(within, assume_centered=True)[0]
    covariance += 1e-3 * np.trace(covariance) / 4 * np.eye(4)
    slow = np.stack([multivariate_normal(m, covariance).logpdf(Z) for m in means], axis=1)
    difference = found[:, :3] - slow  # up to a constant a row
    np.testing.assert_allclose(difference - difference[:, :1], 0, atol=1e-6)


def test_beliefs_are_right_where_they_are_sure_and_keep_the_labels():
    Z, y = blobs(distance=5.0)
    known = np.full(len(y), -1)
    known[:30] = y[:30]
    known[0] = 2  # a wrong label stays what it is
    classes, weights = seeding.beliefs(Z, np.arange(len(y)) % 50 * 0 + y, known)
    np.testing.assert_array_equal(classes[:30], known[:30])
    assert (weights[:30] == 1).all()
    sure = classes >= 0
    assert sure[30:].mean() > 0.5
    assert (classes[30:][sure[30:]] == y[30:][sure[30:]]).mean() > 0.97
    assert (weights[~sure] == 0).all()
    assert ((weights[sure] >= seeding.SURE) & (weights[sure] <= 1)).all()


def test_nobody_is_sure_where_labels_say_nothing():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 6))
    known = np.full(400, -1)
    known[:40] = rng.integers(0, 2, 40)  # labels that have nothing to do with the features
    classes, _ = seeding.beliefs(Z, rng.integers(0, 20, 400), known)
    assert (classes[40:] >= 0).mean() < 0.1
    assert seeding.honest_temperature(Z[:40], known[:40], 2) > 3


@pytest.mark.parametrize("per_class", [1, 2])
def test_one_label_a_class_is_enough_to_go_on(per_class):
    Z, y = blobs(distance=8.0)
    known = np.full(len(y), -1)
    known[: 3 * per_class] = y[: 3 * per_class]
    classes, weights = seeding.beliefs(Z, y, known)
    sure = classes >= 0
    assert (classes[sure] == y[sure]).all()
    assert np.isfinite(weights).all()


def test_one_known_class_alone_spreads_to_nobody():
    Z, _ = blobs()
    known = np.full(len(Z), -1)
    known[:5] = 0
    classes, weights = seeding.beliefs(Z, np.zeros(len(Z), dtype=int), known)
    np.testing.assert_array_equal(classes, known)
    assert weights.sum() == 5


def test_the_weighted_graph_is_its_dense_self():
    rng = np.random.default_rng(0)
    labels, known = rng.integers(0, 4, 30), rng.integers(-1, 3, 30)
    weights = rng.random(30)
    graph, V = SignedGraph(labels, known, weights), rng.normal(size=(30, 5))
    S = np.zeros((30, 30))
    for i in range(30):
        for j in range(30):
            if i == j:
                continue
            m = weights[i] * weights[j] if known[i] >= 0 and known[j] >= 0 else 0.0
            pseudo, true = (1.0 if a[i] == a[j] else -1.0 for a in (labels, known))
            S[i, j] = (1 - m) * pseudo + m * true
    np.testing.assert_allclose(graph.dense(), S, atol=1e-12)
    np.testing.assert_allclose(graph.product(V), S @ V, atol=1e-10)
    rows = np.array([3, 7, 21])
    np.testing.assert_allclose(graph.among(rows).dense(), S[np.ix_(rows, rows)], atol=1e-12)


@pytest.fixture(scope="module")
def hard():
    X, y, *_ = make_cp_tensor(
        n_samples=600, dims=(5, 7, 6), rank=6, n_classes=3, noise=1.0, random_state=1
    )
    return X, y


def probe(model, X, y):
    W = model.transform(X)
    return linear_probe(W[:60], y[:60], W[300:], y[300:]).accuracy


@pytest.mark.parametrize("solver", ["tied", "als"])
def test_labels_with_unknown_ones_help_and_never_hurt(solver, hard):
    X, y = hard
    known = np.full(len(y), -1)
    known[:60] = y[:60]
    options = {"rank": 6, "solver": solver, "n_clusters": 20, "random_state": 0, "max_iter": 60}
    options |= {"beta": 1.0 if solver == "tied" else 0.03, "tol": 0}
    without = PLC(**options).fit(X[:300])
    having = PLC(**options).fit(X[:300], known[:300])
    assert probe(having, X, y) >= probe(without, X, y) - 0.01


def test_labels_without_unknown_ones_are_not_used(hard):
    X, y = hard
    options = {"rank": 4, "n_epochs": 3, "max_iter": 20, "tol": 1e-3, "random_state": 0}
    plain = PLC(**options).fit(X)
    for given in (y, y.astype(str), np.full(len(X), -1)):
        with pytest.warns(TensorContrastWarning, match="y"):
            same = PLC(**options).fit(X, given)
        np.testing.assert_array_equal(plain.factors_[0], same.factors_[0])
    some = PLC(**options).fit(X, np.where(np.arange(len(y)) < 60, y, -1))
    assert not np.array_equal(plain.factors_[0], some.factors_[0])


def test_neighbours_are_those_of_one_recording_in_the_order_of_time():
    near = Neighbours.of([1, 2, 1, 1, 2, 3], 6, 1.0)
    assert near.before.tolist() == [-1, -1, 0, 2, 1, -1]
    assert near.behind.tolist() == [2, 4, 3, -1, -1, -1]
    partners = np.stack([near.partners(np.random.default_rng(s)) for s in range(50)])
    assert set(partners[:, 2]) == {0, 3}
    assert set(partners[:, 0]) == {2}
    assert set(partners[:, 5]) == {5}
    never = Neighbours.of([1, 1, 1], 3, 0.0)
    assert never.partners(np.random.default_rng(0)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("solver", ["tied", "als"])
def test_neighbours_draw_windows_of_a_recording_together(solver):
    rng = np.random.default_rng(0)
    X, *_ = make_cp_tensor(n_samples=240, dims=(5, 6, 4), rank=5, noise=0.3, random_state=0)
    # Half of the components are of the recording, the others change from window to window.
    own = rng.normal(size=(240, 5, 6, 4)).astype(np.float32) * 0.3
    ids = np.repeat(np.arange(24), 10)
    X = X[ids * 10] + X * 0.7 + own
    options = {"rank": 5, "solver": solver, "random_state": 0, "n_clusters": 24}
    options |= {"beta": 2.0 if solver == "tied" else 0.1}
    options |= {"max_iter": 60, "tol": 0, "neighbour_weight": 1.0}

    def within(model):
        W = model.features_ - model.features_.mean(axis=0)
        W = W / np.linalg.norm(W, axis=1, keepdims=True)
        same = ids[:, None] == ids[None, :]
        C = W @ W.T
        return C[same].mean() - C[~same].mean()

    plain = PLC(**options).fit(X)
    near = PLC(**options).fit(X, sequence=ids)
    if solver == "als":  # its features are free, so its factors merely follow
        assert not np.array_equal(near.factors_[0], plain.factors_[0])
    else:
        assert within(near) > within(plain)


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        (np.zeros(3), "sequence has shape"),
        (np.zeros((20, 2)), "sequence has shape"),
        ([None] * 20, "holds None"),
        (["a", 1] * 10, None),
    ],
)
def test_bad_sequences(sequence, message):
    X = np.random.default_rng(0).normal(size=(20, 3, 4))
    if message is None:
        PLC(2, n_epochs=1, max_iter=5, tol=1.0).fit(X, sequence=sequence)
        return
    with pytest.raises(InvalidInputError, match=message):
        PLC(2).fit(X, sequence=sequence)


def test_signals_take_labels_and_sequences():
    rec = make_synthetic(n_samples=80, n_classes=2, random_state=0)
    model = ContrastiveFeatures(decompose=PLC(4, n_epochs=2, max_iter=30, tol=1e-2), random_state=0)
    y = np.where(np.arange(80) < 20, rec.y, -1)
    plain = model.fit(rec).transform(rec)
    both = model.fit(rec, y, sequence=rec.groups).transform(rec)
    assert both.shape == plain.shape
    assert not np.array_equal(both, plain)

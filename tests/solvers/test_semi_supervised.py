"""A few labels in the graph: whose class is known, and whose is nearly certain."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensorcontrast import PLC, Algorithm1, ContrastiveFeatures
from tensorcontrast.cp.graph import SignedGraph
from tensorcontrast.cp.kmeans import cluster_space
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.solvers.semi_supervised import (
    MIN_POSTERIOR,
    given_labels,
    lda_posteriors,
    likely_classes,
)


def blobs(n=99, r=4, distance=4.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    centres = distance * np.eye(3, r)
    return centres[y] + rng.normal(size=(n, r)), y


def some(y, count):
    return np.where(np.arange(len(y)) < count, y, -1)


def slow_posteriors(Z, y, labelled):
    """Normal densities of a new row, given the labelled ones and a common covariance."""
    names = np.unique(y[labelled])
    means = {c: Z[labelled & (y == c)].mean(axis=0) for c in names}
    within = np.stack([z - means[c] for z, c in zip(Z[labelled], y[labelled], strict=True)])
    covariance = ledoit_wolf(within, assume_centered=True)[0]
    covariance = covariance * len(within) / (len(within) - len(names)) + 1e-3 * np.eye(Z.shape[1])
    density = []
    for c in names:  # the mean of m rows varies by 1/m of the covariance
        wider = covariance * (1 + 1 / np.count_nonzero(labelled & (y == c)))
        density.append(multivariate_normal(means[c], wider).pdf(Z))
    density = np.stack(density, axis=1)
    return density / density.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("count", [6, 11, 40])
def test_posteriors_are_those_of_normal_densities_with_a_shrunken_covariance(count):
    W, y = blobs(distance=3.0)
    known = some(y, count)  # not as many of each: classes are as likely as each other all the same
    labelled = known >= 0
    Z = np.asarray(cluster_space(W), dtype=float)
    slow = slow_posteriors(Z, y, labelled)
    np.testing.assert_allclose(lda_posteriors(Z, labelled, known[labelled]), slow, atol=1e-9)
    classes, weights = likely_classes(W, known)
    best, certain = slow.max(axis=1), slow.max(axis=1) >= MIN_POSTERIOR
    inferred = certain & ~labelled
    np.testing.assert_array_equal((classes >= 0) & ~labelled, inferred)
    np.testing.assert_allclose(weights[inferred], best[inferred], rtol=1e-6)
    np.testing.assert_array_equal(classes[inferred], slow.argmax(axis=1)[inferred])


@pytest.mark.parametrize("count", [6, 9, 30])
@pytest.mark.parametrize("distance", [2.0, 4.0])
def test_who_is_certain_is_mostly_right_even_with_few_labels(distance, count):
    right = []
    for seed in range(8):
        W, y = blobs(distance=distance, seed=seed)
        classes, _ = likely_classes(W, some(y, count))
        inferred = (classes >= 0) & (np.arange(len(y)) >= count)
        right += (classes[inferred] == y[inferred]).tolist()
    assert len(right) > 8
    assert np.mean(right) > 0.85


def test_classes_are_right_where_they_are_certain_and_labels_are_kept():
    W, y = blobs(distance=5.0)
    known = some(y, 30)
    known[0] = 2  # a wrong label stays what it is
    classes, weights = likely_classes(W.astype(np.float32), known)
    np.testing.assert_array_equal(classes[:30], known[:30])
    assert (weights[:30] == 1).all()
    assert weights.dtype == np.float32
    certain = classes >= 0
    assert certain[30:].mean() > 0.5
    assert (classes[30:][certain[30:]] == y[30:][certain[30:]]).mean() > 0.97
    assert (weights[~certain] == 0).all()
    inferred = weights[30:][certain[30:]]
    assert ((inferred >= np.float32(MIN_POSTERIOR)) & (inferred <= 1)).all()


def test_few_are_certain_where_labels_say_nothing():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(100, 6))
    known = some(rng.integers(0, 2, 100), 40)  # labels that have nothing to do with the features
    classes, _ = likely_classes(W, known)
    assert (classes[40:] >= 0).mean() < 0.1


def test_three_labels_a_class_are_enough_to_go_on():
    W, y = blobs(distance=8.0)
    classes, weights = likely_classes(W, some(y, 9))
    certain = classes >= 0
    assert certain.sum() > 50
    assert (classes[certain] == y[certain]).all()
    assert np.isfinite(weights).all()


@pytest.mark.parametrize("known", [lambda y: some(y, 3), lambda y: some(0 * y, 5)])
def test_labels_without_spread_or_contrast_stay_alone(known):
    """One label a class, or one class alone."""
    W, y = blobs(distance=8.0)
    classes, weights = likely_classes(W, known(y))
    np.testing.assert_array_equal(classes, known(y))
    np.testing.assert_array_equal(weights, known(y) >= 0)
    assert classes is not known(y)


def test_numbers_of_classes_may_have_gaps():
    W, y = blobs(distance=6.0)
    classes, _ = likely_classes(W, some(np.array([1, 4, 7])[y], 30))
    assert set(classes) <= {-1, 1, 4, 7}
    assert (classes[30:] == np.array([1, 4, 7])[y[30:]]).mean() > 0.8


# ----------------------------------------------------------------------------- the graph


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


@pytest.mark.parametrize("graph", ["pseudo", "true"])
def test_E2_pseudo_classes_are_labels_where_these_are_known_and_clusters_elsewhere(graph):
    W, y = blobs(distance=5.0)
    known, model = some(y, 30), PLC(graph=graph)
    classes = model._pseudo_classes(W, 10, known)
    likely = known if graph == "true" else likely_classes(W, known)[0]
    joined = np.where(likely >= 0, likely, 100 + model._pseudo_classes(W, 10, None))
    np.testing.assert_array_equal(classes, np.unique(joined, return_inverse=True)[1])
    assert (likely[30:] >= 0).any() == (graph == "pseudo")
    np.testing.assert_array_equal(model._pseudo_classes(W, 10, y), y)


# ----------------------------------------------------------------------------- fits


@pytest.fixture(scope="module")
def hard():
    X, y, *_ = make_cp_tensor(
        n_samples=300, dims=(5, 7, 6), rank=6, n_classes=3, noise=1.0, random_state=1
    )
    return X, y


def probe(model, X, y):
    W, classifier = model.transform(X), make_pipeline(StandardScaler(), LogisticRegression())
    return classifier.fit(W[:40], y[:40]).score(W[100:], y[100:])


@pytest.mark.parametrize("cls", [PLC, Algorithm1])
def test_labels_with_unknown_ones_do_not_hurt(cls, hard):
    X, y = hard
    options = {"n_clusters": 12, "max_iter": 30, "tol": 0, "random_state": 0}
    without = cls(6, **options).fit(X[:100])
    having = cls(6, **options).fit(X[:100], some(y, 40)[:100])
    assert probe(having, X, y) >= probe(without, X, y) - 0.03


def test_labels_without_unknown_ones_are_not_used(hard):
    X, y = hard[0][:90], hard[1][:90]
    plain = PLC(4, random_state=0).fit(X).transform(X)
    for given in (y, y.astype(str), np.full(len(X), -1)):
        with pytest.warns(TensorContrastWarning, match="y"):
            same = PLC(4, random_state=0).fit(X, given)
        np.testing.assert_array_equal(plain, same.transform(X))
    partly = PLC(4, random_state=0).fit(X, some(y, 60)).transform(X)
    assert not np.array_equal(plain, partly)
    every = PLC(4, graph="true", random_state=0).fit(X, y).transform(X)
    assert not np.array_equal(plain, every)


def test_labels_that_are_needed_are_asked_for():
    with pytest.raises(InvalidInputError, match="labels"):
        given_labels(None, 4, needed=True)
    with pytest.raises(InvalidInputError, match="unknown"):
        given_labels([-1, -1, -1], 3, needed=True)
    assert given_labels(None, 4, needed=False) is None
    np.testing.assert_array_equal(given_labels(["b", "a", ""], 3, needed=False), [1, 0, -1])


def test_signals_take_labels():
    rec = make_synthetic(n_samples=60, n_classes=2, random_state=0)
    model = ContrastiveFeatures(decompose=PLC(4), random_state=0)
    plain = model.fit(rec).transform(rec)
    having = model.fit(rec, some(rec.y, 20)).transform(rec)
    assert having.shape == plain.shape == (60, 4)
    assert not np.array_equal(having, plain)
    assert len({(a, b) for a, b in zip(rec.y[:20], model.labels_[:20], strict=True)}) == 2

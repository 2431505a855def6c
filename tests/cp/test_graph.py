"""The signed graph against explicit N×N matrices, and the clustering that makes its labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from tensorcontrast.cp.graph import SignedGraph, label_change
from tensorcontrast.cp.kmeans import (
    MAX_STEPS,
    class_sums,
    cluster,
    cluster_space,
    nearest,
)
from tensorcontrast.errors import InvalidInputError

dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def explicit(labels, known=None):
    """S entry by entry: known pairs by label, all other pairs by cluster."""
    n = len(labels)
    S = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            if known is not None and known[i] >= 0 and known[j] >= 0:
                S[i, j] = 1.0 if known[i] == known[j] else -1.0
            else:
                S[i, j] = 1.0 if labels[i] == labels[j] else -1.0
    return S


def blobs(n=120, k=4, r=5, seed=0, spread=0.05, dtype="float64"):
    """Clusters far apart, with columns of very different scale and offset."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    means = rng.permutation(np.eye(max(k, r))[:k, :r] * 3 - 1)
    W = means[y] + spread * rng.standard_normal((n, r))
    return (W * np.logspace(-2, 2, r) + 10).astype(dtype), y


# -------------------------------------------------------------------- the graph


@dtypes
@pytest.mark.parametrize("mixed", [False, True])
def test_products_against_the_explicit_matrix(dtype, mixed):
    rng = np.random.default_rng(0)
    labels, V = rng.integers(0, 4, 40), rng.standard_normal((40, 6)).astype(dtype)
    known = np.where(rng.random(40) < 0.4, rng.integers(0, 3, 40), -1) if mixed else None
    before = V.copy()
    graph, S = SignedGraph(labels, known), explicit(labels, known)
    L = np.eye(40) - S / 39
    tolerance = {"rtol": 0, "atol": 1e-4 if dtype == "float32" else 1e-12}
    assert graph.product(V).dtype == V.dtype
    np.testing.assert_allclose(graph.product(V), S @ V.astype(np.float64), **tolerance)
    np.testing.assert_allclose(graph.laplacian_product(V), L @ V.astype(np.float64), **tolerance)
    np.testing.assert_array_equal(graph.dense(), S)
    np.testing.assert_array_equal(V, before)


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    n=st.integers(1, 15),
)
def test_product_for_any_labels(data, n):
    labels = data.draw(hnp.arrays(np.intp, n, elements=st.integers(0, 5)))
    known = data.draw(st.none() | hnp.arrays(np.intp, n, elements=st.integers(-1, 3)))
    graph = SignedGraph(labels, known)
    S = graph.product(np.eye(n))
    np.testing.assert_array_equal(S, explicit(labels, known))
    np.testing.assert_array_equal(S, S.T)


def test_degree_and_trivial_graphs():
    graph = SignedGraph(np.array([0, 1, 1, 0, 2]))
    np.testing.assert_array_equal(np.abs(graph.dense()).sum(axis=1), graph.degree)
    assert (graph.n_samples, graph.degree) == (5, 4)
    one_class = SignedGraph(np.zeros(6, dtype=np.intp))
    np.testing.assert_array_equal(one_class.dense(), 1 - np.eye(6))
    alone = SignedGraph(np.array([0]))  # no neighbours: no division by zero
    np.testing.assert_array_equal(alone.product(np.ones((1, 2))), 0.0)
    np.testing.assert_array_equal(alone.laplacian_product(np.ones((1, 2))), 1.0)


def test_laplacian_is_positive_semidefinite():
    rng = np.random.default_rng(1)
    graph = SignedGraph(rng.integers(0, 3, 30))
    L = graph.laplacian_product(np.eye(30))
    assert np.linalg.eigvalsh(L).min() > -1e-12


@dtypes
def test_class_sums(dtype):
    rng = np.random.default_rng(4)
    labels, V = rng.integers(0, 3, 17), rng.standard_normal((17, 4)).astype(dtype)
    labels[labels == 1] = 0  # a class that nobody is in
    slow = np.zeros((5, 4))
    for i, c in enumerate(labels):
        slow[c] += V[i]
    sums = class_sums(labels, V, 5)
    assert sums.dtype == np.float64
    np.testing.assert_allclose(sums, slow, atol=1e-5)


# -------------------------------------------------------------------- the clustering


def check_labels(labels, n):
    assert labels.shape == (n,) and labels.dtype == np.intp
    np.testing.assert_array_equal(np.unique(labels), np.arange(labels.max() + 1))


@dtypes
def test_clusters_are_found_and_have_no_gaps(dtype):
    W, y = blobs(dtype=dtype)
    before = W.copy()
    labels, centers = cluster(W, 4)
    check_labels(labels, len(W))
    assert adjusted_rand_score(y, labels) == 1.0
    V = cluster_space(W)
    means = np.array([V[labels == c].mean(axis=0) for c in range(4)])
    np.testing.assert_allclose(centers, means, atol=1e-4)
    np.testing.assert_array_equal(W, before)


@dtypes
def test_cluster_space_is_centred_and_scaled(dtype):
    W, _ = blobs(dtype=dtype)
    V = cluster_space(W)
    assert V.dtype == dtype and V.shape == W.shape
    np.testing.assert_allclose(V.mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(V.std(axis=0), 1.0, rtol=1e-4)
    exact = (W - W.mean(axis=0, dtype=np.float64)) / W.std(axis=0, dtype=np.float64)
    np.testing.assert_allclose(V, exact, atol=5e-3 if dtype == "float32" else 1e-10)


@dtypes
@pytest.mark.parametrize("value", [0.0, 0.1, -12345.678])
def test_constant_columns_carry_nothing(dtype, value):
    W, _ = blobs(dtype=dtype)
    W = W.copy()
    W[:, 2] = value
    V = cluster_space(W)
    assert np.isfinite(V).all()
    np.testing.assert_array_equal(V[:, 2], 0.0)
    labels, _ = cluster(W, 4)
    check_labels(labels, len(W))


@dtypes
def test_features_that_are_all_equal(dtype):
    W = np.full((12, 3), 0.1, dtype=dtype)
    np.testing.assert_array_equal(cluster_space(W), 0.0)
    labels, centers = cluster(W, 3)
    assert labels.shape == (12,) and np.isfinite(centers).all()
    np.testing.assert_array_equal(labels, labels[0])


def test_fewer_distinct_windows_than_clusters():
    # Some clusters stay empty; their numbers are kept for the next warm start.
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 3, 60)
        W = rng.standard_normal((3, 4))[y]
        labels, centers = cluster(W, 6)
        assert labels.min() >= 0 and labels.max() < 6
        assert adjusted_rand_score(y, labels) == 1.0
        assert centers.shape == (6, 4) and np.isfinite(centers).all()
        again, _ = cluster(W, 6, centers=centers)
        assert adjusted_rand_score(y, again) == 1.0
        np.testing.assert_array_equal(SignedGraph(labels).dense(), explicit(y))


@pytest.mark.parametrize("n_clusters", range(1, 7))
def test_windows_that_are_mostly_alike(n_clusters):
    W = np.array([[0.0], [5.0], [5.0], [5.0], [5.0], [5.0]])
    for rows in (W, W[::-1], 0 * W):
        labels, centers = cluster(rows, n_clusters)
        assert np.isfinite(centers).all() and len(centers) == n_clusters
        assert len(set(labels[rows[:, 0] == 5])) <= 1


def test_warm_start_keeps_the_numbering():
    W, _ = blobs()
    labels, centers = cluster(W, 4)
    moved = W + 0.01 * np.random.default_rng(1).standard_normal(W.shape)
    again, new_centers = cluster(moved, 4, centers=centers)
    np.testing.assert_array_equal(again, labels)
    assert new_centers.shape == centers.shape
    turned = centers[[2, 0, 3, 1]]
    renumbered, _ = cluster(moved, 4, centers=turned)
    np.testing.assert_array_equal(np.array([2, 0, 3, 1])[renumbered], labels)


def test_centers_of_another_shape_are_no_start():
    W, y = blobs()
    for centers in (np.zeros((3, 5)), np.zeros((4, 2))):
        labels, _ = cluster(W, 4, centers=centers)
        assert adjusted_rand_score(y, labels) == 1.0


@dtypes
def test_repeatable_to_the_bit(dtype):
    W = np.random.default_rng(0).standard_normal((700, 6)).astype(dtype)
    first, centers = cluster(W, 5)
    for _ in range(3):
        labels, again = cluster(W, 5)
        np.testing.assert_array_equal(labels, first)
        np.testing.assert_array_equal(again, centers)
    warm = [cluster(W, 5, centers=centers) for _ in range(3)]
    for labels, again in warm:
        np.testing.assert_array_equal(labels, warm[0][0])
        np.testing.assert_array_equal(again, warm[0][1])


def test_rounding_hardly_matters():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((500, 6))
    labels, _ = cluster(W, 20, n_starts=1)
    near, _ = cluster(W + 1e-9 * rng.standard_normal(W.shape), 20, n_starts=1)
    np.testing.assert_array_equal(near, labels)
    near, _ = cluster(W + 1e-4 * rng.standard_normal(W.shape), 20, n_starts=1)
    assert np.mean(near == labels) > 0.95


def test_warm_steps_are_those_of_lloyd():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((400, 3))
    V = cluster_space(W)
    centers = V[:4].copy()
    labels, found = cluster(W, 4, centers=centers)
    slow = KMeans(4, init=centers, n_init=1, max_iter=MAX_STEPS, tol=0).fit(V)
    np.testing.assert_allclose(found, slow.cluster_centers_, atol=1e-10)
    np.testing.assert_array_equal(labels, slow.labels_)


def test_fewer_samples_than_clusters():
    with pytest.raises(InvalidInputError, match=r"n_samples=3 .*n_clusters=4.*smaller n_clusters"):
        cluster(np.eye(3), 4)
    labels, _ = cluster(np.eye(3), 3)
    np.testing.assert_array_equal(np.sort(labels), np.arange(3))


def test_default_is_nearly_as_good_as_many_random_starts():
    W = np.random.default_rng(0).standard_normal((300, 3))
    labels, centers = cluster(W, 5)
    V = cluster_space(W)
    best = KMeans(5, n_init=20, random_state=5).fit(V)
    assert ((V - centers[labels]) ** 2).sum() < 1.1 * best.inertia_


def test_scale_and_offset_of_a_feature_do_not_matter():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((80, 3))
    a, _ = cluster(W, 3)
    b, _ = cluster(W * [1e-3, 1.0, 1e4] + [5.0, -3.0, 0.1], 3)
    np.testing.assert_array_equal(a, b)


def test_label_change():
    old, new = np.array([0, 1, 2, 2]), np.array([0, 1, 1, 2])
    assert label_change(old, new) == 0.25
    assert label_change(new, new) == 0.0
    assert label_change(None, new) == 1.0
    assert label_change(old[:2], new) == 1.0


def test_the_nearest_centre_is_that_of_a_loop():
    V, centers = np.random.default_rng(0).standard_normal((2, 20, 3))
    slow = [np.argmin([((v - c) ** 2).sum() for c in centers[:5]]) for v in V]
    np.testing.assert_array_equal(nearest(V, centers[:5]), slow)

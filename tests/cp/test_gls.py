"""The nuisance metric: generalised least squares written out, the ε-region, every path (E23)."""

import copy

import numpy as np
import pytest

from tensorcontrast import CPD, PLC, load_model
from tensorcontrast.cp import compress, gls, kernels
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import DamagedFileError, InvalidInputError
from tensorcontrast.solvers.tuning import Tuning
from tensorcontrast.utils import threads

DIMS, RANK, N = (5, 6, 4), 3, 90
FAST = {"rank": RANK, "max_iter": 80, "tol": 1e-4, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    """Tensors with nuisance in a few directions, and differences of such nuisance alone."""
    rng = np.random.default_rng(0)
    X = make_cp_tensor(n_samples=N, dims=DIMS, rank=RANK, noise=0.05, random_state=0)[0]
    X = X / X.std()
    ways = rng.normal(size=(4, X[0].size)) * np.array([[1.8], [1.2], [0.9], [0.6]])
    rows = rng.normal(size=(80, 4)) @ ways + 0.02 * rng.normal(size=(80, X[0].size))
    X = X.reshape(N, -1) + rng.normal(size=(N, 4)) @ ways
    return X.reshape(N, *DIMS).astype("f4"), rows.reshape(-1, *DIMS).astype("f4")


@pytest.fixture(scope="module")
def model(data):
    return build(PLC, **FAST).fit(data[0], nuisance=data[1])


@pytest.fixture(scope="module")
def plain(data):
    """The CPD that a fit starts from."""
    return build(PLC, **FAST, beta=0).fit(data[0])


def made_up(seed=0, i=20, r=3, q=4):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(4, r)), rng.normal(size=(5, r))]
    V = np.linalg.qr(rng.normal(size=(i, q)))[0].T
    return rng, factors, V, np.array([3.0, 1.0, 0.5, 0.1])


def dense(metric):
    """``M`` (i, i)."""
    V = metric.directions
    return np.eye(V.shape[1]) - V.T @ np.diag(metric.gains) @ V


# ----------------------------------------------------------------------------- the projector


@pytest.mark.parametrize("strength", [1e-3, 0.3, 10.0])
def test_E23_with_power_1_is_weighted_least_squares(strength):
    rng, factors, V, variances = made_up()
    X, H = rng.normal(size=(7, 20)), kernels.khatri_rao(factors)
    alpha = np.array([0.1, 0.2, 0.3])
    metric = gls.GLSMetric(V, gls.gains(variances, strength))
    np.testing.assert_allclose(metric.times(H), dense(metric) @ H, atol=1e-12)
    W = X @ gls.projector(factors, alpha, metric)
    # Nuisance of these deviations in these directions, on top of a unit variance in all.
    inverse = np.linalg.inv(np.eye(20) + V.T @ np.diag(np.sqrt(variances) / strength) @ V)
    for x, w in zip(X, W, strict=True):
        np.testing.assert_allclose(
            np.linalg.solve(H.T @ inverse @ H + np.diag(alpha), H.T @ inverse @ x), w, rtol=1e-7
        )
    # Another check, without normal equations: no small step makes the weighted misfit smaller.
    root = np.linalg.cholesky(inverse)

    def misfit(w):
        return float((((X[0] - H @ w) @ root) ** 2).sum() + (alpha * w**2).sum())

    for step in rng.normal(size=(20, 3)) * 1e-3:
        assert misfit(W[0] + step) > misfit(W[0])


@pytest.mark.parametrize("power", [0.5, 2 / 3, 1.0])
@pytest.mark.parametrize("given", [False, True])
def test_E23_written_out(given, power):
    _, factors, V, variances = made_up()
    metric = gls.GLSMetric(V, gls.gains(variances, 0.3)) if given else None
    found = gls.projector(factors, 0.05, metric, power)
    M, H = dense(metric) if given else np.eye(20), kernels.khatri_rao(factors)
    if power == 1.0:
        slow = M @ H @ np.linalg.inv(H.T @ M @ H + 0.05 * np.eye(3))
    else:
        unit = H / np.sqrt(np.diag(H.T @ M @ H))
        values, vectors = np.linalg.eigh(unit.T @ M @ unit + gls.OVERLAP_RIDGE * np.eye(3))
        slow = M @ unit @ vectors @ np.diag(values**-power) @ vectors.T
    np.testing.assert_allclose(found, slow, rtol=1e-8, atol=1e-10)


def test_gains_of_zero_are_the_identity():
    _, factors, V, _ = made_up()
    none = gls.GLSMetric(V, np.zeros(4))
    for power in (2 / 3, 1.0):
        np.testing.assert_allclose(
            gls.projector(factors, 0.1, none, power),
            gls.projector(factors, 0.1, None, power),
            rtol=1e-9,
        )


# ----------------------------------------------------------------------------- the overlap


def test_power_1_leaves_the_oblique_coordinates():
    _, factors, *_ = made_up()
    gram = kernels.gram(factors)
    np.testing.assert_array_equal(gls.overlap_mixing(gram, 0.1, 1.0), np.eye(3))


def test_power_one_half_keeps_distances_between_reconstructions():
    rng, factors, *_ = made_up()
    X, H = rng.normal(size=(9, 20)), kernels.khatri_rao(factors)
    oblique = X @ gls.projector(factors, 1e-12, None, 1.0)
    rows, made = X @ gls.projector(factors, 1e-12, None, 0.5, 1e-13), oblique @ H.T

    def distances(A):
        return np.linalg.norm(A[:, None] - A[None, :], axis=2)

    np.testing.assert_allclose(distances(rows), distances(made), rtol=1e-6, atol=1e-9)
    assert not np.allclose(distances(oblique), distances(made), rtol=0.05)


@pytest.mark.parametrize("given", [False, True])
def test_features_do_not_depend_on_scale_order_and_sign_of_components(given):
    rng, (A, B), V, variances = made_up()
    X, metric = rng.normal(size=(9, 20)), None
    if given:
        metric = gls.GLSMetric(V, gls.gains(variances, 0.3))
    W = X @ gls.projector([A, B], 1e-3, metric, gls.OVERLAP_POWER)
    scaled = [A * [3.0, 0.2, 40.0], B * [0.5, 7.0, 1.0]]
    np.testing.assert_allclose(
        X @ gls.projector(scaled, 1e-3, metric, gls.OVERLAP_POWER), W, rtol=1e-7, atol=1e-9
    )
    order = [2, 0, 1]
    moved = [A[:, order], B[:, order]]
    np.testing.assert_allclose(
        X @ gls.projector(moved, 1e-3, metric, gls.OVERLAP_POWER), W[:, order], atol=1e-9
    )
    signs = np.array([1.0, -1.0, 1.0])
    np.testing.assert_allclose(
        X @ gls.projector([A * signs, B], 1e-3, metric, gls.OVERLAP_POWER), W * signs, atol=1e-9
    )


def test_the_mixing_is_invertible_even_for_a_component_of_zero():
    rng, (A, B), *_ = made_up()
    X, H = rng.normal(size=(9, 20)), kernels.khatri_rao([A, B])
    T = gls.overlap_mixing(H.T @ H, 1e-3, gls.OVERLAP_POWER)
    W = X @ gls.projector([A, B], 1e-3, None, gls.OVERLAP_POWER)
    np.testing.assert_allclose(W @ np.linalg.inv(T), X @ gls.projector([A, B], 1e-3, None))
    A = A * [1.0, 0.0, 1.0]
    H = kernels.khatri_rao([A, B])
    T = gls.overlap_mixing(H.T @ H, 1e-3, gls.OVERLAP_POWER)
    assert np.linalg.matrix_rank(T) == 3
    W = X @ gls.projector([A, B], 1e-3, None, gls.OVERLAP_POWER)
    np.testing.assert_allclose(W[:, 1], 0, atol=1e-12)
    assert np.abs(W[:, [0, 2]]).min(axis=0).all()


# ----------------------------------------------------------------------------- directions


@pytest.mark.parametrize("size", [1.0, 1e-18, 1e15])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_directions_are_those_of_the_covariance(size, dtype):
    rng = np.random.default_rng(1)
    rows = (size * (rng.normal(size=(100, 6)) @ rng.normal(size=(6, 30)) + 5)).astype(dtype)
    V, variances, total = gls.principal_directions(rows)
    values, vectors = np.linalg.eigh(np.cov(rows.T.astype("f8") / size, bias=True))
    assert V.shape == (6, 30)
    assert V.dtype == rows.dtype
    np.testing.assert_allclose(variances / size**2, values[::-1][:6], rtol=1e-3)
    assert total / size**2 == pytest.approx(values.sum(), rel=1e-4)
    overlap = np.abs(V @ vectors[:, ::-1][:, :6])
    np.testing.assert_allclose(np.diag(overlap), 1, atol=1e-3)
    np.testing.assert_allclose(V @ V.T, np.eye(6), atol=1e-5)


def test_directions_do_not_depend_on_threads():
    rows = np.random.default_rng(0).normal(size=(300, 200)).astype("f4")
    first = gls.principal_directions(rows)
    with threads.limited("blas", 1):
        again = gls.principal_directions(rows)
    np.testing.assert_array_equal(again[0], first[0])
    np.testing.assert_array_equal(again[1], first[1])
    assert len(first[0]) == gls.TUNING.max_directions


def test_rows_that_do_not_vary_have_no_direction():
    assert gls.principal_directions(np.ones((9, 4), "f4")) is None


def test_gains_fall_with_the_strength_and_rise_with_the_deviation():
    variances = np.array([4.0, 1.0, 0.25])
    np.testing.assert_allclose(gls.gains(variances, 1.0), [2 / 3, 1 / 2, 1 / 3])
    assert (gls.gains(variances, 0.1) > gls.gains(variances, 1.0)).all()
    np.testing.assert_allclose(gls.gains(variances, 1e12), 0, atol=1e-11)


# ----------------------------------------------------------------------------- the strength


def slow_error(X, factors, alpha, V, gains):
    """‖X − WHᵀ‖/‖X‖ of features by generalised least squares, window by window."""
    H = kernels.khatri_rao(factors)
    metric = np.eye(len(H)) - V.T @ np.diag(gains) @ V
    left = 0.0
    for x in X:
        w = np.linalg.solve(H.T @ metric @ H + alpha * np.eye(H.shape[1]), H.T @ metric @ x)
        left += float(((x - H @ w) ** 2).sum())
    return np.sqrt(left / (X**2).sum())


def noisy(seed=0, n=100):
    rng, factors, V, variances = made_up(seed)
    H = kernels.khatri_rao(factors)
    X = rng.normal(size=(n, 3)) @ H.T + rng.normal(size=(n, 4)) @ (V * variances[:, None])
    return X, factors, V, variances, (V, variances, float(variances.sum()))


def test_the_metric_is_as_strong_as_the_region_allows():
    X, factors, V, variances, found = noisy()
    norm = float((X**2).sum())
    plain = slow_error(X, factors, 1e-3, V, np.zeros(4))
    before = None
    for room in (1.02, 1.1, 1.3):
        selected = gls.select_strength(X, norm, factors, 1e-3, found, room * plain)
        g = selected.metric.gains
        np.testing.assert_allclose(g, gls.gains(variances, selected.strength))
        error = slow_error(X, factors, 1e-3, V, g)
        assert error == pytest.approx(selected.rise * plain, rel=1e-6)
        assert plain < error <= room * plain * (1 + 1e-9)
        assert before is None or (g > before).all()
        before = g
    # All of the room that there could be: s ends at its least.
    most = gls.select_strength(X, norm, factors, 1e-3, found, 100.0)
    assert most.strength == pytest.approx(gls.TUNING.min_strength * np.sqrt(variances.sum()))


def test_the_error_of_E12_is_that_of_no_gains():
    X, factors, V, *_ = noisy()
    error = gls.ols_error(X, float((X**2).sum()), factors, 0.3)
    assert error == pytest.approx(slow_error(X, factors, 0.3, V, np.zeros(4)), rel=1e-9)


def test_the_strength_is_just_inside_the_limit():
    X, factors, V, variances, found = noisy()
    limit = 1.02 * slow_error(X, factors, 1e-3, V, np.zeros(4))
    tight = gls.select_strength(X, float((X**2).sum()), factors, 1e-3, found, limit)
    assert slow_error(X, factors, 1e-3, V, gls.gains(variances, tight.strength)) <= limit
    assert slow_error(X, factors, 1e-3, V, gls.gains(variances, 0.98 * tight.strength)) > limit


def test_there_is_no_metric_where_E12_is_outside_the_limit():
    X, factors, V, _, found = noisy()
    plain = slow_error(X, factors, 1e-3, V, np.zeros(4))
    norm = float((X**2).sum())
    assert gls.select_strength(X, norm, factors, 1e-3, found, 0.99 * plain) is None
    assert gls.select_strength(X, norm, factors, 1e-3, found, 1.01 * plain) is not None


def test_what_is_reconstructed_to_rounding_has_no_metric():
    rng, factors, V, variances = made_up()
    X = rng.normal(size=(50, 3)) @ kernels.khatri_rao(factors).T
    found = (V, variances, float(variances.sum()))
    assert gls.select_strength(X, float((X**2).sum()), factors, 1e-9, found, 1.0) is None


# ----------------------------------------------------------------------------- the contrast


def some_classes():
    rng = np.random.default_rng(3)
    classes = rng.integers(0, 5, 40)
    classes[classes == 2] = 3  # a number that nobody has
    classes[7] = 5  # a window that is alone
    return rng.normal(size=(40, 6)) + classes[:, None], classes


def test_deviations_are_those_from_the_mean_of_each_class():
    X, classes = some_classes()
    found = gls.within_class_deviations(X, classes, 100)
    for x, c, own in zip(X, classes, found, strict=True):
        np.testing.assert_allclose(own, x - X[classes == c].mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found[7], 0, atol=1e-12)


def test_E4_covariance_of_deviations_is_that_of_the_positive_laplacian():
    X, classes = some_classes()
    found = gls.within_class_deviations(X, classes, 100)
    joined = (classes[:, None] == classes[None, :]).astype(float)
    joined /= joined.sum(axis=1, keepdims=True)
    laplacian = np.diag(joined.sum(axis=1)) - joined
    np.testing.assert_allclose(found.T @ found / 40, X.T @ laplacian @ X / 40, atol=1e-12)


def test_deviations_of_some_windows_are_from_means_of_all():
    X, classes = some_classes()
    found = gls.within_class_deviations(X.astype("f4"), classes, 9)
    assert found.shape == (9, 6)
    assert found.dtype == np.float32
    every = gls.within_class_deviations(X.astype("f4"), classes, 40)
    np.testing.assert_array_equal(found, every[np.linspace(0, 39, 9).astype(int)])


def test_stacked_rows_have_the_sum_of_the_covariances():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(30, 5)) + 4, rng.normal(size=(12, 5)) * [1, 2, 3, 4, 5]
    found = gls.stacked([(A, 1.0), (B, 0.3), (A + B[:1], 0.0), (A[:0], 1.0)])
    assert found.shape == (42, 5)
    slow = np.cov(A.T, bias=True) + 0.3 * np.cov(B.T, bias=True)
    np.testing.assert_allclose(np.cov(found.T, bias=True), slow, atol=1e-10)
    assert gls.stacked([(A, 0.0)]) is None
    assert gls.stacked([]) is None
    assert gls.stacked([(A.astype("f4"), 0.5)]).dtype == np.float32


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_E23_classes_and_metric_are_found_from_each_other_in_turn(rounds):
    X, factors, _, _, _ = noisy()
    rng = np.random.default_rng(5)
    nuisance, norm, limit = rng.normal(size=(30, 20)) * np.linspace(0.1, 1, 20), (X**2).sum(), 0.9
    seen, given = [], [rng.integers(0, 8, len(X)) for _ in range(rounds)]

    def graph(W):
        seen.append(W)
        return given[len(seen) - 1]

    found, classes = gls.contrast_metric(
        X, norm, factors, 1e-3, nuisance, gls.Contrast(graph, 0.7, rounds), limit
    )
    assert len(seen) == rounds
    np.testing.assert_array_equal(classes, given[-1])

    def by_hand(*parts):
        rows = gls.principal_directions(gls.stacked(parts))
        return gls.select_strength(X, norm, factors, 1e-3, rows, limit)

    selected = by_hand((nuisance, 1.0))
    for W, own in zip(seen, given, strict=True):
        columns = gls.projector(factors, 1e-3, selected.metric, gls.OVERLAP_POWER)
        np.testing.assert_allclose(W, X @ columns, atol=1e-9)
        deviations = gls.within_class_deviations(X, own, gls.TUNING.max_deviations)
        selected = by_hand((nuisance, 1.0), (deviations, 0.7))
    assert found.strength == pytest.approx(selected.strength)
    np.testing.assert_allclose(found.metric.gains, selected.metric.gains)


def test_without_nuisance_and_graph_there_is_no_metric():
    X, factors, *_ = noisy()
    classes = np.arange(len(X)) % 4
    found, same = gls.contrast_metric(
        X, (X**2).sum(), factors, 1e-3, None, gls.Contrast(lambda W: classes, 0.0), 1.0
    )
    assert found is None
    np.testing.assert_array_equal(same, classes)
    found, _ = gls.contrast_metric(
        X, (X**2).sum(), factors, 1e-3, None, gls.Contrast(lambda W: classes, 1.0), 1.0
    )
    assert found is not None


# ----------------------------------------------------------------------------- the fit


def reconstructed(model, X):
    """‖x − x̂‖ over ‖x − mean‖ of all windows."""
    made = model.inverse_transform(model.transform(X))
    return np.linalg.norm(X - made) / np.linalg.norm(X - model.center_)


def test_a_fit_stays_inside_the_region(data, model, plain):
    X, rows = data
    assert ((model.nuisance_gains_ > 0) & (model.nuisance_gains_ < 1)).all()
    assert model.nuisance_directions_.shape == (len(model.nuisance_gains_), *DIMS)
    assert model.nuisance_strength_ > 0
    assert plain.reconstruction_error_ < model.reconstruction_error_
    assert model.reconstruction_error_ <= 1.05 * plain.reconstruction_error_ * (1 + 1e-5)
    assert model.reconstruction_error_ > 1.04 * plain.reconstruction_error_  # all room is used
    assert reconstructed(model, X) == pytest.approx(model.reconstruction_error_, rel=1e-4)
    # The features follow the nuisance less than those of the CPD do.
    moved = [
        np.linalg.norm(m.transform(X[:60] + rows[:60]) - m.transform(X[:60]))
        / np.linalg.norm(m.transform(X) - m.transform(X).mean(axis=0))
        for m in (model, plain)
    ]
    assert moved[0] < 0.9 * moved[1]
    wide = build(PLC, **FAST, epsilon=0.3).fit(X, nuisance=rows)
    assert wide.nuisance_strength_ < model.nuisance_strength_
    assert wide.reconstruction_error_ > model.reconstruction_error_


def test_factors_are_those_of_the_cpd_that_it_starts_from(data, model, plain):
    for mine, start in zip(model.factors_, plain.factors_, strict=True):
        np.testing.assert_array_equal(mine, start)


def test_inverse_transform_gives_the_reconstruction_of_oblique_coordinates(data, model):
    X = data[0]
    flat = ((X - model.center_) / model.scale_).reshape(N, -1).astype("f8")
    found = model._model.metric
    W = flat @ gls.projector(model.factors_, model.ridge_, found, 1.0).astype("f8")
    made = (W @ kernels.khatri_rao(model.factors_).T).reshape(X.shape) * model.scale_
    found = model.inverse_transform(model.transform(X)) - model.center_
    np.testing.assert_allclose(found, made, atol=1e-4 * np.abs(made).max())
    assert model.score(X) == pytest.approx(1 - model.reconstruction_error_**2, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compress": [3, 4, 3]},
        {"robust": "huber"},
        {"dtype": "float64"},
        {"center": False, "scale": False},
        {"gamma": 0.0},
        {"trans_inv": False},
        {"n_clusters": 4},
        {"batch_size": 40, "tol": 1e-3},
    ],
    ids=str,
)
def test_features_of_the_fit_are_those_of_transform(options, data):
    X, rows = data
    model = build(PLC, **FAST | options, epsilon=0.2).fit(X, nuisance=rows)
    assert model.nuisance_gains_ is not None
    assert model.view_features_ is None
    np.testing.assert_allclose(model.features_, model.transform(X), atol=2e-4)
    V = model.nuisance_directions_.reshape(len(model.nuisance_directions_), -1)
    np.testing.assert_allclose(V @ V.T, np.eye(len(V)), atol=1e-4)
    if "robust" not in options:  # whose error counts windows by their weight
        assert model.score(X) == pytest.approx(1 - model.reconstruction_error_**2, abs=1e-4)
        assert reconstructed(model, X) == pytest.approx(model.reconstruction_error_, rel=1e-3)


def test_beta_0_has_no_metric_but_divides_the_overlap(data, plain):
    X = data[0]
    assert plain.nuisance_gains_ is plain.nuisance_directions_ is plain.nuisance_strength_ is None
    assert (plain.beta_, plain.n_clusters_) == (0.0, 0)
    again = build(PLC, **FAST, beta=0).fit(X, nuisance=data[1])
    np.testing.assert_array_equal(again.transform(X), plain.transform(X))
    flat = ((X - plain.center_) / plain.scale_).reshape(N, -1).astype("f8")
    columns = gls.projector(kernels.in_float64(plain.factors_), plain.ridge_, None, 2 / 3)
    np.testing.assert_allclose(plain.transform(X), flat @ columns, atol=1e-4)
    np.testing.assert_allclose(plain.features_, plain.transform(X), atol=1e-5)
    assert reconstructed(plain, X) == pytest.approx(plain.reconstruction_error_, rel=1e-4)


def test_gamma_0_leaves_the_augmentations_alone(data):
    X, rows = data
    model = build(PLC, **FAST, gamma=0.0).fit(X, nuisance=rows)
    V, variances, _ = gls.principal_directions(rows.reshape(len(rows), -1) / model.scale_)
    by_hand = gls.gains(variances, model.nuisance_strength_)
    np.testing.assert_allclose(model.nuisance_gains_[:4], by_hand[:4], rtol=1e-3)
    assert (model.nuisance_gains_[4:] < 0.01).all()
    mine = model.nuisance_directions_.reshape(len(model.nuisance_gains_), -1)
    np.testing.assert_allclose(np.abs(mine[:4] @ V[:4].T), np.eye(4), atol=1e-3)
    assert build(PLC, **FAST, gamma=0.0).fit(X).nuisance_gains_ is None


def test_without_transformation_invariance_the_nuisance_is_not_used(data):
    X, rows = data
    off = build(PLC, **FAST, trans_inv=False).fit(X, nuisance=rows)
    none = build(PLC, **FAST).fit(X)
    assert none.nuisance_gains_ is not None  # of deviations within pseudo classes
    np.testing.assert_array_equal(off.nuisance_directions_, none.nuisance_directions_)
    np.testing.assert_array_equal(off.transform(X), none.transform(X))
    neither = build(PLC, **FAST, trans_inv=False, gamma=0.0).fit(X, nuisance=rows)
    assert neither.nuisance_gains_ is None


def test_without_nuisance_the_differences_of_views_are_it(data):
    X, rows = data
    view, y = X + np.resize(rows, X.shape), np.arange(N) % 9
    drawn = build(PLC, **FAST, graph="true").fit(X, y, view=view)
    given = build(PLC, **FAST, graph="true").fit(X, y, nuisance=view - X)
    assert drawn.nuisance_strength_ == pytest.approx(given.nuisance_strength_, rel=1e-3)
    np.testing.assert_allclose(drawn.transform(X), given.transform(X), atol=1e-3)
    np.testing.assert_allclose(drawn.view_features_, drawn.transform(view), atol=1e-4)


def test_views_may_be_drawn_by_a_function(data):
    X = data[0]

    def drawn(rng):
        return X + rng.normal(size=X.shape).astype("f4")

    model = build(PLC, **FAST).fit(X, view=drawn)
    assert model.nuisance_gains_ is not None
    assert model.view_features_.shape == model.features_.shape
    np.testing.assert_allclose(model.features_, model.transform(X), atol=1e-4)


def test_no_view_is_drawn_without_need(data):
    calls = []

    def never(X, rng):
        calls.append(len(X))
        return X

    assert build(PLC, **FAST).fit(data[0]).view_features_ is None
    found = build(PLC, **FAST, augment=never).fit(data[0])  # whoever gives one wants it
    assert calls
    assert found.view_features_.shape == found.features_.shape


def test_labels_of_the_fit_are_its_pseudo_classes(data, model):
    assert model.n_clusters_ == N // 4
    assert model.labels_.shape == (N,)
    assert 2 <= len(np.unique(model.labels_)) <= N // 4
    few = build(PLC, **FAST, n_clusters=5).fit(data[0], nuisance=data[1])
    assert few.n_clusters_ == 5
    assert set(few.labels_.tolist()) <= set(range(5))
    with pytest.raises(InvalidInputError, match="fewer than n_clusters=91"):
        build(PLC, **FAST, n_clusters=91).fit(data[0])


def test_true_labels_make_the_graph(data):
    X, rows = data
    y = np.arange(N) % 3
    found = build(PLC, **FAST, graph="true").fit(X, y, nuisance=rows)
    np.testing.assert_array_equal(found.labels_, y)
    flat = (X - found.center_).reshape(N, -1) / found.scale_
    parts = [
        (rows.reshape(len(rows), -1) / found.scale_, 1.0),
        (gls.within_class_deviations(flat, y, N), 1.0),
    ]
    _, variances, _ = gls.principal_directions(gls.stacked(parts))
    mine = found.nuisance_gains_
    by_hand = gls.gains(variances, found.nuisance_strength_)
    np.testing.assert_allclose(mine[:6], by_hand[:6], rtol=1e-2)
    with pytest.raises(InvalidInputError, match="graph from labels"):
        build(PLC, **FAST, graph="true").fit(X, nuisance=rows)


@pytest.mark.parametrize("graph", ["pseudo", "true"])
def test_some_labels_take_part_in_the_graph(graph, data):
    X, rows = data
    y = np.where(np.arange(N) < 30, np.arange(N) % 3, -1)
    found = build(PLC, **FAST, graph=graph).fit(X, y, nuisance=rows)
    for c in range(3):
        assert len(np.unique(found.labels_[:30][y[:30] == c])) == 1
    assert len(np.unique(found.labels_[:30])) == 3
    if graph == "true":  # nobody else is of these classes
        assert not set(found.labels_[:30]) & set(found.labels_[30:])
    np.testing.assert_array_equal(np.unique(found.labels_), np.arange(found.labels_.max() + 1))


def test_a_fit_without_nuisance_forgets_that_of_the_last_one(data):
    model = build(PLC, **FAST).fit(data[0], nuisance=data[1])
    model.set_params(beta=0).fit(data[0])
    assert model.nuisance_gains_ is None
    np.testing.assert_allclose(model.features_, model.transform(data[0]), atol=1e-5)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_few_windows_are_enough(n, data):
    X, rows = data
    model = build(PLC, **FAST | {"tol": 1e-3}).fit(X[:n], nuisance=rows)
    assert model.n_clusters_ == 2
    assert np.isfinite(model.transform(X)).all()
    assert reconstructed(model, X[:n]) == pytest.approx(model.reconstruction_error_, rel=1e-3)


@pytest.mark.parametrize("graph", ["pseudo", "true"])
def test_the_metric_of_many_windows_is_found_from_some(graph, data):
    X, rows = data
    y = np.where(np.arange(N) < 40, np.arange(N) % 2, -1)
    model = build(PLC, **FAST, graph=graph, epsilon=0.2)
    model._tuning = Tuning(max_descent_windows=60)
    model.fit(X, y, nuisance=rows)
    assert model.nuisance_gains_ is not None
    assert model.features_.shape == (N, RANK)
    assert model.labels_.shape == (N,)
    np.testing.assert_allclose(model.features_, model.transform(X), atol=1e-4)


def test_a_fit_that_is_interrupted_has_no_metric_yet(data):
    steps = []

    def stop(terms):
        steps.append(terms)
        if len(steps) == 3:
            raise KeyboardInterrupt

    model = build(PLC, **FAST, callback=stop)
    with pytest.raises(KeyboardInterrupt, match="after 3 iterations"):
        model.fit(data[0], nuisance=data[1])
    assert model.nuisance_gains_ is model.nuisance_strength_ is None
    assert model.n_clusters_ == 0
    np.testing.assert_allclose(model.features_, model.transform(data[0]), atol=1e-5)


def test_windows_with_gaps_have_no_metric(data):
    X = data[0].copy()
    X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
    model = build(PLC, **FAST | {"max_iter": 200}, missing="mask").fit(X)
    assert model.nuisance_gains_ is model.nuisance_strength_ is None
    assert np.isfinite(model.transform(X)).all()
    np.testing.assert_allclose(model.features_, model.transform(X), atol=1e-3)
    made, seen = model.inverse_transform(model.transform(X)), ~np.isnan(X)
    assert np.isfinite(made).all()
    rest = np.linalg.norm((X - made)[seen]) / np.linalg.norm((X - model.center_)[seen])
    assert rest == pytest.approx(model.reconstruction_error_, rel=1e-3)
    whole = data[0][:7]
    np.testing.assert_allclose(
        model.transform(whole), model.set_params(missing="error").transform(whole), atol=1e-4
    )


def test_cores_as_the_tensors_that_they_stand_for():
    rng = np.random.default_rng(0)
    bases = [np.linalg.qr(rng.normal(size=(d, j)))[0] for d, j in ((5, 3), (6, 2), (4, 4))]
    cores = rng.normal(size=(7, 24))
    whole = compress.expand_rows(cores, bases)
    slow = np.einsum("nabc,ia,jb,kc->nijk", cores.reshape(7, 3, 2, 4), *bases).reshape(7, -1)
    np.testing.assert_allclose(whole, slow, atol=1e-12)
    np.testing.assert_allclose(compress.project(whole.reshape(7, 5, 6, 4), bases), cores)


def test_cores_that_lose_nothing_give_the_same_metric(data):
    X, rows = data
    whole = build(PLC, **FAST, compress=None, gamma=0.0).fit(X, nuisance=rows)
    cores = build(PLC, **FAST, compress=list(DIMS), gamma=0.0).fit(X, nuisance=rows)
    assert cores.core_dims_ == DIMS
    assert cores.nuisance_strength_ == pytest.approx(whole.nuisance_strength_, rel=0.1)
    V, U = (m.nuisance_directions_.reshape(-1, X[0].size)[:4] for m in (whole, cores))
    np.testing.assert_allclose(np.abs(V @ U.T), np.eye(4), atol=0.01)


def test_coupled_blocks_take_coupled_nuisance(data):
    X, rows = data
    blocks = [X, X[:, :, 0, 0]]
    differences = [rows, rows[:, :, 0, 0]]
    model = build(PLC, **FAST).fit(blocks, nuisance=differences)
    assert model.nuisance_gains_ is not None
    np.testing.assert_allclose(model.features_, model.transform(blocks), atol=1e-4)
    assert model.nuisance_directions_.shape[1:] == tuple(model.dims_)
    made = model.inverse_transform(model.transform(blocks))
    assert [block.shape for block in made] == [block.shape for block in blocks]
    with pytest.raises(InvalidInputError, match="nuisance"):
        build(PLC, **FAST).fit(blocks, nuisance=rows)


def test_a_stream_goes_on_with_the_metric(data):
    model = build(PLC, **FAST).fit(data[0], nuisance=data[1])
    gains = model.nuisance_gains_.copy()
    model.partial_fit(data[0][:40])
    np.testing.assert_array_equal(model.nuisance_gains_, gains)
    np.testing.assert_allclose(model.features_, model.transform(data[0][:40]), atol=1e-5)
    with pytest.raises(InvalidInputError, match="windows without gaps"):
        model.set_params(missing="mask").partial_fit(data[0][:40])


def test_the_error_of_a_stream_is_that_of_its_features(data):
    model = build(PLC, **FAST).fit(data[0], nuisance=data[1]).partial_fit(data[0][:40])
    error = reconstructed(model, data[0][:40])
    assert model.reconstruction_error_ == pytest.approx(error, rel=1e-4)


def test_a_stream_from_the_start_has_no_metric(data):
    model = build(PLC, **FAST)
    for at in (0, 45):
        model.partial_fit(data[0][at : at + 45])
    assert model.nuisance_gains_ is None
    np.testing.assert_allclose(model.features_, model.transform(data[0][45:]), atol=1e-5)


def test_on_dask_as_in_memory(data):
    array = pytest.importorskip("dask.array")
    (X, rows), y = data, np.arange(N) % 9  # clusters would depend on rounding
    here = build(PLC, **FAST, graph="true").fit(X, y, nuisance=rows)
    chunks = array.from_array(X, chunks=(40, -1, -1, -1))
    there = build(PLC, **FAST, graph="true").fit(chunks, y, nuisance=rows)
    assert there.nuisance_strength_ == pytest.approx(here.nuisance_strength_, rel=0.02)
    found = np.asarray(there.transform(array.from_array(X, chunks=(50, -1, -1, -1))))
    np.testing.assert_allclose(found, here.transform(X), atol=5e-3)
    np.testing.assert_allclose(np.asarray(there.features_), found, atol=1e-4)


# ----------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((9, 5, 6)), r"shape \(9, 5, 6\)"),
        (np.zeros((1, *DIMS)), "at least 2"),
        (np.full((3, *DIMS), "a"), "real numbers"),
        (np.full((3, *DIMS), np.nan), r"nuisance\[0\] holds NaN"),
        (np.full((3, *DIMS), 1e300), r"nuisance\[0\] holds NaN, infinity or a value above"),
    ],
)
def test_wrong_nuisance_is_told_before_any_work(rows, message, data):
    steps = []
    model = build(PLC, **FAST, callback=steps.append)
    with pytest.raises(InvalidInputError, match=message):
        model.fit(data[0], nuisance=rows)
    assert not steps
    assert not hasattr(model, "factors_")


def test_who_cannot_take_nuisance_says_so(data):
    X, rows = data
    for solver in ("als", "tied"):
        with pytest.raises(InvalidInputError, match=f"solver='{solver}'"):
            build(PLC, **FAST, solver=solver).fit(X, nuisance=rows)
    with pytest.raises(InvalidInputError, match="missing='mask'"):
        build(PLC, **FAST, missing="mask").fit(X, nuisance=rows)


def test_gaps_are_filled_by_the_model_before_the_metric(data):
    X, rows = data
    model = build(PLC, **FAST).fit(X, nuisance=rows)
    whole = model.transform(X)
    Z = X.copy()
    Z[:10, 0, 0] = np.nan
    found = model.set_params(missing="mask").transform(Z)
    np.testing.assert_allclose(found[10:], whole[10:], atol=1e-5)
    assert 0 < np.linalg.norm(found[:10] - whole[:10]) < 0.5 * np.linalg.norm(whole[:10])


def test_nuisance_without_variance_is_none(data):
    X, y = data[0], np.arange(N) % 9
    still = build(PLC, **FAST, graph="true").fit(X, y, nuisance=np.ones((5, *DIMS)))
    none = build(PLC, **FAST, graph="true").fit(X, y)
    np.testing.assert_allclose(still.transform(X), none.transform(X), atol=2e-3)
    assert (
        build(PLC, **FAST, gamma=0.0).fit(X, nuisance=np.ones((5, *DIMS))).nuisance_gains_ is None
    )


def test_cpd_has_the_coordinates_of_E12(data):
    model = build(CPD, **FAST).fit(data[0])
    assert model.nuisance_gains_ is None
    assert model._model.mixing() is None


# ----------------------------------------------------------------------------- files


def test_files_keep_the_metric(data, model, tmp_path):
    path = tmp_path / "model.tcm"
    model.save(path)
    again = load_model(path)
    np.testing.assert_array_equal(again.nuisance_gains_, model.nuisance_gains_)
    np.testing.assert_array_equal(again.nuisance_directions_, model.nuisance_directions_)
    assert again.nuisance_strength_ == model.nuisance_strength_
    np.testing.assert_array_equal(again.transform(data[0]), model.transform(data[0]))
    W = model.transform(data[0])
    np.testing.assert_array_equal(again.inverse_transform(W), model.inverse_transform(W))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("nuisance_gains_", lambda a: a[:-1]),
        ("nuisance_gains_", lambda a: -a),
        ("nuisance_gains_", lambda a: a + 1),
        ("nuisance_gains_", lambda a: a.astype("f8")),
        ("nuisance_gains_", lambda a: None),
        ("nuisance_directions_", lambda a: None),
        ("nuisance_directions_", lambda a: a[:, :-1]),
        ("nuisance_directions_", lambda a: a.astype("i4")),
    ],
)
def test_files_with_a_metric_that_does_not_fit_are_refused(name, change, model, tmp_path):
    model = copy.copy(model)
    setattr(model, name, change(getattr(model, name)))
    model.save(tmp_path / "model.tcm")
    with pytest.raises(DamagedFileError, match="nuisance directions"):
        load_model(tmp_path / "model.tcm")


@pytest.mark.parametrize("name", ["nuisance_gains_", "nuisance_directions_"])
def test_a_metric_that_is_not_finite_is_never_written(name, model, tmp_path):
    model = copy.copy(model)
    setattr(model, name, np.full_like(getattr(model, name), np.nan))
    with pytest.raises(InvalidInputError, match=f"the learned {name} holds NaN"):
        model.save(tmp_path / "model.tcm")
    assert not (tmp_path / "model.tcm").exists()

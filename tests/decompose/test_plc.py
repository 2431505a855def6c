"""PLC in closed form: inside the ε-region, with its pseudo classes, wherever windows are (E23)."""

import numpy as np
import pytest

from tensorcontrast import CPD, PLC, load_model
from tensorcontrast.cp import kernels, metric
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.errors import InvalidInputError, TensorContrastError
from tensorcontrast.solvers.metric import within_class_deviations
from tensorcontrast.solvers.windows import ArrayWindows

DIMS, RANK, N = (5, 6, 4), 3, 90
FAST = {"rank": RANK, "max_iter": 30, "random_state": 0}


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
    return PLC(**FAST).fit(data[0], nuisance=data[1])


@pytest.fixture(scope="module")
def plain(data):
    """The CPD that a fit starts from."""
    return CPD(**FAST, tol=0).fit(data[0])


def reconstructed(model, X):
    """‖x − x̂‖ over ‖x − mean‖ of all windows."""
    made = model.inverse_transform(model.transform(X))
    return np.linalg.norm(X - made) / np.linalg.norm(X - model.center_)


# ---------------------------------------------------------------------------- the ε-region


def test_E14_a_fit_stays_inside_the_region(data, model, plain):
    X, rows = data
    for mine, start in zip(model.factors_, plain.factors_, strict=True):
        np.testing.assert_array_equal(mine, start)
    assert ((model.nuisance_gains_ > 0) & (model.nuisance_gains_ < 1)).all()
    assert model.nuisance_directions_.shape == (len(model.nuisance_gains_), X[0].size)
    V = model.nuisance_directions_
    np.testing.assert_allclose(V @ V.T, np.eye(len(V)), atol=1e-4)
    assert plain.reconstruction_error_ < model.reconstruction_error_
    assert model.reconstruction_error_ <= 1.05 * plain.reconstruction_error_ * (1 + 1e-5)
    assert model.reconstruction_error_ > 1.04 * plain.reconstruction_error_  # all room is used
    assert reconstructed(model, X) == pytest.approx(model.reconstruction_error_, rel=1e-4)
    assert model.score(X) == pytest.approx(1 - model.reconstruction_error_**2, abs=1e-5)
    wide = PLC(**FAST, epsilon=0.3).fit(X, nuisance=rows)
    assert wide.nuisance_strength_ < model.nuisance_strength_
    assert wide.reconstruction_error_ > model.reconstruction_error_


def test_features_follow_the_nuisance_less_than_those_of_the_cpd(data, model, plain):
    X, rows = data
    moved = [
        np.linalg.norm(m.transform(X[:60] + rows[:60]) - m.transform(X[:60]))
        / np.linalg.norm(m.transform(X) - m.transform(X).mean(axis=0))
        for m in (model, plain)
    ]
    assert moved[0] < 0.9 * moved[1]


def test_E23_transform_is_the_equation(data, model):
    X = data[0]
    flat = ((X - model.center_) / model.scale_).reshape(N, -1).astype("f8")
    V, g = model.nuisance_directions_.astype("f8"), model.nuisance_gains_
    M, H = np.eye(len(V.T)) - V.T @ np.diag(g) @ V, kernels.khatri_rao(model.factors_).astype("f8")
    unit = H / np.sqrt(np.diag(H.T @ M @ H))
    values, vectors = np.linalg.eigh(unit.T @ M @ unit + metric.OVERLAP_RIDGE * np.eye(RANK))
    slow = flat @ M @ unit @ vectors @ np.diag(values**-metric.OVERLAP_POWER) @ vectors.T
    np.testing.assert_allclose(model.transform(X), slow, atol=1e-4 * np.abs(slow).max())
    K = H.T @ M @ H + np.diag(model.ridge_)
    oblique = flat @ M @ H @ np.linalg.inv(K)
    made = (oblique @ H.T).reshape(X.shape) * model.scale_
    found = model.inverse_transform(model.transform(X)) - model.center_
    np.testing.assert_allclose(found, made, atol=1e-4 * np.abs(made).max())


@pytest.mark.parametrize(
    "options",
    [{"dtype": "float64"}, {"center": False, "scale": False}, {"n_clusters": 4}],
    ids=str,
)
def test_the_error_is_that_of_transform(options, data):
    X, rows = data
    model = PLC(**FAST | options, epsilon=0.2).fit(X, nuisance=rows)
    assert model.nuisance_gains_ is not None
    assert model.score(X) == pytest.approx(1 - model.reconstruction_error_**2, abs=1e-4)
    assert reconstructed(model, X) == pytest.approx(model.reconstruction_error_, rel=1e-3)


# ---------------------------------------------------------------------------- what the nuisance is


def test_gamma_0_leaves_the_augmentations_alone(data):
    X, rows = data
    model = PLC(**FAST, gamma=0.0).fit(X, nuisance=rows)
    V, variances, _ = metric.principal_directions(rows.reshape(len(rows), -1) / model.scale_)
    by_hand = metric.gains(variances, model.nuisance_strength_)
    np.testing.assert_allclose(model.nuisance_gains_[:4], by_hand[:4], rtol=1e-3)
    assert (model.nuisance_gains_[4:] < 0.01).all()
    np.testing.assert_allclose(
        np.abs(model.nuisance_directions_[:4] @ V[:4].T), np.eye(4), atol=1e-3
    )
    assert PLC(**FAST, gamma=0.0).fit(X).nuisance_gains_ is None


def test_nuisance_without_variance_is_none(data):
    X, y = data[0], np.arange(N) % 9
    still = PLC(**FAST, graph="true").fit(X, y, nuisance=np.ones((5, *DIMS)))
    none = PLC(**FAST, graph="true").fit(X, y)
    np.testing.assert_allclose(still.transform(X), none.transform(X), atol=2e-3)
    assert PLC(**FAST, gamma=0.0).fit(X, nuisance=np.ones((5, *DIMS))).nuisance_gains_ is None


def test_gaps_are_filled_by_the_model_before_the_metric(data):
    X, rows = data
    model = PLC(**FAST).fit(X, nuisance=rows)
    whole = model.transform(X)
    Z = X.copy()
    Z[:10, 0, 0] = np.nan
    found = model.set_params(missing="mask").transform(Z)
    np.testing.assert_allclose(found[10:], whole[10:], atol=1e-5)
    assert 0 < np.linalg.norm(found[:10] - whole[:10]) < 0.5 * np.linalg.norm(whole[:10])


# ---------------------------------------------------------------------------- pseudo classes


def test_labels_of_the_fit_are_its_pseudo_classes(data, model):
    assert model.n_clusters_ == N // 4
    assert model.labels_.shape == (N,)
    assert 2 <= len(np.unique(model.labels_)) <= N // 4
    few = PLC(**FAST, n_clusters=5).fit(data[0], nuisance=data[1])
    assert few.n_clusters_ == 5 and set(few.labels_.tolist()) <= set(range(5))
    with pytest.raises(InvalidInputError, match="n_clusters=91"):
        PLC(**FAST, n_clusters=91).fit(data[0])


@pytest.mark.parametrize("kind", ["names", "column", "numbers"])
def test_true_labels_make_the_graph(kind, data):
    X, rows = data
    y = np.arange(N) % 3
    given = {"names": np.array(["a", "b", "c"])[y], "column": y[:, None], "numbers": 7 * y + 3}[
        kind
    ]
    found = PLC(**FAST, graph="true").fit(X, given, nuisance=rows)
    np.testing.assert_array_equal(found.labels_, y)
    flat = ((X - found.center_) / found.scale_).reshape(N, -1).astype("f8")
    nuisance = rows.reshape(len(rows), -1).astype("f8") / found.scale_
    deviations = within_class_deviations(ArrayWindows(flat), y)
    C = np.cov(nuisance.T, bias=True) + np.cov(deviations.T, bias=True)
    variances = np.linalg.eigvalsh(C)[::-1]
    by_hand = metric.gains(variances, found.nuisance_strength_)
    np.testing.assert_allclose(found.nuisance_gains_[:6], by_hand[:6], rtol=1e-2)


@pytest.mark.parametrize("graph", ["pseudo", "true"])
def test_some_labels_take_part_in_the_graph(graph, data):
    X, rows = data
    y = np.where(np.arange(N) < 30, np.arange(N) % 3, -1)
    found = PLC(**FAST, graph=graph).fit(X, y, nuisance=rows)
    for c in range(3):
        assert len(np.unique(found.labels_[:30][y[:30] == c])) == 1
    assert len(np.unique(found.labels_[:30])) == 3
    if graph == "true":  # no other window is of these classes
        assert not set(found.labels_[:30]) & set(found.labels_[30:])
    np.testing.assert_array_equal(np.unique(found.labels_), np.arange(found.labels_.max() + 1))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_few_windows_are_enough(n, data):
    X, rows = data
    model = PLC(2, random_state=0).fit(X[:n], nuisance=rows)
    assert model.n_clusters_ == 2
    assert np.isfinite(model.transform(X)).all()
    assert reconstructed(model, X[:n]) == pytest.approx(model.reconstruction_error_, rel=1e-3)


# ---------------------------------------------------------------------------- other inputs


def test_on_dask_as_in_memory(data):
    da = pytest.importorskip("dask.array")
    (X, rows), y = data, np.arange(N) % 9  # clusters would depend on rounding
    here = PLC(**FAST, graph="true").fit(X, y, nuisance=rows)
    there = PLC(**FAST, graph="true")
    there.fit(da.from_array(X, chunks=(40, -1, -1, -1)), y, nuisance=rows)
    assert there.nuisance_strength_ == pytest.approx(here.nuisance_strength_, rel=1e-3)
    found = np.asarray(there.transform(da.from_array(X, chunks=(50, -1, -1, -1))))
    np.testing.assert_allclose(found, here.transform(X), atol=1e-3)


def test_coupled_blocks_take_coupled_nuisance(data):
    X, rows = data
    blocks, differences = [X, X[:, :, 0, 0]], [rows, rows[:, :, 0, 0]]
    model = PLC(**FAST).fit(blocks, nuisance=differences)
    assert model.nuisance_directions_.shape[1:] == tuple(model.dims_)
    made = model.inverse_transform(model.transform(blocks))
    assert [block.shape for block in made] == [block.shape for block in blocks]
    for wrong in (rows, differences[:1], [rows, rows[:, :, 0]], [rows, [[1], [2, 3]]], 3):
        with pytest.raises(InvalidInputError, match="nuisance"):
            PLC(**FAST).fit(blocks, nuisance=wrong)


@pytest.mark.parametrize(
    "rows", [np.zeros((9, 5, 6)), np.full((3, *DIMS), np.nan), "a", 3, [[1], [2, 3]], {}]
)
def test_wrong_nuisance_is_told_before_any_work(rows, data):
    steps = []
    model = PLC(**FAST, callback=steps.append)
    with pytest.raises(TensorContrastError, match="nuisance"):
        model.fit(data[0], nuisance=rows)
    assert not steps and not hasattr(model, "factors_")


# ---------------------------------------------------------------------------- files


def test_files_keep_the_metric(data, model, tmp_path):
    model.save(tmp_path / "m.tcm")
    again = load_model(tmp_path / "m.tcm")
    np.testing.assert_array_equal(again.nuisance_gains_, model.nuisance_gains_)
    np.testing.assert_array_equal(again.nuisance_directions_, model.nuisance_directions_)
    assert again.nuisance_strength_ == model.nuisance_strength_
    W = model.transform(data[0])
    np.testing.assert_array_equal(again.transform(data[0]), W)
    np.testing.assert_array_equal(again.inverse_transform(W), model.inverse_transform(W))

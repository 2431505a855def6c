"""CPD, ATD and PLC as scikit-learn transformers: the model, reproducibility."""

import pickle

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from tests.matching import factor_match_score
from threadpoolctl import threadpool_limits

from tensorcontrast import ATD, CPD, PLC, Algorithm1
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.utils import threads

ALL = [CPD, ATD, PLC]
DIMS = {2: (12,), 3: (6, 9), 4: (6, 8, 7), 5: (4, 5, 4, 5)}


@pytest.fixture(scope="module")
def planted():
    """X (90, 6, 8, 7) of rank 3 with 5 % noise, its classes and factors."""
    X, y, _, factors = make_cp_tensor(90, (6, 8, 7), 3, noise=0.05, random_state=0)
    return X, y, factors


# ---------------------------------------------------------------------------- the model


@pytest.mark.parametrize("order", [3, 4, 5])
@pytest.mark.parametrize("cls", ALL)
def test_planted_factors_are_found(cls, order):
    X, _, _, factors = make_cp_tensor(90, DIMS[order], 3, noise=0.05, random_state=order)
    model = cls(rank=3, random_state=1).fit(X)
    assert factor_match_score(model.factors_, factors) > 0.99
    assert model.reconstruction_error_ < 0.08


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("cls", ALL)
def test_factors_are_in_normal_form(cls, order, dtype):
    X, *_ = make_cp_tensor(40, DIMS[order], 3, dtype=dtype, random_state=1)
    model = cls(rank=3, random_state=0).fit(X)
    assert [U.shape for U in model.factors_] == [(d, 3) for d in DIMS[order]]
    for U in model.factors_:
        assert U.dtype == dtype
        np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1.0, rtol=1e-5)
        assert (U[np.abs(U).argmax(axis=0), range(3)] > 0).all()
    assert (np.diff(model.weights_) <= 0).all()
    if cls is CPD:  # the others have features in another metric, or pulled by the contrast
        rms = np.sqrt(np.mean(np.square(model.transform(X), dtype=np.float64), axis=0))
        np.testing.assert_allclose(model.weights_, rms, rtol=1e-4)
    np.testing.assert_allclose(
        np.sqrt(np.diag(model.feature_gram_) / 40), model.weights_, rtol=1e-4
    )
    assert model.transform(X).shape == (40, 3)
    assert model.transform(X).dtype == dtype


@pytest.mark.parametrize("cls", ALL)
def test_fit_transform_is_fit_then_transform(cls, planted):
    X, y, _ = planted
    y = np.where(np.arange(len(y)) % 2, -1, y) if cls is PLC else None
    model = cls(rank=3, random_state=0)
    np.testing.assert_array_equal(model.fit_transform(X, y), model.fit(X, y).transform(X))


def test_transform_solves_the_ridge_problem(planted):
    """E12 by a dense least-squares solve of each sample, with the ridge of the normal form."""
    X, *_ = planted
    model = CPD(rank=3, alpha=0.1, random_state=0).fit(X)
    H = np.einsum("ir,jr,kr->ijkr", *model.factors_).reshape(-1, 3)
    rows = ((X - model.center_) / model.scale_).reshape(len(X), -1)
    slow = np.array([np.linalg.solve(H.T @ H + np.diag(model.ridge_), H.T @ x) for x in rows])
    np.testing.assert_allclose(model.transform(X), slow, rtol=1e-9, atol=1e-12)
    assert model.ridge_.max() > 0


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
def test_inverse_transform_rebuilds_with_the_reported_error(planted, center, scale):
    X, *_ = planted
    X = X + 2.0
    model = CPD(rank=4, center=center, scale=scale, random_state=0, tol=1e-4).fit(X)
    rebuilt = model.inverse_transform(model.transform(X))
    mean = X.mean(axis=0) if center else 0.0
    error = np.linalg.norm(X - rebuilt) / np.linalg.norm(X - mean)
    np.testing.assert_allclose(error, model.reconstruction_error_, rtol=1e-6)
    np.testing.assert_allclose(model.score(X), 1 - error**2, rtol=1e-9)
    np.testing.assert_allclose(model.center_, np.broadcast_to(mean, X.shape[1:]), atol=1e-12)
    size = np.sqrt(np.square(X - mean).sum() / len(X))
    np.testing.assert_allclose(model.scale_, size if scale else 1.0)


def test_history_ends_at_the_reported_error(planted):
    X, *_ = planted
    model = CPD(rank=3, max_iter=60, tol=0, random_state=0).fit(X)
    error = model.history_["reconstruction_error"][-1]
    np.testing.assert_allclose(error, model.reconstruction_error_, rtol=1e-3)
    # ½‖X − X̂‖² of data whose mean squared norm is 1.
    np.testing.assert_allclose(model.history_["reconstruction"][-1], 0.5 * 90 * error**2)


# ---------------------------------------------------------------------------- scikit-learn


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("cls", ALL)
def test_pipeline_with_a_classifier_and_string_labels(cls, order):
    X, y, *_ = make_cp_tensor(80, DIMS[order], 3, noise=0.05, separation=8, random_state=2)
    names = np.array(["rest", "walk", "run"])[y]
    pipe = make_pipeline(cls(rank=3, random_state=0), LogisticRegression(C=100))
    assert pipe.fit(X[:60], names[:60]).score(X[60:], names[60:]) > 0.9


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (CPD(random_state=0), {"rank": [1, 3]}),
        (ATD(rank=3, random_state=0), {"rank": [1, 3], "beta": [1e-4, 1e-3]}),
        (
            Algorithm1(rank=3, n_clusters=3, max_iter=50, tol=0, random_state=0),
            {"rank": [1, 3], "beta": [0.0, 0.03]},
        ),
    ],
)
def test_grid_search_finds_the_planted_rank(model, grid, planted):
    X, *_ = planted
    search = GridSearchCV(model, grid, cv=2).fit(X)
    assert search.best_params_["rank"] == 3
    assert search.best_score_ > 0.9


@pytest.mark.parametrize("cls", ALL)
def test_clone_set_params_and_pickle(cls, planted):
    X, *_ = planted
    model = cls(rank=2, alpha=0.01, random_state=5).fit(X)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "factors_")
    assert fresh.set_params(rank=3) is fresh
    assert fresh.fit(X).rank_ == 3
    thawed = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(thawed.transform(X), model.transform(X))
    assert thawed.history_.keys() == model.history_.keys()


def _fit(model, X):
    return model.fit(X).factors_


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib_gives_what_a_plain_loop_gives(backend, planted):
    X, *_ = planted
    models = [cls(rank=3, random_state=0) for cls in ALL]
    # One BLAS thread, as loky gives its workers, so that results can be equal to the bit.
    with threadpool_limits(1):
        plain = [_fit(clone(model), X) for model in models]
        jobs = Parallel(2, backend=backend)(delayed(_fit)(clone(m), X) for m in models)
    for a, b in zip(plain, jobs, strict=True):
        for U, V in zip(a, b, strict=True):
            np.testing.assert_allclose(U, V, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cls", ALL)
def test_set_output_pandas_and_feature_names(cls, planted):
    X, *_ = planted
    model = cls(rank=3, random_state=0)
    plain = model.fit_transform(X)
    names = [f"component_{i}" for i in range(3)]
    assert model.get_feature_names_out().tolist() == names
    frame = model.set_output(transform="pandas").transform(X)
    assert frame.columns.tolist() == names
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    frame = clone(model).set_output(transform="pandas").fit_transform(X)
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    rebuilt = model.inverse_transform(frame)
    assert rebuilt.shape == X.shape
    np.testing.assert_allclose(model.score(X), 1 - _relative(X, rebuilt) ** 2, rtol=1e-6)


def _relative(X, rebuilt):
    return np.linalg.norm(X - rebuilt) / np.linalg.norm(X - X.mean(axis=0))


# ---------------------------------------------------------------------------- reproducible


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cls", ALL)
def test_one_seed_gives_the_same_bits_and_others_do_not(cls, dtype, planted):
    X = planted[0].astype(dtype)
    runs = [cls(rank=3, random_state=seed).fit(X) for seed in (0, 0, 1)]
    for U, V in zip(runs[0].factors_, runs[1].factors_, strict=True):
        np.testing.assert_array_equal(U, V)
    assert not np.array_equal(runs[0].factors_[0], runs[2].factors_[0])


def test_a_random_state_object_is_used_up(planted):
    X, *_ = planted
    state = np.random.RandomState(3)
    a, b = (CPD(rank=3, random_state=state).fit(X).factors_[0] for _ in range(2))
    again = CPD(rank=3, random_state=np.random.RandomState(3)).fit(X).factors_[0]
    assert not np.array_equal(a, b)
    np.testing.assert_array_equal(a, again)


@pytest.mark.parametrize("cls", ALL)
def test_threads_change_no_bit(cls, planted, monkeypatch):
    X = planted[0]
    fits = []
    for count in (1, 2):
        with threadpool_limits(count):
            monkeypatch.setattr(threads, "WORTH_THREADS", 1 if count > 1 else 2**28)
            monkeypatch.setattr(threads, "allowed", lambda count=count: count)
            fits.append(cls(rank=3, random_state=0).fit(X))
    for U, V in zip(fits[0].factors_, fits[1].factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=1e-9)
    np.testing.assert_allclose(fits[0].transform(X), fits[1].transform(X), atol=1e-9)

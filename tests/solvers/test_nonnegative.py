"""Non-negative factors: monotone, at the minimum, parts that were planted; refusals."""

import numpy as np
import pytest
from scipy.optimize import nnls
from tests.matching import factor_match_score

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    ContrastiveFeatures,
    SpectrogramTensor,
    load_model,
)
from tensorcontrast.cp import kernels
from tensorcontrast.cp import nonnegative as hals
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.errors import InvalidInputError


def data(seed=0, noise=0.1, dtype=np.float64, rank=4):
    X, y, W, factors = make_cp_tensor(
        120, (6, 10, 8), rank, noise=noise, nonnegative=True, dtype=dtype, random_state=seed
    )
    return np.maximum(X, 0), y, W, factors


@pytest.fixture(scope="module")
def X():
    return data()[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("kind", ["one", "coupled"])
def test_the_objective_never_rises(kind, alpha, dtype):
    X = data(1, noise=0.5, dtype=dtype)[0]
    given = X if kind == "one" else [X, X[:, :, 0, 0], X[:, 0]]
    fit = CPD(5, alpha=alpha, max_iter=40, tol=0, nonnegative=True, random_state=0).fit(given)
    values = np.array(fit.history_["objective"])
    assert len(values) == 40
    rise = np.diff(values).max()
    assert rise <= (1e-5 if dtype == np.float32 else 1e-11) * values[0]
    factors = [U for block in fit.factors_ for U in block] if kind != "one" else fit.factors_
    assert min(U.min() for U in factors) >= 0
    assert min(U.max() for U in factors) > 0
    assert not fit.center_.any()


def test_passes_are_the_loop_over_columns():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(9, 4))
    G, M, Y = A.T @ A, rng.normal(size=(7, 4)), np.abs(rng.normal(size=(7, 4)))
    G[:, 2] = G[2] = 0  # a column that nothing sees
    wanted = Y.copy()
    for r in range(4):
        for n in range(7):
            if G[r, r] == 0:
                wanted[n, r] = 0
                continue
            others = sum(wanted[n, s] * G[s, r] for s in range(4) if s != r)
            wanted[n, r] = max(0.0, (M[n, r] - others) / G[r, r])
    hals.passes(Y, M, G, 1)
    np.testing.assert_allclose(Y, wanted, atol=1e-12)


def test_transform_is_non_negative_least_squares(X):
    model = CPD(4, alpha=0.01, nonnegative=True, random_state=0).fit(X)
    rng = np.random.default_rng(1)
    new = X[:20] + 0.5 * X.std() * rng.normal(size=X[:20].shape)  # negative entries may come
    W = model.transform(new)
    H = kernels.khatri_rao(model.factors_)
    rows = np.vstack([H, np.diag(np.sqrt(model.ridge_))])
    for x, w in zip(new, W, strict=True):
        wanted, _ = nnls(rows, np.r_[x.ravel() / model.scale_, np.zeros(4)])
        np.testing.assert_allclose(w, wanted, atol=1e-9)
    assert (W == 0).any()
    np.testing.assert_allclose(model.transform(new[3:4]), W[3:4], rtol=1e-10)
    made = model.inverse_transform(model.transform(X))
    assert made.min() >= 0
    error = np.linalg.norm(X - made) / np.linalg.norm(X)
    assert model.reconstruction_error_ == pytest.approx(error, rel=1e-6)
    assert model.score(X) == pytest.approx(1 - error**2, rel=1e-6)


def test_planted_parts_are_found_and_stable():
    X, _, _, factors = data(2, noise=0.2)
    model = CPD(4, nonnegative=True, random_state=0).fit(X)
    assert factor_match_score(model.factors_, factors) > 0.99
    found = model.diagnose(X, n_seeds=1, n_splits=1)
    assert found.n_stable == 4 and found.notes == ()


def test_error_is_near_that_of_tensorly():
    tensorly = pytest.importorskip("tensorly")
    from tensorly.decomposition import non_negative_parafac_hals

    X = data(3, noise=0.3)[0]
    ours = CPD(4, alpha=0.0, tol=1e-8, max_iter=500, nonnegative=True, random_state=0).fit(X)
    theirs = non_negative_parafac_hals(X, 4, n_iter_max=100, init="svd", random_state=0)
    error = np.linalg.norm(X - tensorly.cp_to_tensor(theirs)) / np.linalg.norm(X)
    assert ours.reconstruction_error_ < 1.001 * error


def test_a_model_file_keeps_them(X, tmp_path):
    model = CPD(3, nonnegative=True, random_state=0).fit(X)
    assert model.transform(X).min() >= 0 and min(U.min() for U in model.factors_) >= 0
    model.save(tmp_path / "m.tcm")
    np.testing.assert_array_equal(load_model(tmp_path / "m.tcm").transform(X), model.transform(X))


def test_signals_become_magnitudes_without_convolution_features():
    rec = make_synthetic(60, 3, 64, n_subjects=6, random_state=0)
    model = ContrastiveFeatures(decompose=CPD(3, nonnegative=True), random_state=0).fit(rec)
    assert model.convolution_ is None and isinstance(model.tensorize_, SpectrogramTensor)
    assert min(U.min() for U in model.factors_) >= 0
    assert model.transform(rec).shape == (60, 3) and model.transform(rec).min() >= 0


def test_it_takes_no_missing_values(X):
    model = CPD(3, nonnegative=True, missing="mask")
    with pytest.raises(InvalidInputError, match="missing"):
        model.fit(X)
    assert not hasattr(model, "factors_")


def test_negative_windows_views_files_and_dask_are_refused(X, tmp_path):
    model = CPD(3, nonnegative=True, random_state=0)
    bad = X.copy()
    bad[7, 0, 0, 0] = -0.1
    with pytest.raises(InvalidInputError, match="window 7"):
        model.fit(bad)
    for cls in (ATD, PLC):
        assert "nonnegative" not in cls().get_params()
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InvalidInputError, match="in memory"):
        model.fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    da = pytest.importorskip("dask.array")
    with pytest.raises(InvalidInputError, match="in memory"):
        model.fit(da.from_array(X))
    lazy = model.fit(X).transform(da.from_array(X, chunks=(50, -1, -1, -1)))
    np.testing.assert_allclose(np.asarray(lazy), model.transform(X), atol=1e-9)

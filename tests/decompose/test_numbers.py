"""Numbers: any unit, fits that are nearly exact, and components that cancel each other."""

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import ATD, CPD, PLC, Algorithm1, SpectrogramTensor, load_model
from tensorcontrast.cp import diagnostics, kernels
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.errors import InvalidInputError, NumericalError, TensorContrastWarning

UNITS = [1e-30, 1e-12, 1.0, 1e12, 1e30]


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(120, (5, 6, 8), 4, noise=0.05, random_state=0)[0] + 0.3


# ---------------------------------------------------------------------------- units

SOLVERS = {
    "cpd": CPD(4, random_state=0),
    "cpd, missing": CPD(4, missing="mask", random_state=0),
    "atd": ATD(4, random_state=0),
    "plc": PLC(4, gamma=0.0, random_state=0),  # clusters of noise change with its rounding
    "algorithm 1": Algorithm1(4, random_state=0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SOLVERS)
def test_results_in_any_unit_are_those_of_float64_in_units_of_one(name, dtype, X):
    data = X.copy()
    if "missing" in name:
        data[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan

    def fit(samples):
        return clone(SOLVERS[name]).fit(samples)

    wanted = fit(data)
    near = 2e-3
    for unit in UNITS:
        samples = (unit * data).astype(dtype)
        model = fit(samples)
        assert model.transform(samples).dtype == dtype
        assert model.scale_ / unit == pytest.approx(wanted.scale_, rel=1e-3)
        error = model.reconstruction_error_
        assert error == pytest.approx(wanted.reconstruction_error_, rel=near)
        W = wanted.transform(data)
        assert np.linalg.norm(model.transform(samples) - W) < near * np.linalg.norm(W)
        for U, V in zip(model.factors_, wanted.factors_, strict=True):
            np.testing.assert_allclose(U, V, atol=near)
        made, true = model.inverse_transform(model.transform(samples)), wanted.inverse_transform(W)
        assert np.linalg.norm(made / unit - true) < near * np.linalg.norm(true)
        assert model.score(samples) == pytest.approx(wanted.score(data), abs=near)


def test_a_large_offset_is_taken_out_first(X):
    """In float32 an offset of 1000 leaves 4 digits of the signal; the fit keeps these."""
    moved = (X + 1e3).astype("float32")
    model, wanted = (CPD(rank=4, random_state=0).fit(x) for x in (moved, moved.astype("float64")))
    W = wanted.transform(moved.astype("float64"))
    assert np.linalg.norm(model.transform(moved) - W) < 1e-3 * np.linalg.norm(W)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_spectrograms_scale_with_the_unit(unit):
    signals = np.random.default_rng(0).normal(size=(4, 2, 128))
    for name, power in (("magnitude", 1.0), ("sqrt-magnitude", 0.5)):
        spectrogram = SpectrogramTensor(50, representation=name).fit(signals)
        wanted = spectrogram.transform(signals) * unit**power
        found = spectrogram.transform((unit * signals).astype("float32"))
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5 * wanted.max())


def test_values_whose_squares_leave_the_range_are_told(X):
    for unit in (1e-39, 1e38):
        with pytest.raises(InvalidInputError, match="change the unit"):
            CPD(rank=3).fit((unit * X).astype("float32"))
    with pytest.raises(NumericalError, match="dtype='float64'"):
        CPD(rank=3, scale=False, random_state=0).fit((1e30 * X).astype("float32"))


@pytest.mark.parametrize("cls", [CPD, ATD, PLC])
@pytest.mark.parametrize("kind", ["array", "blocks", "mapped", "dask", "list"])
def test_values_beyond_float32_are_told_without_a_warning(cls, kind, X, tmp_path):
    big, model = 1e300 * X, cls(rank=3, dtype="float32")
    if kind == "blocks":
        given = (X, big)
    elif kind == "mapped":
        np.save(tmp_path / "x.npy", big)
        given = np.load(tmp_path / "x.npy", mmap_mode="r")
    elif kind == "dask":
        if cls is ATD:
            pytest.skip("in memory only")
        given = pytest.importorskip("dask.array").from_array(big)
    else:
        given = big.tolist() if kind == "list" else big
    with pytest.raises(InvalidInputError, match="float32"):
        model.fit(given)
    fitted = CPD(rank=3, max_iter=2, tol=0).fit(X.astype("float32"))
    for use in (fitted.transform, fitted.score, lambda Z: fitted.inverse_transform(Z[:, :3, 0, 0])):
        with pytest.raises(InvalidInputError, match="float32"):
            use(big)


# ---------------------------------------------------------------------------- nearly exact fits


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_error_of_a_nearly_exact_fit_is_right(dtype):
    """A difference of large sums would be wrong in its first digit, or zero."""
    X = make_cp_tensor(200, (6, 7, 8), 3, noise=0, random_state=1)[0].astype(dtype)
    model = CPD(rank=3, alpha=0.0, max_iter=500, tol=1e-14, random_state=0).fit(X)
    rest = X - model.inverse_transform(model.transform(X))
    size = np.linalg.norm((X - X.mean(axis=0)).astype("float64"))
    error = float(np.linalg.norm(rest.astype("float64"))) / size
    small = 1e-5 if dtype == "float32" else 1e-7
    assert 0 < error < small
    assert 0 < model.reconstruction_error_ < small
    assert model.reconstruction_error_ == pytest.approx(error, rel=0.2)
    assert 1 - model.score(X) < small
    history = np.array(model.history_["reconstruction_error"])
    assert (history > 0).all()
    assert history[-1] < small


@pytest.mark.parametrize("share", [0.0, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_residuals_of_any_size_agree_with_float64(share, dtype):
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(d, 3)) for d in (5, 6, 7)]
    W = rng.normal(size=(50, 3))
    exact = kernels.cp_to_flat(W, factors)
    X = (exact + share * rng.normal(size=exact.shape)).astype(dtype)
    W, factors = W.astype(dtype), [U.astype(dtype) for U in factors]
    wide = [U.astype("float64") for U in factors]
    wanted = float(((X - kernels.cp_to_flat(W.astype("float64"), wide)) ** 2).sum())
    found = kernels.residual_direct(X, W, factors)
    noise = float(4 * np.finfo(dtype).eps) ** 2 * float((exact**2).sum())
    assert found == pytest.approx(wanted, rel=1e-2, abs=noise)


# ---------------------------------------------------------------------------- degeneracy


def degenerate(n=30, dims=(6, 7), seed=0):
    """A tensor of rank 3 that rank 2 comes as near to as it likes, with ever larger terms."""
    rng = np.random.default_rng(seed)
    (a, b), (c, d), (e, f) = (np.linalg.qr(rng.normal(size=(k, 2)))[0].T for k in (n, *dims))

    def outer(x, y, z):
        return np.einsum("i,j,k->ijk", x, y, z)

    return outer(a, c, f) + outer(a, d, e) + outer(b, c, e)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", [CPD, PLC])
def test_a_degenerate_fit_is_told_with_the_way_out(cls):
    X = degenerate()
    options = {"center": False, "max_iter": 600, "tol": 0.0, "random_state": 0}
    with pytest.warns(TensorContrastWarning, match="components 0 and 1") as warned:
        model = cls(rank=2, alpha=1e-9, **options).fit(X)
    assert warned[0].filename == __file__
    assert -1 <= model.degeneracy_ < -0.9
    calm = cls(rank=2, alpha=0.1, **options).fit(X)  # the way out
    assert calm.degeneracy_ > -0.5
    assert calm.weights_.max() < 0.5 * model.weights_.max()


def test_healthy_and_dead_components_are_not_told(X):
    model = CPD(rank=4, random_state=0).fit(X)
    assert -0.5 < model.degeneracy_ <= 0
    assert CPD(rank=1, random_state=0).fit(X).degeneracy_ == 0
    zero = np.zeros((4, 2))
    assert diagnostics.most_opposed([zero, zero], np.zeros((2, 2)))[0] == 0


def test_a_model_file_has_the_degeneracy(X, tmp_path):
    model = CPD(rank=4, random_state=0).fit(X)
    model.save(tmp_path / "m.tcm")
    assert load_model(tmp_path / "m.tcm").degeneracy_ == model.degeneracy_

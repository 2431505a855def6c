"""Numbers: any unit, fits that are nearly exact, and components that cancel each other."""

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, SpectrogramTensor, load_model
from tensorcontrast.cp import compress, diagnostics, kernels
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import InvalidInputError, NumericalError, TensorContrastWarning
from tensorcontrast.solvers import als

UNITS = [1e-30, 1e-12, 1.0, 1e12, 1e30]


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(120, (5, 6, 8), 4, noise=0.05, random_state=0)[0] + 0.3


# ---------------------------------------------------------------------------- units

SOLVERS = {
    "cpd": (CPD, {}),
    "cpd, compressed": (CPD, {"compress": (4, 4, 4)}),
    "cpd, missing": (CPD, {"missing": "mask"}),
    "cpd, robust": (CPD, {"robust": "huber"}),
    "atd": (ATD, {}),
    "plc": (PLC, {"gamma": 0.0}),  # clusters of noise change with its rounding
    "plc, tied": (PLC, {"solver": "tied"}),
    "plc, als": (PLC, {"solver": "als"}),
}
#: A window between two clusters may change over with the rounding.
NEAR = {"plc, tied": 1e-2}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SOLVERS)
def test_results_in_any_unit_are_those_of_float64_in_units_of_one(name, dtype, X):
    cls, options = SOLVERS[name]
    data = X.copy()
    if "missing" in options:
        data[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan

    def fit(samples):
        return build(cls, rank=4, random_state=0, **options).fit(samples)

    wanted = fit(data)
    near = NEAR.get(name, 1e-3)
    for unit in UNITS:
        samples = (unit * data).astype(dtype)
        model = fit(samples)
        assert model.features_.dtype == dtype
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
        build(CPD, rank=3, scale=False, random_state=0).fit((1e30 * X).astype("float32"))
    with pytest.raises(NumericalError, match="dtype='float64'"):
        compress.spectrum(np.full((3, 3), np.inf))


@pytest.mark.parametrize("unit", [1.0, 2.0**-90, 2.0**90])
def test_moments_in_a_unit_are_those_without(unit):
    block = np.random.default_rng(0).normal(size=(30, 4, 5))
    plain = compress.ModeGrams(block[0])
    plain.add(block)
    scaled = compress.ModeGrams(unit * block[0], unit=compress.rough_size(unit * block))
    scaled.add(unit * block)
    np.testing.assert_allclose(scaled.mean(True) / unit, plain.mean(True), rtol=1e-12)
    for center in (True, False):
        for G, H in zip(scaled.centred(center)[0], plain.centred(center)[0], strict=True):
            np.testing.assert_allclose(G / unit**2, H, rtol=1e-10)


# ---------------------------------------------------------------------------- nearly exact fits


@pytest.mark.parametrize("compressed", [None, (3, 3, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_error_of_a_nearly_exact_fit_is_right(dtype, compressed):
    """A difference of large sums would be wrong in its first digit, or zero."""
    X = make_cp_tensor(200, (6, 7, 8), 3, noise=0, random_state=1)[0].astype(dtype)
    options = {"alpha": 0.0, "max_iter": 500, "tol": 1e-14, "compress": compressed}
    model = build(CPD, rank=3, random_state=0, **options).fit(X)
    rest = X - model.inverse_transform(model.transform(X))
    size = np.linalg.norm((X - X.mean(axis=0)).astype("float64"))
    error = float(np.linalg.norm(rest.astype("float64"))) / size
    small = 1e-5 if dtype == "float32" else 1e-7
    assert 0 < error < small
    assert 0 < model.reconstruction_error_ < small
    if compressed is None:
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
    views = als.Views.from_arrays(X, None)
    misfit = float(np.sum((W @ kernels.khatri_rao(factors).T) ** 2)) - 2 * float(
        np.sum(X * (W @ kernels.khatri_rao(factors).T))
    )
    assert views.residual(misfit, als.Features(W, None), factors) == pytest.approx(
        wanted, rel=0.05, abs=noise
    )


def test_both_views_count_in_the_residual():
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(d, 2)).astype("float32") for d in (4, 5)]
    W, V = (rng.normal(size=(30, 2)).astype("float32") for _ in range(2))
    X, X_view = (kernels.cp_to_flat(w, factors) + np.float32(1e-4) for w in (W, V))
    views = als.Views.from_arrays(X, X_view)
    residual = views.residual(-views.norm_squared, als.Features(W, V), factors)
    assert residual == pytest.approx(2 * X.size * 1e-8, rel=0.05)


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
    more = {"beta": 0.0, "n_epochs": 1, "n_clusters": 2} if cls is PLC else {}
    told = r"components 0 and 1 cancel each other \(congruence -0.9.*larger alpha or a smaller rank"
    with pytest.warns(TensorContrastWarning, match=told) as warned:
        model = build(cls, rank=2, alpha=1e-9, **options, **more).fit(X)
    assert warned[0].filename == __file__
    assert -1 <= model.degeneracy_ < -0.9
    calm = build(cls, rank=2, alpha=0.1, **options, **more).fit(X)  # the way out
    assert calm.degeneracy_ > -0.5
    assert calm.weights_.max() < 0.5 * model.weights_.max()


def test_the_congruence_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    W, *factors = (rng.normal(size=(d, 5)) for d in (40, 4, 6, 3))
    factors = [U / np.linalg.norm(U, axis=0) for U in factors]
    value, a, b = diagnostics.most_opposed(factors, W.T @ W)
    slow = {}
    for i in range(5):
        for j in range(i):
            product = 1.0
            for U in (W, *factors):
                norms = np.linalg.norm(U[:, i]) * np.linalg.norm(U[:, j])
                product *= float(U[:, i] @ U[:, j]) / norms
            slow[j, i] = product
    assert value == pytest.approx(min(slow.values()))
    assert (a, b) == min(slow, key=slow.get)


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

"""No fit collapses: dead components, zero features, objectives that rise, fine sampling."""

import warnings

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, Algorithm1, ContrastiveFeatures, SpectrogramTensor
from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.errors import NumericalError, TensorContrastWarning


def sines(n=40, channels=1, times=256, seed=0):
    """Windows of three frequencies at random phases, as in the report of the collapse."""
    r = np.random.default_rng(seed)
    at = np.arange(times) / 50

    def one(i):
        hertz = 3 + 4 * (i % 3)
        return [
            np.sin(2 * np.pi * hertz * at + r.uniform(0, 6)) + 0.3 * r.normal(size=times)
            for _ in range(channels)
        ]

    return np.stack([one(i) for i in range(n)])


def without_contrast(history):
    """Objective of the sweeps before the first with a contrast."""
    objective = np.asarray(history["objective"])
    contrast = np.asarray(history.get("contrast", np.full(len(objective), np.nan)))
    known = np.flatnonzero(np.isfinite(contrast))
    return objective[: known[0]] if len(known) else objective


def assert_sound(W, model):
    """Features are finite and differ, and no sweep without contrast has raised the objective."""
    assert np.isfinite(W).all()
    assert W.std(axis=0).max() > 0
    assert all(np.isfinite(U).all() for U in model._factors)
    phase = without_contrast(model.history_)
    rise = np.diff(phase).max(initial=0.0)
    assert rise <= 1e-5 * 0.5 * len(W), phase  # data of mean squared norm 1, float32


# ---------------------------------------------------------------------------- the report


@pytest.mark.parametrize("seed", [4, 5, 8])
def test_seeds_that_collapsed_have_features(seed):
    X = sines()
    model = ContrastiveFeatures(fs=50.0, random_state=seed).fit(X)
    W = model.transform(X)
    assert_sound(W, model.decompose_)
    assert model.decompose_.reconstruction_error_ < 0.2
    assert (W.std(axis=0) > 1e-6).sum() > 20


@pytest.mark.parametrize(("n", "channels"), [(60, 9), (200, 3)])
@pytest.mark.parametrize("rank", [24, 48])
def test_coupled_fits_of_more_channels(n, channels, rank):
    X = sines(n, channels, 128)
    model = ContrastiveFeatures(fs=50.0, decompose=PLC(rank), random_state=0).fit(X)
    assert_sound(model.transform(X), model.decompose_)


# ---------------------------------------------------------------------------- many small fits


def small(seed):
    """Estimator, data and keyword arguments of a fit that differ by the seed in all they can."""
    rng = np.random.default_rng(seed)
    order = int(rng.integers(1, 4))
    dims = tuple(int(d) for d in rng.integers(1, 7, order))
    n = int(rng.integers(2, 25))
    latent = rng.normal(size=(n, 2)) @ rng.normal(size=(2, int(np.prod(dims))))
    noise = rng.choice([0.0, 1e-3, 0.3, 3.0])
    X = (latent + noise * rng.normal(size=latent.shape)).reshape(n, *dims)
    X = (X * 10.0 ** rng.uniform(-3, 3)).astype(rng.choice(["float32", "float64"]))
    params = {
        "rank": int(rng.integers(1, 41)),
        "max_iter": int(rng.integers(2, 13)),
        "alpha": float(10.0 ** rng.uniform(-6, -3)),
        "tol": 0,
        "random_state": seed,
    }
    if rng.integers(0, 2):
        extra = (latent[:, :1] * [1.0, -2.0] + rng.normal(size=(n, 2))).astype(X.dtype)
        X = (X, extra)
    more = {"n_clusters": min(3, n)} if seed % 4 == 2 else {}
    return (CPD, ATD, Algorithm1, PLC)[seed % 4](**params, **more), X


@pytest.mark.parametrize("first", range(0, 300, 20))
def test_small_fits_are_finite_and_fall(first):
    for seed in range(first, first + 20):
        model, X = small(seed)
        with warnings.catch_warnings():  # ranks that are cut, components that cancel each other
            warnings.simplefilter("ignore", TensorContrastWarning)
            W = model.fit(X).transform(X)
        assert_sound(W, model)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_small_fits_of_signals_are_finite_and_fall(first):
    for seed in range(first, first + 10):
        rng = np.random.default_rng(seed)
        n, channels, times = (int(rng.integers(*span)) for span in ((8, 41), (1, 4), (48, 97)))
        X = sines(n, channels, times, seed)
        params = {"rank": int(rng.integers(2, 41)), "max_iter": 9, "tol": 0}
        part = (CPD, ATD, PLC, Algorithm1)[seed % 4](**params)
        blocks = None if seed // 4 % 2 else SpectrogramTensor()
        model = ContrastiveFeatures(50.0, tensorize=blocks, decompose=part, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TensorContrastWarning)
            W = model.fit(X).transform(X)
        assert_sound(W, model.decompose_)


# ---------------------------------------------------------------------------- dead components


def coupled(rank=3, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(size=(d, rank)).astype(dtype) for d in (4, 5, 7)]
    W = rng.normal(size=(10, rank)).astype(dtype)
    return kernels.CoupledFactors([drawn[:2], drawn[2:]]), W


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-12, 1e-4, 1e-2, 1.0, 1e4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_normal_form_keeps_components_whose_modes_are_dead(size, dtype):
    factors, W = coupled(dtype=dtype)
    factors[0][:, 1] *= size
    before = kernels.cp_to_flat(W, factors)
    new, gain, order = kernels.normal_form(factors, np.linalg.norm(W, axis=0))
    after = kernels.cp_to_flat(W[:, order] * gain, new)
    atol = 100 * np.finfo(dtype).eps * np.abs(before).max()
    np.testing.assert_allclose(after, before, atol=atol)
    lengths = np.linalg.norm(kernels.khatri_rao(new), axis=0)
    assert lengths.min() >= 1 - 1e-5
    assert lengths.max() <= 2 / kernels.WEAK_BLOCK


def test_the_normal_form_of_a_component_that_is_zero_is_zero():
    factors, W = coupled()
    for U in factors:
        U[:, 1] = 0.0
    new, gain, order = kernels.normal_form(factors, np.linalg.norm(W, axis=0))
    at = list(order).index(1)
    assert gain[at] == 0.0
    assert all((U[:, at] == 0).all() for U in new)
    assert all(np.isfinite(U).all() for U in new)


@pytest.mark.parametrize("length", [1.0, 1e3, 1e6])
def test_a_long_column_does_not_hold_down_the_others(length):
    """What a feature is does not depend on the unit of another component."""
    rng = np.random.default_rng(0)
    H = np.linalg.qr(rng.normal(size=(30, 4)))[0].astype(np.float32)
    X = rng.normal(size=(5, 30)).astype(np.float32)
    wanted = X @ H
    unit = np.array([1, 1, length, 1], dtype=np.float32)
    encoder = Encoder.from_factors([H * unit], 1e-6)
    np.testing.assert_allclose(encoder(X @ (H * unit)) * unit, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dead", [None, 0, 2])
@pytest.mark.parametrize("blocks", [1, 2])
def test_balancing_keeps_the_model_and_lowers_the_ridge(blocks, dead):
    factors, W = coupled(seed=1)
    if blocks == 1:
        factors = factors[:2]
    factors[0][:] *= 50.0
    W *= 1e-3
    if dead == 0:
        W[:, 0] = 0.0
    elif dead is not None:
        factors[1][:, dead] = 0.0

    def ridge(W, factors):
        return sum(float((a * a).sum()) for a in (W, *factors))

    new, gain = kernels.balanced(factors, np.linalg.norm(W, axis=0))
    np.testing.assert_allclose(kernels.cp_to_flat(W * gain, new), kernels.cp_to_flat(W, factors))
    assert ridge(W * gain, new) < ridge(W, factors)
    for step in (0.9, 1.1):  # it is the least there is for components that are not zero
        moved = [new[0] * step, new[1] * step, *(U * step**2 for U in new[2:])]
        alive = [r for r in range(3) if dead is None or r != dead]
        best = ridge((W * gain)[:, alive], [U[:, alive] for U in new])
        other = ridge((W * gain)[:, alive] / step**2, [U[:, alive] for U in moved])
        assert best < other


# ---------------------------------------------------------------------------- guards


@pytest.mark.parametrize("model", [CPD, ATD, PLC])
def test_a_ridge_that_outweighs_the_data_is_an_error(model):
    X = np.random.default_rng(0).normal(size=(20, 3, 4))
    fitted = model(rank=2, max_iter=3, tol=0, random_state=0).fit(X)
    before = fitted.factors_
    with pytest.raises(NumericalError, match="alpha"):
        fitted.set_params(alpha=1e9).fit(X)
    assert fitted.factors_ is before


def test_zero_features_are_an_error_on_dask():
    array = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).normal(size=(20, 3, 4))
    with pytest.raises(NumericalError, match="alpha"):
        CPD(rank=2, alpha=1e9, random_state=0).fit(array.from_array(X, chunks=(10, -1, -1)))


# ---------------------------------------------------------------------------- fine sampling


def smooth(dims, n=12):
    """The same smooth components, sampled as finely as the dims say."""
    rng = np.random.default_rng(1)
    factors = [rng.normal(size=(dims[0], 3))]
    for d in dims[1:]:
        at = np.linspace(0, 1, d)[:, None]
        factors.append(np.sin(2 * np.pi * (at * np.arange(1, 4) + rng.uniform(size=3))))
    X = rng.normal(size=(n, 3)) @ kernels.khatri_rao(factors).T
    return X.reshape(n, *dims).astype("float32")


@pytest.mark.parametrize("dims", [(2, 20, 20), (2, 60, 50), (2, 260, 200)])
@pytest.mark.parametrize("seed", range(3))
def test_finer_sampling_does_not_drive_features_to_zero(dims, seed):
    X = smooth(dims)
    model = CPD(rank=4, max_iter=30, tol=0, random_state=seed).fit(X)
    assert model.reconstruction_error_ < 0.2  # a third component that is missed is 0.13
    assert model.weights_[1] > 0.3


def test_very_long_windows_have_features():
    """12 × 2 × 200,000 in the report; the tensors of these windows are as large for the ridge."""
    X = sines(12, 2, 20_000).astype("float32")
    part = PLC(rank=4, max_iter=8)
    model = ContrastiveFeatures(fs=250.0, decompose=part, random_state=0).fit(X)
    assert_sound(model.transform(X), model.decompose_)
    assert model.decompose_.reconstruction_error_ < 0.99

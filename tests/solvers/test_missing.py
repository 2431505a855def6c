"""Missing values: features of what was observed, what is imputed, and what is refused."""

import numpy as np
import pytest

from tensorcontrast import CPD, PLC, ContrastiveFeatures, SpectrogramTensor, load_model
from tensorcontrast.cp import kernels
from tensorcontrast.cp.metric import projector
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.recordings.signals import without_gaps
from tensorcontrast.solvers import missing
from tensorcontrast.solvers.missing import ObservedEncoder

ALL = [CPD, PLC]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def planted(n=120, dims=(5, 6, 8), noise=0.05, share=0.3, seed=0):
    X, *_ = make_cp_tensor(n, dims, 3, noise=noise, random_state=seed)
    gaps = np.random.default_rng(seed + 1).random(X.shape) < share
    return X, np.where(gaps, np.nan, X), gaps


@pytest.fixture(scope="module")
def data():
    return planted()


def slow_features(x, gaps, factors, ridge):
    """Solve the normal equations of one window, entry by entry."""
    H = kernels.khatri_rao(factors)
    r = H.shape[1]
    K, p = np.diag(np.broadcast_to(ridge, r).astype(float)), np.zeros(r)
    for i in range(len(x)):
        if not gaps[i]:
            K += np.outer(H[i], H[i])
            p += x[i] * H[i]
    return np.linalg.solve(K, p)


def encoded(X, gaps, factors, ridge):
    encoder = ObservedEncoder.from_factors(factors, ridge, X.dtype)
    return encoder(X, gaps, projector(factors, ridge, None).astype(X.dtype))


# ---------------------------------------------------------------------------- the equations


@pytest.mark.parametrize("kind", ["random", "channels", "all but two", "none"])
@pytest.mark.parametrize("ridge", [1e-3, np.array([0.5, 1e-3, 2.0])])
def test_features_solve_the_equations_of_each_sample(kind, ridge):
    rng = np.random.default_rng(0)
    dims, n = (3, 4, 5), 40
    factors = [rng.normal(size=(d, 3)) for d in dims]
    X = rng.normal(size=(n, 60))
    gaps = np.zeros((n, *dims), dtype=bool)
    if kind == "random":
        gaps = rng.random(gaps.shape) < 0.4
    elif kind == "channels":
        gaps[np.arange(n), rng.integers(3, size=n)] = rng.random((n, 1, 1)) < 0.7
    elif kind == "all but two":  # fewer entries than components
        gaps[:] = True
        gaps.reshape(n, -1)[:, [7, 31]] = False
    gaps = gaps.reshape(n, -1)
    dirty = np.where(gaps, np.nan, X)
    found = encoded(dirty, gaps, factors, ridge)
    wanted = [slow_features(x, g, factors, ridge) for x, g in zip(X, gaps, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    encoder = ObservedEncoder.from_factors(factors, ridge, X.dtype)
    filled, W = encoder.fill(dirty, gaps, projector(factors, ridge, None))
    np.testing.assert_array_equal(W, found)
    wanted = np.where(gaps, W @ kernels.khatri_rao(factors).T, X)
    np.testing.assert_allclose(filled, wanted, atol=1e-12)


def test_blocks_of_windows_give_what_one_gives(monkeypatch):
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(d, 4)) for d in (5, 6)]
    X, gaps = rng.normal(size=(50, 30)), rng.random((50, 30)) < 0.3
    whole = encoded(X, gaps, factors, 0.1)
    monkeypatch.setattr(missing, "BLOCK_VALUES", 64)
    parts = encoded(X, gaps, factors, 0.1)
    np.testing.assert_allclose(parts, whole, rtol=1e-10, atol=1e-12)


# ---------------------------------------------------------------------------- the estimators


@pytest.mark.parametrize("options", [{}, {"center": False}], ids=str)
@pytest.mark.parametrize("cls", ALL)
def test_what_is_imputed_is_near_the_truth(cls, options, data):
    X, Z, gaps = data
    model = cls(3, max_iter=200, missing="mask", random_state=0, **options).fit(Z)
    made = model.inverse_transform(model.transform(Z))
    size = np.linalg.norm((X - X.mean(axis=0))[gaps])
    error = np.linalg.norm((made - X)[gaps]) / size
    linear = without_gaps(Z.reshape(len(Z), -1, Z.shape[-1])).reshape(Z.shape)
    assert error < 0.2
    assert error < 0.3 * np.linalg.norm((linear - X)[gaps]) / size
    assert model.score(Z) > 0.97
    if cls is PLC:
        assert model.nuisance_gains_ is model.nuisance_strength_ is None


def test_whole_data_give_the_very_same_fit(data):
    X = data[0]
    plain, masked = (CPD(3, missing=m, random_state=0).fit(X) for m in ("error", "mask"))
    np.testing.assert_array_equal(masked.transform(X), plain.transform(X))
    assert masked.score(X) == plain.score(X)


def test_the_reported_error_is_over_what_was_observed(data):
    """But for the ridge, with which the gaps of the windows of the fit are filled."""
    _, Z, _ = data
    model = CPD(3, missing="mask", alpha=1e-6, tol=1e-9, max_iter=500, random_state=0).fit(Z)
    flat = ((Z - model.center_) / model.scale_).reshape(len(Z), -1)
    rest = flat - kernels.cp_to_flat(model.transform(Z), model.factors_)
    error = np.sqrt(np.nansum(rest**2) / np.nansum(flat**2))
    assert model.reconstruction_error_ == pytest.approx(error, rel=0.3)
    assert model.score(Z) == pytest.approx(1 - error**2, rel=1e-6)


@pytest.mark.parametrize("cls", ALL)
def test_a_channel_lost_after_the_fit(cls, data):
    X = data[0]
    model = cls(rank=3, random_state=0).fit(X)
    lost = X.copy()
    lost[:, 2] = np.nan
    with pytest.raises(InvalidInputError, match="missing='mask'"):
        model.transform(lost)
    W = model.set_params(missing="mask").transform(lost)
    whole = model.transform(X)
    assert 0 < np.linalg.norm(W - whole) < 0.3 * np.linalg.norm(whole)
    np.testing.assert_allclose(model.transform(X[:5]), whole[:5], rtol=1e-9, atol=1e-12)


def test_mapped_files(data, tmp_path):
    _, Z, _ = data
    array = CPD(rank=3, missing="mask", random_state=0).fit(Z)
    np.save(tmp_path / "z.npy", Z)
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    model = CPD(rank=3, missing="mask", random_state=0).fit(mapped)
    np.testing.assert_array_equal(model.transform(mapped), array.transform(Z))


def test_on_dask(data):
    da = pytest.importorskip("dask.array")
    _, Z, _ = data
    here = CPD(rank=3, missing="mask", random_state=0).fit(Z)
    lazy = da.from_array(Z, chunks=(40, 5, -1, -1))
    there = CPD(rank=3, missing="mask", random_state=0).fit(lazy)
    W = here.transform(Z)
    np.testing.assert_allclose(np.asarray(there.transform(lazy)), W, atol=1e-9)
    np.testing.assert_allclose(there.transform(Z), W, atol=1e-9)
    with pytest.raises(InvalidInputError, match="missing='mask'"):
        CPD(rank=3).fit(lazy)


def test_float32_stays_and_agrees(data):
    _, Z, _ = data
    one = CPD(rank=3, missing="mask", random_state=0).fit(Z.astype("float32"))
    other = CPD(rank=3, missing="mask", random_state=0).fit(Z)
    W = one.transform(Z.astype("float32"))
    assert W.dtype == np.float32
    np.testing.assert_allclose(W, other.transform(Z), rtol=1e-3, atol=1e-3)


def test_a_model_file_remembers(data, tmp_path):
    _, Z, _ = data
    model = PLC(rank=3, missing="mask", random_state=0).fit(Z)
    model.save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    assert loaded.missing == "mask"
    np.testing.assert_array_equal(loaded.transform(Z), model.transform(Z))


# ---------------------------------------------------------------------------- what is told


def test_nan_are_mistakes_unless_told_otherwise(data):
    for cls in ALL:
        with pytest.raises(InvalidInputError, match="missing='mask'"):
            cls(rank=3).fit(data[1])


def test_nuisance_needs_whole_windows(data):
    X, Z, _ = data
    with pytest.raises(InvalidInputError, match="nuisance"):
        PLC(rank=3, missing="mask").fit(Z, nuisance=X[:9])


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_never_a_missing_value(bad, data):
    Z = data[1].copy()
    Z[3, 1, 2, 0] = bad
    with pytest.raises(InvalidInputError, match=r"X\[3, 1, 2, 0\]"):
        CPD(rank=3, missing="mask").fit(Z)
    with pytest.raises(InvalidInputError, match="infinity"):
        CPD(rank=3, missing="mask", random_state=0).fit(data[1]).transform(Z)


def test_windows_and_positions_without_any_value(data):
    Z = data[1].copy()
    Z[4] = np.nan
    with pytest.warns(TensorContrastWarning, match="nothing but NaN") as warned:
        model = CPD(rank=3, missing="mask", random_state=0).fit(Z)
    assert len(warned) == 1
    with pytest.warns(TensorContrastWarning, match="nothing but NaN"):
        np.testing.assert_allclose(model.transform(Z)[4], 0, atol=1e-12)
    Z = data[1].copy()
    Z[:, 0, 0, 0] = np.nan
    with pytest.warns(TensorContrastWarning, match="1 of the 240"):
        assert CPD(rank=3, missing="mask", random_state=0).fit(Z).score(Z) > 0.95
    with pytest.raises(InvalidInputError, match="NaN"):
        CPD(rank=3, missing="mask").fit(np.full((9, 3, 4), np.nan))


# ---------------------------------------------------------------------------- signals


@pytest.mark.parametrize(
    "options",
    [{}, {"n_fft": 16, "hop": 20}],
)
def test_a_frame_with_a_missing_sample_is_missing_in_that_channel(options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3, 100))
    dirty = X.copy()
    dirty[0, 1, 40] = dirty[2, 0, :30] = dirty[3, 2] = dirty[5, 1, -1] = np.nan
    plain = SpectrogramTensor(50, **options).fit(X)
    masked = SpectrogramTensor(50, missing="mask", **options).fit(dirty)
    out, whole = masked.transform(dirty), plain.transform(X)
    for n in range(6):
        for c in range(whole.shape[1]):
            for t in range(whole.shape[3]):
                part = dirty[n, c % 3, t * plain.hop_ : t * plain.hop_ + plain.n_fft_]
                if np.isnan(part).any():
                    assert np.isnan(out[n, c, :, t]).all()
                else:
                    np.testing.assert_allclose(out[n, c, :, t], whole[n, c, :, t], rtol=1e-5)
    with pytest.raises(InvalidInputError, match=r"X\[0\] channel 1 holds 1 NaN.*missing='mask'"):
        plain.transform(dirty)
    dirty[1, 1, 1] = np.inf
    with pytest.raises(InvalidInputError, match=r"X\[1\] channel 1 holds 1 infinite"):
        masked.transform(dirty)


def test_gaps_are_interpolated_as_numpy_does():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3, 40))
    dirty = np.where(rng.random(X.shape) < 0.5, np.nan, X)
    dirty[3, 1] = np.nan
    out = without_gaps(dirty)
    at = np.arange(40)
    for n in range(20):
        for c in range(3):
            seen = ~np.isnan(dirty[n, c])
            wanted = np.interp(at, at[seen], dirty[n, c][seen]) if seen.any() else np.zeros(40)
            np.testing.assert_allclose(out[n, c], wanted, rtol=1e-12, atol=1e-12)
    assert without_gaps(X) is X


def test_signals_to_features():
    rec = make_synthetic(n_samples=90, n_classes=3, random_state=0)
    dirty = rec.X.copy()
    dirty[:20, 1] = np.nan
    dirty[30:50, 0, 10:60] = np.nan

    def make(**options):
        return ContrastiveFeatures(fs=rec.fs, decompose=PLC(6), random_state=0, **options)

    with pytest.raises(InvalidInputError, match="missing='mask'"):
        make().fit(dirty)
    model = make(missing="mask").fit(dirty)
    assert model.tensorize_.missing == model.decompose_.missing == "mask"
    assert np.isfinite(model.transform(dirty)).all()
    with pytest.raises(InvalidInputError, match="missing"):
        make().fit(rec.X).set_params(missing="mask").transform(dirty)


def test_parts_that_know_no_missing_values_are_named():
    from sklearn.preprocessing import FunctionTransformer

    class Whole(FunctionTransformer):
        pass

    with pytest.raises(InvalidInputError, match="Whole"):
        ContrastiveFeatures(fs=50, tensorize=Whole(), missing="mask").fit(np.zeros((9, 2, 64)))

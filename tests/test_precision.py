"""Levels, units and types of numbers: what is on top of a level is computed to its own digits."""

from functools import cache

import numpy as np
import pytest

from tensorcontrast import (
    CPD,
    PLC,
    ContrastiveFeatures,
    ConvolutionFeatures,
    SpectrogramTensor,
    load_model,
)
from tensorcontrast.augment import Jitter
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.signals import typical_spread

FS = 50.0


def signals(n=64, c=3, t=128, seed=0):
    rng = np.random.default_rng(seed)
    tone = np.sin(np.arange(t) * rng.uniform(0.2, 2.0, (n, 1, 1)) + rng.uniform(0, 6, (n, c, 1)))
    return tone + 0.3 * rng.normal(size=(n, c, t))


X = signals()


def model(decompose=None, **options):
    decompose = decompose or PLC(rank=4, max_iter=10)
    return ContrastiveFeatures(fs=FS, decompose=decompose, random_state=0, **options)


@cache
def plain(dtype="float64", counts=False, level=0):
    """Fit the signals, or counts of them on a level, as one dtype: windows and model."""
    windows = (np.round(20 * X + level) if counts else X).astype(dtype)
    return windows, model().fit(windows)


def relative(found, wanted):
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# ---------------------------------------------------------------------------- levels


@pytest.mark.parametrize("representation", ["magnitude", "sqrt-magnitude"])
@pytest.mark.parametrize("window", ["hann", "rectangular"])
@pytest.mark.parametrize("offset", [-5.0, 1e3, 1e6, 1e8])
def test_spectrograms_on_a_level_are_those_of_float64(offset, window, representation):
    """Every row of |Z| to 1e-5 of its own size, ."""
    options = {"representation": representation, "window": window}
    moved = X + offset
    single = SpectrogramTensor(FS, **options).fit_transform(moved)
    double = SpectrogramTensor(FS, dtype="float64", **options).fit_transform(moved)
    if representation == "sqrt-magnitude":
        single, double = (np.copysign(T.astype(float) ** 2, T) for T in (single, double))
    sizes = np.abs(double).max(axis=(0, 1, 3), keepdims=True)
    assert (np.abs(single - double) / np.maximum(sizes, 1e-3)).max() < 1e-5


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_rows_above_the_level_do_not_depend_on_it(offset):
    """A Hann window keeps a level in rows 0 and 1."""
    spectrogram = SpectrogramTensor(FS).fit(X)
    found, wanted = spectrogram.transform(X + offset), spectrogram.transform(X)
    assert relative(found[:, :, 2:], wanted[:, :, 2:]) < 1e-5 * max(1.0, offset / 1e7)


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_convolution_features_on_a_level_are_those_of_float64(offset):
    """A level shows at the ends of a window alone, where zeros follow it."""
    fitted = ConvolutionFeatures().fit(X)
    inside = slice(4 * int(fitted.dilations_.max()), -4 * int(fitted.dilations_.max()))

    def outputs(signals):
        return [values[:, inside].copy() for values, _ in fitted.outputs(signals[:8])]

    for found, wanted in zip(outputs(X + offset), outputs(X), strict=True):
        assert np.abs(found - wanted).max() < 2e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_fits_on_a_level_find_what_is_on_top_of_it(offset):
    """No false claim that all windows are equal, and the features of rows without the level."""

    tensors = [
        SpectrogramTensor(FS).fit_transform(signals)[:, :, 2:] for signals in (X, X + offset)
    ]
    wanted, found = (CPD(4, max_iter=20, tol=0, random_state=0).fit_transform(T) for T in tensors)
    assert relative(found, wanted) < 1e-3
    assert np.std(model().fit_transform(X + offset)) > 0


@pytest.mark.parametrize("kind", ["float32 asked for", "integers", "list"])
def test_tensors_that_float32_cannot_hold_are_an_error(kind):
    T = X[:, :, :8] + 1e6
    given = {"integers": (1e3 * T).astype("int64"), "list": T.tolist()}.get(kind, T)
    options = {"dtype": "float32"} if kind == "float32 asked for" else {}
    with pytest.raises(InvalidInputError, match="float32"):
        CPD(rank=2, **options).fit(given)
    assert CPD(rank=2, max_iter=5, tol=0).fit(T).center_.dtype == np.float64
    assert CPD(rank=2, max_iter=5, tol=0, dtype="float32").fit(T - 1e6).center_.dtype == np.float32


@pytest.mark.parametrize("where", ["mapped", "dask", "coupled"])
def test_blocks_that_float32_cannot_hold_are_an_error(where, tmp_path):
    X = 10**9 + np.random.default_rng(0).integers(0, 100, (40, 3, 8))
    if where == "mapped":
        np.save(tmp_path / "X.npy", X)
        data = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif where == "dask":
        data = pytest.importorskip("dask.array").from_array(X, chunks=(20, -1, -1))
    else:
        lazy = pytest.importorskip("dask.array").from_array(X, chunks=(20, -1, -1))
        data = (lazy, lazy[:, :2, 0])
    with pytest.raises(InvalidInputError, match="float32"):
        CPD(2, random_state=0).fit(data)
    exact = CPD(2, dtype="float64", random_state=0).fit(data)
    assert exact.center_.dtype == np.float64


def test_networks_refuse_tensors_that_float32_cannot_hold():
    pytest.importorskip("torch")
    from tensorcontrast.neural import SimCLR

    with pytest.raises(InvalidInputError, match="float32"):
        SimCLR(max_iter=1).fit(X[:, :, :8] + 1e8)


# ---------------------------------------------------------------------------- units


@pytest.mark.parametrize("factor", [1e-100, 1e-6, 1e6, 1e100])
def test_features_do_not_depend_on_the_unit(factor, tmp_path):
    wanted, found = plain()[1], model().fit(factor * X)
    assert wanted.convolution_ is not None
    W = wanted.transform(X)
    assert relative(found.transform(factor * X), W) < 1e-3
    found.save(tmp_path / "m.tcm")
    again = load_model(tmp_path / "m.tcm").transform(factor * X)
    np.testing.assert_array_equal(again, found.transform(factor * X))


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**-20, 2.0**20, 2.0**40])
def test_float32_features_in_units_of_powers_of_two_are_the_same_to_the_bit(factor):
    narrow, fitted = plain("float32")
    found = model().fit_transform(narrow * np.float32(factor))
    np.testing.assert_array_equal(found, fitted.transform(narrow))


def test_noise_of_tiny_float32_signals_is_in_proportion():
    tiny = X.astype("float32") * np.float32(1e-30)
    noise = Jitter(level=0.1)(tiny, 0) - tiny
    assert noise.std() == pytest.approx(0.1 * X.std(axis=2).mean() * 1e-30, rel=0.1)


def test_spectrograms_of_tiny_signals_are_in_units_of_their_own():
    wanted = SpectrogramTensor(FS, representation="magnitude").fit(X)
    tiny = SpectrogramTensor(FS, representation="magnitude").fit(1e-100 * X)
    assert wanted.unit_ == 1.0
    assert 0.1 < tiny.unit_ / (1e-100 * typical_spread(X)) < 10
    made = tiny.transform(1e-100 * X) * (tiny.unit_ / 1e-100)
    np.testing.assert_allclose(made, wanted.transform(X), atol=1e-5 * np.abs(made).max())
    log = SpectrogramTensor(FS, representation="log-magnitude").fit(1e-100 * X)
    assert log.unit_ == 1.0


# ---------------------------------------------------------------------------- types


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "int64", "float16", "float64", ">f4"])
def test_features_do_not_depend_on_the_type_of_numbers(dtype):
    counts, wanted = plain("float32", counts=True, level=100 if dtype[0] == "u" else 0)
    found = model().fit(counts.astype(dtype))
    tolerance = 1e-3 if dtype in ("float64", "int64") else 0.0
    tensors = wanted.tensors(counts)[0]  # of the spectrogram
    made = found.tensors(counts.astype(dtype))[0]
    scale = (found.spectrogram_.unit_ / wanted.spectrogram_.unit_) ** 0.5
    assert relative(made * scale, tensors) < 1e-5
    if tolerance == 0.0:
        np.testing.assert_array_equal(
            found.transform(counts.astype(dtype)), wanted.transform(counts)
        )


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_a_level_of_wide_numbers_costs_no_digits(dtype):
    counts = np.round(20 * X).astype("int32")
    spectrogram = SpectrogramTensor(FS).fit(counts)
    found = spectrogram.transform((counts + 10**9).astype(dtype))
    assert relative(found[:, :, 2:], spectrogram.transform(counts)[:, :, 2:]) < 1e-5


# ---------------------------------------------------------------------------- where signals are


@pytest.mark.parametrize("n", [1025, 1500, 2049])
def test_memory_mapped_files_and_dask_learn_the_same_of_the_same_windows(n, tmp_path):
    """Every second window begins with a burst: a stride taken twice would never meet one."""
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(n)
    made = rng.normal(size=(n, 1, 64))
    made[1::2, :, :16] *= 4.0
    mapped = np.memmap(tmp_path / "X.dat", dtype=made.dtype, mode="w+", shape=made.shape)
    mapped[:] = made
    fits = []
    blocks = [SpectrogramTensor(n_quantiles=4), ConvolutionFeatures(8, n_biases=2)]
    for source in (made, mapped, da.from_array(made, chunks=(400, 1, 64))):
        part = CPD(rank=2, max_iter=2, tol=0)
        fits.append(model(part, tensorize=blocks).fit(source))
    for other in fits:
        assert other.spectrogram_.unit_ == fits[0].spectrogram_.unit_
        assert other.decompose_.block_scales_ == pytest.approx(
            fits[0].decompose_.block_scales_, rel=1e-6
        )
        np.testing.assert_array_equal(other.convolution_.biases_, fits[0].convolution_.biases_)

import json
import pickle

import numpy as np
import pytest
import scipy.signal
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from tensorcontrast.errors import InvalidInputError, InvalidTypeError
from tensorcontrast.tensorize import spectrogram, stft
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor
from tensorcontrast.tensorize.stft import REPRESENTATIONS, automatic_frames


def signals(n=4, c=3, t=128, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=(n, c, t)).astype(dtype)


def slow(X, n_fft, hop, window, representation, floor=1e-3):
    """One frame at a time, by the definition of the Fourier transform."""
    n, c, t = X.shape
    frames = [X[..., s : s + n_fft] * window for s in range(0, t - n_fft + 1, hop)]
    k = np.arange(n_fft // 2 + 1)
    basis = np.exp(-2j * np.pi * np.outer(k, np.arange(n_fft)) / n_fft)
    Z = np.empty((n, c, len(k), len(frames)), complex)
    for i in range(n):
        for j in range(c):
            for f, frame in enumerate(frames):
                Z[i, j, :, f] = basis @ frame[i, j]
    return {
        "magnitude": lambda: np.abs(Z),
        "sqrt-magnitude": lambda: np.sqrt(np.abs(Z)),
        "log-magnitude": lambda: np.log(np.abs(Z) + floor),
        "log-real-imag": lambda: np.log(
            np.concatenate((np.abs(Z.real), np.abs(Z.imag)), axis=1) + floor
        ),
    }[representation]()


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize("window", ["hann", "rectangular"])
def test_equals_a_slow_loop(representation, window):
    X = signals(n=3, c=2, t=50, dtype=np.float64)
    name = "boxcar" if window == "rectangular" else window
    expected = slow(X, 15, 4, scipy.signal.get_window(name, 15), representation)
    found = SpectrogramTensor(
        n_fft=15, hop=4, window=window, representation=representation, dtype="float64"
    ).fit_transform(X)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("window", ["hann", "rectangular"])
@pytest.mark.parametrize(("n_fft", "hop"), [(64, 2), (32, 8), (21, 5)])
def test_equals_short_time_fft_of_scipy(window, n_fft, hop):
    X = signals(t=130, dtype=np.float64)
    ours = SpectrogramTensor(
        fs=50, n_fft=n_fft, hop=hop, window=window, representation="magnitude", dtype="float64"
    ).fit(X)
    # phase_shift=None refers the phase to the start of a frame; its frame p is centred on sample
    # p·hop, so frames that lie inside the signal need X shifted by half a frame.
    theirs = scipy.signal.ShortTimeFFT(
        scipy.signal.get_window(window, n_fft), hop, fs=50, phase_shift=None
    )
    k_offset = theirs.m_num_mid
    frames = ours.output_shape_[2]
    Z = theirs.stft(X, p0=0, p1=frames, k_offset=k_offset)
    found = ours.transform(X)
    np.testing.assert_allclose(found, np.abs(Z), atol=1e-10)
    np.testing.assert_allclose(ours.frequencies_, theirs.f)


def test_single_precision_is_near_double():
    X = signals(dtype=np.float64)
    found = SpectrogramTensor(representation="magnitude").fit_transform(X)
    exact = SpectrogramTensor(representation="magnitude", dtype="float64").fit_transform(X)
    assert (found.dtype, exact.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(found, exact, atol=1e-4)


@pytest.mark.parametrize(
    ("dataset", "size", "shape"),
    [
        ("har", (9, 128), (18, 33, 33)),
        ("sleep-edf", (7, 3000), (14, 129, 86)),
        ("ptb-xl", (12, 5000), (24, 129, 75)),
    ],
)
def test_paper_presets(dataset, size, shape):
    X = signals(2, *size)
    transformer = SpectrogramTensor.paper(dataset)
    found = transformer.fit_transform(X)
    assert found.shape == (2, *shape)
    assert transformer.output_shape_ == shape
    assert found.dtype == np.float32
    start = 3 * transformer.hop
    Z = np.fft.rfft(X[1, 2, start : start + transformer.n_fft].astype(np.float64))
    np.testing.assert_allclose(found[1, 2, :, 3], np.log(np.abs(Z.real) + 1e-3), atol=2e-2)
    np.testing.assert_allclose(
        found[1, 2 + size[0], 1:-1, 3], np.log(np.abs(Z.imag) + 1e-3)[1:-1], atol=2e-2
    )


@pytest.mark.parametrize(
    ("n_times", "fs", "n_fft", "hop"),
    [
        (128, 50, 64, 8),
        (500, 100, 128, 32),
        (1000, 100, 128, 32),
        (3000, 100, 128, 64),
        (5000, 500, 256, 128),
        (2560, 12_000, 256, 128),
        (128, None, 64, 8),
        (2, 1, 2, 1),
    ],
)
def test_automatic_frames(n_times, fs, n_fft, hop):
    assert automatic_frames(n_times, fs) == (n_fft, hop)


@given(
    n_times=st.integers(2, 60_000),
    fs=st.none() | st.floats(1e-6, 1e6),
)
def test_automatic_frames_are_moderate(n_times, fs):
    n_fft, hop = automatic_frames(n_times, fs)
    frames = stft.n_frames(n_times, n_fft, hop)
    assert 2 <= n_fft <= n_times
    assert n_fft <= 1024
    assert 1 <= hop <= n_fft // 2
    assert 1 <= frames <= 128
    assert n_times - ((frames - 1) * hop + n_fft) < hop  # nothing but part of a hop is left out


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 4),
    c=st.integers(1, 3),
    t=st.integers(2, 70),
    fs=st.none() | st.floats(0.1, 1000),
    representation=st.sampled_from(REPRESENTATIONS),
    dtype=st.sampled_from([np.float32, np.float64, np.int16, np.float16]),
)
def test_any_shape(n, c, t, fs, representation, dtype):
    X = (10 * signals(n, c, t)).astype(dtype)
    options = {"representation": representation}
    transformer = SpectrogramTensor(fs=fs, **options).fit(X)
    found = transformer.transform(X)
    assert found.shape == (n, *transformer.output_shape_)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert len(transformer.frequencies_) == found.shape[2]
    assert len(transformer.times_) == found.shape[3]
    window = scipy.signal.get_window("hann", transformer.n_fft_)
    expected = slow(
        X.astype(np.float64), transformer.n_fft_, transformer.hop_, window, representation
    )
    np.testing.assert_allclose(found, expected, atol=0.1 if "log" in representation else 3e-2)


def test_parseval():
    X = signals(t=96, dtype=np.float64)
    found = SpectrogramTensor(
        n_fft=32, hop=32, window="rectangular", representation="magnitude", dtype="float64"
    ).fit_transform(X)
    twice = np.full(17, 2.0)
    twice[[0, -1]] = 1  # both halves of the spectrum, but for frequency 0 and Nyquist
    energy = (twice[:, None] * found**2).sum(axis=(2, 3)) / 32
    np.testing.assert_allclose(energy, (X**2).sum(axis=2), rtol=1e-10)


def test_a_sine_is_found_at_its_frequency_and_time():
    fs, t = 100.0, np.arange(1000) / 100.0
    x = np.sin(2 * np.pi * 12.5 * t) * (t > 5)
    transformer = SpectrogramTensor(fs=fs, n_fft=128, hop=16, representation="magnitude")
    found = transformer.fit_transform(x[None, None])[0, 0]
    row = np.argmax(found.sum(axis=1))
    assert transformer.frequencies_[row] == 12.5
    loud = found[row] > found[row].max() / 2
    np.testing.assert_allclose(transformer.times_[loud][0], 5, atol=0.16)  # a hop
    assert loud[transformer.times_ > 5.16].all()


def test_without_fs_axes_count_samples():
    transformer = SpectrogramTensor(n_fft=8, hop=4).fit(signals(t=16))
    np.testing.assert_allclose(transformer.frequencies_, [0, 0.125, 0.25, 0.375, 0.5])
    np.testing.assert_allclose(transformer.times_, [3.5, 7.5, 11.5])


def test_units_scale_all_rows_alike():
    X = signals(dtype=np.float64) + 1
    transformer = SpectrogramTensor(dtype="float64").fit(X)
    np.testing.assert_allclose(transformer.transform(9 * X), 3 * transformer.transform(X))


@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_threads_and_blocks_do_not_matter(representation, monkeypatch):
    X = signals(n=23)
    transformer = SpectrogramTensor(representation=representation, n_jobs=1).fit(X)
    whole = transformer.transform(X)
    monkeypatch.setattr(spectrogram, "BLOCK_VALUES", 3 * 33 * 9 * 2)  # two windows
    for n_jobs in (1, 2, 5, -1, None):
        found = transformer.set_params(n_jobs=n_jobs).transform(X)
        np.testing.assert_array_equal(found, whole)


def test_layout_of_the_input_does_not_matter():
    X = signals()
    X.flags.writeable = False
    transformer = SpectrogramTensor().fit(X)
    expected = transformer.transform(X)
    for other in (np.asfortranarray(X), X.tolist(), X[::-1][::-1], X.astype(">f4")):
        np.testing.assert_array_equal(transformer.transform(other), expected)
    np.testing.assert_array_equal(X, signals())
    whole = np.round(100 * X).astype(np.int16)
    np.testing.assert_array_equal(
        transformer.transform(whole), transformer.transform(whole.astype(np.float32))
    )


def test_no_samples_give_no_tensors():
    transformer = SpectrogramTensor().fit(signals())
    assert transformer.transform(signals()[:0]).shape == (0, *transformer.output_shape_)


def test_scikit_learn_habits():
    X = signals()
    transformer = SpectrogramTensor(fs=50, window="rectangular")
    expected = transformer.fit(X).transform(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(transformer)).transform(X), expected)
    copy = clone(transformer)
    assert copy.get_params() == transformer.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(X)
    again = SpectrogramTensor(**json.loads(json.dumps(transformer.get_params())))
    np.testing.assert_array_equal(again.fit_transform(X), expected)
    tags = get_tags(transformer).input_tags
    assert (tags.three_d_array, tags.two_d_array) == (True, False)
    copy.set_params(representation="magnitude")
    np.testing.assert_allclose(np.sqrt(copy.fit_transform(X)), expected, rtol=1e-5)


def test_parameters_set_after_fit_wait_for_the_next_fit():
    X = signals()
    transformer = SpectrogramTensor().fit(X)
    expected = transformer.transform(X)
    transformer.set_params(representation="log-real-imag")
    np.testing.assert_array_equal(transformer.transform(X), expected)
    assert transformer.fit(X).transform(X).shape[1] == 6


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"fs": 0}, "fs"),
        ({"fs": -50}, "fs"),
        ({"fs": np.nan}, "fs"),
        ({"fs": np.inf}, "fs"),
        ({"fs": "50 Hz"}, "fs"),
        ({"hop": 0}, "hop"),
        ({"hop": 1.5}, "hop"),
        ({"n_fft": 1}, "n_fft"),
        ({"n_fft": 129}, "128 samples are too short for n_fft=129.*at most 128"),
        ({"representation": "power"}, "representation.*sqrt-magnitude"),
        ({"window": "hanning window"}, "window"),
        ({"window": 3}, "window"),
        ({"floor": 0}, "floor"),
        ({"dtype": "int16"}, "dtype"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_quantiles": 0}, "n_quantiles"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(InvalidInputError, match=message):
        SpectrogramTensor(**params).fit(signals())


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((4, 128)), r"2 dimensions .*\[n, channel, time\]"),
        (np.zeros((4, 3, 0)), "no time sample"),
        (np.zeros((4, 0, 128)), "no channel"),
        (np.zeros((0, 3, 128)), "no sample"),
        (np.zeros((4, 3, 1)), "1 samples have no spectrum"),
        (np.zeros((4, 3, 128), complex), "complex128"),
        (np.full((4, 3, 128), "1"), "real numbers"),
        ([[[1.0, 2.0], [1.0]]], "same channels and length"),
    ],
)
def test_bad_signals(X, message):
    with pytest.raises(InvalidInputError, match=message):
        SpectrogramTensor().fit(X)


def test_sparse_and_masked_are_refused():
    with pytest.raises(InvalidTypeError, match="dense"):
        SpectrogramTensor().fit(scipy.sparse.csr_array(np.eye(3)))
    with pytest.raises(InvalidInputError, match="masked"):
        SpectrogramTensor().fit(np.ma.masked_array(signals(), signals() > 0))


def test_values_too_large_for_the_precision_are_named():
    X = signals(dtype=np.float64)
    X[2, 1, 7] = -1e39
    with pytest.raises(InvalidInputError, match=r"X\[2\] channel 1 reaches 1e\+39.*rescale"):
        SpectrogramTensor().fit(X).transform(X)
    found = SpectrogramTensor(dtype="float64").fit_transform(X)
    assert np.isfinite(found).all()


def test_nan_and_infinity_are_named_by_place():
    X = signals(n=20, c=4)
    X[17, 3, :12] = np.nan
    with pytest.raises(
        InvalidInputError, match=r"X\[17\] channel 3 holds 12 NaN of 128 samples; fill"
    ):
        SpectrogramTensor().fit(X)
    transformer = SpectrogramTensor().fit(X[:5])
    X[2, 1, 4], X[2, 1, 5] = np.inf, np.nan
    with pytest.raises(
        InvalidInputError,
        match=r"X\[2\] channel 1 holds 1 NaN and 1 infinite of 128 samples \(as do 1 of the 17",
    ):
        transformer.transform(X)


def test_transform_checks_channels_and_length():
    transformer = SpectrogramTensor().fit(signals())
    for X in (signals(c=4), signals(t=127)):
        with pytest.raises(InvalidInputError, match=r"fit saw 3 of 128.*fit again"):
            transformer.transform(X)


def test_unknown_preset():
    with pytest.raises(InvalidInputError, match="har, ptb-xl, sleep-edf"):
        SpectrogramTensor.paper("mnist")

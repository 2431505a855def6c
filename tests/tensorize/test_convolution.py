"""Random-convolution features: PPV against loops, batches, inputs, files."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensorcontrast import CPD, ContrastiveFeatures, ConvolutionFeatures, Recordings, load_model
from tensorcontrast import tensorize as package
from tensorcontrast.errors import (
    InvalidInputError,
    InvalidTypeError,
    TensorContrastWarning,
)
from tensorcontrast.io.model_files import save_model
from tensorcontrast.tensorize import convolution
from tensorcontrast.tensorize.convolution import MIN_POSITIONS, dilation_steps, kernels
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor

LEARNED = (
    "dilations_",
    "channel_weights_",
    "biases_",
    "mean_",
    "scale_",
    "components_",
    "explained_variance_",
)


def windows(n, c, t, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, c, t)).cumsum(axis=2)
    return (X + 3).astype(np.float32)


#: Small and plain: principal components of PPV as they are.
PLAIN = {"n_biases": 4, "column_scaling": 0.0}


def fitted(X, **params):
    return ConvolutionFeatures(**PLAIN | params).fit(X)


def assert_same(one, other):
    for name in LEARNED:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def slow_outputs(x, weights, dilation):
    """Output of one kernel at each evaluated position of one signal, in float64."""
    t = len(x)
    outputs = []
    for position in range(0, t, max(1, t // MIN_POSITIONS)):
        total = 0.0
        for tap in range(9):
            at = position + (tap - 4) * dilation
            if 0 <= at < t:
                total += float(weights[tap]) * float(x[at])
        outputs.append(total)
    return np.array(outputs)


def slow_bounds(model, X, some=range(84)):
    """PPV of some kernels above biases moved by rounding errors, up and down."""
    k, d, b = model.biases_.shape
    low, high = np.empty((2, len(X), k, d, b))
    for n, window in enumerate(X.astype(np.float64)):
        for i, dilation in enumerate(model.dilations_):
            for kernel in some:
                total = model.channel_weights_[kernel, i].astype(np.float64) @ window
                outputs = slow_outputs(total, kernels()[kernel], int(dilation))
                size = 1e-5 * np.abs(total).max()
                biases = model.biases_[kernel, i].astype(np.float64)
                low[n, kernel, i] = (outputs[:, None] > biases + size).mean(axis=0)
                high[n, kernel, i] = (outputs[:, None] > biases - size).mean(axis=0)
    return low[:, some], high[:, some]


# Kernels, dilations, PPV


def test_kernels_and_dilations():
    weights = kernels()
    assert weights.shape == (84, 9)
    assert len(np.unique(weights, axis=0)) == 84
    assert (np.sort(weights, axis=1) == [-1] * 6 + [2] * 3).all()
    assert dilation_steps(129).tolist() == [1, 2, 3, 4, 6, 8, 11, 16]
    for t in (1, 8, 9, 16):
        assert dilation_steps(t).tolist() == [1]
    for t in (24, 25, 100, 1000, 5000):
        steps, longest = dilation_steps(t), (t - 1) // 8
        expected, size = [], 1.0
        while round(size) <= longest:
            expected += [round(size)] if round(size) not in expected else []
            size *= np.sqrt(2)
        assert steps.tolist() == expected and steps.dtype == np.int64


@pytest.mark.parametrize(
    ("c", "t", "params"),
    [
        (1, 9, {}),
        (3, 9, {"n_biases": 1}),
        (12, 17, {}),
        (3, 31, {"n_biases": 3}),
        (3, 1, {}),
        (1, 5, {}),
    ],
)
def test_ppv_is_that_of_a_loop(c, t, params):
    X = windows(3, c, t)
    model = fitted(X, **params)
    ppv = model.ppv(X)
    some = range(0, 84, 5)
    low, high = slow_bounds(model, X, some)
    n_dilations = len(dilation_steps(t))
    assert ppv.shape == (3, 84 * n_dilations * params.get("n_biases", 4))
    assert ppv.dtype == np.float32
    ppv = ppv.reshape(3, *model.biases_.shape)[:, some]
    assert (ppv >= low - 1e-6).all() and (ppv <= high + 1e-6).all()
    # Rounding can only matter to the few outputs that are the quantiles themselves.
    assert np.mean(high - low) < 0.5 / t


def test_rounding_does_not_decide_about_signals_of_few_digits():
    """Many outputs equal a quantile, and flat parts have outputs of 0, but for their rounding."""
    X = np.round(4 * windows(6, 2, 40)) / 4
    X[:, :, 25:] = X[:, :, 25:26]
    model = fitted(X)
    some = range(0, 84, 5)
    ppv = model.ppv(X).reshape(6, *model.biases_.shape)[:, some]
    for n, window in enumerate(X.astype(np.float64)):
        for i, dilation in enumerate(model.dilations_):
            for place, kernel in enumerate(some):
                total = model.channel_weights_[kernel, i].astype(np.float64) @ window
                outputs = slow_outputs(total, kernels()[kernel], int(dilation))
                above = outputs[:, None] > model.biases_[kernel, i].astype(np.float64)
                np.testing.assert_allclose(ppv[n, place, i], above.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("t", [300, 515, 771])
def test_long_windows_are_convolved_at_every_few_positions(t):
    X = windows(2, 2, t)
    model = fitted(X)
    some = range(0, 84, 40)  # a few of the kernels, for time
    low, high = slow_bounds(model, X, some)
    ppv = model.ppv(X).reshape(2, *model.biases_.shape)[:, some]
    assert (ppv >= low - 1e-6).all() and (ppv <= high + 1e-6).all()
    assert np.mean(high - low) < 1e-2


@pytest.mark.parametrize(("dilation", "t"), [(1, 40), (4, 40), (16, 300), (3, 600)])
def test_one_kernel_is_a_convolution(dilation, t):
    X = windows(2, 1, t)
    ones = np.ones((84, 1, 1), np.float32)
    (values,) = convolution.Kernels(np.array([dilation]), ones, t, 1.0).outputs(X, None)
    stride = max(1, t // MIN_POSITIONS)
    for kernel in (0, 41, 83):
        spread = np.zeros(8 * dilation + 1)
        spread[::dilation] = kernels()[kernel]
        for n in range(2):
            full = np.convolve(X[n, 0].astype(np.float64), spread[::-1])
            expected = full[4 * dilation : 4 * dilation + t][::stride]
            np.testing.assert_allclose(values[:, n, kernel], expected, atol=1e-4)


@pytest.mark.parametrize("c", [1, 3, 12])
def test_channels_and_biases(c):
    X = windows(40, c, 70)
    X *= np.arange(1, c + 1, dtype=np.float32)[:, None]
    model = fitted(X)
    summed = model.channel_weights_ > 0
    assert summed.sum(axis=2).min() == 1 and summed.sum(axis=2).max() == min(c, 9)
    expected = np.broadcast_to(1 / X.std(axis=(0, 2), dtype=np.float64), summed.shape)
    np.testing.assert_allclose(model.channel_weights_[summed], expected[summed], rtol=1e-5)
    assert (np.diff(model.biases_, axis=2) >= 0).all()
    # Biases are quantiles: mean PPV of the windows they came from are 7/8, 5/8, 3/8 and 1/8.
    means = model.mean_.reshape(-1, 4)
    np.testing.assert_allclose(
        means, np.tile([0.875, 0.625, 0.375, 0.125], (len(means), 1)), atol=2e-3
    )


def test_units_of_channels_do_not_matter():
    X = windows(40, 3, 50)
    ppv = fitted(X).ppv(X)
    for factor in (1024, 1000):
        scaled = X * np.array([1, factor, 1], np.float32)[:, None]
        found = fitted(scaled).ppv(scaled)
        if factor == 1024:  # a power of two changes no rounding
            np.testing.assert_array_equal(found, ppv)
        else:  # rounding may move an output that is a bias itself
            assert np.abs(found - ppv).max() <= 2.01 / 50
            assert np.mean(found != ppv) < 0.01


@pytest.mark.parametrize("power", [-200, -40, 40, 200])
def test_signals_outside_the_range_of_float32(power):
    X = windows(20, 2, 40)
    scaled = X.astype(np.float64) * 4.0**power
    model = fitted(scaled)
    assert model.unit_ == pytest.approx(4.0**power, rel=20)
    np.testing.assert_array_equal(model.ppv(scaled), fitted(X).ppv(X))


def test_a_constant_channel_is_left_out():
    X = windows(30, 3, 40)
    X[:, 1] = 0.1
    model = fitted(X)
    assert not model.channel_weights_[:, :, 1].any()
    values = model.transform(X)
    assert np.isfinite(values).all()
    X[:, 1] = 7
    np.testing.assert_array_equal(model.transform(X), values)


@pytest.mark.parametrize("column_scaling", [0.0, 1.0])
@pytest.mark.parametrize("level", [0, 0.1])
def test_constant_signals(level, column_scaling):
    X = np.full((10, 2, 40), level, np.float32)
    model = fitted(X, column_scaling=column_scaling)
    assert model.components_.shape == (1, len(model.mean_))
    assert model.explained_variance_.tolist() == [0]
    assert (model.scale_ == 1).all()
    assert np.abs(model.transform(X)).max() < 1e-6


@pytest.mark.parametrize("t", [1, 2, 9, 100])
def test_one_window(t):
    X = windows(1, 2, t)
    model = fitted(X)
    assert len(model.components_) == 1
    assert np.abs(model.transform(X)).max() < 1e-6
    assert np.isfinite(model.transform(windows(5, 2, t, seed=1))).all()


# Principal components


def test_features_are_principal_components_of_the_ppv():
    X = windows(60, 2, 40)
    model = fitted(X, n_components=10)
    ppv, values = model.ppv(X).astype(np.float64), model.transform(X)
    assert (ppv >= 0).all() and (ppv <= 1).all()
    np.testing.assert_allclose(values, (ppv - model.mean_) @ model.components_.T, atol=1e-4)
    pca = PCA(10, svd_solver="full").fit(ppv)
    np.testing.assert_allclose(model.mean_, pca.mean_, atol=1e-6)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-4)
    np.testing.assert_allclose(np.abs(values), np.abs(pca.transform(ppv)), atol=1e-3)
    np.testing.assert_allclose(values.var(axis=0, ddof=1), model.explained_variance_, rtol=1e-3)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_column_scaling(power):
    X = windows(60, 2, 40)
    X[:, :, 30:] = 0  # some PPV hardly vary
    model = fitted(X, n_components=10, column_scaling=power)
    ppv = model.ppv(X).astype(np.float64)
    sds = ppv.std(axis=0)
    scale = np.maximum(sds, 1e-3 * sds.max()) ** power
    np.testing.assert_allclose(model.scale_, scale, rtol=1e-5)
    expected = PCA(10, svd_solver="full").fit((ppv - ppv.mean(axis=0)) / scale)
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-4)
    values = ((ppv - model.mean_) / model.scale_) @ model.components_.T
    np.testing.assert_allclose(model.transform(X), values, atol=1e-3)
    if power == 1 and (sds > 1e-3 * sds.max()).all():
        standard = make_pipeline(StandardScaler(), PCA(10, svd_solver="full")).fit_transform(ppv)
        np.testing.assert_allclose(np.abs(values), np.abs(standard), atol=1e-3)


def test_columns_that_hardly_vary_are_scaled_by_the_floor():
    C = np.array([[1.0, 1e-9, 0.0], [-1.0, -1e-9, 0.0]])
    np.testing.assert_allclose(convolution._column_scale(C, 1.0), [1, 1e-3, 1e-3])
    np.testing.assert_allclose(convolution._column_scale(C, 0.5), [1, 1e-3**0.5, 1e-3**0.5])
    assert convolution._column_scale(C, 0.0).tolist() == [1, 1, 1]
    assert convolution._column_scale(0 * C, 1.0).tolist() == [1, 1, 1]


@pytest.mark.parametrize("n", [2, 5, 100, 700])  # fewer and more windows than PPV
def test_components_are_orthonormal(n):
    components = fitted(windows(n, 2, 12)).components_
    assert components.dtype == np.float32
    assert len(components) <= min(n - 1, 256)
    np.testing.assert_allclose(components @ components.T, np.eye(len(components)), atol=1e-5)
    assert (components.sum(axis=1) >= 0).all()


# The same numbers


@pytest.mark.parametrize(("c", "t"), [(1, 50), (9, 128), (2, 600)])
def test_threads_and_batches_give_the_same_bits(c, t):
    X = windows(150, c, t)
    model, other = fitted(X, n_jobs=1), fitted(X, n_jobs=2)
    assert_same(model, other)
    ppv, values = model.ppv(X), model.transform(X)
    np.testing.assert_array_equal(other.ppv(X), ppv)
    np.testing.assert_array_equal(other.transform(X), values)
    for step in (7, 64, 100):
        starts = range(0, len(X), step)
        for method, whole in ((model.ppv, ppv), (model.transform, values)):
            parts = np.concatenate([method(X[start : start + step]) for start in starts])
            np.testing.assert_array_equal(parts, whole)
    for n in (0, 63, 64, 149):
        np.testing.assert_array_equal(model.transform(X[n : n + 1]), values[n : n + 1])
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(model.transform(X[order]), values[order])


def test_other_types_and_layouts_give_the_same_bits():
    X = windows(20, 3, 60)
    model = fitted(X)
    values = model.transform(X)
    wide = np.repeat(X.astype(np.float64).transpose(2, 0, 1), 2, axis=0)[::2].transpose(1, 2, 0)
    assert not wide.flags.c_contiguous
    for same in (X.astype(np.float64), X.astype(">f4"), np.asfortranarray(X), wide, X.tolist()):
        np.testing.assert_array_equal(model.transform(same), values)
        assert_same(fitted(same), model)
    read_only = X.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(model.transform(read_only), values)
    whole = np.rint(X).astype(np.int16)
    np.testing.assert_array_equal(
        fitted(whole).transform(whole), fitted(whole.astype("f8")).transform(whole.astype("f8"))
    )
    assert model.transform(X[:0]).shape == (0, values.shape[1])
    assert model.ppv(X[:0]).shape == (0, len(model.mean_))


def test_only_some_windows_are_learned_from(monkeypatch):
    X = windows(70, 2, 30)
    monkeypatch.setattr(convolution, "MAX_LEARNING_WINDOWS", 20)
    model = fitted(X)
    assert len(model.components_) <= 17
    assert_same(model, fitted(X[::4]))


def test_random_state():
    X = windows(30, 6, 40)
    one = fitted(X, random_state=3)
    assert_same(one, fitted(X, random_state=3))
    assert_same(one, fitted(X, random_state=np.int64(3)))
    drawn = fitted(X, random_state=np.random.RandomState(3))
    assert_same(drawn, fitted(X, random_state=np.random.RandomState(3)))
    for other in (drawn, fitted(X), fitted(X, random_state=None)):
        assert not np.array_equal(one.channel_weights_, other.channel_weights_)


# An estimator


def test_public_names():
    assert package.ConvolutionFeatures is ConvolutionFeatures
    assert package.SpectrogramTensor is SpectrogramTensor


def test_recordings_clones_names_and_pickles():
    X = windows(30, 3, 40)
    rec = Recordings(X, fs=50, channels=("a", "b", "c"))
    model = ConvolutionFeatures(n_components=5, column_scaling=0.5)
    values = model.fit_transform(rec)
    np.testing.assert_array_equal(values, model.transform(X))
    assert values.dtype == np.float32
    assert model.output_shape_ == (5,)
    assert (model.n_channels_in_, model.n_times_in_, model.n_features_in_) == (3, 40, 3)
    assert model.get_feature_names_out().tolist() == [f"component_{i}" for i in range(5)]
    for same in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(same.transform(X), values)
    np.testing.assert_array_equal(clone(model).fit(X).transform(X), values)
    table = clone(model).set_output(transform="pandas").fit_transform(X)
    assert table.columns.tolist() == model.get_feature_names_out().tolist()
    with pytest.raises(NotFittedError):
        clone(model).ppv(X)


def test_failed_fit_leaves_the_model_as_it_was():
    X = windows(30, 3, 40)
    model = fitted(X)
    values = model.transform(X)
    with pytest.raises(InvalidInputError, match="NaN"):
        model.fit(np.full((3, 2, 20), np.nan))
    np.testing.assert_array_equal(model.transform(X), values)


@pytest.mark.parametrize(
    "params",
    [
        {"n_components": 0},
        {"n_components": 2.5},
        {"n_biases": 0},
        {"column_scaling": -0.1},
        {"column_scaling": 1.1},
        {"column_scaling": np.nan},
        {"random_state": "zero"},
        {"n_jobs": 0},
    ],
)
def test_bad_parameters(params):
    with pytest.raises(InvalidInputError, match=f"The '{next(iter(params))}' parameter"):
        fitted(windows(5, 2, 20), **params)


def test_bad_signals():
    X = windows(5, 3, 20)
    model = fitted(X)
    gaps = X.copy()
    gaps[2, 1, 4:7] = np.nan
    masked = np.ma.masked_invalid(gaps)
    huge = X.astype(np.float64)
    huge[1, 2, 3] = 1e60
    for method in (ConvolutionFeatures().fit, model.transform, model.ppv):
        for wrong, message in (
            (X[0], r"2 dimensions \(3, 20\), but \[n, channel, time\] is needed"),
            (X[:, :, :0], "no time sample"),
            (X[:, :0], "no channel"),
            (gaps, r"X\[2\] channel 1 holds 3 NaN of 20 samples"),
            (masked, "masked"),
            (np.where(gaps > 0, np.inf, X), "infinite"),
            (huge, r"X\[1\] channel 2 reaches 1e\+60"),
            (X.astype(complex), "Complex"),
            (X.astype(str), "real numbers are needed"),
            ([[[1.0, 2.0], [1.0]]], "same channels and length"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                method(wrong)
            with pytest.raises(InvalidInputError) as error:
                method(masked)
            assert "missing=" not in str(error.value)  # there is no such parameter here
        with pytest.raises(InvalidTypeError, match="iterator"):
            method(iter(X))
    with pytest.raises(InvalidInputError, match="no window"):
        ConvolutionFeatures().fit(X[:0])
    for wrong in (X[:, :2], X[:, :, :19], X.transpose(0, 2, 1)):
        with pytest.raises(InvalidInputError, match="fit saw 3 of 20"):
            model.transform(wrong)


def test_swapped_axes_are_suspected():
    X = windows(5, 3, 20).transpose(0, 2, 1)
    with pytest.warns(TensorContrastWarning, match=r"20 channels of 3 samples.*named channels"):
        ConvolutionFeatures().fit(X)
    named = Recordings(X, fs=50, channels=[f"c{i}" for i in range(20)])
    assert fitted(named).n_channels_in_ == 20


# Model files


@pytest.mark.parametrize("params", [{}, {"n_biases": 2, "column_scaling": 1.0}])
def test_model_files(params, tmp_path):
    X = windows(20, 3, 60)
    model = fitted(X, n_components=6, n_jobs=1, **params)
    save_model(model, tmp_path / "m.tcm")
    again = load_model(tmp_path / "m.tcm")
    assert_same(again, model)
    assert again.get_params() == model.get_params() | {"n_jobs": None}
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_features_of_a_decomposition_are_saved_with_it(tmp_path):
    X = windows(30, 3, 60)
    model = ContrastiveFeatures(
        fs=50,
        tensorize=ConvolutionFeatures(12),
        decompose=CPD(rank=3, tol=1e-2),
        random_state=0,
    ).fit(X)
    model.save(tmp_path / "m.tcm")
    again = load_model(tmp_path / "m.tcm")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))

"""Coupled blocks of signals (E22): which there are, their nuisance, files, every path."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    ContrastiveFeatures,
    ConvolutionFeatures,
    SpectrogramTensor,
    augment,
    features,
    load_model,
)
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate.peers import FlatPCA
from tensorcontrast.solvers import metric, windows
from tensorcontrast.tensorize.blocks import SignalBlocks

FAST = {"rank": 6, "max_iter": 60, "tol": 1e-3, "random_state": 0}
COMPONENTS = 84


@pytest.fixture(scope="module")
def rec():
    return make_synthetic(n_samples=60, n_times=64, n_classes=3, random_state=0)


@pytest.fixture(scope="module")
def model(rec):
    return made(rec).fit(rec.X)


def pair():
    return [SpectrogramTensor(n_quantiles=4), ConvolutionFeatures(COMPONENTS)]


def made(rec, decompose=None, **options):
    decompose = PLC(**FAST) if decompose is None else decompose
    settings = {"fs": rec.fs, "tensorize": pair(), "random_state": 0} | options
    return ContrastiveFeatures(decompose=decompose, **settings)


class Flat(TransformerMixin, BaseEstimator):
    """A transformer of somebody else: every n-th sample of each channel."""

    def __init__(self, step=8):
        self.step = step

    def fit(self, X, y=None):
        self.n_channels_in_, self.n_times_in_ = X.shape[1:]
        self.output_shape_ = X[:1, :, :: self.step].shape[1:]
        return self

    def transform(self, X):
        return np.asarray(X)[:, :, :: self.step]


class Still(Flat):
    """One that says nothing."""

    def transform(self, X):
        return np.zeros_like(super().transform(X))


# ----------------------------------------------------------------------------- blocks alone


def fitted(X, *transformers):
    return [t.fit(X) for t in transformers]


def test_blocks_are_side_by_side(rec):
    parts = fitted(rec.X, *pair(), Flat())
    found = SignalBlocks(tuple(parts))
    assert found.dims == tuple(tuple(t.output_shape_) for t in parts)
    rows = found.rows(rec.X)
    expected = [part.transform(rec.X).reshape(len(rec.X), -1) for part in parts]
    np.testing.assert_allclose(rows, np.concatenate(expected, axis=1), rtol=1e-4, atol=1e-4)
    for block, part in zip(found.split(rows), parts, strict=True):
        assert block.shape == (60, *part.output_shape_)


def test_values_are_the_same_on_the_quick_way(rec):
    parts = fitted(rec.X, *pair())
    quick, plain = SignalBlocks(tuple(parts)), SignalBlocks((*parts, Flat().fit(rec.X)))
    for one, other in zip(quick.values(rec.X), plain.values(rec.X), strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


def test_blocks_take_gaps_where_every_transformer_does(rec):
    one = SpectrogramTensor(missing="mask").fit(rec.X)
    two = SpectrogramTensor(n_quantiles=2, missing="mask").fit(rec.X)
    assert SignalBlocks((one, *fitted(rec.X, Flat()))).missing == "error"
    found = SignalBlocks((one, two))
    assert found.missing == "mask"
    gaps = rec.X.copy()
    gaps[0, 0, :9] = np.nan
    assert np.isnan(found.rows(gaps)).any(axis=1).nonzero()[0].tolist() == [0]


# ----------------------------------------------------------------------------- which blocks


def test_the_default_is_quantiles_of_a_spectrogram_and_convolution_features(rec):
    found = ContrastiveFeatures(fs=rec.fs, decompose=CPD(**FAST), random_state=0).fit(rec.X)
    assert [type(t) for t in found.tensorize_] == [SpectrogramTensor, ConvolutionFeatures]
    assert found.spectrogram_ is found.tensorize_[0]
    assert found.convolution_ is found.tensorize_[1]
    assert (found.spectrogram_.n_quantiles_, found.spectrogram_.fs) == (4, rec.fs)
    assert len(found.decompose_.block_scales_) == 2
    assert found.tensorize is None


def test_the_decomposition_has_factors_for_every_block(rec, model):
    tensors, own = model.tensors(rec.X[:1])
    assert model.decompose_.block_dims_ == (tensors.shape[1:], own.shape[1:])
    assert [len(U) for U in model.factors_] == list(model.spectrogram_.output_shape_)
    assert [len(U) for U in model.decompose_.factors_[1]] == [own.shape[1]]


def test_E22_blocks_have_equal_variance_in_the_decomposition(rec, model):
    scales = model.decompose_.block_scales_
    assert scales[0] == 1.0
    spreads = [
        scale * np.sqrt(A.reshape(len(A), -1).var(axis=0).sum())
        for scale, A in zip(scales, model.tensors(rec.X), strict=True)
    ]
    assert spreads[0] == pytest.approx(spreads[1], rel=1e-4)


def test_blocks_are_those_that_the_decomposition_takes(rec, model):
    W = model.decompose_.transform(model.tensors(rec.X))
    np.testing.assert_allclose(W, model.transform(rec.X), atol=1e-4)


def test_the_decomposition_can_weigh_the_blocks_anew(rec):
    found = made(rec, CPD(**FAST, block_weights=(3, 1))).fit(rec.X)
    variances = [
        s**2 * A.reshape(len(A), -1).var(axis=0).sum()
        for s, A in zip(found.decompose_.block_scales_, found.tensors(rec.X), strict=True)
    ]
    assert variances[0] == pytest.approx(3 * variances[1], rel=1e-4)


@pytest.mark.parametrize("decompose", [CPD, ATD, PLC])
def test_any_list_of_transformers_is_coupled(rec, decompose):
    three = (*pair(), Flat())
    found = made(rec, decompose(**FAST), tensorize=three).fit(rec.X)
    assert [type(t) for t in found.tensorize_] == [type(t) for t in three]
    assert len(found.decompose_.factors_) == 3
    assert found.transform(rec.X).shape == (60, 6)
    assert not hasattr(three[0], "n_fft_")  # what was passed stays as it was


def test_one_transformer_is_one_tensor(rec):
    for given in (SpectrogramTensor(n_quantiles=3), [SpectrogramTensor(n_quantiles=3)]):
        found = made(rec, CPD(**FAST), tensorize=given).fit(rec.X)
        assert isinstance(found.tensorize_, SpectrogramTensor)
        assert found.convolution_ is None
        assert found.decompose_.block_dims_ is None
        assert found.tensors(rec.X).shape == (60, *found.spectrogram_.output_shape_)
        assert len(found.factors_) == 3


def test_blocks_without_a_spectrogram(rec):
    found = made(rec, CPD(**FAST), tensorize=[ConvolutionFeatures(COMPONENTS), Flat()]).fit(rec.X)
    assert found.spectrogram_ is None
    assert isinstance(found.convolution_, ConvolutionFeatures)
    assert np.isfinite(found.transform(rec.X)).all()


def test_signals_with_gaps_have_the_spectrogram_alone(rec):
    gaps = rec.X.copy()
    gaps[::7, 0, :9] = np.nan
    part = CPD(**FAST | {"max_iter": 200})
    found = made(rec, part, tensorize=None, missing="mask").fit(gaps)
    assert isinstance(found.tensorize_, SpectrogramTensor)
    assert found.convolution_ is None
    assert np.isfinite(found.transform(gaps)).all()
    with pytest.raises(InvalidInputError, match="ConvolutionFeatures cannot leave missing"):
        made(rec, CPD(**FAST), missing="mask").fit(gaps)


def test_coupled_blocks_of_whole_signals_take_no_gaps(rec):
    gaps = rec.X.copy()
    gaps[0, 0, :9] = np.nan
    masked = made(rec, CPD(**FAST)).fit(rec.X).set_params(missing="mask")
    with pytest.raises(InvalidInputError, match="NaN"):
        masked.transform(gaps)


def test_peers_that_take_rows_have_all_blocks(rec):
    found = made(rec, FlatPCA(4)).fit(rec.X)
    assert len(found.tensorize_) == 2
    assert found.transform(rec.X).shape == (60, 4)


@pytest.mark.parametrize("wrong", [[], (), [3], [SpectrogramTensor(), "spectrogram"]])
def test_lists_of_something_else_are_refused(rec, wrong):
    with pytest.raises(InvalidInputError, match="tensorize="):
        made(rec, CPD(**FAST), tensorize=wrong).fit(rec.X)


# ----------------------------------------------------------------------------- parameters


# ----------------------------------------------------------------------------- nuisance


class Counted:
    """An augmentation that adds one number to all of a channel."""

    def __init__(self, channel):
        self.channel, self.calls = channel, 0

    def __call__(self, X, rng):
        self.calls += 1
        out = np.array(X)
        out[:, self.channel] += np.asarray(rng.normal(size=(len(X), 1)), X.dtype)
        return out


def test_E23_nuisance_is_the_difference_of_two_draws_of_each_step(rec):
    blocks = SignalBlocks(tuple(fitted(rec.X, Flat())))
    steps = augment.Compose((augment.Jitter(0.05), augment.Scale(0.1)))
    found = features.nuisance_differences(rec.X, blocks, steps)
    assert found.shape == (2 * 60, blocks.size)
    rng = np.random.default_rng(0)
    for step, rows in zip(steps.steps, (found[:60], found[60:]), strict=True):
        first, second = (blocks.rows(step(rec.X, rng)) for _ in range(2))
        np.testing.assert_allclose(rows, first - second, rtol=1e-5, atol=1e-6)
    # One step that is not a sequence of others.
    own = Counted(1)
    (found,) = blocks.split(features.nuisance_differences(rec.X, blocks, own))
    assert own.calls == 2
    assert not found[:, 0].any()
    assert found[:, 1].any()


def test_nuisance_is_of_a_bounded_number_of_windows(rec, monkeypatch):
    blocks = SignalBlocks(tuple(fitted(rec.X, Flat())))
    monkeypatch.setattr(features, "MAX_NUISANCE_WINDOWS", 25)
    assert len(features.nuisance_differences(rec.X, blocks, augment.Scale(0.1))) == 20
    monkeypatch.setattr(features, "MAX_NUISANCE_VALUES", 10 * blocks.size)
    assert len(features.nuisance_differences(rec.X, blocks, augment.Scale(0.1))) == 10


def test_an_augmentation_that_changes_nothing_gives_no_nuisance(rec):
    blocks = SignalBlocks(tuple(fitted(rec.X, Flat())))
    assert features.nuisance_differences(rec.X, blocks, lambda X, rng: X) is None
    assert features.nuisance_differences(rec.X, blocks, augment.Compose(())) is None
    found = made(rec, PLC(**FAST, gamma=0.0), augment=augment.Compose(())).fit(rec.X)
    assert found.decompose_.nuisance_gains_ is None
    assert np.isfinite(found.transform(rec.X)).all()


def test_E23_what_the_augmentation_changes_weighs_less(rec):
    X = rec.X - rec.X.mean()
    options = {"tensorize": [Flat(), Flat(16)], "augment": Counted(0)}

    def moved(epsilon):
        model = made(rec, PLC(**FAST, gamma=0.0, epsilon=epsilon), **options).fit(X)
        W = model.transform(X)
        other = model.transform(Counted(0)(X, np.random.default_rng(9)))
        return np.linalg.norm(other - W) / np.linalg.norm(W - W.mean(axis=0))

    assert moved(0.3) < 0.9 * moved(1e-9)


# ----------------------------------------------------------------------------- every path


def test_a_mapped_file_gives_the_same_model(rec, model, tmp_path):
    np.save(tmp_path / "x.npy", rec.X)
    mapped = made(rec).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    np.testing.assert_array_equal(mapped.transform(rec.X), model.transform(rec.X))


def test_tensors_in_a_scratch_file_give_the_same_model(rec, model, monkeypatch):
    monkeypatch.setattr(features, "MAX_VALUES_IN_MEMORY", 0)
    found = made(rec).fit(rec.X)
    np.testing.assert_array_equal(found.transform(rec.X), model.transform(rec.X))


def test_memory_of_a_fit_from_a_scratch_file_does_not_grow_with_the_windows(monkeypatch):
    """What NumPy allocates: mapped pages are let go of."""
    monkeypatch.setattr(features, "MAX_VALUES_IN_MEMORY", 0)
    monkeypatch.setattr(metric, "MAX_DEVIATION_VALUES", 2**20)
    monkeypatch.setattr(windows, "BLOCK_VALUES", 2**20)
    rng = np.random.default_rng(0)
    peaks = []
    for n in (500, 1000):
        X = rng.standard_normal((n, 4, 512)).astype(np.float32)
        model = ContrastiveFeatures(
            tensorize=SpectrogramTensor(n_fft=64, hop=8), decompose=PLC(4, max_iter=2)
        )
        tracemalloc.start()
        model.fit(X)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_tensors_of_some_windows_are_those_of_all(rec, model):
    whole = model.tensors(rec.X)
    parts = [model.tensors(rec.X[a : a + 7]) for a in range(0, len(rec.X), 7)]
    for part, block in zip(zip(*parts, strict=True), whole, strict=True):
        np.testing.assert_allclose(np.concatenate(part), block, rtol=1e-3, atol=1e-5)


def test_on_dask_as_in_memory(rec):
    array = pytest.importorskip("dask.array")
    part = PLC(**FAST, gamma=0.0)
    here = made(rec, part).fit(rec.X)
    spread = made(rec, part).fit(array.from_array(rec.X, chunks=(25, -1, -1)))
    there = np.asarray(spread.transform(array.from_array(rec.X, chunks=(40, -1, -1))))
    np.testing.assert_allclose(there, here.transform(rec.X), rtol=1e-5, atol=1e-5)


def test_constant_channels_do_not_fail(rec):
    X = rec.X.copy()
    X[:, 1:] = 0
    found = made(rec).fit(X)
    assert np.isfinite(found.transform(X)).all()


# ----------------------------------------------------------------------------- files


def test_a_file_has_all_blocks(rec, model, tmp_path):
    model.save(tmp_path / "m.tcm")
    again = load_model(tmp_path / "m.tcm")
    assert [type(t) for t in again.tensorize_] == [type(t) for t in model.tensorize_]
    np.testing.assert_array_equal(again.transform(rec.X), model.transform(rec.X))


def other_windows(model):
    X = np.random.default_rng(0).normal(size=(9, 2, 40))
    return [model.tensorize_[0], ConvolutionFeatures(COMPONENTS).fit(X)]

"""Explanations cover all of a feature, and their sentences say what was planted."""

import json

import numpy as np
import pytest
from tests.explain.conftest import fitted

from tensorcontrast import SpectrogramTensor, TensorContrastError
from tensorcontrast.explain import explain_features
from tensorcontrast.explain.feature import part_sums
from tensorcontrast.explain.words import main_band, main_channels


def test_shares_cover_all_of_a_feature(model, rec):
    W = model.transform(rec)
    for found in explain_features(model, rec):
        assert sum(found.blocks.values()) == pytest.approx(1)
        for shares in (found.channel_share, found.frequency_share, found.time_share):
            assert shares.sum() == pytest.approx(1)
        parts = found.scale_share.sum() + (found.frame_share or 0.0)
        assert parts == pytest.approx(1)
        assert found.panel_share.sum() == pytest.approx(found.frame_share or 0.0)
        convolution = found.blocks.get("random convolutions", 0.0)
        assert found.convolution_share.sum() == pytest.approx(convolution, abs=1e-9)
        assert found.sd == pytest.approx(W[:, found.index].std(), rel=1e-3)
        assert found.n_windows == len(rec)
        values = [w.value for w in found.windows]
        w = W[:, found.index]
        assert values[0] == w.max() and values[2] == w.min()
        assert abs(values[1] - np.median(w)) == np.abs(w - np.median(w)).min()
        for window in found.windows:
            total = window.contributions.sum()
            assert total == pytest.approx(window.value, abs=1e-4 * found.sd)
            np.testing.assert_array_equal(window.signal, rec.X[window.index])
        text = json.dumps(found.to_dict(), allow_nan=False)
        assert json.loads(text)["index"] == found.index


def test_the_model_alone_explains_itself(model):
    for found in explain_features(model):
        assert (found.n_windows, found.time_share, found.windows, found.strength) == (
            0, None, [], None,
        )  # fmt: skip
        assert found.channel_share.sum() == pytest.approx(1)
        assert found.frequency_share.sum() == pytest.approx(1)
        assert found.sentence and json.dumps(found.to_dict(), allow_nan=False)


def test_the_channels_are_those_of_the_contributions(default, rec):
    from tensorcontrast.explain import signal_contributions

    (found,) = explain_features(default, rec, only=[1])
    made = signal_contributions(default, rec, 1)
    w = made.sum(axis=(1, 2))
    by_channel = [np.cov(part, w, bias=True)[0, 1] / w.var() for part in made.sum(axis=2).T]
    np.testing.assert_allclose(found.channel_share, by_channel, atol=1e-6)
    parts = made.sum(axis=1) @ part_sums(64, 24)
    by_time = [np.cov(part, w, bias=True)[0, 1] / w.var() for part in parts.T]
    np.testing.assert_allclose(found.time_share, by_time, atol=1e-6)


def test_kernels_are_the_three_of_the_largest_share(default, rec):
    from tensorcontrast.explain import readout

    (found,) = explain_features(default, rec, only=[0])
    out = readout.read_out(default)
    covariance, variance, _ = readout.measured_covariance(out, rec.X)
    share = readout.covariance_shares(out.blocks[1].weights, covariance[1], variance)
    by_kernel = share.sum(axis=2)[..., 0]
    largest = np.sort(by_kernel.ravel())[::-1][:3]
    np.testing.assert_allclose([k.share for k in found.kernels], largest)
    for kernel in found.kernels:
        at = np.argwhere(np.isclose(by_kernel, kernel.share))[0]
        step = default.convolution_.dilations_[at[1]] / rec.fs
        np.testing.assert_allclose(np.diff(kernel.times), step)
        used = default.convolution_.channel_weights_[tuple(at)] > 0
        assert kernel.channels == tuple(np.array(rec.channels)[used])


def test_the_sentence_says_what_was_planted(planted):
    from tensorcontrast import Recordings

    X, strength = planted
    rec = Recordings(X, fs=64, channels=("C3", "C4", "Cz"))
    model = fitted(rec, tensorize=SpectrogramTensor())
    W = model.transform(rec)
    best = int(np.argmax(np.abs(np.corrcoef(W.T, strength)[-1, :-1])))
    (found,) = explain_features(model, rec, only=[best])
    rises = np.corrcoef(W[:, best], strength)[0, 1] > 0
    assert found.channel_share.argmax() == 1 and found.channel_share[1] > 0.8
    assert abs(found.frequencies[found.frequency_share.argmax()] - 8) <= 2
    assert found.time_share[:12].sum() > 0.65
    assert f"in C4 during the first half is {'strong' if rises else 'weak'}" in found.sentence
    low, high = found.strength.term.band
    assert low <= 8 <= high and found.strength.against is None
    assert abs(found.strength.correlation) > 0.7
    assert found.to_dict()["strength"]["term"]["channels"] == ["C4"]
    assert (found.frequency_gain[found.frequency_share.argmax()] > 0) == rises


class Sums:
    """A block that this library does not know."""

    def fit(self, X, y=None):
        self.n_channels_in_, self.n_times_in_ = X.shape[1:]
        self.output_shape_ = (X.shape[1],)
        return self

    def transform(self, X):
        return np.asarray(X).sum(axis=2).astype(np.float32)

    def get_params(self, deep=True):
        return {}

    def set_params(self, **params):
        return self


def test_blocks_from_elsewhere_are_refused(rec):
    model = fitted(rec, tensorize=[SpectrogramTensor(n_quantiles=4), Sums()])
    with pytest.raises(TensorContrastError, match="spectrogram"):
        explain_features(model, rec)


def test_windows_with_gaps_are_left_out(rec):
    X = rec.X.copy()
    X[5, 1, 10:20] = np.nan
    model = fitted(X, fs=rec.fs, missing="mask")
    found = explain_features(model, X)[0]
    assert found.n_windows == len(X) - 1
    assert 5 not in [w.index for w in found.windows]


def test_features_are_chosen(default, rec):
    assert [e.index for e in explain_features(default, only=[2, 0])] == [2, 0]
    with pytest.raises(TensorContrastError, match="no feature 9"):
        explain_features(default, rec, only=[9])


def test_main_channels_and_bands():
    assert main_channels(np.array([0.1, 0.6, -0.2, 0.3])).tolist() == [1, 3]
    assert main_channels(np.zeros(2)).tolist() == [0, 1]
    frequencies = np.arange(5.0)
    assert main_band(frequencies, np.array([0.0, 0.05, 0.9, 0.05, 0.0])) == (2.0, 2.0)
    assert main_band(frequencies, -np.ones(5)) == (0.0, 4.0)

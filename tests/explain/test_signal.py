"""Contributions over channels and time add up to the features, and are where the signal is."""

import numpy as np
import pytest
from tests.explain.conftest import fitted

from tensorcontrast import SpectrogramTensor, TensorContrastError
from tensorcontrast.explain import readout, signal, signal_contributions
from tensorcontrast.tensorize.convolution import kernels
from tensorcontrast.tensorize.stft import pool_quantiles


def test_contributions_add_up_to_the_features(model, rec):
    W = model.transform(rec[:6])
    out = readout.read_out(model)
    made = signal.contributions(out, rec.X[:6])
    assert made.shape == (6, 3, 64, 3)
    spread = model.transform(rec).std(axis=0)
    np.testing.assert_allclose(made.sum(axis=(1, 2)) / spread, W / spread, atol=1e-4)
    for feature in (0, 2):
        own = signal_contributions(model, rec[:6], feature)
        np.testing.assert_allclose(own, made[..., feature], atol=1e-9)
        total = own.sum(axis=(1, 2))
        np.testing.assert_allclose(
            total / spread[feature], W[:, feature] / spread[feature], atol=1e-4
        )
    quarters = np.kron(np.eye(4), np.ones((16, 1)))
    coarse = signal.contributions(out, rec.X[:6], quarters)
    np.testing.assert_allclose(coarse, made.reshape(6, 3, 4, 16, 3).sum(axis=3), atol=1e-9)


def test_whole_numbers_flat_channels_and_large_levels_add_up(rec):
    X = np.round(2 * rec.X).astype(np.float64)  # outputs that are equal to their biases
    X[:, 2] = 7.0
    X[:, 1] += 1e6
    model = fitted(X, fs=100.0)
    W = model.transform(X)
    for feature in range(3):
        total = signal_contributions(model, X[:5], feature).sum(axis=(1, 2))
        np.testing.assert_allclose(total, W[:5, feature], atol=1e-4 * W[:, feature].std())


def test_kernels_against_a_slow_loop(default, rec):
    out = readout.read_out(default)
    block = out.blocks[1]
    convolution, x = block.transformer, rec.X[7].astype(np.float64)
    made = signal._of_convolution(
        block, rec.X[7:8], signal._kernel_spreads(convolution, np.eye(64))
    )[0]
    slow = np.zeros_like(made)
    taps = kernels()
    for d, dilation in enumerate(convolution.dilations_.tolist()):
        places = signal.kernel_places(dilation, 1, 64, 64)
        padded = np.pad(x, ((0, 0), (4 * dilation, 4 * dilation)))
        for k in range(84):
            z = np.stack([
                convolution.channel_weights_[k, d, c]
                * sum(taps[k, j] * padded[c, j * dilation : j * dilation + 64] for j in range(9))
                for c in range(3)
            ])  # fmt: skip
            above = z.sum(axis=0)[:, None] > convolution.biases_[k, d]
            value = (above - block.centre[k, d]) @ block.weights[k, d] / 64  # i, r
            part = np.abs(z) / np.abs(z).sum(axis=0)
            slow += np.einsum("ci,ir,it->ctr", part, value, places)
    np.testing.assert_allclose(made, slow, atol=2e-4 * np.abs(slow).sum(axis=(0, 1)).max())


def test_frames_of_quantiles_against_a_slow_loop():
    rng = np.random.default_rng(0)
    values = rng.uniform(size=(2, 3, 4, 7))
    weights, centre = rng.standard_normal((3, 4, 3, 2)), rng.uniform(size=(3, 4, 3))
    made = signal.quantile_contributions(values, weights, centre)
    pooled = np.empty((2, 3, 4, 3))
    pool_quantiles(values.copy(), pooled)
    total = np.einsum("ncfq,cfqr->nr", pooled - centre, weights)
    np.testing.assert_allclose(made.sum(axis=(1, 2)), total)
    share = signal.quantile_weights(7, 3)
    slow = np.zeros_like(made)
    for n, c, f in np.ndindex(2, 3, 4):
        for rank, t in enumerate(np.argsort(values[n, c, f])):
            for q in range(3):
                own = share[rank, q] * (values[n, c, f, t] - centre[c, f, q])
                slow[n, c, t] += own * weights[c, f, q]
    np.testing.assert_allclose(made, slow)


def test_places_sum_to_one():
    for places in (
        signal.kernel_places(3, 2, 20, 40),
        signal.kernel_places(1, 1, 9, 9),
        signal.frame_places(np.hanning(10) + 0.1, 4, 5, 30),
    ):
        np.testing.assert_allclose(places.sum(axis=1), 1)
        assert (places >= 0).all()
    middle = signal.kernel_places(3, 2, 20, 40)[10]
    assert middle.argmax() == 20 and np.flatnonzero(middle)[[0, -1]].tolist() == [7, 33]
    nothing = signal.channel_parts(np.zeros((3, 1, 1, 1)), np.array([[1.0], [0.0], [2.0]]))
    assert nothing.ravel().tolist() == [0.5, 0.0, 0.5]


def test_a_burst_is_found_where_it_is(planted):
    X, strength = planted
    model = fitted(X, fs=64.0, tensorize=[SpectrogramTensor(), *fitted_blocks()])
    W = model.transform(X)
    feature = int(np.argmax(np.abs(np.corrcoef(W.T, strength)[-1, :-1])))
    loud = np.argsort(strength)[-5:]
    made = signal_contributions(model, X[loud], feature)
    by_channel, half = np.abs(made.sum(axis=2)), np.abs(made[:, 1]).reshape(5, 2, 64).sum(axis=2)
    assert (by_channel.argmax(axis=1) == 1).all()
    assert (half[:, 0] > 2 * half[:, 1]).all()


def fitted_blocks():
    from tensorcontrast import ConvolutionFeatures

    return [ConvolutionFeatures(n_components=20)]


def test_wrong_windows_are_refused(default, rec):
    gaps = rec.X[:2].copy()
    gaps[0, 0, 3] = np.nan
    with pytest.raises(TensorContrastError):
        signal_contributions(default, gaps, 0)
    with pytest.raises(TensorContrastError, match="fitted on 3 of 64"):
        signal_contributions(default, rec.X[:, :2], 0)
    with pytest.raises(TensorContrastError, match="from 0 to 2"):
        signal_contributions(default, rec, 3)
    with pytest.raises(TensorContrastError, match="ContrastiveFeatures"):
        signal_contributions(object(), rec, 0)

"""Read-out weights give the features of transform, and their shares add up."""

import numpy as np
import pytest

from tensorcontrast import ContrastiveFeatures, SpectrogramTensor
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate.peers import FlatPCA
from tensorcontrast.explain import readout
from tensorcontrast.tensorize.convolution import kernels


def features_of(out, rec):
    return sum(block.values(rec.X) @ block.matrix for block in out.blocks)


def test_features_are_a_weighted_sum_of_block_values(model, rec):
    out = readout.read_out(model)
    W = model.transform(rec)
    np.testing.assert_allclose(features_of(out, rec), W, atol=1e-4 * W.std(axis=0).min())
    one = features_of(out.of([2]), rec)
    np.testing.assert_allclose(one[:, 0], W[:, 2], atol=1e-4 * W.std(axis=0).min())


def test_covariances_are_those_of_all_windows_at_once(default, rec):
    out = readout.read_out(default)
    few = 20 * max(b.centre.size for b in out.blocks)
    covariance, variance, means = readout.measured_covariance(out, rec.X, few)
    W = features_of(out, rec)
    np.testing.assert_allclose(variance, W.var(axis=0), rtol=1e-8)
    for block, found, mean in zip(out.blocks, covariance, means, strict=True):
        values = block.values(rec.X).reshape(len(rec), *block.centre.shape) + block.centre
        slow = np.einsum("n...,nr->...r", values - values.mean(axis=0), W - W.mean(axis=0))
        np.testing.assert_allclose(found, slow / len(W), atol=1e-9)
        np.testing.assert_allclose(mean, values.mean(axis=0), atol=1e-9)
    shares = [
        readout.covariance_shares(b.weights, c, variance)
        for b, c in zip(out.blocks, covariance, strict=True)
    ]
    np.testing.assert_allclose(sum(s.sum(axis=(0, 1, 2)) for s in shares), 1)
    modelled = [
        readout.covariance_shares(b.weights, c, out.variance)
        for b, c in zip(out.blocks, out.modelled, strict=True)
    ]
    np.testing.assert_allclose(sum(s.sum(axis=(0, 1, 2)) for s in modelled), 1)
    for a, b in zip(shares, modelled, strict=True):  # the model knows about what is measured
        np.testing.assert_allclose(a.sum(axis=(0, 1, 2)), b.sum(axis=(0, 1, 2)), atol=0.15)


def test_parts_that_cancel_have_negative_shares():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(500)
    values = np.stack([x, x + 0.1 * rng.standard_normal(500)], axis=1)
    weights = np.array([[3.0], [-2.0]])
    w = values @ weights
    covariance = (values - values.mean(0)).T @ (w - w.mean(0)) / 500
    shares = readout.covariance_shares(weights, covariance, w.var(axis=0))
    assert shares.sum() == pytest.approx(1)
    assert shares[0] > 2 and shares[1] < -1
    assert not readout.covariance_shares(weights, covariance, np.zeros(1)).any()


def test_power_responses_are_those_of_the_dilated_kernels():
    frequencies = np.array([0.0, 0.03, 0.11, 0.5])
    found = readout.power_responses(kernels()[:5], np.array([1, 4]), frequencies)
    for k, taps in enumerate(kernels()[:5]):
        for d, dilation in enumerate((1, 4)):
            dilated = np.zeros(8 * dilation + 1)
            dilated[::dilation] = taps
            n = np.arange(len(dilated))
            slow = [abs(np.sum(dilated * np.exp(-2j * np.pi * f * n))) ** 2 for f in frequencies]
            np.testing.assert_allclose(found[k, d], slow, atol=1e-9)
    spectra = readout.output_spectra(found, np.ones((5, 2, 3)), np.ones((3, 4)))
    np.testing.assert_allclose(spectra.sum(axis=2), 1)
    assert not spectra[..., 0].any()  # kernels sum to 0
    flat = readout.output_spectra(found, np.zeros((5, 2, 3)), np.ones((3, 4)))
    np.testing.assert_allclose(flat, 0.25)
    assert readout.on_axis(np.array([0.0, 0.9, 1.1, 9.0]), np.array([0.0, 2.0, 4.0])).tolist() == [
        0, 0, 1, 2,
    ]  # fmt: skip


def test_doubled_amplitudes():
    z = np.random.default_rng(0).standard_normal(200_000)
    biases = np.quantile(z, (np.arange(8) + 0.5) / 8)
    found = readout.doubling_of_ppv(biases.reshape(1, 1, 8))[0, 0]
    slow = [(2 * z > b).mean() - (z > b).mean() for b in biases]
    np.testing.assert_allclose(found, slow, atol=0.02)
    values = np.array([0.5, 2.0])
    found = readout.doubling_of_magnitudes(values, "sqrt-magnitude")
    np.testing.assert_allclose(values + found, np.sqrt(2 * values**2))
    np.testing.assert_allclose(readout.doubling_of_magnitudes(values, "magnitude"), values)
    log = readout.doubling_of_magnitudes(values, "log-magnitude")
    np.testing.assert_allclose(log, np.log(2))


def test_the_even_part_does_not_notice_the_strength():
    weights = np.random.default_rng(0).standard_normal((2, 3, 8, 1))
    biases = np.sort(np.abs(np.random.default_rng(1).standard_normal((2, 3, 4))), axis=2)
    biases = np.concatenate([-biases[..., ::-1], biases], axis=2)
    even = readout.even_part(weights)
    change = readout.doubling_of_ppv(biases)
    np.testing.assert_allclose(np.einsum("kdbr,kdb->kdr", even, change), 0, atol=1e-12)
    odd = weights - even
    np.testing.assert_allclose(odd, -odd[:, :, ::-1])


def test_features_of_other_decompositions_are_refused(rec):
    model = ContrastiveFeatures(tensorize=SpectrogramTensor(), decompose=FlatPCA(2)).fit(rec)
    with pytest.raises(InvalidInputError, match="FlatPCA"):
        readout.read_out(model)

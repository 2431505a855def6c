"""Quantile pooling over time: means of the smallest to the largest frames of every row."""

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import CPD, ContrastiveFeatures, SpectrogramTensor, load_model
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.io.model_files import save_model
from tensorcontrast.report.components import describe_components
from tensorcontrast.tensorize import spectrogram
from tensorcontrast.tensorize.stft import pool_quantiles, quantile_weights


def noise(n=60, c=3, t=128, seed=0):
    return np.random.default_rng(seed).normal(size=(n, c, t))


def slow_quantiles(row, q):
    """Mean of each share of the ordered values that are there, each value cut into q pieces."""
    values = np.sort(row[~np.isnan(row)])
    pieces = np.repeat(values, q)  # q · k of them: every share has k
    return pieces.reshape(q, -1).mean(axis=1) if len(values) else np.full(q, np.nan)


@pytest.mark.parametrize("q", [1, 2, 3, 4, 7, 9, 12])
@pytest.mark.parametrize("t", [1, 2, 5, 9])
def test_quantiles_equal_a_slow_loop(t, q):
    rng = np.random.default_rng(t)
    tensors = rng.normal(size=(6, 2, 5, t))
    tensors[rng.random(tensors.shape) < 0.3] = np.nan
    tensors[:2] = rng.normal(size=(2, 2, 5, t))
    tensors[3, 1] = np.nan
    wanted = np.apply_along_axis(slow_quantiles, 3, tensors, q)
    out = np.empty((6, 2, 5, q))
    pool_quantiles(tensors.copy(), out)
    np.testing.assert_allclose(out, wanted, atol=1e-12)
    np.testing.assert_allclose(quantile_weights(t, q).sum(axis=0), 1)
    np.testing.assert_allclose(quantile_weights(t, q).sum(axis=1), q / t)


@pytest.mark.parametrize("representation", ["sqrt-magnitude", "log-magnitude", "log-real-imag"])
def test_tensors_are_the_quantiles_of_those_in_time(representation):
    X = noise(n=7) + 1
    options = {"fs": 50, "representation": representation, "dtype": "float64"}
    in_time = SpectrogramTensor(**options, n_quantiles=None).fit(X)
    pooled = SpectrogramTensor(**options, n_quantiles=3).fit(X)
    assert (in_time.n_quantiles_, pooled.n_quantiles_) == (None, 3)
    assert pooled.output_shape_ == (*in_time.output_shape_[:2], 3)
    np.testing.assert_array_equal(pooled.times_, in_time.times_)
    np.testing.assert_array_equal(in_time.time_axis_, in_time.times_)
    np.testing.assert_allclose(pooled.time_axis_, [1 / 6, 1 / 2, 5 / 6])
    whole, found = in_time.transform(X), pooled.transform(X)
    np.testing.assert_allclose(found, np.apply_along_axis(slow_quantiles, 3, whole, 3), atol=1e-12)
    np.testing.assert_allclose(found.mean(axis=3), whole.mean(axis=3), atol=1e-12)
    assert (np.diff(found, axis=3) >= 0).all()


def test_where_in_the_window_something_happens_does_not_matter():
    X = noise(n=8, t=128)
    transformer = SpectrogramTensor(n_fft=16, hop=16, n_quantiles=4)
    moved = X.reshape(8, 3, 8, 16)[:, :, np.random.default_rng(1).permutation(8)].reshape(X.shape)
    transformer.fit(X)
    np.testing.assert_allclose(transformer.transform(moved), transformer.transform(X), atol=1e-5)


@pytest.mark.parametrize("missing", [False, True])
def test_threads_and_blocks_do_not_matter(missing, monkeypatch):
    X = noise(n=23).astype(np.float32)
    if missing:
        X[np.random.default_rng(0).random(X.shape) < 0.003] = np.nan
    options = {"n_quantiles": 4, "missing": "mask" if missing else "error"}
    whole = SpectrogramTensor(n_jobs=1, **options).fit_transform(X)
    assert np.isfinite(whole).any()
    monkeypatch.setattr(spectrogram, "BLOCK_VALUES", 3 * 33 * 9 * 2)  # two windows
    for n_jobs in (1, 2, None):
        transformer = SpectrogramTensor(n_jobs=n_jobs, **options).fit(X)
        np.testing.assert_array_equal(transformer.transform(X), whole)


def test_frames_that_are_missing_are_left_out():
    X = noise(n=5)
    X[1, 2] = np.nan
    X[3, 0, 10] = np.nan
    transformer = SpectrogramTensor(n_fft=16, hop=16, n_quantiles=2, missing="mask").fit(X)
    found = transformer.transform(X)
    assert np.isnan(found[1, 2]).all()
    assert np.isfinite(np.delete(found[1], 2, axis=0)).all()
    in_time = clone(transformer).set_params(n_quantiles=None).fit_transform(X)
    assert np.isnan(in_time[3, 0, :, 0]).all()
    wanted = np.apply_along_axis(slow_quantiles, 1, in_time[3, 0, :, 1:], 2)
    np.testing.assert_allclose(found[3, 0], wanted, rtol=1e-5)


@pytest.mark.parametrize("n_quantiles", [8, 9, 1000])
def test_more_quantiles_than_frames_are_as_many_as_frames(n_quantiles):
    X = noise(n=6)
    options = {"n_fft": 16, "hop": 16}  # eight frames
    found = SpectrogramTensor(**options, n_quantiles=n_quantiles).fit(X)
    assert (found.n_quantiles, found.n_quantiles_) == (n_quantiles, 8)
    assert found.output_shape_ == (3, 9, 8)
    in_time = SpectrogramTensor(**options).fit_transform(X)
    np.testing.assert_allclose(found.transform(X), np.sort(in_time, axis=3), rtol=1e-5)


def test_frames_are_in_time_unless_quantiles_are_asked_for():
    X = noise(n=40)
    for representation in ("sqrt-magnitude", "log-real-imag"):
        found = SpectrogramTensor(representation=representation).fit(X)
        assert found.n_quantiles_ is None
        assert found.output_shape_[2] == len(found.times_)
    assert SpectrogramTensor.paper("har").fit(X).n_quantiles_ is None


def test_weights_of_quantiles_are_kept_and_cannot_be_written_to():
    assert quantile_weights(7, 3) is quantile_weights(7, 3)
    assert not quantile_weights(7, 3).flags.writeable


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "time", "auto", [4]])
def test_wrong_numbers_are_told(wrong):
    with pytest.raises(InvalidInputError, match="n_quantiles"):
        SpectrogramTensor(n_quantiles=wrong).fit(noise(3))


# ------------------------------------------------------------------------- files


def test_a_model_file_keeps_the_quantiles(tmp_path):
    X = noise()
    transformer = SpectrogramTensor(fs=50, n_quantiles=4).fit(X)
    save_model(transformer, tmp_path / "s.tcm")
    loaded = load_model(tmp_path / "s.tcm")
    assert loaded.n_quantiles_ == 4
    np.testing.assert_array_equal(loaded.transform(X), transformer.transform(X))


# ------------------------------------------------------------------------- words


def test_components_have_quantiles_in_percent():
    model = ContrastiveFeatures(fs=50, decompose=CPD(rank=2, max_iter=2, tol=0), random_state=0)
    found = describe_components(model.fit(noise()))[0]
    assert (found.by_strength, found.time_unit) == (True, "%")
    np.testing.assert_allclose(found.times, [12.5, 37.5, 62.5, 87.5])
    np.testing.assert_allclose(found.explanation.panel, [0.125, 0.375, 0.625, 0.875])
    assert found.explanation.by_quantile

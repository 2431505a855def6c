"""Frames in the order of their size: levels of every row, where time says nothing."""

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import CPD, ContrastiveFeatures, SpectrogramTensor, _course, _stft, load_model
from tensorcontrast.errors import DamagedFileError, InvalidInputError
from tensorcontrast.model_io import save_model
from tensorcontrast.report.components import describe_components


def noise(n=60, c=3, t=128, seed=0):
    return np.random.default_rng(seed).normal(size=(n, c, t))


def aligned(loud=2.0):
    """Windows with something at the same place of each."""
    X = noise()
    X[:, 0, 30:60] += loud * np.sin(np.arange(30))
    return X


def slow_levels(row, q):
    """Mean of each share of the ordered values that are there, each value cut into q pieces."""
    values = np.sort(row[~np.isnan(row)])
    pieces = np.repeat(values, q)  # q · k of them: every share has k
    return pieces.reshape(q, -1).mean(axis=1) if len(values) else np.full(q, np.nan)


@pytest.mark.parametrize("q", [1, 2, 3, 4, 7, 9, 12])
@pytest.mark.parametrize("t", [1, 2, 5, 9])
def test_levels_equal_a_slow_loop(t, q):
    rng = np.random.default_rng(t)
    tensors = rng.normal(size=(6, 2, 5, t))
    tensors[rng.random(tensors.shape) < 0.3] = np.nan
    tensors[:2] = rng.normal(size=(2, 2, 5, t))
    tensors[3, 1] = np.nan
    wanted = np.apply_along_axis(slow_levels, 3, tensors, q)
    out = np.empty((6, 2, 5, q))
    _course.to_levels(tensors.copy(), out)
    np.testing.assert_allclose(out, wanted, atol=1e-12)
    np.testing.assert_allclose(_course.shares(t, q).sum(axis=0), 1)
    np.testing.assert_allclose(_course.shares(t, q).sum(axis=1), q / t)


@pytest.mark.parametrize("representation", ["sqrt-magnitude", "log-magnitude", "log-real-imag"])
def test_tensors_are_the_levels_of_those_in_time(representation):
    X = noise(n=7) + 1
    options = {"fs": 50, "mean_row": True, "representation": representation, "dtype": "float64"}
    in_time = SpectrogramTensor(**options, n_levels="time").fit(X)
    levels = SpectrogramTensor(**options, n_levels=3).fit(X)
    assert (in_time.n_levels_, levels.n_levels_) == (None, 3)
    assert levels.output_shape_ == (*in_time.output_shape_[:2], 3)
    np.testing.assert_array_equal(levels.times_, in_time.times_)
    np.testing.assert_array_equal(in_time.course_, in_time.times_)
    np.testing.assert_allclose(levels.course_, [1 / 6, 1 / 2, 5 / 6])
    whole, found = in_time.transform(X), levels.transform(X)
    np.testing.assert_allclose(found, np.apply_along_axis(slow_levels, 3, whole, 3), atol=1e-12)
    np.testing.assert_allclose(found.mean(axis=3), whole.mean(axis=3), atol=1e-12)
    assert (np.diff(found, axis=3) >= 0).all()


def test_where_in_the_window_something_happens_does_not_matter():
    X = noise(n=8, t=128)
    transformer = SpectrogramTensor(n_fft=16, hop=16, n_levels=4, polarity=True, mean_row=True)
    moved = X.reshape(8, 3, 8, 16)[:, :, np.random.default_rng(1).permutation(8)].reshape(X.shape)
    transformer.fit(X)
    np.testing.assert_allclose(transformer.transform(moved), transformer.transform(X), atol=1e-5)


@pytest.mark.parametrize("missing", [False, True])
def test_threads_blocks_and_chunks_do_not_matter(monkeypatch, missing):
    X = noise(n=23).astype(np.float32)
    if missing:
        X[np.random.default_rng(0).random(X.shape) < 0.003] = np.nan
    options = {"n_levels": 4, "missing": "mask" if missing else "error"}
    whole = SpectrogramTensor(n_jobs=1, **options).fit_transform(X)
    assert np.isfinite(whole).any()
    monkeypatch.setattr(_stft, "_BLOCK", 3 * 33 * 9 * 2)
    for n_jobs in (1, 2, None):
        transformer = SpectrogramTensor(n_jobs=n_jobs, **options).fit(X)
        np.testing.assert_array_equal(transformer.transform(X), whole)
        chunks = np.concatenate(list(transformer.iter_chunks(X, 5)))
        np.testing.assert_array_equal(chunks, whole)


def test_frames_that_are_missing_are_left_out():
    X = noise(n=5)
    X[1, 2] = np.nan
    X[3, 0, 10] = np.nan
    transformer = SpectrogramTensor(n_fft=16, hop=16, n_levels=2, missing="mask").fit(X)
    found = transformer.transform(X)
    assert np.isnan(found[1, 2]).all()
    assert np.isfinite(np.delete(found[1], 2, axis=0)).all()
    in_time = clone(transformer).set_params(n_levels="time").fit_transform(X)
    assert np.isnan(in_time[3, 0, :, 0]).all()
    wanted = np.apply_along_axis(slow_levels, 1, in_time[3, 0, :, 1:], 2)
    np.testing.assert_allclose(found[3, 0], wanted, rtol=1e-5)


# ------------------------------------------------------------------------- "auto"


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_auto_tells_windows_cut_anywhere_from_aligned_ones(unit, offset):
    transformer = SpectrogramTensor(fs=50)
    assert transformer.fit(unit * (noise() + offset)).n_levels_ == 4
    assert transformer.output_shape_[2] == 4
    assert transformer.fit(unit * (aligned() + offset)).n_levels_ is None
    assert transformer.output_shape_[2] == 9


def test_auto_looks_at_what_was_observed():
    X = noise()
    X[np.random.default_rng(0).random(X.shape) < 0.003] = np.nan
    X[:20, :, :40] = np.nan  # whose frames say nothing of the position
    assert SpectrogramTensor(missing="mask").fit(X).n_levels_ == 4
    never = X + 5
    never[:, :, :20] = np.nan  # no window has the first frames
    assert SpectrogramTensor(missing="mask").fit(never).n_levels_ == 4
    X = np.where(np.isnan(X), np.nan, aligned())
    assert SpectrogramTensor(missing="mask").fit(X).n_levels_ is None
    nothing = np.full_like(X, np.nan)
    assert SpectrogramTensor(missing="mask").fit(nothing).n_levels_ == 4
    assert SpectrogramTensor().fit(np.zeros_like(X)).n_levels_ == 4


def test_auto_keeps_time_where_it_cannot_tell():
    X = noise()
    assert SpectrogramTensor().fit(X[:31]).n_levels_ is None
    assert SpectrogramTensor(n_fft=64, hop=20).fit(X).n_levels_ is None  # four frames
    for representation in ("log-real-imag", "complex"):
        assert SpectrogramTensor(representation=representation).fit(X).n_levels_ is None
    assert SpectrogramTensor.paper("har").fit(X).n_levels_ is None


@pytest.mark.parametrize("wrong", [0, -1, 2.5, None, "none", [4]])
def test_wrong_numbers_are_told(wrong):
    with pytest.raises(InvalidInputError, match="n_levels"):
        SpectrogramTensor(n_levels=wrong).fit(noise(3))


def test_complex_tensors_have_no_levels():
    with pytest.raises(InvalidInputError, match=r"n_levels.*no way back; leave it 'time'"):
        SpectrogramTensor(n_levels=4, representation="complex").fit(noise(3))


# ------------------------------------------------------------------------- files


def test_a_model_file_keeps_the_levels(tmp_path):
    X = noise()
    transformer = SpectrogramTensor(fs=50).fit(X)
    save_model(transformer, tmp_path / "s.tcm")
    loaded = load_model(tmp_path / "s.tcm")
    assert loaded.n_levels_ == 4
    np.testing.assert_array_equal(loaded.transform(X), transformer.transform(X))


def test_files_from_before_there_were_levels(tmp_path):
    X = noise()
    old = SpectrogramTensor(fs=50, n_levels="time").fit(X)
    expected = old.transform(X)
    del old.n_levels_
    old.n_levels = "auto"  # what a file without the parameter gets
    save_model(old, tmp_path / "s.tcm")
    loaded = load_model(tmp_path / "s.tcm")
    assert loaded.n_levels_ is None
    np.testing.assert_array_equal(loaded.transform(X), expected)


@pytest.mark.parametrize("wrong", [3, 0, -4, "four", 4.0, True, None])
def test_damaged_levels_are_told(tmp_path, wrong):
    transformer = SpectrogramTensor(fs=50).fit(noise())
    transformer.n_levels_ = wrong
    save_model(transformer, tmp_path / "s.tcm")
    with pytest.raises(DamagedFileError):
        load_model(tmp_path / "s.tcm")


# ------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ([1.0, 1.0, 1.0, 1.0], "evenly through the window"),
        ([0.1, 0.2, 0.4, 1.0], "in its strongest moments"),
        ([1.0, 0.4, 0.2, 0.1], "in its weakest moments"),
        ([0.1, 1.0, 0.2, 0.1], "in its moments of middle strength"),
        ([-1.0, -0.2, 0.3, 0.9], "by how much it varies within the window"),
    ],
)
def test_components_say_in_which_moments(profile, words):
    model = ContrastiveFeatures(fs=50, decompose=CPD(2, max_iter=2, tol=0), random_state=0)
    model.fit(noise())
    model.factors_[2][:, 0] = profile
    (found,) = [c for c in describe_components(model) if c.index == 0]
    assert words in found.sentence
    assert (found.by_strength, found.time_unit) == (True, "%")
    np.testing.assert_allclose(found.times, [12.5, 37.5, 62.5, 87.5])

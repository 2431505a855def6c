"""Rows of polarity: which leads rise together, and whether that says anything."""

import numpy as np
import pytest
import scipy.signal
from sklearn.base import clone

from tensorcontrast import CPD, ContrastiveFeatures, SpectrogramTensor, _stft, load_model
from tensorcontrast._polarity import REPRESENTATIONS, reference
from tensorcontrast.errors import DamagedFileError, InvalidInputError
from tensorcontrast.model_io import save_model

LAWS = {
    "magnitude": np.abs,
    "sqrt-magnitude": lambda a: np.sqrt(np.abs(a)),
    "log-magnitude": lambda a: np.log(1 + np.abs(a) / 1e-3),
}
SIGNS = np.array([1.0, -0.7, 0.5, 0.8, -0.9, 0.6, -0.4, 1.1])


def noise(n=40, c=3, t=128, seed=0):
    return np.random.default_rng(seed).normal(size=(n, c, t))


def leads(n=40, c=3, t=128, seed=0, loud=0.3):
    """Channels that share a source with signs and sizes of their own, and some noise."""
    return noise(n, 1, t, seed + 1) * SIGNS[:c, None] + loud * noise(n, c, t, seed)


def polarity(transformer, X):
    return transformer.transform(X)[:, :, transformer.row_kinds_ == "polarity"]


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize("window", ["hann", "boxcar"])
@pytest.mark.parametrize("mean_row", [False, True])
def test_rows_equal_a_slow_loop(representation, window, mean_row):
    X = leads(n=5, t=50)
    centred = [x - x.mean(axis=1, keepdims=True) for x in X]
    rows = np.concatenate([x / np.linalg.norm(x) for x in centred], axis=1)
    weights = np.linalg.svd(rows, full_matrices=False)[0][:, 0]
    weights *= np.sign(weights[np.argmax(np.abs(weights))])
    options = {"n_fft": 15, "hop": 4, "window": window, "representation": representation}
    options |= {"mean_row": mean_row, "dtype": "float64"}
    transformer = SpectrogramTensor(fs=50, polarity=True, **options).fit(X)
    np.testing.assert_allclose(transformer.reference_, weights, atol=1e-12)
    found = transformer.transform(X)
    assert found.shape == (5, *transformer.output_shape_) == (5, 3, 16 + mean_row, 9)
    first = 8 + mean_row
    for n in range(5):
        for t in range(9):
            frame = X[n, :, 4 * t : 4 * t + 15] * scipy.signal.get_window(window, 15)
            Z = np.array([np.fft.rfft(channel) for channel in frame])
            for f in range(8):
                R = sum(w * z for w, z in zip(weights, Z[:, f], strict=True))
                for c in range(3):
                    part = (Z[c, f] * np.conj(R) / abs(R)).real
                    wanted = np.sign(part) * LAWS[representation](part)
                    np.testing.assert_allclose(found[n, c, first + f, t], wanted, atol=1e-9)
    plain = SpectrogramTensor(fs=50, polarity=False, **options).fit(X)
    np.testing.assert_array_equal(found[:, :, :first], plain.transform(X))
    kinds = ["magnitude"] * 8 + ["mean"] * mean_row + ["polarity"] * 8
    assert transformer.row_kinds_.tolist() == kinds
    assert plain.row_kinds_.tolist() == kinds[:first]
    hertz = np.fft.rfftfreq(15, 1 / 50)
    np.testing.assert_array_equal(
        transformer.frequencies_, np.concatenate([hertz, [0.0] * mean_row, hertz])
    )


def test_the_sign_is_that_of_the_channel():
    X = leads(c=4)
    options = {"polarity": True, "n_levels": "time"}
    transformer = SpectrogramTensor(dtype="float64", **options).fit(X)
    whole = polarity(transformer, X)
    for flipped in range(4):
        other = X.copy()
        other[:, flipped] *= -1
        again = SpectrogramTensor(dtype="float64", **options).fit(other)
        signs = np.where(np.arange(4) == flipped, -1, 1)
        if flipped == np.argmax(np.abs(transformer.reference_)):
            signs = -signs  # the reference follows the largest: all others fall now
        found = polarity(again, other)
        np.testing.assert_allclose(found, signs[:, None, None] * whole, atol=1e-6)
    exact = leads(loud=0.0)
    found = polarity(SpectrogramTensor(polarity=True).fit(exact), exact)
    assert (np.sign(found[:, :, 1:-1]) == np.sign(SIGNS[:3])[:, None, None]).all()


def test_a_common_shift_or_sign_changes_nothing():
    X = leads(t=160)
    transformer = SpectrogramTensor(n_fft=32, hop=8, polarity=True, n_levels="time")
    transformer.set_params(dtype="float64").fit(X[..., :128])
    here, later = (polarity(transformer, X[..., s : s + 128]) for s in (0, 16))
    np.testing.assert_allclose(here[..., 2:], later[..., :-2], atol=1e-9)
    np.testing.assert_allclose(polarity(transformer, -X[..., :128]), here, atol=1e-9)
    # A delay of all channels turns all phases alike.
    circular = SpectrogramTensor(n_fft=128, hop=128, window="rectangular", polarity=True)
    circular.set_params(dtype="float64").fit(X[..., :128])
    turned = polarity(circular, np.roll(X[..., :128], 5, axis=2))
    np.testing.assert_allclose(turned, polarity(circular, X[..., :128]), atol=1e-6)


def test_units_scale_all_rows_alike():
    X = leads() + 1
    transformer = SpectrogramTensor(mean_row=True, polarity=True, dtype="float64").fit(X)
    np.testing.assert_allclose(transformer.transform(9 * X), 3 * transformer.transform(X))
    for unit in (1e-200, 1e-6, 1e6, 1e140):
        np.testing.assert_allclose(reference(unit * X), transformer.reference_, atol=1e-9)
        other = SpectrogramTensor(mean_row=False, dtype="float64").fit(unit * X)
        assert other.polarity_ is True


@pytest.mark.parametrize("c", [2, 3, 8])
@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_auto_tells_leads_from_noise(c, representation):
    transformer = SpectrogramTensor(fs=50, representation=representation)
    assert transformer.fit(leads(c=c)).polarity_ is True
    wanted = SpectrogramTensor(fs=50, representation=representation, polarity=True)
    X = leads(c=c)
    np.testing.assert_array_equal(wanted.fit_transform(X), transformer.fit_transform(X))
    assert transformer.fit(noise(c=c)).polarity_ is False
    assert transformer.reference_ is None
    assert set(transformer.row_kinds_) == {"magnitude"}


def test_auto_is_for_magnitudes_of_several_channels():
    X = leads()
    for representation in ("log-real-imag", "complex"):
        assert SpectrogramTensor(representation=representation).fit(X).polarity_ is False
    assert SpectrogramTensor().fit(X[:, :1]).polarity_ is False
    assert SpectrogramTensor.paper("har").fit(X).polarity_ is False
    for other in (np.zeros((3, 2, 64)), np.ones((1, 2, 64)), X * [[1], [0], [0]]):
        assert SpectrogramTensor().fit(other).polarity_ is False


def test_silent_channels_have_zeros():
    X = leads()
    X[:3] = 0
    X[3, 1] = 0
    found = polarity(SpectrogramTensor(polarity=True).fit(X), X)
    assert (found[:3] == 0).all()
    assert (found[3, 1] == 0).all() and (found[3, 0] != 0).any()


@pytest.mark.parametrize("mean_row", [False, True])
def test_missing_channels_count_as_zero_in_the_reference(mean_row):
    X = leads(n=6)
    dirty = X.copy()
    dirty[1, 2] = np.nan
    dirty[4, 0, 40] = np.nan
    options = {"n_fft": 32, "hop": 16, "mean_row": mean_row, "polarity": True, "missing": "mask"}
    transformer = SpectrogramTensor(**options).fit(X)
    found, whole = transformer.transform(dirty), transformer.transform(X)
    silent = np.nan_to_num(dirty)
    silent[4, 0] = 0
    without = transformer.transform(silent)
    for n in range(6):
        for t in range(whole.shape[3]):
            lost = np.isnan(dirty[n, :, 16 * t : 16 * t + 32]).any(axis=1)
            assert np.isnan(found[n, lost, :, t]).all()
            wanted = without if lost.any() else whole
            np.testing.assert_allclose(
                found[n, ~lost, :, t], wanted[n, ~lost, :, t], rtol=1e-4, atol=1e-3
            )
    np.testing.assert_array_equal(np.concatenate(list(transformer.iter_chunks(dirty, 2))), found)
    gaps = SpectrogramTensor(missing="mask").fit(np.concatenate([dirty, leads(n=40)]))
    assert gaps.polarity_ is True
    np.testing.assert_allclose(gaps.reference_, transformer.reference_, atol=0.15)


def test_threads_and_blocks_do_not_matter(monkeypatch):
    X = leads(n=23).astype(np.float32)
    whole = SpectrogramTensor(polarity=True, n_jobs=1).fit_transform(X)
    monkeypatch.setattr(_stft, "_BLOCK", 3 * 66 * 9 * 2)  # two samples a block
    for n_jobs in (1, 2, None):
        found = SpectrogramTensor(polarity=True, n_jobs=n_jobs).fit_transform(X)
        np.testing.assert_array_equal(found, whole)


# ---------------------------------------------------------------------------- files


def test_a_model_file_keeps_the_reference(tmp_path):
    X = leads()
    transformer = SpectrogramTensor(fs=50).fit(X)
    save_model(transformer, tmp_path / "s.tcm")
    loaded = load_model(tmp_path / "s.tcm")
    assert loaded.polarity_ is True
    np.testing.assert_array_equal(loaded.row_kinds_, transformer.row_kinds_)
    np.testing.assert_array_equal(loaded.transform(X), transformer.transform(X))


def test_files_from_before_there_was_polarity(tmp_path):
    X = leads()
    old = SpectrogramTensor(fs=50, polarity=False).fit(X)
    expected = old.transform(X)
    del old.reference_, old.polarity_
    old.polarity = "auto"  # what a file without the parameter gets
    save_model(old, tmp_path / "s.tcm")
    loaded = load_model(tmp_path / "s.tcm")
    assert (loaded.polarity_, set(loaded.row_kinds_)) == (False, {"magnitude"})
    np.testing.assert_array_equal(loaded.transform(X), expected)


@pytest.mark.parametrize(
    "change",
    [
        {"reference_": np.ones(4)},
        {"reference_": np.ones((3, 1))},
        {"reference_": np.array([1, 2, 3])},
        {"reference_": [1.0, 2.0, 3.0]},
        {"reference_": "first"},
        {"reference_": None},
        {"representation": "complex"},
        {"representation": "log-real-imag"},
        {"frequencies_": np.zeros(33)},
    ],
)
def test_a_damaged_reference_is_told(tmp_path, change):
    transformer = SpectrogramTensor(fs=50, polarity=True).fit(leads())
    for name, value in change.items():
        setattr(transformer, name, value)
    if "representation" in change:
        transformer.polarity = "auto"
    save_model(transformer, tmp_path / "s.tcm")
    with pytest.raises(DamagedFileError, match=r"s\.tcm"):
        load_model(tmp_path / "s.tcm")


def test_a_reference_that_is_not_finite_is_never_written(tmp_path):
    transformer = SpectrogramTensor(fs=50, polarity=True).fit(leads())
    transformer.reference_ = np.array([1.0, np.nan, 0.0])
    with pytest.raises(InvalidInputError, match="reference_ holds NaN"):
        save_model(transformer, tmp_path / "s.tcm")
    assert not (tmp_path / "s.tcm").exists()


# ---------------------------------------------------------------------------- features


def test_mapped_streamed_and_spread_signals_give_the_same_model(tmp_path, monkeypatch):
    da = pytest.importorskip("dask.array")
    X = leads(n=1500, t=64).astype(np.float32)  # more windows than the choice looks at
    made = ContrastiveFeatures(
        fs=50.0,
        decompose=CPD(rank=3, max_iter=4, tol=0, compress=None, random_state=0),
        random_state=0,
    )
    whole = clone(made).fit(X)
    assert whole.tensorize_.polarity_ is True
    tensors = whole.tensorize_.transform(X)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr("tensorcontrast.features.IN_MEMORY_VALUES", 0)
    for signals in (
        X,
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        da.from_array(X, chunks=((700, 1, 799), 2, 50)),
    ):
        other = clone(made).fit(signals)
        np.testing.assert_array_equal(other.tensorize_.reference_, whole.tensorize_.reference_)
        np.testing.assert_array_equal(other.tensorize_.transform(X), tensors)
        for U, V in zip(whole.factors_, other.factors_, strict=True):
            np.testing.assert_allclose(U, V, atol=1e-3)
        np.testing.assert_allclose(
            np.asarray(other.transform(signals)), whole.transform(X), atol=1e-3
        )


def test_few_windows_say_nothing():
    assert SpectrogramTensor().fit(leads(n=31)).polarity_ is False
    assert SpectrogramTensor().fit(leads(n=32)).polarity_ is True


def test_slow_channels_of_their_own_are_not_taken_for_leads():
    drift = np.cumsum(noise(60, 4, 128, seed=5), axis=2)
    assert SpectrogramTensor().fit(drift).polarity_ is False

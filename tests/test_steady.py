"""What changes within windows: their parts, when they are compared, and what that changes."""

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, ContrastiveFeatures, SpectrogramTensor, load_model
from tensorcontrast import _steady as steady
from tensorcontrast.augment import ChannelMix, TimeStretch
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import InvalidInputError

FAST = {"rank": 6, "max_iter": 30, "tol": 1e-3, "random_state": 0, "n_epochs": 3}


@pytest.fixture(scope="module")
def rec():
    return make_synthetic(n_samples=120, n_classes=3, random_state=0)


def made(rec, decompose=None, n_levels=4, **options):
    levels = SpectrogramTensor(rec.fs, n_levels=n_levels)
    decompose = PLC(**FAST, epsilon=0.5) if decompose is None else decompose
    return ContrastiveFeatures(
        fs=rec.fs, tensorize=levels, decompose=decompose, random_state=0, **options
    )


@pytest.fixture(scope="module")
def model(rec):
    return made(rec).fit(rec.X)


@pytest.mark.parametrize(
    ("n_times", "n_fft", "count"),
    [(1000, 128, 4), (500, 128, 3), (128, 64, 2), (127, 64, 0), (10, 64, 0), (400, 100, 4)],
)
def test_parts_have_room_for_a_frame(n_times, n_fft, count):
    assert steady.n_parts(n_times, n_fft) == count


class Tensors:
    """The signals themselves as tensors."""

    def transform(self, X):
        return np.array(X, dtype="f4")


def test_differences_are_those_of_parts_one_by_one():
    X = np.random.default_rng(0).normal(size=(5, 2, 22)).astype("f4")
    found = steady.differences(X, Tensors(), 7)
    slow = np.empty((3, 5, 2, 22))
    for k, (start, stop) in enumerate(((0, 7), (7, 14), (14, 22))):
        for t in range(22):
            slow[k, :, :, t] = X[:, :, start + t % (stop - start)]
    slow -= slow.mean(axis=0)
    np.testing.assert_allclose(found, slow.reshape(15, 2, 22), atol=1e-5)
    np.testing.assert_allclose(found.reshape(3, 5, 2, 22).sum(axis=0), 0, atol=1e-5)


def test_channels_are_mixed_by_their_size_over_all_windows():
    X = np.random.default_rng(0).normal(size=(6, 2, 22)).astype("f4")
    X[0, 1] *= 1e-6  # silent for one window
    found = steady.differences(X, Tensors(), 11, [(ChannelMix(), 1.0)])
    pooled = steady.differences(X, Tensors(), 11, [(ChannelMix.from_signals(X), 1.0)])
    np.testing.assert_array_equal(found, pooled)
    assert np.abs(found[12]).max() < 3 * np.abs(found[13:]).max()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_changes_count_by_their_share(dtype):
    X = (1000 * np.random.default_rng(0).normal(size=(6, 2, 22))).astype(dtype)

    def change(signals, rng):
        return signals * (1 + 0.1 * rng.normal(size=(len(signals), 1, 1)).astype(signals.dtype))

    found = steady.differences(X, Tensors(), 11, [(change, 0.25), (TimeStretch(), 2.0)])
    assert found.shape == (6 * 2 + 6 + 6, 2, 22)
    parts, scaled, stretched = np.split(found.astype("f8"), [12, 18])
    np.testing.assert_allclose(parts, steady.differences(X, Tensors(), 11), rtol=1e-6)
    assert (scaled**2).sum() == pytest.approx(0.25 * (parts**2).sum(), rel=1e-4)
    assert (stretched**2).sum() == pytest.approx(2.0 * (parts**2).sum(), rel=1e-4)
    still = steady.differences(X, Tensors(), 11, [(lambda signals, _: signals, 1.0)])
    assert len(still) == 12  # what changes nothing has no share


def test_places_change_where_channels_rise_and_fall_together(rec):
    both = {}
    for polarity in (False, True):
        made_by = SpectrogramTensor(rec.fs, n_levels=4, polarity=polarity).fit(rec.X)
        both[polarity] = [change for change, _ in steady.changes(made_by)]
    assert both == {False: [TimeStretch()], True: [TimeStretch(), ChannelMix()]}
    assert [change for change, _ in steady.changes(object())] == [TimeStretch()]


def test_no_more_windows_than_memory_has_room_for(monkeypatch):
    X = np.zeros((50, 2, 22), "f4")
    monkeypatch.setattr(steady, "WINDOWS", 20)
    assert len(steady.differences(X, Tensors(), 11)) == 2 * 20
    monkeypatch.setattr(steady, "MOST_VALUES", 10)
    assert len(steady.differences(X, Tensors(), 11)) == 2 * 2


def test_windows_are_spread_over_all(monkeypatch):
    X = np.arange(50.0)[:, None, None] * np.ones((1, 2, 22)) * np.where(np.arange(22) < 11, 1, -1)
    monkeypatch.setattr(steady, "WINDOWS", 8)
    found = steady.differences(X, Tensors(), 11)[:8, 0, 0]
    np.testing.assert_array_equal(found, [0, 7, 14, 21, 28, 35, 42, 49])


def test_the_default_reads_features_against_them(rec, model):
    assert model.decompose_.noise_gains_ is not None
    np.testing.assert_allclose(model.decompose_.features_, model.transform(rec.X), atol=1e-4)
    plain = made(rec, steady=False).fit(rec.X)
    assert plain.decompose_.noise_gains_ is None
    # Features of the parts of a window are closer to each other, against those of windows.
    half = rec.n_times // 2
    at = np.arange(rec.n_times) % half

    def apart(m):
        W = m.transform(rec.X)
        parts = [m.transform(rec.X[:, :, start + at]) for start in (0, half)]
        return np.linalg.norm((parts[0] - parts[1]) / W.std(axis=0))

    assert apart(model) < apart(plain)


@pytest.mark.parametrize(
    ("decompose", "options"),
    [
        (CPD(**{k: v for k, v in FAST.items() if k != "n_epochs"}), {}),
        (ATD(**{k: v for k, v in FAST.items() if k != "n_epochs"}), {}),
        (PLC(**FAST, solver="als"), {}),
        (None, {"n_levels": "time"}),
        (None, {"missing": "mask"}),
    ],
    ids=["cpd", "atd", "als", "time", "mask"],
)
def test_where_there_is_nothing_to_compare(decompose, options, rec):
    model = made(rec, decompose, **options).fit(rec.X)
    assert model.decompose_.noise_gains_ is None
    with pytest.raises(InvalidInputError, match=r"steady=True: .*; use steady='auto'"):
        made(rec, decompose, steady=True, **options).fit(rec.X)


def test_few_or_short_windows(rec):
    few = made(rec).fit(rec.X[:31])
    assert few.decompose_.noise_gains_ is None
    assert made(rec, steady=True).fit(rec.X[:31]).decompose_.noise_gains_ is not None
    long = SpectrogramTensor(rec.fs, n_fft=rec.n_times, n_levels=1)
    options = {"fs": rec.fs, "tensorize": long, "decompose": PLC(**FAST), "random_state": 0}
    assert ContrastiveFeatures(**options).fit(rec.X).decompose_.noise_gains_ is None
    with pytest.raises(InvalidInputError, match="less than two frames"):
        ContrastiveFeatures(**options, steady=True).fit(rec.X)


def test_files(rec, model, tmp_path):
    model.save(tmp_path / "model.tcm")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model.tcm").transform(rec.X), model.transform(rec.X)
    )


def test_from_a_mapped_file_and_on_dask_as_in_memory(rec, model, tmp_path):
    np.save(tmp_path / "signals.npy", rec.X)
    mapped = made(rec).fit(np.load(tmp_path / "signals.npy", mmap_mode="r"))
    np.testing.assert_allclose(mapped.transform(rec.X), model.transform(rec.X), atol=1e-4)
    array = pytest.importorskip("dask.array")
    there = made(rec).fit(array.from_array(rec.X, chunks=(50, *rec.X.shape[1:])))
    np.testing.assert_allclose(
        there.decompose_.noise_gains_, model.decompose_.noise_gains_, rtol=0.05
    )
    assert there.decompose_.features_.shape == (len(rec.X), 6)

"""ContrastiveFeatures: signals in, features out, as one estimator and one file."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    ContrastiveFeatures,
    SpectrogramTensor,
    TensorContrastError,
    augment,
    load_model,
)
from tensorcontrast.datasets import make_synthetic


@pytest.fixture(scope="module")
def rec():
    return make_synthetic(n_samples=120, n_channels=4, n_times=128, n_classes=3, random_state=0)


def small(decompose=PLC, **params):
    return decompose(rank=6, max_iter=30, tol=1e-3, **params)


def test_defaults_follow_from_rate_and_length(rec):
    model = ContrastiveFeatures(fs=rec.fs, decompose=small(), random_state=0).fit(rec.X)
    assert isinstance(model.tensorize_, SpectrogramTensor)
    assert model.tensorize_.fs == rec.fs
    assert model.augment_ == augment.gentle(n_times=rec.n_times)
    assert model.transform(rec.X).shape == (120, 6)
    assert [len(U) for U in model.factors_] == list(model.tensorize_.output_shape_)
    assert model.labels_.shape == (120,)
    names = model.get_feature_names_out().tolist()
    assert names == [f"component_{r}" for r in range(6)]


def test_equals_its_parts_by_hand(rec):
    view_of = augment.gentle(n_times=rec.n_times)
    model = ContrastiveFeatures(
        fs=rec.fs, augment=view_of, decompose=small(random_state=3), random_state=7
    ).fit(rec.X)
    from tensorcontrast import checks

    spectrogram = SpectrogramTensor(rec.fs)
    X = spectrogram.fit_transform(rec.X)
    seed = int(checks.generator(7).integers(2**31))
    V = spectrogram.transform(view_of(rec.X, np.random.default_rng([seed, 0])))
    by_hand = small(random_state=3).fit(X, view=V)
    W = by_hand.transform(X)
    Z = (W - by_hand.features_.mean(axis=0)) / by_hand.features_.std(axis=0)
    Z *= np.sqrt(6) / np.linalg.norm(Z, axis=1, keepdims=True)
    np.testing.assert_allclose(model.transform(rec.X), Z, rtol=0, atol=1e-5)
    plain = clone(model).set_params(unit_length=False).fit(rec.X)
    np.testing.assert_array_equal(plain.transform(rec.X), W)


@pytest.mark.parametrize("decompose", [small(), small(CPD), small(ATD), small(solver="als")])
def test_unit_length_is_for_the_tied_plc_unless_asked_for(rec, decompose):
    auto = ContrastiveFeatures(fs=rec.fs, decompose=decompose, random_state=0).fit(rec.X)
    always = clone(auto).set_params(unit_length=True).fit(rec.X)
    sizes = (always.transform(rec.X[:30]) ** 2).mean(axis=1)
    np.testing.assert_allclose(sizes, 1, rtol=1e-5)
    tied = isinstance(decompose, PLC) and decompose.solver == "tied"
    same = np.array_equal(auto.transform(rec.X), always.transform(rec.X))
    assert same == tied == (auto.feature_mean_ is not None)


def test_unit_length_for_what_keeps_no_features(rec):
    from tensorcontrast.evaluate.peers import FlatPCA

    model = ContrastiveFeatures(
        fs=rec.fs, decompose=FlatPCA(4), unit_length=True, random_state=0
    ).fit(rec.X)
    np.testing.assert_allclose((model.transform(rec.X) ** 2).mean(axis=1), 1, rtol=1e-5)


def test_a_window_at_the_mean_has_no_direction():
    from tensorcontrast import _unit_length

    W = np.array([[1.0, 2.0, 5.0], [3.0, 2.0, 1.0], [2.0, 2.0, 3.0]], dtype=np.float32)
    made = _unit_length.scaled(W, *_unit_length.moments(W))
    assert made.dtype == np.float32
    np.testing.assert_allclose(made[2], 0)
    np.testing.assert_allclose((made[:2] ** 2).mean(axis=1), 1, rtol=1e-6)


def test_a_model_from_before_unit_length_gives_what_it_gave(rec, tmp_path):
    model = ContrastiveFeatures(fs=rec.fs, decompose=small(), random_state=0).fit(rec.X)
    plain = model.decompose_.transform(model.tensorize_.transform(rec.X))
    del model.feature_mean_, model.feature_deviation_
    model.save(tmp_path / "old.tcm")
    np.testing.assert_array_equal(load_model(tmp_path / "old.tcm").transform(rec.X), plain)


def test_moments_that_do_not_fit_the_model_are_damage(rec, tmp_path):
    model = ContrastiveFeatures(fs=rec.fs, decompose=small(), random_state=0).fit(rec.X)
    model.feature_mean_ = np.zeros(5, dtype=np.float32)
    model.save(tmp_path / "forged.tcm")
    with pytest.raises(TensorContrastError, match="feature_mean_ of shape"):
        load_model(tmp_path / "forged.tcm")


def test_recordings_carry_rate_and_channels(rec):
    model = ContrastiveFeatures(decompose=small(), random_state=0).fit(rec)
    assert model.fs_ == rec.fs
    assert model.channels_ == rec.channels
    np.testing.assert_array_equal(model.transform(rec), model.transform(rec.X))
    with pytest.raises(TensorContrastError, match="channels"):
        model.transform(rec.select(channels=list(rec.channels[::-1])))


def test_pipeline_and_grid_search(rec):
    pipeline = make_pipeline(
        ContrastiveFeatures(fs=rec.fs, decompose=small(), random_state=0),
        LogisticRegression(max_iter=1000),
    )
    search = GridSearchCV(
        pipeline, {"contrastivefeatures__decompose__rank": [2, 6]}, cv=3, error_score="raise"
    )
    names = np.array(["low", "mid", "high"])[rec.y]
    search.fit(rec.X, names)
    assert search.best_score_ > 0.6
    assert set(search.predict(rec.X)) <= {"low", "mid", "high"}


@pytest.mark.parametrize("decompose", [CPD, ATD, PLC])
def test_one_file_holds_all_parts(rec, tmp_path, decompose):
    model = ContrastiveFeatures(
        fs=rec.fs, channels=rec.channels, decompose=small(decompose), random_state=0
    ).fit(rec.X)
    model.save(tmp_path / "model.tcm")
    loaded = load_model(tmp_path / "model.tcm")
    np.testing.assert_array_equal(loaded.transform(rec.X), model.transform(rec.X))
    assert loaded.channels_ == model.channels_
    assert loaded.augment_ == model.augment_
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    assert type(loaded.decompose_) is decompose


def test_seed_reaches_every_part(rec):
    first, second, other = (
        ContrastiveFeatures(fs=rec.fs, decompose=small(), random_state=s).fit_transform(rec.X)
        for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, other)


def test_fresh_views_are_drawn_each_iteration(rec):
    calls = []

    def counted(X, rng):
        calls.append(len(X))
        return augment.gentle()(X, rng)

    model = ContrastiveFeatures(
        fs=rec.fs,
        augment=counted,
        decompose=PLC(rank=4, max_iter=7, tol=0.0),
        fresh_views=True,
        random_state=0,
    ).fit(rec.X)
    assert len(calls) >= 7
    assert np.isfinite(model.transform(rec.X)).all()


def test_chunked_transform_equals_whole(rec, monkeypatch):
    model = ContrastiveFeatures(fs=rec.fs, decompose=small(), random_state=0).fit(rec.X)
    whole = model.transform(rec.X)
    monkeypatch.setattr("tensorcontrast.decompose.source.CHUNK_VALUES", 5000)
    np.testing.assert_allclose(model.transform(rec.X), whole, rtol=1e-4, atol=1e-6)


def test_labels_go_to_the_graph_only_where_asked(rec):
    model = ContrastiveFeatures(fs=rec.fs, decompose=small(graph="true"), random_state=0)
    model.fit(rec.X, rec.y)
    np.testing.assert_array_equal(model.labels_, rec.y)


def test_clone_and_parameters(rec):
    model = ContrastiveFeatures(fs=rec.fs, decompose=small(), random_state=0)
    copy = clone(model).set_params(decompose__rank=3)
    assert copy.fit_transform(rec.X).shape == (120, 3)
    assert model.decompose.rank == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[:, 0], "channel, time"),
        (lambda X: X[:, :, :0], "time"),
        (lambda X: X[:, :3], "3 channels"),
        (lambda X: X[:, :, :100], "100 samples"),
        (lambda X: np.where(np.arange(X.size).reshape(X.shape) == 5, np.nan, X), "NaN"),
    ],
)
def test_bad_signals(rec, change, message):
    model = ContrastiveFeatures(fs=rec.fs, decompose=small(), random_state=0).fit(rec.X)
    with pytest.raises(TensorContrastError, match=message):
        model.transform(change(rec.X))


def test_bad_parameters(rec):
    with pytest.raises(TensorContrastError, match="fs"):
        ContrastiveFeatures(fs=-1.0).fit(rec.X)
    with pytest.raises(TensorContrastError, match="fs"):
        ContrastiveFeatures(fs=rec.fs * 2).fit(rec)
    with pytest.raises(TensorContrastError, match="2 channel names"):
        ContrastiveFeatures(fs=rec.fs, channels=["a", "b"]).fit(rec.X)
    with pytest.raises(TensorContrastError, match="augment"):
        ContrastiveFeatures(fs=rec.fs, augment=3).fit(rec.X)
    with pytest.raises(TensorContrastError, match="labels"):
        ContrastiveFeatures(fs=rec.fs).fit(rec.X, rec.y[:-1])


@pytest.mark.parametrize("decompose", [CPD, ATD, PLC])
@pytest.mark.parametrize("fresh", [False, True])
def test_tensors_that_are_not_kept_give_the_same_model(rec, decompose, fresh, monkeypatch):
    model = decompose(4, compress=(2, 8, 4), max_iter=8, tol=0, random_state=0)
    if decompose is PLC:
        model.set_params(n_epochs=3)
    made = ContrastiveFeatures(decompose=model, fresh_views=fresh, random_state=0)
    kept = clone(made).fit(rec)
    monkeypatch.setattr("tensorcontrast.features.IN_MEMORY_VALUES", 0)
    monkeypatch.setattr("tensorcontrast.features.SpectrogramSource.array", None)  # never whole
    streamed = clone(made).fit(rec)
    for U, V in zip(kept.factors_, streamed.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=1e-4)
    np.testing.assert_allclose(kept.transform(rec), streamed.transform(rec), atol=1e-4)


def test_an_augmentation_that_changes_the_shape_is_refused(rec):
    model = ContrastiveFeatures(augment=lambda X, rng: X[..., 1:], decompose=PLC(3))
    with pytest.raises(TensorContrastError, match="must keep the shape"):
        model.fit(rec)

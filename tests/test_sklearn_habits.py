"""Recordings in scikit-learn's splitters, searches over the defaults of parts, verbose fits."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    cross_val_score,
    learning_curve,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils import resample, shuffle

from tensorcontrast import CPD, PLC, ContrastiveFeatures, Recordings, SpectrogramTensor
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import InvalidInputError


@pytest.fixture(scope="module")
def rec():
    made = make_synthetic(n_samples=60, n_channels=2, n_times=64, n_classes=2, random_state=0)
    groups, place = np.arange(60) % 6, np.arange(60)
    return Recordings(made.X, made.y, groups=groups, fs=50, columns={"place": place})


def features(**params):
    return ContrastiveFeatures(decompose=CPD(rank=3, max_iter=20, tol=0), random_state=0, **params)


@pytest.fixture
def pipe():
    return make_pipeline(features(), LogisticRegression())


# ------------------------------------------------------------------------------- indexing


@pytest.mark.parametrize(
    "index",
    [
        3,
        np.int64(-1),
        slice(5, 20, 3),
        [4, 1, 1],
        np.array([7, 2]),
        np.arange(60) % 7 == 0,
        (np.array([7, 2]), ...),
        (slice(2, 5), ...),
        (3, ...),
    ],
    ids=str,
)
def test_recordings_are_indexed_like_arrays(rec, index):
    some = rec[index]
    rows = np.atleast_1d(np.arange(60)[index])
    assert isinstance(some, Recordings)
    np.testing.assert_array_equal(some.X, rec.X[rows])
    np.testing.assert_array_equal(some.y, rec.y[rows])
    np.testing.assert_array_equal(some.groups, rec.groups[rows])
    np.testing.assert_array_equal(some.columns["place"], rows)
    assert (some.fs, some.shape) == (50.0, (len(rows), 2, 64))


@pytest.mark.parametrize("index", [60, [0, 60], (0, 1), (slice(None), 0), [True, False], "a", 1.5])
def test_what_selects_no_windows_is_an_error(rec, index):
    with pytest.raises(InvalidInputError, match="select"):
        rec[index]


def test_recordings_as_an_array(rec):
    assert (rec.shape, rec.ndim, len(rec)) == ((60, 2, 64), 3, 60)
    assert np.shares_memory(np.asarray(rec), rec.X)
    assert not np.shares_memory(np.array(rec, copy=True), rec.X)
    assert np.asarray(rec, dtype=np.float32).dtype == np.float32
    tensors = SpectrogramTensor(fs=50).fit_transform(rec)
    np.testing.assert_array_equal(tensors, SpectrogramTensor(fs=50).fit_transform(rec.X))
    with pytest.raises(InvalidInputError, match=r"recordings have fs=50 but.*fs=100"):
        SpectrogramTensor(fs=100).fit(rec)
    with pytest.raises(InvalidInputError, match="fs=None; pass fs=50"):
        SpectrogramTensor().fit(rec)


# ------------------------------------------------------------------------------- splitters


def test_train_test_split(rec):
    train, test, y_train, y_test = train_test_split(
        rec, rec.y, stratify=rec.y, test_size=0.25, random_state=0
    )
    assert (len(train), len(test), train.fs) == (45, 15, 50.0)
    np.testing.assert_array_equal(train.y, y_train)
    np.testing.assert_array_equal(test.y, y_test)
    together = np.sort(np.concatenate([train.columns["place"], test.columns["place"]]))
    np.testing.assert_array_equal(together, np.arange(60))
    assert len(train_test_split(rec, random_state=0)) == 2


def test_shuffle_and_resample(rec):
    assert sorted(shuffle(rec, random_state=0).columns["place"]) == list(range(60))
    assert len(resample(rec, n_samples=7, random_state=0)) == 7


def test_cross_validation_by_group(rec, pipe):
    options = {"cv": GroupKFold(3), "groups": rec.groups, "error_score": "raise"}
    scores = cross_val_score(pipe, rec, rec.y, **options)
    np.testing.assert_array_equal(
        scores,
        cross_val_score(pipe.set_params(contrastivefeatures__fs=50), rec.X, rec.y, **options),
    )
    assert scores.shape == (3,)
    folds = GroupKFold(3).split(rec, rec.y, rec.groups)
    assert all(not set(rec[a].groups) & set(rec[b].groups) for a, b in folds)
    assert cross_val_predict(pipe, rec, rec.y, cv=2).shape == (60,)


def test_learning_curve(rec, pipe):
    sizes, train, test = learning_curve(
        pipe,
        rec,
        rec.y,
        train_sizes=[0.5, 1.0],
        cv=2,
        shuffle=True,
        random_state=0,
        error_score="raise",
    )
    assert sizes.tolist() == [15, 30]
    assert np.isfinite(train).all()
    assert np.isfinite(test).all()


# ------------------------------------------------------------------------------- parameters


def test_grid_search_reaches_the_decomposition(rec):
    features = ContrastiveFeatures(decompose=PLC(), random_state=0)
    model = make_pipeline(features, LogisticRegression())
    grid = {
        "contrastivefeatures__decompose__rank": [2, 3],
        "contrastivefeatures__decompose__max_iter": [20],
    }
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(rec, rec.y)
    best = search.best_estimator_[0]
    assert best.decompose_.rank_ in (2, 3)
    assert best.decompose_.max_iter == 20 and best.spectrogram_.fs == 50


# ------------------------------------------------------------------------------- verbose

STAGES = ["spectrogram", "convolution features", "nuisance covariance", "tensors", "decomposition"]


def test_verbose_shows_every_stage(rec, capsys):
    model = ContrastiveFeatures(decompose=PLC(rank=3), random_state=0, verbose=True)
    shown = model.fit(rec).transform(rec)
    out, err = capsys.readouterr()
    assert out == ""
    told = [line.partition(":")[0] for line in err.splitlines() if line.endswith(" s")]
    assert told == STAGES
    assert not model.decompose_.verbose
    quiet = clone(model).set_params(verbose=False).fit(rec)
    assert capsys.readouterr() == ("", "")
    np.testing.assert_array_equal(quiet.transform(rec), shown)


@pytest.mark.parametrize("verbose", [True, False])
def test_on_a_terminal_bars_move(rec, capsys, monkeypatch, verbose):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    features(verbose=verbose).fit(rec)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("60/60" in err) == verbose
    assert ("CPD" in err) == verbose

"""The short way of single windows: the features of a batch, and never those of another model."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import (
    ALS,
    CPD,
    PLC,
    ContrastiveClassifier,
    ContrastiveFeatures,
    ConvolutionFeatures,
    SpectrogramTensor,
    load_model,
)
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.reader import MAX_WINDOWS

REC = make_synthetic(n_samples=60, n_times=96, n_classes=3, random_state=0)
SHORT = ALS(tol=1e-2)


def near(found, wanted):
    lengths = np.linalg.norm(wanted, axis=1, keepdims=True)
    assert found.dtype == wanted.dtype
    assert (np.abs(found - wanted) <= 1e-5 * lengths).all()


@pytest.fixture(scope="module")
def classifier():
    features = ContrastiveFeatures(decompose=PLC(rank=4, als=SHORT))
    return ContrastiveClassifier(features, random_state=0).fit(REC)


@pytest.mark.parametrize(
    "params",
    [
        {"tensorize": SpectrogramTensor()},
        {"tensorize": SpectrogramTensor(representation="log-real-imag", mean_row=True)},
        {"tensorize": ConvolutionFeatures(n_components=6)},
        {"decompose": PLC(rank=4, als=SHORT, block_weights=(1.0, 3.0))},
        {"decompose": PLC(rank=4, als=SHORT, solver="als")},
    ],
    ids=["frames", "logarithms", "convolutions", "weights", "algorithm 1"],
)
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_one_window_has_the_features_of_a_batch(params, offset):
    given = {"decompose": CPD(rank=4, als=SHORT), **params}
    X = (REC.X + offset).astype(np.float32)
    model = ContrastiveFeatures(REC.fs, random_state=0, **given).fit(X)
    assert model._reader is not None
    wanted = model.transform(X)
    for size in (1, 3, MAX_WINDOWS):
        parts = [model.transform(X[a : a + size]) for a in range(0, len(X), size)]
        near(np.concatenate(parts), wanted)


def test_one_window_has_the_answers_of_a_batch(classifier):
    X = REC.X + 20.0
    labels, probability = classifier.answers(X)
    for i, window in enumerate(X):
        label, found = classifier.answers(window[None])
        assert label[0] == labels[i]
        np.testing.assert_allclose(found[0], probability[i], atol=1e-5)
    np.testing.assert_allclose(classifier.rows(X[:2]), classifier.rows(X)[:2], atol=1e-5)
    np.testing.assert_allclose(
        classifier.predict_proba(REC[:1]), classifier.predict_proba(REC)[:1], atol=1e-5
    )
    for which in ("features", "blocks"):
        other = ContrastiveClassifier(classifier.features, which, random_state=0).fit(REC)
        np.testing.assert_allclose(
            other.predict_proba(X[:1]), other.predict_proba(X)[:1], atol=1e-5
        )


def test_bad_windows_are_refused_as_in_a_batch(classifier):
    model = classifier.extractor_
    holes = REC.X.copy()
    holes[0, 1, 3] = np.nan
    huge = REC.X.astype(np.float64) * 1e37
    short = REC.X[:, :, :-1]
    few = REC.X[:, :-1]
    infinite = np.where(np.isnan(holes), np.inf, holes)
    for bad in (holes, infinite, huge, short, few):
        for use in (model.transform, classifier.predict, classifier.predict_proba):
            with pytest.raises(InvalidInputError) as of_many:
                use(bad)
            with pytest.raises(InvalidInputError) as of_one:
                use(bad[:1])
            assert str(of_one.value)[:24] == str(of_many.value)[:24]
    tiny = REC.X.astype(np.float64) * 1e-80  # float32 holds zeros
    near(model.transform(tiny[:1]), model.transform(tiny)[:1])
    masked = np.ma.masked_greater(REC.X[:1], 0.5)
    with pytest.raises(InvalidInputError, match="masked"):
        model.transform(masked)
    with pytest.raises(InvalidInputError, match="no signals"):
        model.transform(REC.X[:0])


def test_a_reader_never_outlives_its_model(classifier):
    model = pickle.loads(pickle.dumps(classifier.extractor_))
    before = model.transform(REC.X[:1])
    near(before, classifier.extractor_.transform(REC.X[:1]))
    tensors = model.tensors(REC.X)
    model.decompose_.partial_fit(tensors)  # learns on its own
    one, many = model.transform(REC.X[:1]), model.transform(REC.X)[:1]
    near(one, many)
    assert not np.allclose(one, before, rtol=1e-3)
    model.fit(REC.X[::-1] * np.float32(2))
    near(model.transform(REC.X[:1]), model.transform(REC.X)[:1])
    other = clone(model)
    assert not hasattr(other, "_reader") and "_reader" not in model.get_params()


def test_a_changed_classifier_answers_as_it_is(classifier):
    other = pickle.loads(pickle.dumps(classifier))
    other.refit(REC.X, (REC.y + 1) % 3)
    wanted = other.predict_proba(REC.X)[:1]
    np.testing.assert_allclose(other.predict_proba(REC.X[:1]), wanted, atol=1e-5)
    assert not np.allclose(wanted, classifier.predict_proba(REC.X[:1]), atol=1e-2)
    other.feature_mean_ = other.feature_mean_ + 1
    other.extractor_ = ContrastiveFeatures(
        REC.fs, decompose=PLC(rank=4, als=SHORT), random_state=3
    ).fit(REC.X)
    wanted = other.predict_proba(REC.X)[:1]
    np.testing.assert_allclose(other.predict_proba(REC.X[:1]), wanted, atol=1e-5)


def test_files_and_pickles_hold_no_reader(classifier, tmp_path):
    assert "_reader" not in classifier.extractor_.__getstate__()
    assert "_kept_row_maker" not in classifier.__getstate__()
    classifier.save(tmp_path / "model.tcm")
    assert b"_reader" not in (tmp_path / "model.tcm").read_bytes()
    loaded = load_model(tmp_path / "model.tcm")
    assert loaded._row_maker.few is not None
    found = loaded.predict_proba(REC.X[:1])
    np.testing.assert_allclose(found, classifier.predict_proba(REC.X[:1]), atol=1e-6)


def test_threads_share_a_reader(classifier):
    wanted = classifier.predict_proba(REC.X)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: classifier.predict_proba(x[None])[0], list(REC.X)))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_parts_without_a_short_way_work_as_before():
    float64 = ContrastiveFeatures(
        REC.fs,
        tensorize=SpectrogramTensor(dtype="float64"),
        decompose=CPD(rank=3, als=SHORT),
        random_state=0,
    ).fit(REC.X)
    assert float64._reader is None
    one, many = float64.transform(REC.X[:1]), float64.transform(REC.X)[:1]
    np.testing.assert_allclose(one, many, rtol=1e-12, atol=1e-12)

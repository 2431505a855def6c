"""The readout: one affine map for single windows, batches, threads, files and slow formulas."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tensorcontrast import (
    CPD,
    PLC,
    Algorithm1,
    ContrastiveClassifier,
    ContrastiveFeatures,
    ConvolutionFeatures,
    SpectrogramTensor,
    load_model,
)
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import InvalidInputError

REC = make_synthetic(n_samples=60, n_times=96, n_classes=3, random_state=0)


def near(found, expected):
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    assert found.dtype == expected.dtype
    assert (np.abs(found - expected) <= 1e-5 * lengths).all()


@pytest.fixture(scope="module")
def classifier():
    features = ContrastiveFeatures(decompose=PLC(rank=4))
    return ContrastiveClassifier(features, random_state=0).fit(REC)


@pytest.mark.parametrize(
    "params",
    [
        {"tensorize": SpectrogramTensor()},
        {"tensorize": SpectrogramTensor(representation="log-real-imag")},
        {"tensorize": ConvolutionFeatures(n_components=6)},
        {"decompose": PLC(rank=4, block_weights=(1.0, 3.0))},
        {"decompose": Algorithm1(rank=4, max_iter=10, tol=0)},
    ],
    ids=["frames", "logarithms", "convolutions", "weights", "algorithm 1"],
)
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_one_window_has_the_features_of_a_batch(params, offset):
    given = {"decompose": CPD(rank=4, max_iter=10, tol=0), **params}
    X = (REC.X + offset).astype(np.float32)
    model = ContrastiveFeatures(REC.fs, random_state=0, **given).fit(X)
    assert model.readout is not None
    wanted = model.transform(X)
    for size in (1, 3, 64):
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
            for some in (bad, bad[:1]):
                with pytest.raises(InvalidInputError):
                    use(some)
    tiny = REC.X.astype(np.float64) * 1e-80  # float32 holds zeros
    near(model.transform(tiny[:1]), model.transform(tiny)[:1])
    masked = np.ma.masked_greater(REC.X[:1], 0.5)
    with pytest.raises(InvalidInputError, match="masked"):
        model.transform(masked)
    with pytest.raises(InvalidInputError, match="no signals"):
        model.transform(REC.X[:0])


def test_weights_of_entries_give_the_features(classifier):
    model = classifier.extractor_
    rows = model.rows(REC.X).astype(np.float64)
    slow, at = 0.0, 0
    for block in model.readout.blocks:
        part = rows[:, at : at + len(block.weights)]
        slow = slow + (part - block.center) @ block.weights
        at += len(block.weights)
    near(model.transform(REC.X), slow.astype(np.float32))


def test_a_model_that_is_fitted_again_has_another_readout(classifier):
    model = pickle.loads(pickle.dumps(classifier.extractor_))
    before = model.transform(REC.X[:1])
    near(before, classifier.extractor_.transform(REC.X[:1]))
    model.fit(REC.X[::-1] * np.float32(2))
    near(model.transform(REC.X[:1]), model.transform(REC.X)[:1])
    assert not np.allclose(model.transform(REC.X[:1]), before, rtol=1e-3)


def test_a_classifier_of_other_labels_answers_as_it_is(classifier):
    other = pickle.loads(pickle.dumps(classifier))
    other.refit(REC.X, (REC.y + 1) % 3)
    probability = other.predict_proba(REC.X)[:1]
    np.testing.assert_allclose(other.predict_proba(REC.X[:1]), probability, atol=1e-5)
    assert not np.allclose(probability, classifier.predict_proba(REC.X[:1]), atol=1e-2)


def test_files_and_pickles_hold_no_readout(classifier, tmp_path):
    assert "_readout" not in classifier.extractor_.__getstate__()
    assert "_classifier_rows" not in classifier.__getstate__()
    classifier.save(tmp_path / "model.tcm")
    assert b"_readout" not in (tmp_path / "model.tcm").read_bytes()
    found = load_model(tmp_path / "model.tcm").predict_proba(REC.X[:1])
    np.testing.assert_allclose(found, classifier.predict_proba(REC.X[:1]), atol=1e-6)


def test_threads_share_a_readout(classifier):
    expected = classifier.predict_proba(REC.X)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: classifier.predict_proba(x[None])[0], list(REC.X)))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_float64_stays_exact():
    model = ContrastiveFeatures(
        REC.fs,
        tensorize=SpectrogramTensor(dtype="float64"),
        decompose=CPD(rank=3, max_iter=10, tol=0),
        random_state=0,
    ).fit(REC.X)
    one, many = model.transform(REC.X[:1]), model.transform(REC.X)[:1]
    np.testing.assert_allclose(one, many, rtol=1e-12, atol=1e-12)

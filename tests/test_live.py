"""Live signals give what the same windows give in a batch, in bounded memory."""

import pickle
import tracemalloc

import numpy as np
import pytest

from tensorcontrast import PLC, ContrastiveClassifier, ContrastiveFeatures, load_model
from tensorcontrast.classify import smoothing
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning

REC = make_synthetic(n_samples=60, n_times=64, n_classes=3, random_state=0)
SIGNAL = np.concatenate(list(REC.X[:12]), axis=1).astype(np.float32)
C, T = REC.X.shape[1:]


@pytest.fixture(scope="module")
def classifier():
    features = ContrastiveFeatures(decompose=PLC(rank=4, max_iter=10))
    return ContrastiveClassifier(features, random_state=0).fit(REC)


@pytest.fixture(scope="module")
def smooth(classifier):
    other = pickle.loads(pickle.dumps(classifier))
    return other.set_params(smooth="viterbi", dwell=3.0)


def windows(hop, signal=SIGNAL):
    starts = range(0, signal.shape[1] - T + 1, hop)
    return list(starts), np.stack([signal[:, a : a + T] for a in starts])


def pushed(stream, sizes, signal=SIGNAL):
    out, at, rng = [], 0, np.random.default_rng(0)
    while at < signal.shape[1]:
        size = int(rng.integers(0, sizes + 1))
        out += stream.push(signal[:, at : at + size])
        at += size
    return out


@pytest.mark.parametrize(("hop", "sizes"), [(T, 1), (16, 7), (5, 200), (1, 10**4), (T + 9, 50)])
def test_features_of_a_stream_are_those_of_a_batch(classifier, hop, sizes):
    model = classifier.extractor_
    found = pushed(model.stream(hop=hop), sizes)
    starts, X = windows(hop)
    assert [f.start for f in found] == starts
    assert [f.end - f.start for f in found] == [T] * len(starts)
    np.testing.assert_allclose([f.start_s for f in found], np.array(starts) / REC.fs)
    wanted = model.transform(X)
    near = 1e-5 * np.linalg.norm(wanted, axis=1).min()
    np.testing.assert_allclose([f.features for f in found], wanted, rtol=0, atol=near)


def test_classes_of_a_stream_are_those_of_a_batch(classifier, tmp_path):
    starts, X = windows(24)
    labels, probability = classifier.answers(X)
    classifier.save(tmp_path / "model.tcm")
    loaded = load_model(tmp_path / "model.tcm")
    for model in (classifier, loaded, pickle.loads(pickle.dumps(classifier))):
        stream = model.stream(hop_s=24 / REC.fs)
        for _ in range(2):
            found = pushed(stream, 40)
            assert [f.start for f in found] == starts
            assert [f.label for f in found] == labels.tolist()
            np.testing.assert_allclose([f.probabilities for f in found], probability, atol=1e-5)
            np.testing.assert_allclose(
                [f.probability for f in found], probability.max(axis=1), atol=1e-5
            )
            stream.reset()


def test_smoothing_uses_the_windows_so_far(classifier, smooth):
    _, X = windows(32)
    likelihood = np.log(np.maximum(classifier.predict_proba(X), 1e-12))
    prior = smooth.n_labels_ / smooth.n_labels_.sum()
    found = pushed(smooth.stream(hop=32), 100)
    for n in range(1, len(X) + 1):  # given the windows so far, the last one has no future
        wanted = smoothing.posterior(likelihood[:n], smooth.transitions(), prior)[-1]
        np.testing.assert_allclose(found[n - 1].probabilities, wanted, atol=1e-5)
    apart = pushed(smooth.stream(hop=T + 1), 100)  # windows that do not touch are runs of their own
    _, X = windows(T + 1)
    alone, _ = smooth.smooth_runs(
        classifier.predict_proba(X), [np.array([i]) for i in range(len(X))]
    )
    np.testing.assert_allclose([f.probabilities for f in apart], alone, atol=1e-5)


def test_smoothing_without_transitions_is_refused_at_once(classifier):
    other = pickle.loads(pickle.dumps(classifier)).set_params(smooth="viterbi")
    other.transitions_ = None
    with pytest.raises(InvalidInputError, match="pass dwell="):
        other.stream()


def test_unknown_answers_follow_abstain(classifier):
    shy = pickle.loads(pickle.dumps(classifier)).set_params(abstain=1.0)
    (found,) = shy.stream().push(SIGNAL[:, :T])
    assert found.label == shy.predict(SIGNAL[None, :, :T])[0] and found.label not in shy.classes_
    assert found.probability == found.probabilities.max()


def test_memory_does_not_grow(classifier):
    stream = classifier.extractor_.stream(hop=10**5)  # long gaps: samples, not windows, are many
    chunk = np.tile(SIGNAL, 4)
    stream.push(chunk)
    tracemalloc.start()
    count = 0
    for _ in range(300):
        count += len(stream.push(chunk))
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stream.n_samples == 301 * chunk.shape[1] > 9e5 and count == 9
    assert stream._rest.size < 1e5 and grown < 2e5


def test_wider_numbers_keep_their_digits(classifier):
    signal = SIGNAL.astype(np.float64) + 1e5 + 1e-3 / 3  # float32 would lose them
    model = classifier.extractor_
    found = model.stream(hop=32).push(SIGNAL[:, :0]) or pushed(model.stream(hop=32), 33, signal)
    wanted = model.transform(windows(32, signal)[1])
    near = 1e-5 * np.linalg.norm(wanted, axis=1).max()
    np.testing.assert_allclose([f.features for f in found], wanted, rtol=0, atol=near)
    counts = np.round(SIGNAL * 1000).astype(np.int16)
    whole = model.stream().push(counts)
    np.testing.assert_allclose(
        whole[0].features, model.transform(counts[None, :, :T])[0], rtol=1e-4, atol=1e-4
    )


def test_bad_samples_name_the_place_and_take_nothing(classifier):
    stream = classifier.stream(hop=16)
    stream.push(SIGNAL[:, :100])
    bad = SIGNAL[:, 100:120].copy()
    bad[1, 7] = np.nan
    with pytest.raises(InvalidInputError, match=r"samples\[1, 7\] is nan: channel 1.* sample 107 "):
        stream.push(bad)
    with pytest.raises(InvalidInputError, match=rf"\(20, {C}\), but .* {C} channels.*samples\.T"):
        stream.push(bad.T)
    with pytest.raises(InvalidInputError, match="newaxis"):
        stream.push(SIGNAL[:, 0])
    with pytest.raises(InvalidInputError, match="masked"):
        stream.push(np.ma.masked_greater(SIGNAL, 0.5))
    with pytest.raises(InvalidInputError, match="real numbers"):
        stream.push(SIGNAL.astype(object))
    assert stream.n_samples == 100
    found = stream.push(SIGNAL[:, 100:120])
    assert [f.start for f in found] == [48]


@pytest.mark.parametrize(
    ("hops", "message"),
    [
        ({"hop": 0}, "hop"),
        ({"hop": 2.5}, "hop"),
        ({"hop": True}, "hop"),
        ({"hop_s": 0}, "hop_s"),
        ({"hop_s": 1e-9}, "hop_s"),
        ({"hop": 1, "hop_s": 1.0}, "one of them"),
    ],
)
def test_bad_hops(classifier, hops, message):
    with pytest.raises(InvalidInputError, match=message):
        classifier.stream(**hops)


def test_gaps_where_the_model_takes_them():
    signals = REC.X.copy()
    signals[:5, 0, 10:20] = np.nan
    model = ContrastiveFeatures(  # no rate: seconds are unknown
        missing="mask", decompose=PLC(rank=3, max_iter=10), random_state=0
    ).fit(signals)
    (found,) = model.stream().push(signals[0])
    wanted = model.transform(signals[:1])[0]
    np.testing.assert_allclose(found.features, wanted, atol=1e-5 * np.abs(wanted).max())
    assert found.start_s is None and found.end_s is None
    with pytest.raises(InvalidInputError, match="without a sampling rate"):
        model.stream(hop_s=1)
    with pytest.raises(InvalidInputError, match="is inf"):
        model.stream().push(np.full((C, 3), np.inf))


def test_a_stream_recovers_from_a_huge_sample(classifier, smooth):
    signal = SIGNAL.copy()
    signal[1, 2 * T + 5] = 1e38
    starts, X = windows(T, signal)
    for model in (classifier, smooth):
        stream = model.stream()
        with pytest.warns(TensorContrastWarning, match="1e"):
            found = stream.push(signal)
        assert [f.start for f in found] == starts
        bad = [np.isnan(f.probabilities).any() for f in found]
        assert np.flatnonzero(bad).tolist() == [2]
        assert found[2].label == ""
    expected = classifier.predict(np.delete(X, 2, axis=0))
    stream = classifier.stream()
    with pytest.warns(TensorContrastWarning):
        labels = [f.label for f in stream.push(signal)]
    assert np.delete(labels, 2).tolist() == expected.tolist()
    with pytest.warns(TensorContrastWarning):
        features = classifier.extractor_.stream().push(signal)
    assert [bool(np.isnan(f.features).any()) for f in features] == bad

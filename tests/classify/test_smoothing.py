"""Viterbi and forward–backward against all paths, and what is learned from scattered labels."""

from itertools import pairwise, product

import numpy as np
import pytest

from tensorcontrast import (
    CPD,
    ContrastiveClassifier,
    ContrastiveFeatures,
    Recordings,
    SpectrogramTensor,
    load_model,
)
from tensorcontrast.classify import smoothing
from tensorcontrast.errors import InvalidInputError


@pytest.fixture(scope="module")
def likelihood():
    return np.random.default_rng(0).normal(size=(6, 3)) * 2


PRIOR = np.array([0.5, 0.3, 0.2])


def all_paths(likelihood, transitions):
    """Log probability of every path, by the formula."""
    out = {}
    for path in product(range(3), repeat=len(likelihood)):
        value = np.log(PRIOR[path[0]]) + sum(
            row[c] for row, c in zip(likelihood, path, strict=True)
        )
        value += sum(np.log(transitions[a, b]) for a, b in pairwise(path))
        out[path] = value
    return out


@pytest.mark.parametrize("stay", [0.0, 0.5, 0.95])
def test_against_all_paths(likelihood, stay):
    transitions = smoothing.transition_matrix(stay, PRIOR)
    paths = all_paths(likelihood, transitions)
    best = max(paths, key=paths.get)
    assert tuple(smoothing.viterbi(likelihood, transitions, PRIOR)) == best
    weights = {path: np.exp(value) for path, value in paths.items()}
    total = sum(weights.values())
    slow = np.zeros_like(likelihood)
    for path, weight in weights.items():
        slow[np.arange(len(path)), path] += weight / total
    found = smoothing.posterior(likelihood, transitions, PRIOR)
    np.testing.assert_allclose(found, slow, atol=1e-12)


def test_transitions_are_probabilities():
    np.testing.assert_allclose(smoothing.transition_matrix(0.7, PRIOR).sum(axis=1), 1)
    assert smoothing.transition_matrix(0.7, PRIOR)[1, 1] == pytest.approx(0.7 + 0.3 * 0.3)


def test_the_probability_of_staying_is_learned_from_scattered_labels():
    rng = np.random.default_rng(1)
    transitions = smoothing.transition_matrix(0.9, PRIOR)
    classes = [0]
    for _ in range(6000):
        classes.append(rng.choice(3, p=transitions[classes[-1]]))
    codes = np.where(rng.random(6001) < 0.3, classes, -1)
    found, _ = smoothing.learn_transitions([np.arange(6001)], codes, PRIOR)
    assert found == pytest.approx(0.9, abs=0.03)
    runs = [np.arange(1), np.arange(1, 3)]
    assert smoothing.learn_transitions(runs, np.array([0, -1, 1]), PRIOR) == (None, None)


def test_labelled_neighbours_correct_the_transitions():
    prior = np.array([0.5, 0.25, 0.25])
    codes = np.array([0, 1, 0, 1, -1, 2, -1, 2])
    runs = [np.arange(4), np.arange(4, 8)]
    stay, found = smoothing.learn_transitions(runs, codes, prior)
    before = smoothing.transition_matrix(stay, prior)
    np.testing.assert_allclose(found[0], (20 * before[0] + [0, 2, 0]) / 22)
    np.testing.assert_allclose(found[1], (20 * before[1] + [1, 0, 0]) / 21)
    np.testing.assert_allclose(found[2], before[2])  # labels two windows apart do not count


def test_runs_end_at_gaps_and_recordings():
    recording = np.array(["b", "a", "a", "a", "b"])
    start = np.array([0, 20, 0, 10, 40])
    runs = [run.tolist() for run in smoothing.runs_of(recording, start, 10)]
    assert runs == [[2, 3, 1], [0], [4]]
    assert [run.tolist() for run in smoothing.runs_of(recording, None)] == [[1, 2, 3], [0, 4]]


# ------------------------------------------------------------------------- the classifier


@pytest.fixture(scope="module")
def rec(make):
    """Two recordings whose class changes seldom, in noise."""
    y = np.repeat([0, 1, 0, 1], 40)
    columns = {"recording": np.repeat([0, 1], 80), "start": np.tile(np.arange(80) * 64, 2)}
    return Recordings(make(y, noise=2.5), y, fs=50, columns=columns, classes=["off", "on"])


def small(**params):
    features = ContrastiveFeatures(
        tensorize=SpectrogramTensor(), decompose=CPD(rank=4, max_iter=20, tol=1e-3)
    )
    return ContrastiveClassifier(features, random_state=0, **params)


def test_neighbours_help_in_noise(rec, tmp_path):
    some = rec._with(y=np.where(np.arange(160) % 8 == 0, rec.y, -1))
    plain, smooth = small().fit(some), small(smooth="viterbi").fit(some)
    assert smooth.stay_ > 0.9
    assert smooth.score(rec) > plain.score(rec) + 0.05
    probability = smooth.predict_proba(rec)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    answers, same = smooth.answers(rec)
    np.testing.assert_array_equal(same, probability)
    assert np.count_nonzero(answers[1:] != answers[:-1]) < np.count_nonzero(
        plain.predict(rec)[1:] != plain.predict(rec)[:-1]
    )
    smooth.save(tmp_path / "model.tcm")
    np.testing.assert_array_equal(load_model(tmp_path / "model.tcm").predict(rec), answers)


def test_a_rare_class_does_not_win_where_windows_say_little(rec):
    y = np.where((np.arange(160) % 4 == 0) & (rec.y == 0), 0, -1)
    y[[40, 41, 42]] = 1
    fitted = small(smooth="viterbi", dwell=20).fit(rec, y)
    fitted.temperature_ = 1e6  # nearly equal probabilities
    assert (fitted.predict(rec) == 0).mean() > 0.9


def test_windows_without_times_are_in_order(rec):
    plain = Recordings(rec.X, columns={"recording": rec.columns["recording"]})
    fitted = small(smooth="viterbi", dwell=20).fit(plain, rec.y)
    np.testing.assert_allclose(fitted.transitions(), [[0.95, 0.05], [0.05, 0.95]])
    assert fitted.stay_ > 0.95
    assert fitted.predict(plain).shape == (160,)
    with pytest.raises(InvalidInputError, match="'recording'"):
        fitted.predict(rec.X)


def test_nothing_to_learn_transitions_from(rec):
    y = np.full(160, -1)
    y[[0, 120]] = rec.y[[0, 120]]
    assert set(y) == {-1, 0, 1}
    with pytest.raises(InvalidInputError, match="pass dwell="):
        small(smooth="viterbi").fit(rec, y)

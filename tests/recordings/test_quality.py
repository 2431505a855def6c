"""What deserves a look in recordings."""

import re

import numpy as np
import pytest

from tensorcontrast.recordings import Recordings

FS = 200.0


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(6, 4, 400))


def findings(X, **about):
    channels = ["a", "b", "c", "d"]
    return Recordings(X, fs=FS, channels=channels, allow_nan=True, **about).quality()


def test_good_recordings_have_no_findings(X):
    assert findings(X, y=[0, 1] * 3).findings == ()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda X: X[2, 1].fill(0), "'b' is flat in 1 of 6"),
        (lambda X: np.clip(X[:, 2], -1, 1, out=X[:, 2]), "'c' is clipped in all"),
        (lambda X: np.multiply(X[:, 3], 1000, out=X[:, 3]), "'d' is .* times as large"),
        (lambda X: X[0, 0].__setitem__(slice(9, 12), np.nan), "'a' has missing values in 1 of 6"),
        (
            lambda X: np.add(X[:, 0], 3 * np.sin(100 * np.pi * np.arange(400) / FS), out=X[:, 0]),
            "'a' has mains hum",
        ),
    ],
)
def test_what_deserves_a_look(X, harm, words):
    harm(X)
    lines = findings(X).findings
    assert len(lines) == 1
    assert re.match(words, lines[0])


def test_windows_without_a_label_are_counted(X):
    assert findings(X, y=[0, 1, -1, 1, 0, -1]).findings == ("2 of 6 windows have no label",)

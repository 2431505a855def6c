"""Which amplitude a feature follows: planted ones are found, and chance is not reported."""

import numpy as np
import pytest

from tensorcontrast import Recordings
from tensorcontrast.explain import explain_features
from tensorcontrast.explain.strength import MIN_WINDOWS, candidates, find_strengths

N, FFT, RATE = 120, 32, 32
FREQUENCIES = np.fft.rfftfreq(FFT, 1 / RATE)


@pytest.fixture(scope="module")
def windows():
    return np.random.default_rng(0).standard_normal((2 * N, 2, 64))


def found(X, w, halves=None):
    pairs = [(X[at], w[at, None]) for at in (slice(0, N), slice(N, None))]
    return find_strengths(*pairs, FREQUENCIES, ["a", "b"], FFT, 8, halves)[0]


def amplitude(seed):
    return np.random.default_rng(seed).uniform(0.5, 4, 2 * N)


def wave(f, t=64):
    return np.sin(2 * np.pi * f * np.arange(t) / RATE)


def test_a_band_in_one_channel_and_half(windows):
    X, w = windows.copy(), amplitude(1)
    X[:, 1, 32:] += w[:, None] * wave(9, 32)
    strength = found(X, -w, halves=np.array([[False], [True]]))  # as the share over time says
    term = strength.term
    assert strength.correlation < -0.8
    assert term.channels == ("b",) and term.part == "second half"
    assert term.band[0] <= 9 <= term.band[1]


def test_an_offset(windows):
    X, w = windows.copy(), 3 * amplitude(2)
    X[:, 0] += w[:, None]
    strength = found(X, w)
    assert strength.term.is_offset and strength.term.channels == ("a",)
    assert strength.against is None and strength.correlation > 0.9


def test_a_ratio(windows):
    X, up, down = windows.copy(), 3 * amplitude(3), 3 * amplitude(4)
    X[:, 0] += up[:, None] * wave(4)
    X[:, 1] += down[:, None] * wave(12)
    strength = found(X, np.log(up / down))
    assert strength.correlation * (1 if strength.term.channels == ("a",) else -1) > 0.9
    assert {strength.term.channels, strength.against.channels} == {("a",), ("b",)}


def test_what_is_chosen_by_chance_is_judged_on_other_windows(windows):
    w = np.random.default_rng(5).standard_normal((2 * N, 40))
    ours, others = ((windows[at], w[at]) for at in (slice(0, N), slice(N, None)))
    same = find_strengths(ours, ours, FREQUENCIES, ["a", "b"], FFT, 8)
    apart = find_strengths(ours, others, FREQUENCIES, ["a", "b"], FFT, 8)
    assert np.mean([abs(s.correlation) for s in same]) > 0.2  # what the choice would claim
    assert np.mean([abs(s.correlation) for s in apart]) < 0.12
    assert all(s.n_windows == N for s in apart)


def test_powers_are_those_of_the_frames(windows):
    X = windows[:3]
    made = candidates(X, FFT, 8)
    centred = X - X.mean(axis=2, keepdims=True)
    shape = np.hanning(FFT + 1)[:-1]
    power = [np.abs(np.fft.rfft(centred[..., s : s + FFT] * shape)) ** 2 for s in range(0, 33, 8)]
    unit = np.mean(power, axis=(0, 1, 3))
    for k, ((low, high), part) in enumerate(zip(made.bands[:-1], made.parts[:-1], strict=True)):
        used = {0: power, 1: power[:2], 2: power[3:]}[part]
        expected = np.mean(used, axis=0)[:, :, low : high + 1].sum(axis=2) / unit
        np.testing.assert_allclose(made.power[..., k], expected, rtol=1e-9)


def test_too_few_windows_name_nothing(default, rec):
    assert explain_features(default, rec.X[: 2 * MIN_WINDOWS - 2])[0].strength is None
    one = Recordings(rec.X, fs=rec.fs, channels=rec.channels, groups=["me"] * len(rec.X))
    assert explain_features(default, one)[0].strength is not None  # windows divided instead


def test_a_feature_that_no_amplitude_tells_says_so(default, rec):
    noise = np.random.default_rng(0).standard_normal((len(rec.X), 3))
    found = explain_features(default, rec, features=noise)
    lost = [e for e in found if abs(e.strength.correlation) < 0.3]
    assert lost and all("no amplitude tells its value" in e.sentence for e in lost)

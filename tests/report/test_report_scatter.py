"""What the interactive scatter is given: thinned, quantised, and the same numbers again."""

import base64
import json

import numpy as np
import pytest

from tensorcontrast import TensorContrastError
from tensorcontrast.report.data import Windows
from tensorcontrast.report.scatter import MOST_VALUES, pack, thin


def decoded(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def windows(n=50, c=3, t=40, r=4, **changes):
    rng = np.random.default_rng(0)
    given = {
        "features": rng.standard_normal((n, r)),
        "signals": rng.standard_normal((n, c, t)).astype(np.float32),
        "times": np.arange(t) / 10,
        "labels": {"class": (np.arange(n) % 3, ["a", "b", "c"])},
        "channels": [f"ch{k}" for k in range(c)],
        "units": ["mV"] * c,
    }
    return Windows(**{**given, **changes})


def test_numbers_come_back():
    source = windows()
    data = json.loads(json.dumps(pack(source), allow_nan=False))
    assert data["n"] == data["total"] == 50
    names = [axis["name"] for axis in data["axes"]]
    assert names[:2] == ["t-SNE 1", "t-SNE 2"] and names[-1] == "feature 3"
    for r in range(4):
        axis = data["axes"][4 + r]
        span = axis["high"] - axis["low"]
        values = axis["low"] + (decoded(axis["codes"], "<i2") + 32767.0) / 65534 * span
        np.testing.assert_allclose(values, source.features[:, r], atol=span / 60000)
    wave = data["wave"]
    low = decoded(wave["low"], "<f4").reshape(50, 3, 1)
    high = decoded(wave["high"], "<f4").reshape(50, 3, 1)
    codes = decoded(wave["codes"], "i1").reshape(50, 3, 40)
    signals = low + (codes + 127.0) / 254 * (high - low)
    np.testing.assert_allclose(signals, source.signals, atol=float((high - low).max()) / 500)
    assert data["colours"][0]["codes"][:4] == [0, 1, 2, 0]


def test_gaps_and_constant_channels():
    signals = np.zeros((20, 2, 30))
    signals[:, 0, 5:9] = np.nan
    signals[3, 1] = np.nan
    data = pack(windows(20, 2, 30, signals=signals, labels={}))
    codes = decoded(data["wave"]["codes"], "i1").reshape(20, 2, 30)
    assert (codes[:, 0, 5:9] == -128).all() and (codes[3, 1] == -128).all()
    assert (codes[:, 0, :5] == -127).all()


def test_large_recordings_are_thinned_to_the_budget():
    n, c, t = 3000, 20, 1000
    signals = np.zeros((1, 1, 1), np.float32)
    source = windows(n, c, t, signals=np.broadcast_to(signals, (n, c, t)), labels={})
    data = pack(source, values=200_000)
    wave = data["wave"]
    assert data["n"] == 300 and data["total"] == n and wave["left_out"] == 8
    assert len(decoded(wave["codes"], "i1")) <= 200_000 < MOST_VALUES
    assert len(wave["times"]) >= 32 and len(json.dumps(data)) < 500_000


def test_thinning_keeps_extremes_and_order():
    rng = np.random.default_rng(1)
    signals = rng.standard_normal((4, 2, 997))
    out, times = thin(signals, np.arange(997.0), 100)
    assert out.shape == (4, 2, 100) and (np.diff(times) > 0).all()
    np.testing.assert_array_equal(out.max(axis=2), signals.max(axis=2))
    np.testing.assert_array_equal(out.min(axis=2), signals.min(axis=2))
    same, _ = thin(signals, np.arange(997.0), 997)
    assert same is signals


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(TensorContrastError, match="signals"):
        windows(signals=np.zeros((49, 3, 40)))
    with pytest.raises(TensorContrastError, match="channels"):
        windows(channels=["one"])
    with pytest.raises(TensorContrastError, match="class"):
        windows(labels={"class": (np.zeros(3, int), ["a"])})

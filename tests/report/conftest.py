"""A fitted model and recordings whose names try to be markup, mathematics and terminal escapes."""

import numpy as np
import pytest

from tensorcontrast import PLC, ContrastiveFeatures, Recordings
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.evaluate.benchmark import Cell

HOSTILE = (
    '<img src=x onerror="alert(1)">',
    "</script><script>alert(2)</script>",
    "$\\frac{1}{0}$ and $x$",
    "\x1b[2J\x1b]0;owned\x07",
    "a|b`c`[d](javascript:alert(3))",
    "{{7*7}} ${x} %s &lt; ]]> --> ",
    "\u202egnp.exe\u2028\u200b",
    "http://example.com/x.png?<svg/onload=alert(4)>",
)


def pytest_generate_tests(metafunc):
    if "hostile_name" in metafunc.fixturenames:
        metafunc.parametrize("hostile_name", HOSTILE, ids=range(len(HOSTILE)))


@pytest.fixture(scope="session")
def hostile_names():
    return HOSTILE


@pytest.fixture(scope="session")
def rec():
    return make_synthetic(n_samples=120, n_channels=3, n_times=128, n_classes=3, random_state=0)


@pytest.fixture(scope="session")
def model(rec):
    return ContrastiveFeatures(decompose=PLC(rank=5, max_iter=8), random_state=0).fit(rec)


@pytest.fixture(scope="session")
def hostile():
    """Fitted model and recordings with hostile names for everything that has a name."""
    plain = make_synthetic(n_samples=90, n_channels=4, n_times=64, n_classes=3, random_state=1)
    rec = Recordings(
        plain.X,
        plain.y,
        groups=np.array([HOSTILE[g % len(HOSTILE)] for g in plain.groups]),
        fs=plain.fs,
        channels=HOSTILE[:4],
        classes=HOSTILE[1:4],
        units=HOSTILE[3:7],
        name=HOSTILE[0] + HOSTILE[3],
    )
    decompose = PLC(rank=4, max_iter=8)
    return ContrastiveFeatures(decompose=decompose, random_state=0).fit(rec), rec


@pytest.fixture(scope="session")
def cells():
    """Scores of three methods, two budgets, three repeats."""
    rng = np.random.default_rng(0)
    return [
        Cell("walk", method, seed, budget, accuracy=float(base + 0.1 * k + 0.01 * rng.normal()))
        for method, base in (("CPD", 0.5), ("PLC", 0.6), ("w/o PLC", 0.52))
        for k, budget in enumerate((30, "100%"))
        for seed in range(3)
    ]

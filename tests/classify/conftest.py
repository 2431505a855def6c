"""Recordings in which each class has a frequency of its own."""

import numpy as np
import pytest

from tensorcontrast import Recordings


def oscillations(y, noise=0.5, seed=0):
    """Signals (n, 3, 64) at 50 Hz: 4 Hz in class 0, 7 Hz in class 1, 12 Hz in class 2."""
    rng = np.random.default_rng(seed)
    y = np.asarray(y)
    shift = rng.uniform(0, 2 * np.pi, (len(y), 1, 1)) + np.arange(3)[:, None]
    angle = 2 * np.pi * np.array([4, 7, 12])[y][:, None, None] * np.arange(64) / 50
    size = rng.uniform(0.7, 1.4, (len(y), 1, 1))
    return size * np.sin(angle + shift) + noise * rng.normal(size=(len(y), 3, 64))


@pytest.fixture(scope="session")
def make():
    return oscillations


@pytest.fixture(scope="session")
def rec():
    y = np.random.default_rng(0).integers(3, size=120)
    return Recordings(
        oscillations(y),
        y,
        groups=np.arange(120) % 6,
        fs=50,
        channels=["Fz", "Cz", "Pz"],
        classes=["rest", "move", "think"],
    )

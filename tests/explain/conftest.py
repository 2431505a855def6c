"""Small models of each kind of block."""

import numpy as np
import pytest

from tensorcontrast import CPD, PLC, ContrastiveFeatures, ConvolutionFeatures, SpectrogramTensor
from tensorcontrast.datasets import make_synthetic

KINDS = {
    "default": {},
    "weighted blocks": {"decompose": PLC(rank=3, tol=1e-2, block_weights=(1.0, 3.0))},
    "frames in time": {"tensorize": SpectrogramTensor()},
    "real and imaginary": {
        "tensorize": SpectrogramTensor(representation="log-real-imag", n_quantiles=3),
        "decompose": CPD(rank=3, tol=1e-2, random_state=0),
    },
    "kernels alone": {"tensorize": ConvolutionFeatures(n_components=20)},
}


def fitted(rec, **params):
    params = {"decompose": PLC(rank=3, tol=1e-2), "random_state": 0, **params}
    return ContrastiveFeatures(**params).fit(rec)


@pytest.fixture(scope="session")
def rec():
    return make_synthetic(n_samples=48, n_channels=3, n_times=64, n_classes=3, random_state=0)


@pytest.fixture(scope="session", params=list(KINDS), ids=lambda name: name.replace(" ", "-"))
def model(request, rec):
    return fitted(rec, **KINDS[request.param])


@pytest.fixture(scope="session")
def default(rec):
    return fitted(rec)


@pytest.fixture(scope="session")
def planted():
    """Windows whose one change is a burst of 8 Hz in the first half of the second channel."""
    rng = np.random.default_rng(0)
    X = 0.3 * rng.standard_normal((80, 3, 128))
    strength = rng.uniform(0, 3, 80)
    wave = np.sin(2 * np.pi * 8 * np.arange(64) / 64)
    X[:, 1, :64] += strength[:, None] * wave
    return X.astype(np.float32), strength

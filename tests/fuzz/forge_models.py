"""Model files, small ones."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
from mutate import Seed

from tensorcontrast import CPD, ContrastiveFeatures, SpectrogramTensor
from tensorcontrast.io.model_files import save_model

MODEL_X = np.random.default_rng(3).standard_normal((12, 3, 32)).astype(np.float32)


def model_seeds() -> list[Seed]:
    out = []
    spectrogram = SpectrogramTensor(fs=8.0, n_fft=8, hop=4).fit(MODEL_X)
    cpd = CPD(rank=2, random_state=0, max_iter=3)
    features = ContrastiveFeatures(fs=8.0, tensorize=SpectrogramTensor(n_fft=8), decompose=cpd)
    with tempfile.TemporaryDirectory() as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = [CPD(rank=2, random_state=0, max_iter=3).fit(MODEL_X), spectrogram]
            models.append(features.fit(MODEL_X))
        for model in models:
            path = Path(folder) / "m.tcm"
            save_model(model, path)
            out.append(Seed({"m.tcm": path.read_bytes()}, "m.tcm"))
    return out


def neural_seeds() -> list[Seed]:
    """Networks as small as they come: what is learned is in many arrays of many names."""
    from tensorcontrast.neural import BYOL, DeepTensor, SimCLR

    quick = {"max_iter": 1, "batch_size": 6, "tol": 0.0, "random_state": 0}
    models = [
        SimCLR(n_features=2, projection=2, **quick),
        BYOL(n_features=2, projection=2, hidden=2, **quick),
        DeepTensor(rank=2, hidden=3, **quick),
    ]
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            path = Path(folder) / "m.tcm"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(MODEL_X)
            save_model(model, path)
            out.append(Seed({"m.tcm": path.read_bytes()}, "m.tcm"))
    return out

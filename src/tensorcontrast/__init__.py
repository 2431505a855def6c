"""Class-aware, interpretable features from multichannel time series with few labels."""

from tensorcontrast import augment, datasets
from tensorcontrast.decompose import ATD, CPD, PLC
from tensorcontrast.errors import TensorContrastError
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.model_io import load_model
from tensorcontrast.recordings import Recordings
from tensorcontrast.spectrogram import SpectrogramTensor

__version__ = "0.1.0.dev0"

__all__ = [
    "ATD",
    "CPD",
    "PLC",
    "ContrastiveFeatures",
    "Recordings",
    "SpectrogramTensor",
    "TensorContrastError",
    "__version__",
    "augment",
    "datasets",
    "load_model",
]

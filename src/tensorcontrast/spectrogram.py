"""Former place of :mod:`tensorcontrast.tensorize.spectrogram`; its public names stay here."""

from tensorcontrast.tensorize.spectrogram import (
    REPRESENTATIONS,
    SpectrogramTensor,
    automatic_frames,
    compute_tensors,
)

__all__ = ["REPRESENTATIONS", "SpectrogramTensor", "automatic_frames", "compute_tensors"]

"""Class-preserving views of signals: seeded, pure functions of arrays [n, channel, time].

Each augmentation is called as ``aug(X, rng)`` and returns a new array of the same shape and dtype.
"""

from tensorcontrast.augment.base import Augmentation, Compose
from tensorcontrast.augment.presets import gentle, paper, standard
from tensorcontrast.augment.rotate import Rotate3D
from tensorcontrast.augment.signal import (
    BandPass,
    ChannelMix,
    Crop,
    Jitter,
    Scale,
    TimeShift,
    TimeStretch,
)

__all__ = [
    "Augmentation",
    "BandPass",
    "ChannelMix",
    "Compose",
    "Crop",
    "Jitter",
    "Rotate3D",
    "Scale",
    "TimeShift",
    "TimeStretch",
    "gentle",
    "paper",
    "standard",
]

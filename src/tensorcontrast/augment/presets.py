"""Ready-made augmentations: the default, gentler ones, and those of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorcontrast.augment.base import Compose, require
from tensorcontrast.augment.rotate import Rotate3D, find_triples
from tensorcontrast.augment.signal import (
    BandPass,
    ChannelMix,
    Crop,
    Jitter,
    Scale,
    TimeShift,
    TimeStretch,
)
from tensorcontrast.recordings.signals import as_signals

HAR_CHANNELS = tuple(
    f"{sensor}_{axis}" for sensor in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"
)
"""Channels of UCI HAR in their usual order."""

# Half-width of the uniform noise as a fraction of the range, sampling rate and bands (Hz), as in
# the public code of ATD, which the paper follows.
_PAPER: dict[str, tuple[float, float, tuple[tuple[float, float], ...]]] = {
    "har": (0.002, 50.0, ((1e-6, 20.0), (5.0, 24.5))),
    "sleep-edf": (0.05, 100.0, ((1.0, 30.0), (10.0, 49.0))),
    "ptb-xl": (0.001, 500.0, ((1e-3, 30.0), (10.0, 50.0))),
}


def paper(
    dataset: str, *, fs: float | None = None, channels: Sequence[str] | None = None
) -> Compose:
    """Augmentations of the paper, in its order: jitter, band-pass and, for HAR, rotation.

    The paper names the steps and the order of the filter; levels, bands and the angle of 45° are
    those of the public code of ATD, whose set-up it follows. Unlike that code, which draws a band
    for each channel and a rotation for each sensor, the channels of a sample share their band and
    the sensors of the one device turn together. The band from 5 Hz on removes the direction of
    gravity, which tells sitting from standing and lying.

    Parameters
    ----------
    dataset : {"har", "sleep-edf", "ptb-xl"}
        Which data.
    fs : float or None, default=None
        Sampling rate in Hz where it is not that of the original (50, 100 or 500 Hz); an upper
        edge above 0.49 fs is moved there.
    channels : sequence of str or None, default=None
        Channel names where they are not the nine of HAR in their usual order; for HAR only.

    Returns
    -------
    Compose
        The steps in sequence.

    Examples
    --------
    >>> from tensorcontrast import augment
    >>> [type(step).__name__ for step in augment.paper("har").steps]
    ['Jitter', 'BandPass', 'Rotate3D']
    """
    require(
        isinstance(dataset, str) and dataset in _PAPER,
        f"no paper preset {dataset!r}; there are {', '.join(sorted(_PAPER))}",
    )
    width, rate, bands = _PAPER[dataset]
    if fs is not None:
        require(fs > 0, f"fs is {fs!r}; give the sampling rate in Hz")
        rate = float(fs)
        bands = tuple((low, min(high, 0.49 * rate)) for low, high in bands)
    jitter = Jitter(width / 3**0.5, kind="random", relative="range", distribution="uniform")
    steps = (jitter, BandPass(rate, bands))
    if dataset != "har":
        return Compose(steps)
    names = HAR_CHANNELS if channels is None else tuple(map(str, channels))
    return Compose((*steps, Rotate3D(find_triples(names))))


def gentle() -> Compose:
    """Small changes that hardly any class depends on, for any signal.

    Noise of 5 % of a channel's standard deviation, amplitude ±10 %, circular shift of up to 1/16
    of the window (±8 of 128 samples).

    Returns
    -------
    Compose
        The steps in sequence.

    Examples
    --------
    >>> from tensorcontrast import augment
    >>> [type(step).__name__ for step in augment.gentle().steps]
    ['Jitter', 'Scale', 'TimeShift']
    """
    return Compose((Jitter(0.05), Scale(0.1), TimeShift()))


def standard(signals: Any) -> Compose:
    """Return the default augmentation for windows [n, channel, time].

    A random half of the window, repeated to its length; a time stretch that is up to 10 % faster or
    slower; a mixture of channels (30 %) where there are several; noise of 5 % of a channel's
    standard deviation; amplitude ±10 %. Steps that windows are too short for are left out.

    Parameters
    ----------
    signals : array-like of shape (n_windows, n_channels, n_times)
        Some of the windows: the standard deviations of their channels scale the mixture.

    Returns
    -------
    Compose
        The steps in sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast import augment
    >>> X = np.random.default_rng(0).normal(size=(20, 3, 64))
    >>> [type(step).__name__ for step in augment.standard(X).steps]
    ['Crop', 'TimeStretch', 'ChannelMix', 'Jitter', 'Scale']
    """
    signals = as_signals(signals)
    n_channels, n_times = signals.shape[1:]
    steps: list[Any] = []
    if n_times >= 4:
        steps += [Crop(2), TimeStretch(0.1)]
    if n_channels > 1:
        steps.append(ChannelMix.from_signals(signals, 0.3))
    return Compose((*steps, Jitter(0.05), Scale(0.1)))

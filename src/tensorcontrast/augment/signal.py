"""Augmentations of any signal: noise, band-pass, amplitude, time and mixing of channels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.signal
from sklearn.utils._param_validation import Interval, StrOptions

from tensorcontrast.augment.base import Augmentation, require
from tensorcontrast.recordings.signals import as_signals, check_finite
from tensorcontrast.utils.arrays import as_float

_TINY = 1e-17
"""Standard deviations of float32 below which squares lose digits."""


@dataclass(frozen=True)
class Jitter(Augmentation):
    """Add noise.

    High-frequency noise is white. Low-frequency noise is drawn at every tenth time and interpolated
    linearly, then scaled so that every time has the same variance.

    Parameters
    ----------
    level : float, default=0.05
        Standard deviation of the noise, of each kind where ``kind="both"``.
    kind : {"high", "low", "both", "random"}, default="high"
        Which noise; "random" picks one of the three for each sample and channel.
    relative : {"sd", "range", "absolute"}, default="sd"
        What ``level`` is a fraction of: standard deviation or range (maximum − minimum) of that
        channel of that sample, or nothing (signal units).
    distribution : {"normal", "uniform"}, default="normal"
        Distribution of the draws; both have the standard deviation that ``level`` says.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.augment import Jitter
    >>> noisy = Jitter(level=0.1, relative="absolute")(np.zeros((2, 3, 500)), 0)
    >>> noisy.shape, bool(0.09 < noisy.std() < 0.11)
    ((2, 3, 500), True)
    """

    level: float = 0.05
    kind: str = "high"
    relative: str = "sd"
    distribution: str = "normal"
    _constraints: ClassVar[dict[str, list[Any]]] = {
        "level": [Interval(Real, 0, None, closed="left")],
        "kind": [StrOptions({"high", "low", "both", "random"})],
        "relative": [StrOptions({"sd", "range", "absolute"})],
        "distribution": [StrOptions({"normal", "uniform"})],
    }

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        n, c, t = X.shape
        amplitude = self._amplitude(X)
        high = low = amplitude
        if self.kind == "random":
            pick = rng.integers(3, size=(n, c, 1))
            high, low = amplitude * (pick != 1), amplitude * (pick != 0)
        if self.kind != "low":
            noise = self._draw((n, c, t), X.dtype, rng)
            noise *= high
            X += noise
        if self.kind != "high":
            grid = min(t, max(2, t // 10))
            coarse = self._draw((n, c, grid), X.dtype, rng)
            coarse *= low
            before, left, right = _interpolation(grid, t, X.dtype)
            noise = coarse.take(before, axis=2)
            noise *= left
            X += noise
            coarse.take(before + 1, axis=2, out=noise, mode="clip")
            noise *= right
            X += noise
        return X

    def _amplitude(self, X: np.ndarray) -> np.ndarray:
        if self.relative == "sd":
            sd = X.std(axis=2, keepdims=True)
            if X.dtype == np.float32 and sd.min() < _TINY:  # squares may have left float32
                sd = X.std(axis=2, keepdims=True, dtype=np.float64)
            return np.asarray(self.level * sd, X.dtype)
        if self.relative == "range":
            return np.asarray(self.level * np.ptp(X, axis=2, keepdims=True), X.dtype)
        return np.full((X.shape[0], X.shape[1], 1), self.level, X.dtype)

    def _draw(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator
    ) -> np.ndarray:
        if self.distribution == "normal":
            return rng.standard_normal(shape, dtype=dtype.type)
        noise = rng.random(shape, dtype=dtype.type)
        noise -= 0.5
        noise *= 12**0.5
        return noise


def _interpolation(
    grid: int, n_times: int, dtype: np.dtype[Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Interpolate linearly: point before each time, weights of it and the next, of unit norm."""
    place = np.linspace(0, grid - 1, n_times)
    before = np.minimum(place.astype(np.intp), max(0, grid - 2))
    right = place - before
    norm = np.hypot(1 - right, right)
    return before, ((1 - right) / norm).astype(dtype), (right / norm).astype(dtype)


@dataclass(frozen=True)
class BandPass(Augmentation):
    """Keep one of several frequency bands, picked at random for each sample.

    A Butterworth filter of first order, forwards from rest, as the authors of ATD do.

    Parameters
    ----------
    fs : float
        Sampling rate in Hz.
    bands : tuple of (low, high)
        Bands in Hz, each with 0 < low < high < fs / 2; each is as likely as the others.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.augment import BandPass
    >>> constant = np.ones((1, 1, 400))
    >>> abs(BandPass(fs=100, bands=((5, 20),))(constant, 0)[0, 0, -1]) < 1e-6
    np.True_
    """

    fs: float
    bands: tuple[tuple[float, float], ...]
    _constraints: ClassVar[dict[str, list[Any]]] = {
        "fs": [Interval(Real, 0, None, closed="neither")],
        "bands": [tuple],
    }

    def _check_fields(self) -> None:
        require(
            len(self.bands) > 0
            and all(isinstance(band, tuple) and len(band) == 2 for band in self.bands)
            and all(isinstance(edge, Real) for band in self.bands for edge in band),
            f"BandPass bands is {self.bands!r}; use pairs such as ((1, 30), (10, 49))",
        )
        for low, high in self.bands:
            require(
                0 < low < high < self.fs / 2,
                f"BandPass band ({low!r}, {high!r}) Hz does not fit: 0 < low < high < "
                f"{self.fs / 2:g} Hz (half of fs = {self.fs:g}) is needed",
            )

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        pick = rng.integers(len(self.bands), size=len(X))
        for number, band in enumerate(self.bands):
            chosen = np.flatnonzero(pick == number)
            if len(chosen):
                # In double precision: the poles of a very low edge are too near 1 for single.
                filtered = X[chosen].astype(np.float64)
                for section in _sections(band, self.fs):
                    filtered = scipy.signal.lfilter(section[:3], section[3:], filtered)
                X[chosen] = filtered
        return X


@lru_cache(maxsize=64)
def _sections(band: tuple[float, float], fs: float) -> np.ndarray:
    return np.asarray(scipy.signal.butter(1, band, "bandpass", fs=fs, output="sos"))


@dataclass(frozen=True)
class Scale(Augmentation):
    """Multiply a sample by a random amplitude, uniform from 1 − spread to 1 + spread.

    Parameters
    ----------
    spread : float, default=0.1
        Largest relative change, from 0 to below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.augment import Scale
    >>> Scale(0.1)(np.ones((2, 1, 2)), 0).round(3)
    array([[[1.027, 1.027]],
    <BLANKLINE>
           [[0.954, 0.954]]])
    """

    spread: float = 0.1

    _constraints: ClassVar[dict[str, list[Any]]] = {"spread": [Interval(Real, 0, 1, closed="left")]}

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        X *= rng.uniform(1 - self.spread, 1 + self.spread, (len(X), 1, 1)).astype(X.dtype)
        return X


@dataclass(frozen=True)
class TimeShift(Augmentation):
    """Shift each sample in time by a random whole number of samples.

    What leaves at one end enters at the other.

    Parameters
    ----------
    max_fraction : float, default=0.0625
        Largest shift to either side, as a fraction of the window; rounded to samples.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.augment import TimeShift
    >>> TimeShift(0.4)(np.arange(6.0).reshape(1, 1, 6), 4)
    array([[[5., 0., 1., 2., 3., 4.]]])
    """

    max_fraction: float = 0.0625

    _constraints: ClassVar[dict[str, list[Any]]] = {
        "max_fraction": [Interval(Real, 0, 1, closed="left")]
    }

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        n, _, t = X.shape
        most = round(self.max_fraction * t)
        if most == 0:
            return X
        shift = rng.integers(-most, most, size=(n, 1, 1), endpoint=True)
        return np.take_along_axis(X, (np.arange(t) - shift) % t, axis=2)


@dataclass(frozen=True)
class Crop(Augmentation):
    """Repeat one part of each window, from a random place, to the length of the window.

    Keeps the class where windows are cut at arbitrary times, so that any part of one could be a
    window. Do not use it for time-locked windows, such as single beats or gestures.

    Parameters
    ----------
    n_parts : int, default=4
        The part is one ``n_parts``-th of the window.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.augment import Crop
    >>> Crop(3)(np.arange(6.0).reshape(1, 1, 6), 0)
    array([[[4., 5., 4., 5., 4., 5.]]])
    """

    n_parts: int = 4

    _constraints: ClassVar[dict[str, list[Any]]] = {
        "n_parts": [Interval(Integral, 1, None, closed="left")]
    }

    def _check(self, n_channels: int, n_times: int) -> None:
        require(
            self.n_parts <= n_times,
            f"Crop has {self.n_parts} parts for {n_times} samples; use fewer parts",
        )

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        n, _, t = X.shape
        length = t // self.n_parts
        start = rng.integers(t - length + 1, size=(n, 1, 1))
        return np.take_along_axis(X, start + np.arange(t) % length, axis=2)


@dataclass(frozen=True)
class TimeStretch(Augmentation):
    """Play each window faster or slower, at a random rate.

    Values between samples are interpolated linearly. A window that ends too early starts again.

    Parameters
    ----------
    max_log_rate : float, default=0.1
        Largest natural logarithm of the rate, from 0 to 3: rates are log-uniform between
        exp(−``max_log_rate``) and exp(``max_log_rate``). 0.1 is about 10 % faster or slower.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.augment import TimeStretch
    >>> TimeStretch(0.5)(np.arange(6.0).reshape(1, 1, 6), 0).round(2)
    array([[[0.  , 1.15, 2.29, 3.44, 4.59, 0.73]]])
    """

    max_log_rate: float = 0.1

    _constraints: ClassVar[dict[str, list[Any]]] = {
        "max_log_rate": [Interval(Real, 0, 3, closed="both")]
    }

    def _check(self, n_channels: int, n_times: int) -> None:
        require(
            n_times >= 2,
            f"TimeStretch needs at least 2 samples in time, X has {n_times}; use longer windows",
        )

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        n, _, t = X.shape
        rates = np.exp(rng.uniform(-self.max_log_rate, self.max_log_rate, (n, 1)))
        place = (np.arange(t) * rates) % (t - 1)  # (n, t)
        before = place.astype(np.intp)
        right = (place - before).astype(X.dtype)[:, None]
        low, high = (np.take_along_axis(X, (before + k)[:, None], axis=2) for k in (0, 1))
        return np.asarray(low + right * (high - low))


@dataclass(frozen=True)
class ChannelMix(Augmentation):
    """Add a little of every channel to every other, as if the sensors sat elsewhere.

    With x_i channel i without its mean, σ_i its standard deviation and C channels, x_i becomes
    x_i + Σ_j a_ij·(σ_i / σ_j)·x_j, with a_ij drawn from N(0, s² / C) for each window and
    s = ``strength``. Means stay as they are. Constant channels neither give nor take.

    Keeps the class where the channels record one source from several places, as the leads of an ECG
    or EEG do.

    Parameters
    ----------
    channel_sds : tuple of float
        σ of each channel; see `from_signals`.
    strength : float, default=0.3
        Standard deviation of what a channel takes up, relative to its own.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.augment import ChannelMix
    >>> X = np.random.default_rng(0).normal(size=(200, 2, 50)) * [[1.0], [20.0]]
    >>> change = ChannelMix.from_signals(X)(X, 0) - X
    >>> (change.std(axis=(0, 2)) / X.std(axis=(0, 2))).round(1)
    array([0.3, 0.3])
    """

    channel_sds: tuple[float, ...]
    strength: float = 0.3

    _constraints: ClassVar[dict[str, list[Any]]] = {
        "strength": [Interval(Real, 0, None, closed="left")],
        "channel_sds": [tuple],
    }

    @classmethod
    def from_signals(cls, X: Any, strength: float = 0.3) -> ChannelMix:
        """Return the augmentation with the standard deviations of channels within these windows.

        Parameters
        ----------
        X : array-like of shape (n_windows, n_channels, n_times)
            Signals, finite.
        strength : float, default=0.3
            See the class.
        """
        X = as_float(as_signals(X))
        require(len(X) > 0, "X holds no window; ChannelMix.from_signals needs at least one")
        check_finite(X, limit=float(np.finfo(np.float64).max) ** 0.5 / X.shape[2])
        means, moving = _without_mean(X)
        sds = np.sqrt(np.mean(np.square(moving, dtype=np.float64), axis=(0, 2)))
        # 0 where they are no more than rounding errors of the mean.
        sds = np.where(sds > 1e-14 * np.abs(means).max(axis=(0, 2)), sds, 0.0)
        return cls(tuple(sds), strength)

    def _check_fields(self) -> None:
        require(
            all(isinstance(s, Real) and 0 <= s < np.inf for s in self.channel_sds),
            f"ChannelMix channel_sds is {self.channel_sds!r}; use one number of 0 or more for each "
            "channel",
        )

    def _check(self, n_channels: int, n_times: int) -> None:
        require(
            len(self.channel_sds) == n_channels,
            f"ChannelMix has {len(self.channel_sds)} standard deviations, X has {n_channels} "
            "channels; give one for each",
        )

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        n, c, _ = X.shape
        _, moving = _without_mean(X)
        sds = np.array(self.channel_sds)
        ratio = sds[:, None] / np.where(sds > 0, sds, np.inf)  # c, c
        mixing = rng.normal(0.0, self.strength / np.sqrt(c), (n, c, c)) * ratio
        return np.asarray(X + mixing.astype(X.dtype) @ moving)


def _without_mean(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (n, c, 1) in float64 of windows (n, c, t), and the windows less these."""
    means = X.mean(axis=2, keepdims=True, dtype=np.float64)
    return means, (X - means).astype(X.dtype)

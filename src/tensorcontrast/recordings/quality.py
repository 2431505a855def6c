"""What deserves a look in recordings: flat, clipped and humming channels, other scales."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

__all__ = ["Quality", "quality"]

#: Share of the samples of a window at the largest or smallest value of its channel: clipping.
CLIPPED_SHARE = 0.02
#: How far the spread of a channel may be off that of the others of its unit, as a factor.
SCALE_FACTOR = 30.0
#: Power at the mains above that of the frequencies beside it, as a factor; windows looked at.
HUM_FACTOR, HUM_WINDOWS = 20.0, 200


@dataclass(frozen=True)
class Quality:
    """What :meth:`Recordings.quality` found; arrays are (n, channel) or (channel,)."""

    constant: npt.NDArray[np.bool_]
    """Channels that hold one value through a whole sample, such as a loose electrode."""
    non_finite: npt.NDArray[np.int64]
    """Number of NaN or infinite values."""
    dead_channels: tuple[str, ...]
    """Channels that are constant in every sample."""
    clipped: npt.NDArray[np.bool_]
    """Channels that stay at their largest or smallest value for a part of the window."""
    spread: npt.NDArray[np.float64]
    """Standard deviation within windows, the median over them, of each channel."""
    hum: npt.NDArray[np.float64]
    """Power at 50 or 60 Hz over that of the frequencies beside it, of each channel; NaN below
    a rate of 130 Hz."""
    findings: tuple[str, ...] = field(default=())
    """What deserves a look, one line each."""

    @property
    def ok(self) -> npt.NDArray[np.bool_]:
        """Samples with no constant channel and no NaN, as in ``rec[rec.quality().ok]``."""
        return np.asarray(~(self.constant.any(axis=1) | (self.non_finite > 0).any(axis=1)))

    def __str__(self) -> str:
        n = len(self.constant)
        dead = listed(self.dead_channels) if self.dead_channels else "none"
        return (
            f"{int(self.constant.any(axis=1).sum())} of {n} samples with a constant channel, "
            f"{int((self.non_finite > 0).any(axis=1).sum())} with NaN or infinity; "
            f"channels constant everywhere: {dead}"
        )


def quality(rec: Recordings) -> Quality:
    """Look for flat, clipped and humming channels, other scales and missing values.

    Nothing is changed. ``findings`` of the result says what deserves a look.

    Examples
    --------
    >>> from tensorcontrast import Recordings
    >>> X = np.random.default_rng(0).normal(size=(5, 2, 100))
    >>> X[:, 1] = 0
    >>> Recordings(X, channels=["Cz", "Pz"]).quality().findings
    ("'Pz' is flat in all windows",)
    """
    X = rec.X
    names = rec.channels or tuple(str(c) for c in range(rec.n_channels))
    with np.errstate(all="ignore"):
        low, high = np.fmin.reduce(X, axis=2), np.fmax.reduce(X, axis=2)
        flat = X.max(axis=2) == X.min(axis=2)
        finite = bool(np.isfinite(X.sum(dtype=np.float64)))
    bad = np.zeros(flat.shape, dtype=np.int64)
    if not finite:
        bad = rec.n_times - np.isfinite(X).sum(axis=2)
    clipped = np.zeros(flat.shape, dtype=bool)
    spread = np.zeros(len(names))
    for c in range(len(names)):
        bottom, top = np.nanmin(low[:, c], initial=np.inf), np.nanmax(high[:, c], initial=-np.inf)
        share = np.maximum((X[:, c] == bottom).mean(axis=1), (X[:, c] == top).mean(axis=1))
        clipped[:, c] = (share >= CLIPPED_SHARE) & ~flat[:, c] & (share * rec.n_times >= 3)
        with np.errstate(all="ignore"):
            each = X[:, c].std(axis=1, dtype=np.float64)
        there = np.isfinite(each)
        spread[c] = float(np.median(each[there])) if there.any() else np.nan
    dead = tuple(names[c] for c in np.flatnonzero(flat.all(axis=0)))
    hum = _hum(rec)
    parts = (flat, bad > 0, clipped)
    findings = _findings(rec, names, *parts, spread, hum)
    return Quality(flat, bad, dead, clipped, spread, hum, tuple(findings))


def _findings(
    rec: Recordings,
    names: tuple[str, ...],
    flat: npt.NDArray[np.bool_],
    missing: npt.NDArray[np.bool_],
    clipped: npt.NDArray[np.bool_],
    spread: npt.NDArray[np.float64],
    hum: npt.NDArray[np.float64],
) -> list[str]:
    """Say what deserves a look."""
    out = []
    n = len(rec)
    for what, where in (("flat", flat), ("missing values", missing), ("clipped", clipped)):
        for c in np.flatnonzero(where.any(axis=0)):
            count = int(where[:, c].sum())
            many = "all windows" if count == n else f"{count} of {n} windows"
            verb = "has" if what == "missing values" else "is"
            out.append(f"{names[c]!r} {verb} {what} in {many}")
    units = rec.units if isinstance(rec.units, tuple) else (rec.units or "",) * len(names)
    codes = np.unique(units, return_inverse=True)[1]
    usual = np.full(len(names), np.nan)  # spread of the channels of one unit
    for group in np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1]):
        alike = spread[group][spread[group] > 0]
        if len(alike) >= 3:
            usual[group] = np.median(alike)
    for c, name in enumerate(names):
        if spread[c] > 0 and usual[c] > 0:
            ratio = spread[c] / usual[c]
            if not 1 / SCALE_FACTOR < ratio < SCALE_FACTOR:
                out.append(f"{name!r} is {ratio:.3g} times as large as other channels of its unit")
        if hum[c] > HUM_FACTOR:
            out.append(f"{name!r} has mains hum, {hum[c]:.0f} times the power beside it")
    if rec.y is not None and (rec.y < 0).any():
        out.append(f"{int((rec.y < 0).sum())} of {n} windows have no label")
    return out


def _hum(rec: Recordings) -> npt.NDArray[np.float64]:
    """Power at 50 or 60 Hz over that of 3 to 8 Hz beside it, of each channel."""
    fs, n = rec.fs, rec.n_times
    if fs is None or fs < 130 or n < fs / 2:
        return np.full(rec.n_channels, np.nan)
    step = max(1, len(rec) // HUM_WINDOWS)
    X: Any = np.nan_to_num(rec.X[::step], posinf=0, neginf=0).astype(np.float64)
    X = (X - X.mean(axis=2, keepdims=True)) * np.hanning(n)
    power = (np.abs(np.fft.rfft(X, axis=2)) ** 2).mean(axis=0)
    at = np.fft.rfftfreq(n, 1 / fs)
    ratios = []
    for mains in (50, 60):
        distance = np.abs(at - mains)
        peak = power[:, distance <= max(1.0, fs / n)].max(axis=1)
        beside = np.median(power[:, (distance >= 3) & (distance <= 8)], axis=1)
        ratios.append(np.divide(peak, beside, out=np.zeros_like(peak), where=beside > 0))
    return np.asarray(np.maximum(*ratios))

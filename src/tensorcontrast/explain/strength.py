"""Which amplitude a feature follows, chosen on some windows and judged on others.

Candidates are the amplitudes of ranges of frequencies in one to three channels, over the whole
window or over one half of it, and the offset of a channel from zero; then the ratio of two of
them. The one with the largest correlation over the first half of the subjects is chosen. The
correlation that is given is that over the other half, which had no part in the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Strength", "Term", "find_strengths"]

Array = NDArray[Any]

#: Ratio of neighbouring borders between ranges of frequencies.
BAND_RATIO = 1.5
#: Channels that one term names, at most.
MAX_CHANNELS = 3
#: By how much the correlation must rise for one more channel, for half a window instead of all of
#: it (or the other way round, where that half has most of the variance), and for a second term.
CHANNEL_GAIN, HALF_GAIN, RATIO_GAIN = 0.02, 0.03, 0.05
#: Windows below which nothing is chosen or judged.
MIN_WINDOWS = 8
#: Parts of the window that a term can be of.
PARTS = ("window", "first half", "second half")


@dataclass(frozen=True)
class Term:
    """An amplitude: of a band (two frequencies) in some channels, in a part of the window.

    The band (0, 0) is the offset: how far the mean of the window is from zero.

    Examples
    --------
    >>> from tensorcontrast.explain.strength import Term
    >>> term = Term(band=(8.0, 12.0), channels=("C3", "C4"), part="first half")
    >>> term.is_offset, Term((0.0, 0.0), ("C3",), "window").is_offset
    (False, True)
    """

    band: tuple[float, float]
    channels: tuple[str, ...]
    part: str

    @property
    def is_offset(self) -> bool:
        """Whether this is the offset, not a band."""
        return self.band == (0.0, 0.0)


@dataclass(frozen=True)
class Strength:
    """The amplitude, or ratio of two, that a feature follows best.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.explain import explain_features
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(3), random_state=0).fit(rec)
    >>> found = explain_features(model, rec)[0].strength
    >>> found.n_windows, -1 <= found.correlation <= 1, set(found.term.channels) <= set(rec.channels)
    (30, True, True)
    """

    correlation: float
    """Of the feature with the logarithm of the amplitude or ratio, over ``n_windows``."""
    n_windows: int
    """Windows that had no part in the choice."""
    term: Term
    against: Term | None
    """What the amplitude is divided by; None for one amplitude."""


@dataclass(frozen=True)
class _Candidates:
    """Power (n, c, k) of each channel and candidate, and what the candidates are."""

    power: Array
    bands: list[tuple[int, int]]
    parts: list[int]

    def level(self, channels: Sequence[int], k: int) -> Array:
        return _log(self.power[:, list(channels), k].sum(axis=1))


def find_strengths(
    chosen_on: tuple[Array, Array],
    judged_on: tuple[Array, Array],
    frequencies: Array,
    names: Sequence[str],
    n_fft: int,
    hop: int,
    halves: Array | None = None,
) -> list[Strength] | None:
    """Find what each feature follows.

    Parameters
    ----------
    chosen_on, judged_on : pairs of arrays
        Windows (n, c, t) and their features (n, r), of different subjects.
    frequencies : (f,) array
        Of the Fourier transform of a frame.
    names : sequence of str
        Of the channels.
    n_fft, hop : int
        Samples of a frame and from one frame to the next.
    halves : (2, r) array of bool, optional
        Whether most of a feature comes from the first and from the second half of windows: that
        half is then preferred.

    Returns
    -------
    list of Strength, or None where there are too few windows.
    """
    if min(len(chosen_on[0]), len(judged_on[0])) < MIN_WINDOWS:
        return None
    ours, theirs = (candidates(X, n_fft, hop) for X, _ in (chosen_on, judged_on))
    levels = _standard(_log(ours.power))
    parts = np.array(ours.parts)
    if halves is None:
        halves = np.zeros((2, chosen_on[1].shape[1]), dtype=bool)
    handicaps = np.where(halves, -HALF_GAIN, HALF_GAIN)  # 2, r

    def named(channels: Sequence[int], k: int) -> Term:
        low, high = ours.bands[k]
        band = float(frequencies[low]), float(frequencies[high])
        return Term(band, tuple(names[c] for c in channels), PARTS[ours.parts[k]])

    found = []
    for w, other, (first, second) in zip(chosen_on[1].T, judged_on[1].T, handicaps.T, strict=True):
        handicap = np.array([0.0, first, second])[parts]
        (channels, k), against = _choose(ours, levels, handicap, _standard(w))
        values = theirs.level(channels, k)
        if against is not None:
            values = values - theirs.level(*against)
        found.append(
            Strength(
                float(np.mean(_standard(values) * _standard(other))),
                len(other),
                named(channels, k),
                None if against is None else named(*against),
            )
        )
    return found


def candidates(X: Array, n_fft: int, hop: int) -> _Candidates:
    """Power of all ranges of frequencies in all channels, relative to the mean of the channel."""
    n, c, t = X.shape
    signals = np.asarray(X, dtype=np.float64)
    mean = signals.mean(axis=2)
    window = np.hanning(n_fft + 1)[:-1]
    sums, counts = np.zeros((3, n, c, n_fft // 2 + 1)), np.zeros(3)
    for first in range(0, t - n_fft + 1, max(1, hop, n_fft // 4)):
        part = signals[:, :, first : first + n_fft] - mean[:, :, None]
        power = np.square(np.abs(np.fft.rfft(part * window)))
        side = int(np.sign(2 * first + n_fft - t))  # of the middle of the frame
        for k in {0: (0,), -1: (0, 1), 1: (0, 2)}[side]:
            sums[k] += power
            counts[k] += 1
    return _ranges(sums, counts, mean)


def _ranges(sums: Array, counts: Array, mean: Array) -> _Candidates:
    unit = np.maximum(sums[0].mean(axis=(0, 2)) / max(counts[0], 1), np.finfo(float).tiny)
    borders = band_borders(sums.shape[3])
    made, bands, parts = [], [], []
    for part in np.flatnonzero(counts):
        power = sums[part] / counts[part] / unit[:, None]
        total = np.concatenate([np.zeros((*power.shape[:2], 1)), power.cumsum(axis=2)], axis=2)
        for i, low in enumerate(borders[:-1]):
            for high in borders[i + 1 :]:
                made.append(total[:, :, high] - total[:, :, low])
                bands.append((low, high - 1))
                parts.append(int(part))
    square = np.square(mean)
    made.append(square / np.maximum(square.mean(axis=0), np.finfo(float).tiny))
    return _Candidates(np.stack(made, axis=2), [*bands, (0, 0)], [*parts, 0])


def band_borders(n_frequencies: int) -> list[int]:
    """Return places on the axis between which ranges lie, about half an octave apart.

    Examples
    --------
    >>> band_borders(33)
    [1, 2, 3, 4, 6, 9, 14, 21, 33]
    """
    borders = [1]
    while borders[-1] < n_frequencies:
        borders.append(max(borders[-1] + 1, round(borders[-1] * BAND_RATIO)))
    if len(borders) > 2 and n_frequencies - borders[-2] < borders[-2] - borders[-3]:
        del borders[-2]  # a rest that is narrower than the range below it
    borders[-1] = n_frequencies
    return borders


def _choose(
    found: _Candidates, levels: Array, handicap: Array, w: Array
) -> tuple[tuple[list[int], int], tuple[list[int], int] | None]:
    """Choose a term, and one that it is divided by or None; ``levels`` are standardised."""
    n, c, count = levels.shape
    score = np.abs(np.einsum("nck,n->ck", levels, w) / n) - handicap
    first, k = divmod(int(np.argmax(score)), count)
    channels, best = [first], float(score[first, k])
    while len(channels) < min(MAX_CHANNELS, c):
        left = [o for o in range(c) if o not in channels]
        gained = [
            abs(float(np.mean(_standard(found.level([*channels, o], k)) * w))) - handicap[k]
            for o in left
        ]
        at = int(np.argmax(gained))
        if gained[at] < best + CHANNEL_GAIN:
            break
        channels.append(left[at])
        best = float(gained[at])
    ratio = _standard(found.level(channels, k)[:, None, None] - _log(found.power))
    score = np.abs(np.einsum("nck,n->ck", ratio, w) / n) - handicap
    other, place = divmod(int(np.argmax(score)), count)
    against = ([other], place) if score[other, place] > best + RATIO_GAIN else None
    return (channels, k), against


def _log(power: Array) -> Array:
    return np.asarray(np.log(power + 1e-9) / 2)


def _standard(values: Array) -> Array:
    """Return values with mean 0 and standard deviation 1 over windows; 0 where they are equal."""
    centred = values - values.mean(axis=0)
    spread = centred.std(axis=0)
    there = spread > 1e-9 * np.abs(values).max(axis=0)
    return np.asarray(np.divide(centred, spread, out=np.zeros_like(centred), where=there))

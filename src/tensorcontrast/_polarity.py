"""Whether channels rise and fall together: the reference that their phases are taken against."""

from __future__ import annotations

import numpy as np
import scipy.fft

from tensorcontrast._stft import in_phase_with

#: Representations of magnitudes, which say nothing of polarity.
REPRESENTATIONS = ("sqrt-magnitude", "magnitude", "log-magnitude")

COHERENT = 0.6
"""Share of a channel's energy in phase with the other channels of the reference from which its sign
says something: 1/2 for phases at random, 1 for channels that rise and fall together."""

_WINDOWS, _LEAST_WINDOWS = 256, 32
"""Windows whose phases are looked at; of fewer nothing can be said."""


def reference(X: np.ndarray) -> np.ndarray:
    """Weights (c,) of the first principal component of the channels of signals (n, c, t).

    Means of windows do not count, nor do gaps. The largest weight is positive.
    """
    centred = _centred(X)
    # (c, n·t): one product a window would be slower
    rows = np.moveaxis(centred, 1, 0).reshape(X.shape[1], -1)
    vectors = np.linalg.eigh(rows @ rows.T)[1]
    weights = vectors[:, -1]
    return np.asarray(weights * np.sign(weights[np.abs(weights).argmax()]), dtype=np.float64)


def pays(X: np.ndarray, weights: np.ndarray, n_fft: int, hop: int) -> bool:
    """Whether most channels of signals (n, c, t) are mostly in phase with the others.

    Frequency 0, what leaks from it and the highest do not count: they have no phase but 0 or π.
    """
    if len(X) < _LEAST_WINDOWS:
        return False
    centred = _centred(X[:: -(-len(X) // _WINDOWS)])
    frames = np.lib.stride_tricks.sliding_window_view(centred, n_fft, axis=2)[:, :, ::hop]
    Z = scipy.fft.rfft(frames * np.hanning(n_fft + 1)[:-1], axis=3).swapaxes(2, 3)[:, :, 2:-1]
    shares = []
    for c in range(Z.shape[1]):
        own = Z[:, c : c + 1]
        others = np.where(np.arange(Z.shape[1]) == c, 0.0, weights)
        energy = float((np.abs(own) ** 2).sum())
        if energy > 0 and np.any(others):
            R = np.tensordot(others, Z, axes=(0, 1))[:, None]
            shares.append(float((in_phase_with(own, R) ** 2).sum()) / energy)
    return len(shares) > 1 and bool(np.median(shares) > COHERENT)


def _centred(X: np.ndarray) -> np.ndarray:
    """Signals without the mean of each window, every window of norm 1; 0 where there is no value.

    So a few windows with artefacts count no more than others. In float64.
    """
    signals = X.astype(np.float64)
    there = ~np.isnan(signals)
    signals[~there] = 0.0
    largest = np.abs(signals).max(axis=(1, 2), keepdims=True)  # squares must stay in range
    signals /= np.where(largest > 0, largest, 1.0)
    means = signals.sum(axis=2, keepdims=True) / np.maximum(there.sum(axis=2, keepdims=True), 1)
    signals = np.where(there, signals - means, 0.0)
    norms = np.sqrt(np.square(signals).sum(axis=(1, 2), keepdims=True))
    return np.asarray(signals / np.where(norms > 0, norms, 1.0))

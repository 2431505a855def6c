"""Which rows with a sign "auto" adds to those of magnitudes: levels of channels, and polarity."""

from __future__ import annotations

import numpy as np

from tensorcontrast import _polarity


def levels_differ(X: np.ndarray) -> bool:
    """Whether means of windows differ more than values within one, in any channel."""
    some = X.astype(np.float64)
    there = ~np.isnan(some)  # gaps count for nothing
    some[~there] = 0.0
    some /= np.abs(some).max(initial=0.0) or 1.0  # squares must stay in range
    counts = there.sum(axis=2)
    means = some.sum(axis=2) / np.maximum(counts, 1)
    spread = (there * (some - means[..., None]) ** 2).sum(axis=2) / np.maximum(counts, 1)
    windows = np.maximum((counts > 0).sum(axis=0), 1)
    centre = means.sum(axis=0) / windows  # windows without a value have mean 0
    between = ((counts > 0) * (means - centre) ** 2).sum(axis=0) / windows
    within = spread.sum(axis=0) / windows
    return bool(np.any(between > within))


def learn_reference(
    X: np.ndarray, wanted: bool | str, representation: str, n_fft: int, hop: int
) -> np.ndarray | None:
    """Weights of the channels that phases are taken against; None for no rows of polarity."""
    if wanted == "auto" and representation not in _polarity.REPRESENTATIONS:
        wanted = False
    if wanted is False or (wanted == "auto" and X.shape[1] < 2):
        return None
    found = _polarity.reference(X)
    if wanted == "auto" and not _polarity.pays(X, found, n_fft, hop):
        return None
    return found

"""The augmented view of a tensor when the caller has no better one from the raw signals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks
from tensorcontrast.utils.arrays import as_array

Array = NDArray[Any]

#: Windows that share a generator of random numbers.
STRIP = 64
#: The same for functions of the caller's, which do not like to be called too often.
CALL_STRIP = 256


def by_strips(
    X: Array,
    first: int,
    *,
    augment: Callable[[Array, np.random.Generator], Any],
    seed: int,
    n_samples: int,
) -> Array:
    """View that ``augment`` makes of a block that begins with window ``first`` of ``n_samples``.

    It is called with ``CALL_STRIP`` windows at a time, each strip of all windows with a generator
    of its own, so that a window's view does not depend on the blocks in which the windows come. A
    strip that the block cuts is filled up with windows of the block.
    """
    strips = []
    for strip in range(first // CALL_STRIP, -(-(first + len(X)) // CALL_STRIP)):
        begin = strip * CALL_STRIP
        lo, hi = max(begin, first), min(begin + CALL_STRIP, first + len(X))
        own = slice(lo - first, hi - first)
        rows = X[own]
        size = min(CALL_STRIP, n_samples - begin)
        if hi - lo < size:
            rows = rows[np.clip(np.arange(begin, begin + size) - lo, 0, hi - lo - 1)]
        augmented = augment(checks.read_only(rows), np.random.default_rng([seed, strip]))
        augmented = as_array(augmented, "the augmented view", way="", first=begin)
        if augmented.shape != rows.shape:
            raise InvalidInputError(
                f"augment made windows of shape {augmented.shape} from {rows.shape}; "
                "it must keep the shape"
            )
        strips.append(augmented[lo - begin : hi - begin])
    return np.concatenate(strips)


@dataclass(frozen=True)
class TensorNoise:
    """Noise and masking at the tensor level: the default view of ``ATD`` and ``PLC``.

    Gaussian noise of ``noise`` times the standard deviation of all entries is added, and in each
    mode of at least ``min_length`` rows one block of up to ``mask`` of them, drawn for each window,
    is replaced by the mean over the windows.

    Parameters
    ----------
    noise : float
    mask : float
        Largest share of a mode that is masked.
    min_length : int
        Shorter modes (such as three channels) are not masked.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(4, 9, 16)).astype("float32")
    >>> view = TensorNoise()(X, np.random.default_rng(1))
    >>> view.shape, view.dtype.name
    ((4, 9, 16), 'float32')
    """

    noise: float = 0.1
    mask: float = 0.15
    min_length: int = 8

    def __call__(self, X: Array, rng: np.random.Generator) -> Array:
        """Return a new array of the shape and dtype of X (n, I_1, …, I_K)."""
        mean = X.mean(axis=0, dtype=np.float64)
        spread = float(X.std(dtype=np.float64))
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        return self.block(X, 0, int(rng.integers(2**31)), mean, spread)

    def block(self, X: Array, first: int, seed: int, mean: Array, spread: float) -> Array:
        """View of a block of windows that begins with window ``first`` of all.

        Every strip of ``STRIP`` windows has random numbers of its own, so that a window's view
        does not depend on the blocks in which the windows come.
        """
        out = np.empty_like(X)
        mean = mean.astype(X.dtype)
        for strip in range(first // STRIP, -(-(first + len(X)) // STRIP)):
            begin = strip * STRIP
            lo, hi = max(begin, first), min(begin + STRIP, first + len(X))
            inside, own = slice(lo - begin, hi - begin), slice(lo - first, hi - first)
            rng = np.random.default_rng([seed, strip])
            out[own] = self._strip(X[own], inside, rng, mean, spread)
        return out

    def _strip(
        self, X: Array, inside: slice, rng: np.random.Generator, mean: Array, spread: float
    ) -> Array:
        """Augment rows ``inside`` of a strip whose random numbers come from ``rng``."""
        dims = X.shape[1:]
        masks = []
        for mode, length in enumerate(dims):
            if length >= self.min_length and self.mask > 0.0:
                width = rng.integers(0, int(self.mask * length) + 1, size=STRIP)
                start = rng.integers(0, length - width + 1)
                masks.append((mode, width[inside], start[inside]))
        # Noise last: a strip that is cut at its end needs no more of it than it has windows.
        # In float32 whatever the dtype of X, so that fits in either dtype see the same noise.
        out = rng.standard_normal((inside.stop, *dims), dtype=np.float32)[inside]
        out = out.astype(X.dtype, copy=False)
        out *= self.noise * spread
        out += X
        for mode, width, start in masks:
            at = np.arange(dims[mode])
            hidden = (at >= start[:, None]) & (at < (start + width)[:, None])  # (n, I_mode)
            samples, rows = np.nonzero(hidden)
            index: tuple[Any, ...] = (samples, *([slice(None)] * mode), rows)
            # The masked rows take the mean tensor's row; advanced indices come first in the result.
            out[index] = np.moveaxis(mean, mode, 0)[rows]
        return out

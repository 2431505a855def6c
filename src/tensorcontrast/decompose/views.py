"""The augmented view of a tensor when the caller has no better one from the raw signals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class TensorNoise:
    """Noise and masking at the tensor level: the default view of ``ATD`` and ``PLC``.

    Gaussian noise of ``noise`` times the standard deviation of all entries is added, and in each
    mode of at least ``min_length`` rows a block of up to ``mask`` of them, drawn for each sample,
    is replaced by the mean over the samples.

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
        mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        out = rng.standard_normal(X.shape, dtype=dtype)
        out *= self.noise * float(X.std(dtype=np.float64))
        out += X
        for mode, length in enumerate(X.shape[1:], start=1):
            if length < self.min_length or self.mask == 0.0:
                continue
            width = rng.integers(0, int(self.mask * length) + 1, size=len(X))
            start = rng.integers(0, length - width + 1)
            at = np.arange(length)
            hidden = (at >= start[:, None]) & (at < (start + width)[:, None])  # (n, I_mode)
            samples, rows = np.nonzero(hidden)
            index: tuple[Any, ...] = (samples, *([slice(None)] * (mode - 1)), rows)
            # The masked rows take the mean tensor's row; advanced indices come first in the result.
            out[index] = np.moveaxis(mean, mode - 1, 0)[rows]
        return out

"""Spectrograms of signals as a source of samples: made block by block, as often as needed.

Short-time transform, augmentation and projection happen on one block at a time, so that the
tensors of all signals need never be in memory together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.signals import without_gaps
from tensorcontrast.sources.source import (
    BLOCK_SIZE,
    BlockSize,
    checked_block,
    forget_pages,
    samples_a_block,
    working_dtype,
)
from tensorcontrast.sources.tensor_noise import by_strips
from tensorcontrast.utils.arrays import as_float

Array = NDArray[Any]


class SpectrogramSource:
    """Tensors of signals [n, channel, time], of an augmented view of them where wanted.

    Parameters
    ----------
    signals : array [n, channel, time]
        In memory or mapped from a file.
    tensorize : fitted transformer
    augment : callable, optional
        ``augment(X, rng)``, called with a strip of signals at a time, each with a generator that
        ``seed`` and its place among all signals give: a view is the same whenever it is made, and
        in whichever blocks.
    seed : int
    block_size : BlockSize
        How many windows are transformed at a time.
    """

    def __init__(
        self,
        signals: Array,
        tensorize: Any,
        augment: Callable[[Array, np.random.Generator], Array] | None = None,
        seed: int = 0,
        block_size: BlockSize = BLOCK_SIZE,
    ) -> None:
        self.signals, self.tensorize, self.augment, self.seed = signals, tensorize, augment, seed
        self.block_size = block_size
        self.name = "X" if augment is None else "view"
        #: NaN are missing values where the transformer says so.
        self.missing = getattr(tensorize, "missing", "error") == "mask"
        self.n_samples = len(signals)
        if not self.n_samples:
            raise InvalidInputError("X holds no signals; at least one is needed")
        first = self._tensors(0, 1)
        self.dims, self.dtype = first.shape[1:], working_dtype(first.dtype, self.name)

    @property
    def size(self) -> int:
        """Number of values of all tensors."""
        return self.n_samples * int(np.prod(self.dims))

    def _tensors(self, start: int, stop: int) -> Array:
        signals = self.signals[start:stop]
        signals = as_float(signals)  # counts of a converter cannot hold a view
        if self.augment is not None:
            # An augmentation needs whole signals; what was not observed is not in the view either.
            gaps = np.isnan(signals) if self.missing else False
            whole = without_gaps(signals) if self.missing else signals
            augmented = by_strips(
                whole, start, augment=self.augment, seed=self.seed, n_samples=self.n_samples
            )
            signals = (
                np.where(gaps, augmented.dtype.type(np.nan), augmented)
                if np.any(gaps)
                else augmented
            )
        return np.asarray(self.tensorize.transform(signals))

    def blocks(self) -> Iterator[Array]:
        """Transform some signals at a time, checked."""
        step = samples_a_block(self.dims, self.block_size)
        for start in range(0, self.n_samples, step):
            tensors = self._tensors(start, start + step)
            forget_pages(self.signals)
            yield checked_block(tensors, self, start)

    def array(self, advance: Callable[[int], None] | None = None) -> Array:
        """All tensors in memory; ``advance`` is given the number of windows of each block."""
        out = np.empty((self.n_samples, *self.dims), dtype=self.dtype)
        at = 0
        for block in self.blocks():
            out[at : at + len(block)] = block
            at += len(block)
            if advance is not None:
                advance(len(block))
        return out

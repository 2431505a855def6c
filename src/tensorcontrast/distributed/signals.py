"""Spectrograms of signals that are a ``dask.array``: made block by block, where the blocks are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.distributed.source import aligned
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.sources.source import BLOCK_SIZE, BlockSize, samples_a_block, working_dtype
from tensorcontrast.sources.tensor_noise import by_strips
from tensorcontrast.utils import threads
from tensorcontrast.utils.arrays import as_array, as_float

Array = NDArray[Any]


def spectrograms(
    signals: Any,
    tensorize: Any,
    augment: Callable[[Array, np.random.Generator], Array] | None = None,
    seed: int = 0,
    block_size: BlockSize = BLOCK_SIZE,
) -> Any:
    """Lazy tensors of signals [n, channel, time], of an augmented view of them where wanted.

    Parameters
    ----------
    signals : dask.array [n, channel, time]
    tensorize : fitted transformer
    augment : callable, optional
        ``augment(X, rng)``, called with strips of signals: the view of a signal does not depend
        on the blocks, and is that of a fit in memory.
    seed : int
    block_size : BlockSize
        How many windows are transformed at a time.
    """
    if any(np.isnan(size) for sizes in signals.chunks for size in sizes):
        signals = signals.compute_chunk_sizes()
    if not len(signals):
        raise InvalidInputError("X holds no signals; at least one is needed")
    signals = signals.rechunk({1: -1, 2: -1})
    gaps = getattr(tensorize, "missing", "error") == "mask"
    first = _Transform(tensorize, None, 0, 1, (), np.dtype(float)).tensors(
        as_array(signals[:1].compute(), missing=gaps, way="")
    )
    dims = first.shape[1:]
    most = samples_a_block(dims, block_size)
    signals = signals.rechunk({0: aligned(signals.chunks[0], most, block_size.strip_rows)})
    dtype = working_dtype(first.dtype, "X")
    return signals.map_blocks(
        _Transform(tensorize, augment, seed, len(signals), dims, dtype),
        dtype=dtype,
        meta=np.empty((0,) * first.ndim, dtype=dtype),
        chunks=(signals.chunks[0], *((d,) for d in dims)),
        drop_axis=[1, 2],
        new_axis=list(range(1, first.ndim)),
    )


@dataclass(frozen=True)
class _Transform:
    """Tensors of a block of signals."""

    tensorize: Any
    augment: Callable[[Array, np.random.Generator], Array] | None
    seed: int
    n_samples: int
    dims: tuple[int, ...]
    dtype: np.dtype[Any]

    def __call__(self, signals: Any, block_info: Any = None) -> Array:
        start = int(block_info[0]["array-location"][0][0]) if block_info else 0
        gaps = getattr(self.tensorize, "missing", "error") == "mask"
        signals = as_array(signals, missing=gaps, way="", first=start)
        if not len(signals):
            return np.empty((0, *self.dims), dtype=self.dtype)
        with threads.single("blas"):
            return self.tensors(signals, start).astype(self.dtype, copy=False)

    def tensors(self, signals: Array, start: int = 0) -> Array:
        """Augment the signals that begin with signal ``start``, and transform them."""
        signals = as_float(signals)  # counts of a converter cannot hold a view
        if self.augment is not None:
            signals = by_strips(
                signals, start, augment=self.augment, seed=self.seed, n_samples=self.n_samples
            )
        return np.asarray(self.tensorize.transform(signals))

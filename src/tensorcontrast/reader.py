"""Features of a few windows at once: all that follows from the model alone is computed once.

A window of a live signal is short, so that preparing the model would take longer than the window.
A :class:`Reader` holds the maps of the fitted parts in the order in which one window needs them.

Shapes used throughout: n windows, c channels, t samples, d_b values of block b, r features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.recordings.signals import less_offset, offsets_between
from tensorcontrast.tensorize.blocks import SignalBlocks
from tensorcontrast.tensorize.convolution import ConvolutionFeatures
from tensorcontrast.tensorize.quantile_pooling import pool_quantiles
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor
from tensorcontrast.utils import threads
from tensorcontrast.utils.arrays import as_float

__all__ = ["MAX_WINDOWS", "Reader", "read"]

Array = NDArray[Any]

MAX_WINDOWS = 8
"""Windows that a reader takes at once; more are faster in blocks and threads."""

_FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Block:
    """One coupled block of a window: from signals to values, from values to the block.

    Values are the spectrogram itself. For random-convolution features they are the positions above
    each bias, in the order in which they are counted, less their means: PPV times a constant.
    """

    transformer: SpectrogramTensor | ConvolutionFeatures
    #: Number that the block is multiplied with.
    scale: float
    #: Of a spectrogram, its part (d,) of the mean of the model; of convolutions, the mean counts.
    center: Array
    #: From values, of a spectrogram less ``center``, to the part of the features, (d, r).
    to_features: Array
    #: The same from the block in its own units: the spectrogram, or principal components of PPV.
    of_components: Array
    #: From values to principal components of PPV, (d, p); None for a spectrogram.
    to_components: Array | None

    @property
    def unit(self) -> float:
        """What signals are divided by."""
        return float(self.transformer.unit_)

    @property
    def limit(self) -> float:
        """Largest magnitude of a signal that the block can be computed of."""
        most = float(np.finfo(np.float32).max)
        if isinstance(self.transformer, SpectrogramTensor):
            return most / (2 * self.transformer.n_fft_) * self.unit
        return most / 1e3 * self.unit

    def values(self, X: Array, offset: Array | None) -> Array:
        """Values (n, d) of signals in the unit, less their offsets."""
        n = len(X)
        if isinstance(self.transformer, SpectrogramTensor):
            frames = self.transformer._frames
            tensors = np.empty((n, *frames.in_time(*X.shape[1:])), np.float32)
            frames.fill_centred(X, offset, tensors)
            if frames.n_quantiles is None:
                return tensors.reshape(n, -1)
            pooled = np.empty((n, *self.transformer.output_shape_), np.float32)
            pool_quantiles(tensors, pooled)
            return pooled.reshape(n, -1)
        bank = self.transformer._bank
        step = bank.convolve.step
        counts = [
            bank.counts(X[a : a + step], None if offset is None else offset[a : a + step])
            for a in range(0, n, step)
        ]
        rows = (counts[0] if len(counts) == 1 else np.concatenate(counts)).reshape(n, -1)
        rows -= self.center
        return rows


@dataclass(frozen=True)
class Reader:
    """A fitted model as the maps that one window needs.

    Attributes
    ----------
    blocks : tuple of Block
    constant : (r,) array
        Part of the features that no window changes.
    limit : float
        Largest magnitude of a signal.
    sources : tuple
        Objects that all of this was computed from.
    """

    blocks: tuple[Block, ...]
    constant: Array
    shape: tuple[int, int]
    limit: float
    sources: tuple[Any, ...]

    def is_of(self, maker: Any, decompose: Any) -> bool:
        """Whether these parts are what the reader was made of, and have not learned since."""
        now = _sources(maker, decompose)
        return len(now) == len(self.sources) and all(
            a is b for a, b in zip(now, self.sources, strict=True)
        )

    def values(self, X: Array) -> list[Array] | None:
        """Values (n, d_b) of each block of signals (n, c, t).

        None for signals that the way for many windows must look at: too many or none, of another
        shape, with NaN, or with values near the ends of the range of float32.
        """
        if X.shape[1:] != self.shape or not 0 < len(X) <= MAX_WINDOWS:
            return None
        X = as_float(X)
        low, high = X.min(axis=2), X.max(axis=2)  # NaN where there is one
        if not (high.max() <= self.limit and low.min() >= -self.limit):
            return None
        offset = offsets_between(low, high)
        out, unit, signals = [], None, (X, offset)
        for block in self.blocks:
            if block.unit != unit:
                unit = block.unit
                signals = less_offset(X, offset, _FLOAT32, unit)
            found = block.values(*signals)
            if isinstance(block.transformer, SpectrogramTensor):
                largest = max(float(found.max()), -float(found.min())) * block.scale
                if not 1e-36 < largest < 1e36:
                    return None
            out.append(found)
        return out

    def features(self, X: Array) -> Array | None:
        """Features (n, r) of signals (n, c, t); None as for :meth:`values`."""
        with threads.single("blas"):
            values = self.values(X)
            if values is None:
                return None
            out = self.constant
            for block, found in zip(self.blocks, values, strict=True):
                if isinstance(block.transformer, SpectrogramTensor):
                    found -= block.center
                out = out + found @ block.to_features
        return out


def read(maker: Any, decompose: Any) -> Reader | None:
    """Return the reader of fitted parts; None where they have no such short way.

    That is the default blocks, or one of them, with a decomposition whose features are a linear
    function of windows in float32.
    """
    transformers, scales = _parts(maker)
    if not isinstance(decompose, CPEstimator) or decompose.missing != "error":
        return None
    if not all(_has_short_way(t) for t in transformers):
        return None
    model = decompose._model
    if model.nonnegative or model.center.dtype != np.float32:
        return None
    if decompose.block_weights is not None:
        own = decompose.block_scales_ or (1.0,)
        scales = tuple(a * b for a, b in zip(scales, own, strict=True))
    with threads.single("blas"):
        projector = model.projector().astype(np.float64) / model.scale
    center = model.center.reshape(-1).astype(np.float64)
    blocks, constant, at = [], np.zeros(projector.shape[1]), 0
    for transformer, scale in zip(transformers, scales, strict=True):
        size = int(np.prod(transformer.output_shape_))
        part = slice(at, at + size)
        at += size
        matrix, mean = scale * projector[part], center[part] / scale
        of_components = matrix.astype(np.float32)
        components = None
        if isinstance(transformer, ConvolutionFeatures):
            constant = constant - mean @ matrix
            components = _of_counts(transformer, transformer._projection)
            components /= np.float32(transformer._bank.convolve.positions)
            matrix = components.astype(np.float64) @ matrix
            mean = _of_counts(transformer, transformer.mean_[:, None])[:, 0].astype(np.float64)
            mean *= transformer._bank.convolve.positions
        blocks.append(
            Block(
                transformer,
                float(scale),
                mean.astype(np.float32),
                np.ascontiguousarray(matrix, np.float32),
                of_components,
                components,
            )
        )
    return Reader(
        tuple(blocks),
        constant.astype(np.float32),
        (transformers[0].n_channels_in_, transformers[0].n_times_in_),
        min(block.limit for block in blocks),
        _sources(maker, decompose),
    )


def _of_counts(transformer: ConvolutionFeatures, columns: Array) -> Array:
    """Rows (m, p) of kernels, dilations and biases, in the order in which these are counted."""
    k, d, b = transformer.biases_.shape
    rows = columns.reshape(k, d, b, -1).transpose(1, 2, 0, 3)
    return np.ascontiguousarray(rows).reshape(columns.shape)


def _has_short_way(transformer: Any) -> bool:
    if type(transformer) is SpectrogramTensor:
        return transformer.missing == "error" and transformer._frames.dtype == np.float32
    return type(transformer) is ConvolutionFeatures


def _parts(maker: Any) -> tuple[Sequence[Any], tuple[float, ...]]:
    """Return the transformers of the blocks, and the number each block is multiplied with."""
    if isinstance(maker, SignalBlocks):
        return maker.transformers, maker.scales
    return (maker,), (1.0,)


def _sources(maker: Any, decompose: Any) -> tuple[Any, ...]:
    """Return the objects that a reader follows from; a fit replaces them."""
    learned = ("factors_", "ridge_", "center_", "nuisance_directions_", "nuisance_gains_")
    of_blocks = [getattr(t, name, None) for t in _parts(maker)[0] for name in ("_frames", "_bank")]
    return maker, *of_blocks, decompose, *(getattr(decompose, name, None) for name in learned)

"""The affine map from a window to its features, computed once from the fitted parts.

Features of CPD, ATD and PLC are linear in the rows of a window (E12, E23), and rows are linear in
its values (:mod:`tensorcontrast.tensorize.blocks`), so that one matrix per block leads from values
to features. ``transform``, the rows of the classifier, live streams, explanations and ONNX files
all use this object.

Shapes used throughout: n windows, m windows of a strip, v_b values and d_b entries of block b, r
features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.tensorize.blocks import SignalBlocks, components_of_counts
from tensorcontrast.tensorize.convolution import ConvolutionFeatures

__all__ = ["BlockMap", "BlockReadout", "Readout"]

Array = NDArray[Any]


@dataclass(frozen=True)
class BlockMap:
    """An affine map (m, v) to (m, q) of the values of one block: (values − offset) M + constant."""

    matrix: Array
    #: None for nothing: values of random convolutions are counts less their means already.
    offset: Array | None
    constant: Array

    @classmethod
    def from_entries(
        cls, transformer: Any, weights: Array, center: Array, dtype: np.dtype[Any]
    ) -> BlockMap:
        """Return the map (entries − center) weights, with ``weights`` (d, q) in float64.

        Large levels of a spectrogram are subtracted first, so that float32 keeps the digits.
        """
        if type(transformer) is ConvolutionFeatures:
            matrix = components_of_counts(transformer) @ weights
            constant = -(center.astype(np.float64) @ weights)
            return cls(np.ascontiguousarray(matrix, dtype), None, constant.astype(dtype))
        matrix = np.ascontiguousarray(weights, dtype)
        return cls(matrix, center.astype(dtype), np.zeros(weights.shape[1], dtype))

    def __call__(self, values: Array) -> Array:
        """Apply it to the values (m, v) of a strip."""
        rows = values if self.offset is None else values - self.offset
        return np.asarray(rows @ self.matrix + self.constant)


@dataclass(frozen=True)
class BlockReadout:
    """The part of one block in the features.

    Attributes
    ----------
    transformer : estimator
        Fitted.
    center : (d,) array
        Mean of the entries over the windows of the fit.
    weights : (d, r) array
        From entries less ``center`` to the part of the features, in float64.
    of_values : BlockMap
        The same from values.
    """

    transformer: Any
    center: Array
    weights: Array
    of_values: BlockMap


@dataclass(frozen=True)
class Readout:
    """Features of signals as an affine map of the values of their blocks.

    Attributes
    ----------
    signals : SignalBlocks
    blocks : tuple of BlockReadout
    is_exact : bool
        Whether ``transform`` is this map. It is not for windows with gaps and for non-negative
        features, which solve equations of their own.
    """

    signals: SignalBlocks
    blocks: tuple[BlockReadout, ...]
    is_exact: bool

    @classmethod
    def from_parts(cls, signals: SignalBlocks, decompose: Any) -> Readout | None:
        """Return the readout of fitted parts; None for decompositions of others."""
        if not isinstance(decompose, CPEstimator):
            return None
        model = decompose._model
        dtype = model.center.dtype
        factor = decompose._layout.factor
        projector = model.projector() / model.scale
        center = model.center.astype(np.float64)
        blocks, at = [], 0
        for transformer, dims in zip(signals.transformers, signals.dims, strict=True):
            part = slice(at, at + int(np.prod(dims)))
            at = part.stop
            weights, mean = factor[part, None] * projector[part], center[part] / factor[part]
            of_values = BlockMap.from_entries(transformer, weights, mean, dtype)
            blocks.append(BlockReadout(transformer, mean, weights, of_values))
        gaps = signals.missing == "mask" or decompose.missing == "mask"
        return cls(signals, tuple(blocks), not gaps and not model.nonnegative)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.blocks[0].weights.shape[1])

    def features(self, values: Sequence[Array]) -> Array:
        """Features (m, r) of the values of a strip."""
        parts = [block.of_values(v) for block, v in zip(self.blocks, values, strict=True)]
        return sum(parts[1:], start=parts[0])

    def transform(self, X: Array) -> Array:
        """Features (n, r) of signals [n, channel, time]."""
        return self.signals.map(X, self.features)

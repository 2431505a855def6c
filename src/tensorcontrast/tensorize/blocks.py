"""Coupled blocks of signals: several transformers of the same windows, side by side (E22)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks


@dataclass(frozen=True)
class SignalBlocks:
    """Fitted transformers of the same signals, and the number each block is multiplied with."""

    transformers: tuple[Any, ...]
    scales: tuple[float, ...]

    @property
    def missing(self) -> str:
        """What NaN are: missing values where every transformer takes them, else mistakes."""
        masked = all(getattr(t, "missing", "error") == "mask" for t in self.transformers)
        return "mask" if masked else "error"

    @property
    def block_dims(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the blocks of one window."""
        return tuple(tuple(int(d) for d in t.output_shape_) for t in self.transformers)

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Rows (n, i) of signals: all blocks, flattened and scaled, one after the other."""
        blocks = [_rows(t, X) for t in self.transformers]
        sizes = np.cumsum([0, *(block.shape[1] for block in blocks)])
        dtype = np.result_type(*blocks)
        out = np.empty((len(blocks[0]), sizes[-1]), dtype)
        for block, scale, first, last in zip(
            blocks, self.scales, sizes[:-1], sizes[1:], strict=True
        ):
            np.multiply(block, dtype.type(scale), out=out[:, first:last])
        return out


def learn_blocks(transformers: Sequence[Any], signals: np.ndarray) -> SignalBlocks:
    """Couple fitted transformers, every block scaled to the same variance over ``signals``.

    The first block keeps its units; a block without variance as well. Equation E22.
    """
    spreads = [
        math.sqrt(float(np.nanvar(_rows(t, signals), axis=0, dtype=np.float64).sum()))
        for t in transformers
    ]
    scales = tuple(spreads[0] / s if s > 0 and spreads[0] > 0 else 1.0 for s in spreads)
    return SignalBlocks(tuple(transformers), scales)


def _rows(transformer: Any, X: np.ndarray) -> np.ndarray:
    tensors = np.asarray(checks.plain_output(transformer, X))
    return tensors.reshape(len(tensors), -1)


def check_scales(scales: Any, count: int) -> tuple[float, ...]:
    """Return scales of blocks as a model file holds them, checked."""
    if (
        not isinstance(scales, tuple)
        or len(scales) != count
        or not all(isinstance(s, float) and math.isfinite(s) and s > 0 for s in scales)
    ):
        raise InvalidInputError(
            f"scales {scales!r} do not fit {count} coupled blocks; fit the model again"
        )
    return scales

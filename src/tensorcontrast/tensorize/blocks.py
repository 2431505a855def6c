"""Coupled blocks of signals: transformers of the same windows, side by side in one row (E22).

Every use of windows of signals starts here: a fit takes their rows, a fitted model maps their
*values*. The values of a block are what its transformer computes before anything linear: the
spectrogram itself, and for random convolutions the numbers of positions above each bias, less
their means. Rows and features are linear in these, so that windows are tensorized once, whatever is
made of them.

Shapes used throughout: n windows, m windows of a strip, c channels, t samples, v_b values and d_b
entries of block b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.signals import less_offset, offsets_between
from tensorcontrast.tensorize.convolution import ConvolutionFeatures
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor
from tensorcontrast.utils import checks, threads
from tensorcontrast.utils.arrays import as_float

Array = NDArray[Any]
#: What is made of the values of a strip of windows: an array (m, …).
Linear = Callable[[Sequence[Array]], Array]

STRIP = 64
"""Windows whose values are computed at a time, always from multiples of this on."""


@dataclass(frozen=True)
class SignalBlocks:
    """Fitted transformers of the same signals."""

    transformers: tuple[Any, ...]

    @property
    def missing(self) -> str:
        """What NaN are: missing values where every transformer takes them, else mistakes."""
        masked = all(getattr(t, "missing", "error") == "mask" for t in self.transformers)
        return "mask" if masked else "error"

    @property
    def dims(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the blocks of one window."""
        return tuple(tuple(int(d) for d in t.output_shape_) for t in self.transformers)

    @property
    def size(self) -> int:
        """Entries of a row."""
        return sum(math.prod(dims) for dims in self.dims)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the rows."""
        return np.result_type(
            *(np.dtype(getattr(t, "dtype", "float32")) for t in self.transformers)
        )

    # ------------------------------------------------------------------------------- values

    def map(self, X: Array, linear: Linear, advance: Callable[[int], None] | None = None) -> Array:
        """Return what ``linear`` makes of the values of signals (n, c, t), strip by strip.

        ``advance`` is given the number of windows of each strip.
        """
        if not len(X):
            raise InvalidInputError("X holds no signals; at least one is needed")
        strips = [slice(a, a + STRIP) for a in range(0, len(X), STRIP)]

        def strip(at: slice) -> Array:
            return linear(self.values(X[at]))

        out = []
        try:
            with threads.single("blas"):
                for part in threads.mapped(strip, strips):
                    out.append(part)
                    if advance is not None:
                        advance(len(part))
        except InvalidInputError:
            for transformer in self.transformers:  # which says where among all windows
                checks.plain_output(transformer, X)
            raise
        return out[0] if len(out) == 1 else np.concatenate(out)

    def values(self, X: Array) -> list[Array]:
        """Values (m, v_b) of each block of some signals (m, c, t)."""
        X = as_float(X)
        with np.errstate(invalid="ignore"):  # NaN where there is one
            low, high = X.min(axis=2), X.max(axis=2)
            largest = max(float(high.max()), -float(low.min()))
            offset = offsets_between(low, high)
        made: dict[tuple[Any, float], tuple[Array, Array | None]] = {}
        out = []
        for transformer, counted in zip(self.transformers, self._of_counts, strict=True):
            if _takes_units(transformer) and _fits(transformer, X, largest):
                engine = transformer._engine
                key = engine.dtype, engine.unit
                if key not in made:
                    made[key] = less_offset(X, offset, *key)
                values = engine.values(*made[key])
            else:
                values = np.asarray(checks.plain_output(transformer, X))
            values = values.reshape(len(X), -1)
            if counted is not None:
                values -= counted[0]
            out.append(values)
        return out

    @cached_property
    def _of_counts(self) -> list[tuple[Array, Array] | None]:
        """Mean counts and the components of counts of each block of random convolutions."""
        return [
            (mean_counts(t), components_of_counts(t)) if type(t) is ConvolutionFeatures else None
            for t in self.transformers
        ]

    # --------------------------------------------------------------------------------- rows

    def rows(self, X: Array, advance: Callable[[int], None] | None = None) -> Array:
        """Rows (n, i) of signals: all blocks, flattened, one after the other."""
        return self.map(X, self.rows_of_values, advance)

    def rows_of_values(self, values: Sequence[Array]) -> Array:
        """Rows (m, i) of values."""
        entries = self.entries(values)
        return np.concatenate(entries, axis=1, dtype=self.dtype)

    def entries(self, values: Sequence[Array]) -> list[Array]:
        """Entries (m, d_b) of each block, in its own units."""
        return [
            v if counted is None else v @ counted[1]
            for counted, v in zip(self._of_counts, values, strict=True)
        ]

    def split(self, rows: Array) -> list[Array]:
        """Return the blocks (n, …) of rows."""
        sizes = [math.prod(dims) for dims in self.dims]
        parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
        return [p.reshape(len(rows), *d) for p, d in zip(parts, self.dims, strict=True)]


def block_names(transformers: Sequence[Any]) -> list[str]:
    """Names of the blocks of these transformers; those that are alike are numbered."""
    names = [
        "spectrogram"
        if isinstance(t, SpectrogramTensor)
        else "random convolutions"
        if isinstance(t, ConvolutionFeatures)
        else type(t).__name__
        for t in transformers
    ]
    return [
        name if names.count(name) == 1 else f"{name} {names[: k + 1].count(name)}"
        for k, name in enumerate(names)
    ]


# ------------------------------------------------------------------------- values of one block


def _takes_units(transformer: Any) -> bool:
    """Whether a transformer is of this library and takes no gaps: it shares units and offsets."""
    kind = type(transformer)
    return kind is ConvolutionFeatures or (
        kind is SpectrogramTensor and transformer.missing == "error"
    )


def _fits(transformer: Any, X: Array, largest: float) -> bool:
    """Whether the values of signals can be computed; else the transformer says why not."""
    kind = transformer.n_channels_in_, transformer.n_times_in_
    return bool(X.shape[1:] == kind and largest <= transformer._engine.limit)


def in_order_of_counts(transformer: ConvolutionFeatures, columns: Array) -> Array:
    """Rows (v, p) of kernels, dilations and biases, in the order in which these are counted."""
    k, d, b = transformer.biases_.shape
    rows = columns.reshape(k, d, b, -1).transpose(1, 2, 0, 3)
    return np.ascontiguousarray(rows).reshape(columns.shape)


def mean_counts(transformer: ConvolutionFeatures) -> Array:
    """Mean of each count (v,) over the windows of the fit."""
    mean = in_order_of_counts(transformer, transformer.mean_[:, None])[:, 0]
    return np.asarray(mean * np.float32(transformer._engine.positions))


def components_of_counts(transformer: ConvolutionFeatures) -> Array:
    """Matrix (v, d) from counts less their means to principal components of the PPV."""
    columns = in_order_of_counts(transformer, transformer._projection)
    columns /= np.float32(transformer._engine.positions)
    return columns

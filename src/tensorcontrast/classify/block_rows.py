"""Rows of coupled blocks: a few hundred numbers of a window, for a linear classifier.

Each block of a window (spectrogram tensor, random-convolution features) is projected on its
principal components, and scaled to the same length as the others. Directions that also vary between
changes of one window that keep its class are shrunk, by the metric of generalised least squares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from tensorcontrast.augment import ChannelMix, Crop, TimeStretch
from tensorcontrast.cp import gls
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.reader import Reader
from tensorcontrast.utils import threads
from tensorcontrast.utils.arrays import as_float

__all__ = ["BlockRows", "RowReader", "RowSettings", "learn"]

Array = NDArray[Any]

#: Windows whose blocks are made at a time.
BLOCK_WINDOWS = 512


@dataclass(frozen=True)
class RowSettings:
    """Numbers that rows are learned with.

    Attributes
    ----------
    n_components : int
        Principal components of a block, at most.
    max_windows : int
        Windows that they are learned from, at most.
    n_changed : int
        Windows that are changed to find nuisance directions, at most.
    strength : float
        Deviation at which a nuisance direction keeps half of its variance, relative to the total
        deviation of all changes.
    """

    n_components: int = 400
    max_windows: int = 2000
    n_changed: int = 600
    strength: float = 0.03


@dataclass(frozen=True)
class BlockRows:
    """Learned affine maps from the blocks of a window to its row.

    Attributes
    ----------
    means : list of (d_b,) arrays
        Mean of each block.
    projections : list of (d_b, p_b) arrays
        Principal components and shrinkage of nuisance directions of each block in one.
    """

    means: list[Array]
    projections: list[Array]

    @property
    def n_columns(self) -> int:
        """Length of a row."""
        return sum(int(projection.shape[1]) for projection in self.projections)

    def apply(self, blocks: Sequence[Array]) -> Array:
        """Rows (n, p) of unit length of the blocks [n, …] of n windows."""
        flat = [_flat(block) for block in blocks]
        sizes, known = [b.shape[1] for b in flat], [len(mean) for mean in self.means]
        if sizes != known:
            raise InvalidInputError(
                f"the blocks of a window have {sizes} values, but the model was fitted on {known}"
            )
        parts = [
            normalised_rows((block - mean) @ projection)
            for block, mean, projection in zip(flat, self.means, self.projections, strict=True)
        ]
        return np.concatenate(parts, axis=1) / np.sqrt(len(parts))

    def of_signals(self, make: Callable[[Array], Sequence[Array]], X: Array) -> Array:
        """Rows of signals X [n, channel, time], whose blocks are made some at a time."""
        parts = [self.apply(make(part)) for part in _parts(X)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class RowReader:
    """Features and rows of a few windows at once, from one computation of their blocks.

    Attributes
    ----------
    reader : Reader
    first : tuple of (m_b, d_b) arrays or None
        From values of the reader to the block; None where they are the block.
    centers : tuple of (d_b,) arrays
        What is subtracted from each block in its own units.
    maps : tuple of (d_b, p_b + r) arrays
        From the rest to the row of the block, and to its part of the features.
    constant : (r,) array
        Part of the features that no window changes.
    """

    reader: Reader
    first: tuple[Array | None, ...]
    centers: tuple[Array, ...]
    maps: tuple[Array, ...]
    constant: Array

    @classmethod
    def from_rows(cls, reader: Reader, rows: BlockRows) -> RowReader | None:
        """Return the short way to rows; None where these are not of the blocks of the reader."""
        sizes = [len(block.of_components) for block in reader.blocks]
        if [len(mean) for mean in rows.means] != sizes:
            return None
        first, centers, maps = [], [], []
        constant = reader.constant.astype(np.float64)
        for block, mean, projection in zip(
            reader.blocks, rows.means, rows.projections, strict=True
        ):
            own = mean.astype(np.float64) / block.scale  # in the units of the block
            to_features = block.to_features.astype(np.float64)
            first.append(block.to_components)
            if block.to_components is not None:
                to_features = block.of_components.astype(np.float64)
                constant = constant + own @ to_features
            else:
                constant = constant + (own - block.center) @ to_features
            centers.append(own.astype(np.float32))
            both = np.concatenate(
                [block.scale * projection.astype(np.float64), to_features], axis=1
            )
            maps.append(np.ascontiguousarray(both, np.float32))
        return cls(reader, tuple(first), tuple(centers), tuple(maps), constant)

    def __call__(self, X: Array) -> tuple[Array, Array] | None:
        """Features (n, r) and rows (n, p) of unit length; None as :meth:`Reader.values` says."""
        with threads.single("blas"):
            values = self.reader.values(X)
            if values is None:
                return None
            features, parts = self.constant, []
            for value, components, center, both in zip(
                values, self.first, self.centers, self.maps, strict=True
            ):
                block = value if components is None else value @ components
                block -= center
                found = (block @ both).astype(np.float64)
                count = found.shape[1] - len(features.T)
                parts.append(normalised_rows(found[:, :count]))
                features = features + found[:, count:]
        return features, np.concatenate(parts, axis=1) / np.sqrt(len(parts))


def normalised_rows(rows: Array) -> Array:
    """Scale each row to length one; rows of zeros stay."""
    lengths = np.sqrt(np.einsum("np,np->n", rows, rows))[:, None]
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


def learn(
    make: Callable[[Array], Sequence[Array]],
    X: Array,
    rng: np.random.Generator,
    settings: RowSettings | None = None,
) -> BlockRows:
    """Learn the rows of windows X [n, channel, time] without labels.

    Parameters
    ----------
    make : callable
        From signals to their blocks [n, …].
    X : array
        Windows; at most ``settings.max_windows`` of them are used.
    rng : numpy.random.Generator
        Draws the changes of windows.
    settings : RowSettings, optional
    """
    settings = settings or RowSettings()
    some = np.asarray(X[_evenly(len(X), settings.max_windows)])
    by_part = [[_flat(block) for block in make(part)] for part in _parts(some)]
    blocks = [np.concatenate(parts) for parts in zip(*by_part, strict=True)]  # (n, d_b) each
    means = [block.mean(axis=0) for block in blocks]
    components = [
        principal_components(block - mean, settings.n_components)
        for block, mean in zip(blocks, means, strict=True)
    ]  # (d_b, p_b) each
    few = as_float(some[_evenly(len(some), settings.n_changed)])
    changed = [_differences(make, change, few, rng, components) for change in _changes(few)]
    projections = components
    if changed:
        projections = [
            axes @ shrinkage(np.concatenate(parts), settings.strength)
            for axes, *parts in zip(components, *changed, strict=True)
        ]
    return BlockRows(
        [mean.astype(np.float32) for mean in means],
        [projection.astype(np.float32) for projection in projections],
    )


def principal_components(rows: Array, count: int) -> Array:
    """Principal directions (d, p) of centred rows (n, d): at most ``count``, none without variance.

    From the Gram matrix of the smaller side.
    """
    n, d = rows.shape
    if n <= d:
        values, vectors = scipy.linalg.eigh(rows @ rows.T)
        vectors = rows.T @ vectors
    else:
        values, vectors = scipy.linalg.eigh(rows.T @ rows)
    largest = float(values[-1])
    keep = np.flatnonzero(values > max(largest, 0.0) * 1e-7)[::-1][:count]
    if largest <= 0 or not len(keep):
        return np.eye(d, 1)  # windows that are all alike: one number, the same for all
    chosen = vectors[:, keep]
    return np.asarray(chosen / np.sqrt(np.einsum("dp,dp->p", chosen, chosen)))


def shrinkage(differences: Array, strength: float) -> Array:
    """Symmetric map (p, p) that shrinks the directions in which rows of one window differ.

    With σ the standard deviation of the differences (m, p) along one of their principal directions
    and s = ``strength`` times the root of their total variance, a direction is multiplied by
    √(s / (σ + s)). The square of the map is the metric M of generalised least squares (E23).
    """
    p = differences.shape[1]
    found = gls.principal_directions(differences)
    if found is None:
        return np.eye(p)
    directions, variances, total = found
    gains = gls.gains(variances, strength * np.sqrt(total))
    return gls.GLSMetric(directions, 1 - np.sqrt(1 - gains)).times(np.eye(p))


def _changes(X: Array) -> list[Callable[[Array, np.random.Generator], Array]]:
    """List changes of a window that keep its class, as far as windows of this size have them."""
    if X.shape[2] < 2:
        return []
    changes: list[Callable[[Array, np.random.Generator], Array]] = [Crop(2), TimeStretch()]
    if X.shape[1] > 1:
        changes.append(ChannelMix.from_signals(X))
    return changes


def _differences(
    make: Callable[[Array], Sequence[Array]],
    change: Callable[[Array, np.random.Generator], Array],
    X: Array,
    rng: np.random.Generator,
    components: Sequence[Array],
) -> list[Array]:
    """Differences (n, p_b) between two draws of a change, along the components of each block."""
    views = [make(change(X, rng)) for _ in range(2)]
    return [
        (_flat(first) - _flat(second)) @ axes / np.sqrt(2)
        for first, second, axes in zip(*views, components, strict=True)
    ]


def _flat(block: Array) -> Array:
    return np.asarray(block, dtype=np.float64).reshape(len(block), -1)


def _evenly(n: int, most: int) -> NDArray[np.intp]:
    """Positions of at most so many of n windows, evenly spaced."""
    return np.linspace(0, n - 1, min(n, most)).astype(np.intp)


def _parts(X: Array) -> Iterator[Array]:
    return (X[start : start + BLOCK_WINDOWS] for start in range(0, len(X), BLOCK_WINDOWS))

"""Rows of coupled blocks: a few hundred numbers of a window, for a linear classifier.

The blocks of a window (spectrogram tensor, random-convolution features) are joined with equal
total variance and projected on their principal components. Directions that also vary between
changes of one window that keep its class are shrunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from tensorcontrast.augment import ChannelMix, Crop, TimeStretch
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils.arrays import as_float

__all__ = ["BlockRows", "RowSettings", "learn"]

Array = NDArray[Any]

#: Windows whose blocks are made at a time.
BLOCK_WINDOWS = 512


@dataclass(frozen=True)
class RowSettings:
    """Numbers that rows are learned with.

    Attributes
    ----------
    n_components : int
        Principal components, at most.
    max_windows : int
        Windows that they are learned from, at most.
    n_changed : int
        Windows that are changed to find nuisance directions, at most.
    n_directions : int
        Nuisance directions, at most.
    strength : float
        Deviation at which a nuisance direction keeps half of its variance, relative to the total
        deviation of all changes.
    """

    n_components: int = 400
    max_windows: int = 2000
    n_changed: int = 600
    n_directions: int = 128
    strength: float = 0.03


@dataclass(frozen=True)
class BlockRows:
    """A learned affine map from the joined blocks of a window to its row.

    Attributes
    ----------
    mean : (d,) array
        Mean of the joined blocks.
    projection : (d, p) array
        Scales of blocks, principal components and shrinkage of nuisance directions in one.
    """

    mean: Array
    projection: Array

    def apply(self, blocks: Sequence[Array]) -> Array:
        """Rows (n, p) of unit length of the blocks [n, …] of n windows."""
        joined = _joined(blocks)
        if joined.shape[1] != len(self.mean):
            raise InvalidInputError(
                f"the blocks of a window have {joined.shape[1]} values, but the model was fitted "
                f"on {len(self.mean)}"
            )
        return unit_length((joined - self.mean) @ self.projection)

    def of_signals(self, make: Callable[[Array], Sequence[Array]], X: Array) -> Array:
        """Rows of signals X [n, channel, time], whose blocks are made some at a time."""
        parts = [self.apply(make(part)) for part in _parts(X)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


def unit_length(rows: Array) -> Array:
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
    blocks = [[np.asarray(b).reshape(len(b), -1) for b in make(part)] for part in _parts(some)]
    joined = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]  # (n, d_b) each
    mean = np.concatenate([b.mean(axis=0, dtype=np.float64) for b in joined])
    scales = np.concatenate([np.full(b.shape[1], _equal_variance(b)) for b in joined])
    rows = (np.concatenate(joined, axis=1) - mean) * scales  # (n, d)
    components = principal_components(rows, settings.n_components)  # (d, p)
    linear = BlockRows(mean, scales[:, None] * components)
    few = as_float(some[_evenly(len(some), settings.n_changed)])
    changed = [_difference(linear, make, change, few, rng) for change in _changes(few)]
    projection = linear.projection @ shrinkage(np.concatenate(changed), settings)
    return BlockRows(mean.astype(np.float32), projection.astype(np.float32))


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


def shrinkage(differences: Array, settings: RowSettings) -> Array:
    """Symmetric map (p, p) that shrinks the directions in which rows of one window differ.

    With σ the standard deviation of the differences (m, p) along one of their principal directions
    and s = ``strength`` times the root of their total variance, it is multiplied by √(s / (σ + s)).
    """
    p = differences.shape[1]
    variances, directions = scipy.linalg.eigh(differences.T @ differences / len(differences))
    total = float(np.trace(differences.T @ differences)) / len(differences)
    if total <= 0:
        return np.eye(p)
    top = slice(max(0, p - settings.n_directions), p)
    sds = np.sqrt(np.maximum(variances[top], 0.0))
    offset = settings.strength * np.sqrt(total)
    gains = np.sqrt(offset / (sds + offset))
    V = directions[:, top]  # p, q
    return np.eye(p) - (V * (1 - gains)) @ V.T


def _changes(X: Array) -> list[Callable[[Array, np.random.Generator], Array]]:
    """List changes of a window that keep its class, as far as windows of this size have them."""
    if X.shape[2] < 2:
        return []
    changes: list[Callable[[Array, np.random.Generator], Array]] = [Crop(2), TimeStretch()]
    if X.shape[1] > 1:
        changes.append(ChannelMix.from_signals(X))
    return changes


def _difference(
    linear: BlockRows,
    make: Callable[[Array], Sequence[Array]],
    change: Callable[[Array, np.random.Generator], Array],
    X: Array,
    rng: np.random.Generator,
) -> Array:
    """Differences (n, p) between the rows of two draws of a change, before their scaling."""
    views = [_joined(make(change(X, rng))) for _ in range(2)]
    return np.asarray((views[0] - views[1]) @ linear.projection / np.sqrt(2))


def _joined(blocks: Sequence[Array]) -> Array:
    flat = [np.asarray(b, dtype=np.float64).reshape(len(b), -1) for b in blocks]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)


def _equal_variance(block: Array) -> float:
    """Scale that gives a block (n, d) a total variance of one."""
    total = float(np.var(block, axis=0, dtype=np.float64).sum())
    return 1 / np.sqrt(total) if total > 0 else 1.0


def _evenly(n: int, most: int) -> NDArray[np.intp]:
    """Positions of at most so many of n windows, evenly spaced."""
    return np.linspace(0, n - 1, min(n, most)).astype(np.intp)


def _parts(X: Array) -> Iterator[Array]:
    return (X[start : start + BLOCK_WINDOWS] for start in range(0, len(X), BLOCK_WINDOWS))

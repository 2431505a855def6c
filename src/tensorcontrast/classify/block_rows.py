"""What the classifier sees of a window: its features, and principal components of its blocks.

Each block of a window (spectrogram tensor, random-convolution features) is projected on its
principal components, and scaled to the same length as the others. Directions that also vary between
augmentations of one window are shrunk, by the metric of generalised least squares.

Shapes used throughout: n windows, m windows of a strip, d_b entries and p_b components of block b,
r features, q = r + Σ p_b columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from tensorcontrast.cp import metric
from tensorcontrast.features import ContrastiveFeatures, KeptRows
from tensorcontrast.readout import BlockMap

__all__ = ["ClassifierRows", "learn_components"]

Array = NDArray[Any]

MAX_COMPONENTS = 400
"""Principal components of a block, at most."""

MAX_WINDOWS = 2000
"""Windows that they, and the scale of the features, are learned from, at most."""

STRENGTH = 0.03
"""Deviation at which a nuisance direction keeps half of its variance, relative to the total."""

FEATURE_LENGTH = 0.5
"""Length of the features next to the components of all blocks, whose length is one."""


def learn_components(kept: KeptRows, windows: NDArray[np.intp]) -> dict[str, list[Array]]:
    """Learn principal components, with shrunken nuisance directions, from some windows of a fit.

    Returns
    -------
    dict
        ``means`` (d_b,) and ``projections`` (d_b, p_b) of each block.
    """
    blocks = kept.signals.split(kept.of(windows))
    changes: list[Array] | None = None
    if kept.differences is not None:
        changes = kept.signals.split(kept.differences)
    means, projections = [], []
    for b, block in enumerate(blocks):
        entries = block.reshape(len(block), -1).astype(np.float64)
        mean = entries.mean(axis=0)
        axes = principal_components(entries - mean, MAX_COMPONENTS)
        if changes is not None:
            change = changes[b].reshape(len(changes[b]), -1).astype(np.float64)
            axes = axes @ shrinkage(change @ axes / np.sqrt(2), STRENGTH)
        means.append(mean.astype(np.float32))
        projections.append(axes.astype(np.float32))
    return {"means": means, "projections": projections}


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

    With σ the standard deviation of the differences (k, p) along one of their principal directions
    and s = ``strength`` times the root of their total variance, a direction is multiplied by
    √(s / (σ + s)). The square of the map is the metric M of generalised least squares (E23).
    """
    p = differences.shape[1]
    directions = metric.principal_directions(differences.copy())
    if directions is None:
        return np.eye(p)
    axes, variances, total = directions
    gains = metric.gains(variances, strength * np.sqrt(total))
    return metric.NuisanceMetric(axes, 1 - np.sqrt(1 - gains)).times(np.eye(p))


def unit_rows(rows: Array, length: float = 1.0) -> Array:
    """Scale each row to one length; rows of zeros stay."""
    lengths = np.sqrt(np.einsum("np,np->n", rows, rows))[:, None]
    return np.asarray(rows * (length / np.where(lengths > 0, lengths, 1)).astype(rows.dtype))


@dataclass(frozen=True)
class ClassifierRows:
    """From windows to the rows (n, q) of the logistic regression.

    Attributes
    ----------
    extractor : ContrastiveFeatures
        Fitted.
    mean, deviation : (r,) arrays
        Of the features.
    components : dict or None
        As :func:`learn_components` returns it; None with missing values.
    maps : tuple of BlockMap
        From the values of each block to its components.
    """

    extractor: ContrastiveFeatures
    mean: Array
    deviation: Array
    components: dict[str, Any] | None
    maps: tuple[BlockMap, ...]

    @classmethod
    def from_learned(
        cls,
        extractor: ContrastiveFeatures,
        mean: Array,
        deviation: Array,
        components: dict[str, Any] | None,
    ) -> ClassifierRows:
        """Prepare the maps, from learned attributes."""
        if components is None:
            return cls(extractor, mean, deviation, None, ())
        maps = tuple(
            BlockMap.from_entries(
                transformer, projection.astype(np.float64), center, np.dtype(np.float32)
            )
            for transformer, projection, center in zip(
                extractor.signal_blocks.transformers, *_ordered(components), strict=True
            )
        )
        return cls(extractor, mean, deviation, components, maps)

    def __call__(self, signals: Array, use: Callable[[Array], Array] = np.asarray) -> Array:
        """Return what ``use`` makes of the rows of signals [n, channel, time], some at a time.

        A window is tensorized once.
        """
        if self.components is None:
            return use(self._joined(self.extractor.transform(signals), []))
        readout = self.extractor.readout
        if readout is None:
            return use(self.of_rows(self.extractor.rows(signals)))

        def of_values(values: Sequence[Array]) -> Array:
            parts = [of_block(v) for of_block, v in zip(self.maps, values, strict=True)]
            return use(self._joined(readout.features(values), parts))

        return self.extractor.signal_blocks.map(signals, of_values)

    def of_rows(self, rows: Array) -> Array:
        """Rows of windows whose entries (n, i) are known, all blocks side by side."""
        parts = []
        if self.components is not None:
            blocks = self.extractor.signal_blocks.split(rows)
            parts = [
                (block.reshape(len(block), -1) - center) @ projection
                for block, projection, center in zip(
                    blocks, *_ordered(self.components), strict=True
                )
            ]
        return self._joined(self.extractor.features_of_rows(rows), parts)

    def _joined(self, W: Array, parts: Sequence[Array]) -> Array:
        columns = [unit_rows((W - self.mean) / self.deviation, FEATURE_LENGTH)]
        columns += [unit_rows(part, 1 / math.sqrt(len(parts))) for part in parts]
        return np.concatenate(columns, axis=1, dtype=np.float64)


def _ordered(components: dict[str, Any]) -> tuple[list[Array], list[Array]]:
    return components["projections"], components["means"]

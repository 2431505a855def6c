"""Consecutive windows of a recording as positives: they mostly share what the user looks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.decompose.als import Views
    from tensorcontrast.decompose.runs import AnyViews

IntArray = NDArray[np.intp]


@dataclass(frozen=True)
class Neighbours:
    """The window before and the one behind each sample, −1 where there is none.

    Parameters
    ----------
    before, behind : (n,) int arrays
    weight : float
        How often the view of a sample is that of a neighbour.

    Examples
    --------
    >>> near = Neighbours.of(["a", "a", "a", "b"], 4, weight=1.0)
    >>> near.before.tolist(), near.behind.tolist()
    ([-1, 0, 1, -1], [1, 2, -1, -1])
    """

    before: IntArray
    behind: IntArray
    weight: float

    @classmethod
    def of(cls, sequence: Any, n_samples: int, weight: float) -> Neighbours:
        """Find neighbours from the recording that each window is of; windows are in order."""
        ids = np.asarray(sequence)
        if ids.shape != (n_samples,):
            raise InvalidInputError(
                f"sequence has shape {ids.shape} but X has {n_samples} samples; pass the "
                "recording that each window is of, windows in the order of time"
            )
        if ids.dtype.kind == "O" and any(i is None for i in ids.tolist()):
            raise InvalidInputError(
                "sequence holds None; give windows without a recording ids of their own"
            )
        try:
            code = np.unique(ids, return_inverse=True)[1].reshape(-1)
        except TypeError as error:
            raise InvalidInputError(f"sequence mixes ids of different kinds: {error}") from error
        order = np.argsort(code, kind="stable")
        joined = code[order][1:] == code[order][:-1]
        before = np.full(n_samples, -1, dtype=np.intp)
        behind = np.full(n_samples, -1, dtype=np.intp)
        before[order[1:][joined]] = order[:-1][joined]
        behind[order[:-1][joined]] = order[1:][joined]
        return cls(before, behind, weight)

    def among(self, rows: IntArray) -> Neighbours:
        """Return neighbours within some of the samples, by their place there."""
        place = np.full(len(self.before) + 1, -1, dtype=np.intp)  # the last one is for −1
        place[rows] = np.arange(len(rows))
        return Neighbours(place[self.before[rows]], place[self.behind[rows]], self.weight)

    def partners(self, rng: np.random.Generator) -> IntArray:
        """Whose view each sample is compared with this time: its own, or a neighbour's."""
        n = len(self.before)
        own = np.arange(n)
        side = rng.random(n) < 0.5
        chosen = np.where(side, self.before, self.behind)
        other = np.where(side, self.behind, self.before)
        chosen = np.where(chosen < 0, other, chosen)
        use = (rng.random(n) < self.weight) & (chosen >= 0)
        return np.where(use, chosen, own)

    def joined(self, views: AnyViews, rng: np.random.Generator) -> AnyViews:
        """Return views in which some samples have the view of a neighbour."""

        def changed(pair: Views) -> Views:
            return pair.with_partners(self.partners(rng))

        if callable(views):
            return lambda: changed(views())
        return changed(views)

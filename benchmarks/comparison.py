"""Methods compared over many data sets: means, wins and losses, ranks, differences, times.

Numbers are those of cells, first averaged over seeds. Means are compared as they are printed, to
three decimals: equal ones are ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from tensorcontrast.evaluate.benchmark import Budget, Cell

__all__ = [
    "Difference",
    "Standing",
    "Times",
    "accuracies",
    "common_sets",
    "differences",
    "mean_difference",
    "standings",
    "times",
]

#: Data set, then method, then seed.
Accuracies = Mapping[str, Mapping[str, Mapping[int, float]]]


@dataclass(frozen=True)
class Standing:
    """A method over the data sets that all methods have: mean, wins against another, mean rank."""

    method: str
    mean: float
    sd: float
    wins: int
    ties: int
    losses: int
    rank: float
    n_sets: int


@dataclass(frozen=True)
class Difference:
    """Accuracy of a method less that of the baseline, mean over ``count`` seeds or data sets.

    ``error`` is the standard error of that mean; NaN where there is one value only.
    """

    dataset: str
    method: str
    mean: float
    error: float
    count: int


@dataclass(frozen=True)
class Times:
    """Median seconds of a method: of a fit, and of ``transform`` per 1,000 windows."""

    method: str
    fit: float
    transform: float


def accuracies(cells: Iterable[Cell], budget: Budget) -> Accuracies:
    """Gather the accuracies of a budget by data set, method and seed."""
    out: dict[str, dict[str, dict[int, float]]] = {}
    for cell in cells:
        if cell.accuracy is not None and cell.budget == budget:
            own = out.setdefault(cell.dataset, {}).setdefault(cell.method, {})
            own[cell.seed] = float(cell.accuracy)
    return out


def _methods(found: Accuracies) -> list[str]:
    return list(dict.fromkeys(method for own in found.values() for method in own))


def common_sets(found: Accuracies) -> list[str]:
    """Return the data sets on which every method has a result."""
    methods = _methods(found)
    return [name for name, own in found.items() if all(method in own for method in methods)]


def standings(found: Accuracies, baseline: str) -> list[Standing]:
    """Compare the methods over the data sets that all of them have; the best rank comes first.

    Wins, ties and losses of a method are those against the baseline. The standard deviation is
    that of the mean over data sets, over the seeds that are there for all of them.
    """
    methods, sets = _methods(found), common_sets(found)
    if not sets:
        return []
    means = np.array(
        [[round(float(np.mean(list(found[s][m].values()))), 3) for m in methods] for s in sets]
    )
    ranks = np.mean([rankdata(-row) for row in means], axis=0)
    base = means[:, methods.index(baseline)] if baseline in methods else None
    out = []
    for at, method in enumerate(methods):
        sign = np.zeros(0) if base is None else np.sign(np.round(means[:, at] - base, 6))
        seeds = set.intersection(*(set(found[s][method]) for s in sets))
        by_seed = [np.mean([found[s][method][seed] for s in sets]) for seed in sorted(seeds)]
        out.append(
            Standing(
                method,
                float(np.mean([np.mean(list(found[s][method].values())) for s in sets])),
                float(np.std(by_seed, ddof=1)) if len(by_seed) > 1 else float("nan"),
                int((sign > 0).sum()),
                int((sign == 0).sum()),
                int((sign < 0).sum()),
                float(ranks[at]),
                len(sets),
            )
        )
    return sorted(out, key=lambda standing: (standing.rank, -standing.mean))


def differences(found: Accuracies, method: str, baseline: str) -> list[Difference]:
    """Return the difference on each data set that both have, over the seeds that both have."""
    out = []
    for name, own in found.items():
        mine, theirs = own.get(method, {}), own.get(baseline, {})
        values = [mine[seed] - theirs[seed] for seed in mine if seed in theirs]
        if values:
            out.append(_difference(name, method, values))
    return out


def mean_difference(of_sets: Sequence[Difference]) -> Difference | None:
    """Return the mean of differences over data sets, with its standard error over these."""
    if not of_sets:
        return None
    return _difference("mean", of_sets[0].method, [one.mean for one in of_sets])


def _difference(dataset: str, method: str, values: Sequence[float]) -> Difference:
    count = len(values)
    error = float(np.std(values, ddof=1) / np.sqrt(count)) if count > 1 else float("nan")
    return Difference(dataset, method, float(np.mean(values)), error, count)


def times(cells: Iterable[Cell]) -> list[Times]:
    """Return median times of each method over data sets and seeds."""
    fits: dict[str, dict[tuple[str, int], tuple[float, float]]] = {}
    for cell in cells:
        if cell.fit_seconds is not None:
            taken = float("nan") if cell.transform_seconds is None else cell.transform_seconds
            fits.setdefault(cell.method, {})[cell.dataset, cell.seed] = (cell.fit_seconds, taken)
    return [
        Times(method, *(float(np.median(column)) for column in np.array(list(own.values())).T))
        for method, own in fits.items()
    ]

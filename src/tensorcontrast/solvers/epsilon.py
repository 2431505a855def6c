"""The ε-region (E14): the largest weight of the contrast that keeps the reconstruction good."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from tensorcontrast.solvers.runs import Fit
from tensorcontrast.solvers.tuning import TUNING, Tuning
from tensorcontrast.utils import checks


class Interruptible(Protocol):
    """A fit that Ctrl-C may have cut short."""

    @property
    def interrupted(self) -> bool:
        """Whether it was cut short."""


F = TypeVar("F", bound=Interruptible)


def largest_beta(
    trial: Callable[[float], F], holds: Callable[[F], bool], tuning: Tuning = TUNING
) -> tuple[float, F | None, bool]:
    """Largest β for which ``holds(trial(β))``, and its fit; 0 and None where there is none.

    β is doubled or halved from 0.125, within the limits of ``tuning``, until it is known between
    two values, then narrowed to within a quarter by bisection. Ctrl-C ends the search with the
    best so far: the third value is then true. Equation E14.
    """
    best: F | None = None
    low, high, beta = 0.0, np.inf, 0.125
    least = tuning.min_beta
    while least <= beta <= tuning.max_beta and high > 1.25 * max(low, least):
        try:
            fit = trial(beta)
        except KeyboardInterrupt:  # in the first iteration of the trial
            return low, best, True
        if fit.interrupted:
            return low, best, True
        if holds(fit):
            best, low = fit, beta
        else:
            high = beta
        if low == 0.0:
            beta = high / 2
        elif high == np.inf:
            beta = low * 2
        else:
            beta = float(np.sqrt(low * high))
    return low, best, False


def largest_inside(
    plain: Fit,
    trial: Callable[[float], Fit],
    error: Callable[[Fit], float],
    epsilon: float,
    tuning: Tuning = TUNING,
) -> Fit:
    """Fit of the largest β with an error within 1 + ε of that of ``plain``, which has β = 0.

    Checkpoints forget the trials that are not it. Where no β is small enough, ``plain`` is it,
    and a warning tells. Equation E14.
    """
    limit = (1.0 + epsilon) * error(plain)
    inside_region: list[Fit] = []

    def holds(fit: Fit) -> bool:
        assert fit.keep is not None
        if fit.keep.error is None:
            fit.keep.error = error(fit)
        inside = fit.keep.error <= limit
        if inside:
            inside_region.append(fit)
        for worse in inside_region[:-1] if inside else [fit]:
            worse.lose()
        return inside

    beta, kept, stopped = largest_beta(trial, holds, tuning)
    kept = replace(plain if kept is None else kept, interrupted=stopped)
    if beta == 0.0 and not kept.interrupted:
        checks.warn(
            f"no β ≥ {tuning.min_beta:g} keeps the reconstruction error within "
            f"{epsilon:.0%} of the fit without contrast; no contrast is used",
        )
    return replace(kept, learned={**kept.learned, "beta_": beta})

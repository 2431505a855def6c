"""How PLC is fitted: in closed form (E23), by descent (E19), or by Algorithm 1 (E11, E14)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import compress, gls, kernels
from tensorcontrast.cp.kmeans import cluster
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als, gradient
from tensorcontrast.solvers.epsilon import largest_inside
from tensorcontrast.solvers.gradient import TiedContrast
from tensorcontrast.solvers.paper_als import PLCContrast
from tensorcontrast.solvers.runs import Fit, Runs
from tensorcontrast.solvers.semi_supervised import likely_classes
from tensorcontrast.solvers.settings import ALS, Gradient
from tensorcontrast.solvers.tuning import TUNING, Tuning
from tensorcontrast.utils.progress import measured

Array = NDArray[Any]
Known = NDArray[np.intp] | None

TIED_BETA, ALS_BETA = 0.07, 0.03
"""Weights of the contrast for ``beta=None``, by solver."""

MAX_CLUSTERS, MIN_WINDOWS_PER_CLUSTER = 100, 4
"""Limits of the default number of clusters for solver="gls" and "tied"."""


@dataclass(frozen=True)
class Problem:
    """What the solvers need to know of the parameters of a PLC.

    ``count`` gives the number of clusters for a number of windows and one of known classes.
    """

    solver: str
    beta: float | str | None
    gamma: float
    epsilon: float
    graph: str
    clusterer: Any
    count: Callable[[int, int], int]
    als: ALS = field(default_factory=ALS)
    gradient: Gradient = field(default_factory=Gradient)
    tuning: Tuning = TUNING


def contrast(
    problem: Problem, n_samples: int, known: Known, seed: int, streamed_beta: float | None = None
) -> PLCContrast:
    """Return the contrast that a fit begins with; with ``beta="auto"`` that is none.

    ``streamed_beta`` is the weight of a fit that a stream goes on from.
    """
    if problem.beta != "auto":
        unit = n_samples if problem.als.units == "paper" else 1
        beta = problem.beta
        if beta is None:
            beta, unit = ALS_BETA if problem.solver == "als" else TIED_BETA, 1
        return _of_beta(problem, n_samples, known, seed, float(beta) / unit)
    return _of_beta(problem, n_samples, known, seed, streamed_beta or 0.0)


def default_clusters(n_samples: int) -> int:
    """Return the number of clusters of solvers "gls" and "tied": small ones are nearly pure."""
    return max(2, min(MAX_CLUSTERS, n_samples // MIN_WINDOWS_PER_CLUSTER))


def check_count(problem: Problem, n_samples: int, count: int, known: Known) -> None:
    """Raise where there are fewer windows than clusters."""
    needs_clusters = problem.clusterer is None and (known is None or (known < 0).any())
    if needs_clusters and n_samples < count:
        raise InvalidInputError(
            f"n_samples={n_samples} is fewer than n_clusters={count}; "
            "pass a smaller n_clusters or more windows"
        )


def _of_beta(problem: Problem, n_samples: int, known: Known, seed: int, beta: float) -> PLCContrast:
    """Return the contrast with that weight."""
    classes = 0 if known is None else int(known.max()) + 1
    count = problem.count(n_samples, classes)
    check_count(problem, n_samples, count, known)
    return PLCContrast(
        beta=beta,
        gamma=float(problem.gamma) * (n_samples if problem.als.units == "paper" else 1),
        n_clusters=count,
        invariance=float(problem.als.trans_inv),
        identity=problem.als.laplacian == "literal",
        same_view=problem.graph == "same-view",
        clusterer=problem.clusterer,
        known=known,
        spread_labels=problem.graph != "true",
        seed=seed,
        tuning=problem.tuning.kmeans,
    )


def learned(base: als.Contrast, *, ran: bool) -> dict[str, Any]:
    """Return what is learned of a contrast, or of one that never ran."""
    assert isinstance(base, PLCContrast)
    return {
        "beta_": base.beta if ran else 0.0,
        "gamma_": base.gamma,
        "n_clusters_": base.n_clusters if ran else 0,
    }


def tied_contrast(problem: Problem, base: als.Contrast) -> TiedContrast:
    """Return the contrast of the encoder-tied solver."""
    assert isinstance(base, PLCContrast)
    return TiedContrast(
        base,
        form=problem.gradient.contrast,
        temperature=float(problem.gradient.temperature),
        n_epochs=problem.gradient.n_epochs,
        batch_size=problem.gradient.batch_size,
        learning_rate=problem.gradient.learning_rate,
    )


def closed_form(
    problem: Problem,
    runs: Runs,
    views: als.AnyViews,
    known: Known,
    rng: np.random.Generator,
    nuisance: Array | None,
    *,
    masked: bool,
) -> Fit:
    """Fit a CPD, then find pseudo classes and the nuisance metric from each other (E23).

    ``nuisance`` are differences (m, i) in the scale of the fit; by default those between both
    views. Where windows have gaps (``masked``) the CPD is the result.
    """
    first = views.draw().alone()
    seed = int(rng.integers(2**31))
    whole = None if runs.whole is None else runs.whole.alone()
    plain = replace(runs, warm_up=0, balance=True, whole=whole)
    learned = {
        "beta_": 0.0,
        "gamma_": float(problem.gamma),
        "n_clusters_": 0,
        "nuisance_strength_": None,
    }
    # Features are linear in the window, whatever the factors are.
    fit = replace(plain.best(first, runs.plain, rng), contrast=als.no_contrast, learned=learned)
    if problem.beta == 0 or masked or not fit.goes_on:
        return fit
    count = problem.count(first.n_samples, 0 if known is None else int(known.max()) + 1)
    check_count(problem, first.n_samples, count, known)
    try:
        if not problem.als.trans_inv:
            nuisance = None
        elif nuisance is None:
            nuisance = _between_views(views, problem.tuning.gls.max_deviations)
        rows = gradient.sampled(first.n_samples, seed, problem.tuning.max_descent_windows)
        if rows is None and not fit.whole:
            fit = fit.finished(first, runs.alpha)
        # The metric is found in the space of the cores, where there are any.
        bases = runs.bases if fit.whole else None
        seen = replace(fit, factors=compress.compress_factors(fit.factors, bases))
        with measured(runs.times, "metric"):
            found, classes = _metric(
                problem, runs.alpha, seen, first, rows, known, count, seed, nuisance
            )
    except KeyboardInterrupt:  # the CPD stands
        return replace(fit, interrupted=True)
    strength = None if found is None else found.strength
    return replace(
        fit,
        selected=found,
        memory=replace(fit.memory, labels=classes),
        learned={**learned, "n_clusters_": count, "nuisance_strength_": strength},
    )


def _metric(
    problem: Problem,
    alpha: float,
    fit: Fit,
    first: als.Views,
    rows: NDArray[np.intp] | None,
    known: Known,
    count: int,
    seed: int,
    nuisance: Array | None,
) -> tuple[gls.Selected | None, Known]:
    """Return the metric of a CPD, and the pseudo classes; None for these if some windows sufficed.

    Of very many windows a random sample is used, as in a descent: these ``rows``.
    """
    some = gradient.rows_in_memory(first, rows)
    assert isinstance(some, als.Views)
    own = known if known is None or rows is None else known[rows]
    if fit.final is not None:
        error = fit.final[1]
    else:
        error = gls.ols_error(some.X, some.norm_x, fit.factors, alpha)
    found, classes = gls.contrast_metric(
        some.X,
        some.norm_x,
        fit.factors,
        alpha,
        nuisance,
        gls.Contrast(partial(pseudo_classes, problem, count, own, seed), float(problem.gamma)),
        (1.0 + problem.epsilon) * error,
        problem.tuning.gls,
    )
    return found, classes if rows is None else None


def pseudo_classes(problem: Problem, count: int, known: Known, seed: int, W: Array) -> Any:
    """Pseudo class of each window from its features W (n, r), known labels put in. Equation E2."""
    if known is not None and (known >= 0).all():
        return known
    classes, _ = cluster(
        W,
        min(count, len(W)),
        clusterer=problem.clusterer,
        seed=seed,
        tuning=problem.tuning.kmeans,
    )
    if known is None:
        return classes
    likely = known if problem.graph == "true" else likely_classes(W, known)[0]
    joined = np.where(likely >= 0, likely, int(known.max()) + 1 + classes)
    return np.unique(joined, return_inverse=True)[1].astype(np.intp)


def _between_views(views: als.AnyViews, most: int) -> Array | None:
    """Differences (m, i) between both views of ``most`` windows; None without a second view."""
    drawn = views.draw()
    if isinstance(drawn, als.Views) and drawn.V is None:
        return None
    some = np.linspace(0, drawn.n_samples - 1, min(drawn.n_samples, most))
    both = drawn.rows(some.astype(np.intp))
    return None if both.V is None else np.asarray(both.V - both.X)


def descending(
    problem: Problem, runs: Runs, views: als.AnyViews, known: Known, rng: np.random.Generator
) -> Fit:
    """Fit with features tied to the encoder, from a CPD of the data's own view. Equation E19."""
    first = views.draw()
    n, seed = first.n_samples, int(rng.integers(2**31))
    base = contrast(problem, n, known, seed)
    fit = plain = replace(runs, balance=True, whole=None).best(first.alone(), als.no_contrast, rng)
    if plain.goes_on:
        try:
            if problem.beta == "auto":
                fit = _largest_beta(problem, runs, plain, views, known, rng, seed)
            else:
                fit = gradient.descend(runs, plain, views, tied_contrast(problem, base), rng)
        except KeyboardInterrupt:  # before the first epoch: the CPD is what there is
            fit = replace(plain, interrupted=True)
    return replace(fit, learned=learned(base, ran=False) | fit.learned)


def alternating(
    problem: Problem,
    runs: Runs,
    plain: Fit,
    views: als.AnyViews,
    known: Known,
    rng: np.random.Generator,
) -> Fit:
    """Go on from a fit of Algorithm 1, which is the result but for ``beta="auto"`` (E11, E14)."""
    fit = plain
    if problem.beta == "auto" and not plain.interrupted:
        seed = int(rng.integers(2**31))
        fit = _largest_beta(problem, runs, plain, views, known, rng, seed)
    return replace(fit, learned=learned(fit.contrast, ran=True) | fit.learned)


def _largest_beta(
    problem: Problem,
    runs: Runs,
    plain: Fit,
    views: als.AnyViews,
    known: Known,
    rng: np.random.Generator,
    seed: int,
) -> Fit:
    """Fit of the largest β whose error is within 1 + ε of the fit without. Equation E14.

    The error is that of the data with the features of the fit, for "als" under the pull of
    the contrast; every trial starts from the factors of the fit without, and clusters with the
    same ``seed``.
    """
    fixed = views.draw()
    again = replace(runs, warm_up=0)

    def trial(beta: float) -> Fit:
        base = _of_beta(problem, fixed.n_samples, known, seed, beta)
        if problem.solver == "tied":
            fit = gradient.descend(again, plain, views, tied_contrast(problem, base), rng)
        else:
            factors = kernels.like(plain.factors, [U.copy() for U in plain.factors])
            fit = again.once(views, factors, base, rng)
        measured = fit.keep is not None and fit.keep.error is not None  # in the checkpoint
        return fit if measured or fit.interrupted else fit.finished(fixed, runs.alpha)

    def error(fit: Fit) -> float:
        assert fit.final is not None
        return fit.final[1]

    return largest_inside(
        plain.finished(fixed, runs.alpha), trial, error, problem.epsilon, problem.tuning
    )

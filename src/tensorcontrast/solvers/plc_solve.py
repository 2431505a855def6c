"""How PLC is fitted: in closed form (E23), by descent (E19), or by Algorithm 1 (E11, E14)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import gls, kernels
from tensorcontrast.cp.kmeans import cluster
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als, descent, tied
from tensorcontrast.solvers.contrast import PLCContrast
from tensorcontrast.solvers.epsilon import largest_inside
from tensorcontrast.solvers.runs import AnyViews, Fit, Runs
from tensorcontrast.solvers.semi_supervised import likely_classes
from tensorcontrast.solvers.tied import TiedContrast

if TYPE_CHECKING:
    from tensorcontrast.decompose.plc import PLC

Array = NDArray[Any]
Known = NDArray[np.intp] | None

TIED_BETA, ALS_BETA = 0.07, 0.03
"""Weights of the contrast for ``beta=None``, by solver."""

MAX_CLUSTERS, MIN_WINDOWS_PER_CLUSTER = 100, 4
"""Limits of the default number of clusters for solver="gls" and "tied"."""


def contrast(model: PLC, n_samples: int, known: Known, seed: int, streaming: bool) -> PLCContrast:
    """Return the contrast that a fit begins with; with ``beta="auto"`` that is none."""
    if model.beta != "auto":
        unit = n_samples if model.units == "paper" else 1
        beta = model.beta
        if beta is None:
            beta, unit = ALS_BETA if model.solver == "als" else TIED_BETA, 1
        return _of_beta(model, n_samples, known, seed, float(beta) / unit)
    if streaming and not hasattr(model, "beta_"):
        raise InvalidInputError(
            "beta='auto' compares whole fits: call fit first, or give partial_fit a number"
        )
    return _of_beta(model, n_samples, known, seed, model.beta_ if streaming else 0.0)


def default_clusters(n_samples: int) -> int:
    """Return the number of clusters of solvers "gls" and "tied": small ones are nearly pure."""
    return max(2, min(MAX_CLUSTERS, n_samples // MIN_WINDOWS_PER_CLUSTER))


def check_count(model: PLC, n_samples: int, count: int, known: Known) -> None:
    """Raise where there are fewer windows than clusters."""
    needs_clusters = model.clusterer is None and (known is None or (known < 0).any())
    if needs_clusters and n_samples < count:
        raise InvalidInputError(
            f"n_samples={n_samples} is fewer than n_clusters={count}; "
            "pass a smaller n_clusters or more samples"
        )


def _of_beta(model: PLC, n_samples: int, known: Known, seed: int, beta: float) -> PLCContrast:
    """Return the contrast with that weight."""
    classes = 0 if known is None else int(known.max()) + 1
    count = model._cluster_count(n_samples, classes)
    check_count(model, n_samples, count, known)
    return PLCContrast(
        beta=beta,
        gamma=float(model.gamma) * (n_samples if model.units == "paper" else 1),
        n_clusters=count,
        invariance=float(model.trans_inv),
        identity=model.laplacian == "literal",
        same_view=model.graph == "same-view",
        clusterer=model.clusterer,
        known=known,
        spread_labels=model.graph != "true",
        seed=seed,
    )


def learned(base: als.Contrast, *, ran: bool) -> dict[str, Any]:
    """Return what is learned of a contrast, or of one that never ran."""
    assert isinstance(base, PLCContrast)
    return {
        "beta_": base.beta if ran else 0.0,
        "gamma_": base.gamma,
        "n_clusters_": base.n_clusters if ran else 0,
    }


def tied_contrast(model: PLC, base: als.Contrast) -> TiedContrast:
    """Return the contrast of the encoder-tied solver."""
    assert isinstance(base, PLCContrast)
    return TiedContrast(
        base,
        form=model.contrast,
        temperature=float(model.temperature),
        n_epochs=model.n_epochs,
        batch_size=model.batch_size or 512,
        learning_rate=model.learning_rate,
    )


def closed_form(model: PLC, views: AnyViews, known: Known, rng: np.random.Generator) -> Fit:
    """Fit a CPD, then find pseudo classes and the nuisance metric from each other (E23)."""
    first = (views() if callable(views) else views).alone()
    seed = int(rng.integers(2**31))
    runs = replace(Runs.of(model), warm_up=0, balance=True)
    fit = runs.best(first, als.no_contrast, rng)
    fit.learned = {
        "beta_": 0.0,
        "gamma_": float(model.gamma),
        "n_clusters_": 0,
        "nuisance_strength_": None,
    }
    if model.beta == 0 or model.missing == "mask" or not fit.goes_on:
        return fit
    count = model._cluster_count(first.n_samples, 0 if known is None else int(known.max()) + 1)
    check_count(model, first.n_samples, count, known)
    try:
        found, classes = _metric(model, fit, views, first, known, count, seed)
    except KeyboardInterrupt:  # the CPD stands
        fit.interrupted = True
        return fit
    fit.selected, fit.memory.labels = found, classes
    fit.learned |= {
        "n_clusters_": count,
        "nuisance_strength_": None if found is None else found.strength,
    }
    return fit


def _metric(
    model: PLC, fit: Fit, views: AnyViews, first: als.Views, known: Known, count: int, seed: int
) -> tuple[gls.Selected | None, Known]:
    """Return the metric of a CPD, and the pseudo classes; None for these if some windows sufficed.

    Of very many windows a sample is used, as in a descent.
    """
    rows = tied.sampled(first.n_samples, seed)
    held = tied.held(first, rows)
    assert not callable(held)
    own = known if known is None or rows is None else known[rows]
    if rows is None:
        error = fit.final_features(first, model.alpha)[1]
    else:
        error = gls.ols_error(held.X, held.norm_x, fit.factors, model.alpha)
    found, classes = gls.contrast_metric(
        held.X,
        held.norm_x,
        fit.factors,
        model.alpha,
        _nuisance(model, views, rows),
        gls.Contrast(partial(pseudo_classes, model, count, own, seed), float(model.gamma)),
        (1.0 + model.epsilon) * error,
    )
    return found, classes if rows is None else None


def pseudo_classes(model: PLC, count: int, known: Known, seed: int, W: Array) -> Any:
    """Pseudo class of each window from its features W (n, r), known labels put in. Equation E2."""
    if known is not None and (known >= 0).all():
        return known
    classes, _ = cluster(W, min(count, len(W)), clusterer=model.clusterer, seed=seed)
    if known is None:
        return classes
    likely = known if model.graph == "true" else likely_classes(W, known)[0]
    joined = np.where(likely >= 0, likely, int(known.max()) + 1 + classes)
    return np.unique(joined, return_inverse=True)[1].astype(np.intp)


def _nuisance(model: PLC, views: AnyViews, rows: NDArray[np.intp] | None) -> Array | None:
    """Nuisance differences (m, i) of a fit: as given, else those between both views."""
    if not model.trans_inv:
        return None
    given = model._nuisance_rows()
    if given is not None:
        return gls.nuisance_in_core(model, given)
    drawn = views() if callable(views) else views
    if isinstance(drawn, als.Views) and drawn.V is None:
        return None
    some = np.linspace(0, drawn.n_samples - 1, min(drawn.n_samples, gls.MAX_DEVIATIONS))
    both = drawn.rows(some.astype(np.intp))
    return None if both.V is None else np.asarray(both.V - both.X)


def descending(model: PLC, views: AnyViews, known: Known, rng: np.random.Generator) -> Fit:
    """Fit with features tied to the encoder, from a CPD of the data's own view. Equation E19."""
    first = views() if callable(views) else views
    n, seed = first.n_samples, int(rng.integers(2**31))
    base = contrast(model, n, known, seed, streaming=False)
    runs = replace(Runs.of(model), batch_size=None, balance=True)
    fit = plain = runs.best(first.alone(), als.no_contrast, rng)
    if plain.goes_on:
        try:
            if model.beta == "auto":
                fit = _largest_beta(model, plain, views, known, rng, seed)
            else:
                own = replace(Runs.of(model), batch_size=None)
                fit = descent.descend(own, plain, views, tied_contrast(model, base), rng)
        except KeyboardInterrupt:  # before the first epoch: the CPD is what there is
            plain.interrupted = True
    fit.learned = learned(base, ran=False) | fit.learned
    return fit


def alternating(
    model: PLC, plain: Fit, views: AnyViews, known: Known, rng: np.random.Generator
) -> Fit:
    """Go on from a fit of Algorithm 1, which is the result but for ``beta="auto"`` (E11, E14)."""
    fit = plain
    if model.beta == "auto" and not plain.interrupted:
        seed = int(rng.integers(2**31))
        fit = _largest_beta(model, plain, views, known, rng, seed)
    fit.learned = learned(fit.contrast, ran=True) | fit.learned
    return fit


def _largest_beta(
    model: PLC,
    plain: Fit,
    views: AnyViews,
    known: Known,
    rng: np.random.Generator,
    seed: int,
) -> Fit:
    """Fit of the largest β whose error is within 1 + ε of the fit without. Equation E14.

    The error is that of the data with the features of the fit, for "als" under the pull of
    the contrast; every trial starts from the factors of the fit without, and clusters with the
    same ``seed``.
    """
    fixed = views() if callable(views) else views
    runs = replace(Runs.of(model), warm_up=0)

    def trial(beta: float) -> Fit:
        base = _of_beta(model, fixed.n_samples, known, seed, beta)
        if model.solver == "tied":
            return descent.descend(runs, plain, views, tied_contrast(model, base), rng)
        return runs.once(
            views, kernels.like(plain.factors, [U.copy() for U in plain.factors]), base, rng
        )

    def error(fit: Fit) -> float:
        return fit.final_features(fixed, model.alpha)[1]

    return largest_inside(plain, trial, error, model.epsilon)

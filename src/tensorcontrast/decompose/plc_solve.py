"""How PLC is fitted: its contrast, its weight β, and the fits that these take (E11, E14, E19)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorcontrast.decompose import (
    als,
    checkpoint,
    descent,
    kernels,
    label_trial,
    missing,
    origins,
)
from tensorcontrast.decompose.contrast import PLCContrast
from tensorcontrast.decompose.epsilon import first_inside, largest_inside
from tensorcontrast.decompose.levels import levels
from tensorcontrast.decompose.origins import Origins
from tensorcontrast.decompose.runs import AnyViews, Fit, Runs
from tensorcontrast.decompose.seeding import many
from tensorcontrast.decompose.tied import TiedContrast
from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.decompose.plc import PLC

Array = NDArray[Any]
Known = NDArray[np.intp] | None

#: Weights of the contrast for ``beta=None``, by solver; the first for where many labels are known.
KNOWN_BETA, TIED_BETA, ALS_BETA = 0.2, 0.07, 0.03
#: The same where the graph is that of the samples' origins: it is worth more.
ORIGINS_BETA = 0.15


def contrast(model: PLC, n_samples: int, known: Known, seed: int, streaming: bool) -> PLCContrast:
    """Return the contrast that a fit begins with; with ``beta="auto"`` that is none."""
    if model.beta != "auto":
        unit = n_samples if model.units == "paper" else 1
        beta = model.beta
        if beta is None:
            beta, unit = TIED_BETA if model.solver == "tied" else ALS_BETA, 1
        return _of_beta(model, n_samples, known, seed, float(beta) / unit)
    if streaming and not hasattr(model, "beta_"):
        raise InvalidInputError(
            "beta='auto' compares whole fits: call fit first, or give partial_fit a number"
        )
    return _of_beta(model, n_samples, known, seed, model.beta_ if streaming else 0.0)


def _of_beta(model: PLC, n_samples: int, known: Known, seed: int, beta: float) -> PLCContrast:
    """Return the contrast with that weight."""
    classes = 0 if known is None else int(known.max()) + 1
    count = model._cluster_count(n_samples, classes)
    if model.solver == "tied":
        count = levels(model.n_clusters, n_samples)[0]
    needs_clusters = model.clusterer is None and (known is None or (known < 0).any())
    if needs_clusters and n_samples < count:
        raise InvalidInputError(
            f"n_samples={n_samples} is fewer than n_clusters={count}; "
            "pass a smaller n_clusters or more samples"
        )
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
    """Return what is learned of a contrast with one graph, or of one that never ran."""
    assert isinstance(base, PLCContrast)
    return {
        "beta_": base.beta if ran else 0.0,
        "gamma_": base.gamma,
        "n_clusters_": (base.n_clusters,) if ran else (),
        "label_gain_": None,
        "neighbour_distance_": None,
    }


def tied_contrast(model: PLC, base: als.Contrast, n_samples: int) -> TiedContrast:
    """Return what a descent needs beside the contrast."""
    assert isinstance(base, PLCContrast)
    coarser = levels(model.n_clusters, n_samples)[1:] if model.clusterer is None else ()
    return TiedContrast(
        base,
        form=model.contrast,
        temperatures=temperatures(model),
        n_epochs=model.n_epochs,
        batch_size=model.batch_size or 512,
        learning_rate=model.learning_rate,
        neighbours=model._neighbours(n_samples),
        chosen=model.n_clusters is None,
        coarser=coarser,
    )


def temperatures(model: PLC) -> tuple[float, float]:
    """Temperature of the softmax in the first epoch and in the last."""
    given = model.temperature
    if not isinstance(given, Sequence):
        return float(given), float(given)
    if len(given) == 2 and all(isinstance(t, Real) and 0 < float(t) < np.inf for t in given):
        return float(given[0]), float(given[1])
    raise InvalidInputError(
        f"temperature={given!r}: pass a positive number, or two, for the first epoch and the last"
    )


def descending(
    model: PLC,
    views: AnyViews,
    known: Known,
    rng: np.random.Generator,
    *,
    sequence: ArrayLike | None = None,
    noise: Array | None = None,
) -> Fit:
    """Fit with features tied to the encoder, from a CPD of the data's own view. Equation E19.

    ``sequence`` names the recording of each sample. With rows of ``noise`` (m, i) the graph may be
    that of the samples' origins, and the fit knows the reconstruction error of that CPD.
    """
    first = views() if callable(views) else views
    n, seed = first.n_samples, int(rng.integers(2**31))
    base = contrast(model, n, known, seed, streaming=False)
    runs = replace(Runs.of(model), batch_size=None, balance=True)
    fit = plain = runs.best(first.alone(), als.no_contrast, rng)
    if plain.goes_on:
        try:
            fit = _contrasted(model, plain, views, first, base, known, rng, seed, sequence, noise)
        except KeyboardInterrupt:  # before the first epoch: the CPD is what there is
            plain.interrupted = True
    fit.learned = learned(base, ran=False) | fit.learned
    return fit


def _contrasted(
    model: PLC,
    plain: Fit,
    views: AnyViews,
    first: als.Views,
    base: PLCContrast,
    known: Known,
    rng: np.random.Generator,
    seed: int,
    sequence: ArrayLike | None,
    noise: Array | None,
) -> Fit:
    """Go on from the CPD ``plain`` with the contrast."""
    found = _origins(model, first, known, noise)
    if found is not None and found.apart:
        plain.origins = found
    parts = None
    if model.beta is None and known is not None and model.graph != "true":
        parts = label_trial.halves(known, sequence)
    if model.beta is None:
        told = known if parts is None else None
        fit = _of_betas(model, plain, views, told, rng, seed, _first(told, plain))
        if parts is not None and fit.goes_on:
            fit = _if_worth_it(model, plain, views, known, rng, seed, fit, parts)
    elif model.beta != "auto":
        runs = replace(Runs.of(model), batch_size=None)
        contrast = tied_contrast(model, base, first.n_samples)
        fit = descent.descend(runs, plain, views, contrast, rng)
    else:
        fit = _of_betas(model, plain, views, known, rng, seed, largest_inside)
    fit.learned["neighbour_distance_"] = None if found is None else found.distance
    if noise is not None and not fit.interrupted:
        fit.start_error = plain.final_features(first.alone(), model.alpha)[1]
    return fit


def alternating(
    model: PLC, plain: Fit, views: AnyViews, known: Known, rng: np.random.Generator
) -> Fit:
    """Go on from a fit of Algorithm 1, which is the result but for ``beta="auto"`` (E11, E14)."""
    fit = plain
    if model.beta == "auto" and not plain.interrupted:
        seed = int(rng.integers(2**31))
        fit = _of_betas(model, plain, views, known, rng, seed, largest_inside)
    fit.learned = learned(fit.contrast, ran=True) | fit.learned
    return fit


def _origins(model: PLC, views: als.Views, known: Known, noise: Array | None) -> Origins | None:
    """Find where samples come from, if clusters of them are wanted and noise can tell."""
    if noise is None or not model._asks_origins():
        return None
    if known is not None and (known >= 0).all():
        return None
    n = views.n_samples
    some = np.linspace(0, n - 1, min(n, origins.MOST_SAMPLES)).astype(np.intp)
    return origins.find(views.alone().rows(some).X, noise, model.scale_)


def _first(known: Known, plain: Fit) -> Callable[..., Fit]:
    """Return what takes the first weight inside the ε-region.

    A larger one is tried for many labels, and for a graph of origins.
    """
    betas = [TIED_BETA]
    if plain.origins is not None:
        betas.insert(0, ORIGINS_BETA)
    if many(known):
        betas.insert(0, KNOWN_BETA)
    return partial(first_inside, betas=betas)


def _of_betas(
    model: PLC,
    plain: Fit,
    views: AnyViews,
    known: Known,
    rng: np.random.Generator,
    seed: int,
    best: Callable[..., Fit],
) -> Fit:
    """Fit of a β whose reconstruction error is within 1 + ε of the fit without. Equation E14.

    The error is that of the data with the features of the fit, for "als" under the pull of
    the contrast; every trial starts from the factors of the fit without, and clusters with the
    same ``seed``.
    """
    fixed = views() if callable(views) else views
    runs = replace(Runs.of(model), warm_up=0)

    def trial(beta: float) -> Fit:
        n = fixed.n_samples
        base = _of_beta(model, n, known, seed, beta)
        if model.solver == "tied":
            return descent.descend(runs, plain, views, tied_contrast(model, base, n), rng)
        return runs.once(
            views, kernels.like(plain.factors, [U.copy() for U in plain.factors]), base, rng
        )

    def error(fit: Fit) -> float:
        return fit.final_features(fixed, model.alpha)[1]

    return best(plain, trial, error, model.epsilon)


def _if_worth_it(
    model: PLC,
    plain: Fit,
    views: AnyViews,
    known: Known,
    rng: np.random.Generator,
    seed: int,
    without: Fit,
    parts: tuple[NDArray[np.intp], NDArray[np.intp]],
) -> Fit:
    """Fit with labels in the graph, or the one ``without`` where labels left out say so.

    Ctrl-C and the callback end the question with the fit that there is.
    """
    data = missing.completed(views, plain.factors, model.alpha)
    rows = data() if callable(data) else data
    gain = np.inf
    for learn, ask in (parts, parts[::-1]):
        try:
            half = _of_betas(model, plain, views, learn, rng, seed, _first(known, plain))
        except KeyboardInterrupt:  # before its first epoch
            without.interrupted = True
            return without
        if not half.goes_on:
            without.interrupted, without.stopped = half.interrupted, half.stopped
            return without
        checkpoint.check_remembered(half.factors)
        after, before = (
            label_trial.accuracy(rows, fit.factors, model.alpha, learn, ask)
            for fit in (half, without)
        )
        gain = min(gain, after - before)
        if gain < 0:
            without.learned["label_gain_"] = gain
            return without
    fit = _of_betas(model, plain, views, known, rng, seed, _first(known, plain))
    fit.learned["label_gain_"] = gain
    return fit

"""The descent of ``PLC(solver="tied")``: from a CPD to the end, and one batch of a stream (E19)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensorcontrast.cp import kernels
from tensorcontrast.solvers import als, checkpoint, missing, stream, tied
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.solvers.runs import AnyViews, Fit, Runs

#: Share of the learning rate that a batch of a stream is descended with.
STREAM_RATE = 1 / 15


def descend(
    runs: Runs,
    plain: Fit,
    views: AnyViews,
    contrast: tied.TiedContrast,
    rng: np.random.Generator,
) -> Fit:
    """Descend from the factors of a fit without contrast, which fill what is missing."""
    views = missing.completed(views, plain.factors, runs.alpha)
    first = views() if callable(views) else views
    rows = tied.sampled(first.n_samples, contrast.base.seed)
    norms = np.ones(runs.rank)
    factors = kernels.normal_form(plain.factors, norms)[0]
    held = tied.held(views, rows)
    own = contrast.among(rows)
    memory = als.Memory()
    monitor = Monitor(
        runs.name,
        max_iter=contrast.n_epochs,
        tol=0.0,
        callback=runs.callback,
        verbose=runs.verbose,
    )
    monitor.resume(plain.history)
    keep = checkpoint.keep_run(
        monitor=monitor,
        memory=memory,
        rng=rng,
        n_samples=first.n_samples if rows is None else len(rows),
    )
    with monitor:
        factors, interrupted = tied.train(
            held,
            factors,
            own,
            alpha=runs.alpha,
            monitor=monitor,
            memory=memory,
            rng=rng,
            keep=keep,
        )
    if interrupted and monitor.n_iter == len(plain.history["objective"]):  # no epoch was done
        plain.interrupted = True
        return plain
    if rows is not None:
        memory.labels = None  # those of the sample; all samples go to the nearest centre
    # The encoder is the model: what ``features_`` are is what ``transform`` gives. Whether the
    # fit has settled is a question to the CPD: the descent ends with its schedule.
    return Fit(
        factors,
        als.no_contrast,
        memory,
        monitor.history,
        plain.converged,
        interrupted,
        plain.monitor,
        learned={
            "beta_": contrast.base.beta,
            "n_clusters_": own.base.n_clusters,
        },
        stopped=monitor.stopped,
        keep=keep,
    )


def step(batch: stream.Batch, contrast: tied.TiedContrast) -> stream.Step:
    """Descend through a batch of a stream once; the first one starts from a CPD of itself."""
    factors, alpha = batch.factors, batch.alpha
    if batch.past is None:
        factors, _, _ = stream.swept(replace(batch, contrast=als.no_contrast))
        factors = kernels.normal_form(factors, np.ones(factors[0].shape[1]))[0]
    views = missing.completed_views(batch.views, factors, alpha)
    factors, terms = contrast.epoch(
        views,
        factors,
        # A stream has no end to slow for.
        tied.Adam(STREAM_RATE * contrast.learning_rate, total=2**31),
        alpha=alpha,
        memory=batch.memory,
        rng=batch.rng,
    )
    features, _ = als.solve_features(views, factors, als.no_contrast, alpha, batch.memory)
    sums = als.Statistics.of(views, features)
    return factors, sums if batch.past is None else batch.past.add(sums, batch.forgetting), terms

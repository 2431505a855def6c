"""The same with less chance: ``python -m benchmarks.draws [--data har] [variant …]``.

Few development subjects are left to train and test a probe on when most are for the fit, so that
which of them are which decides more than what is compared. Here half of the development subjects of
``benchmarks.study`` are for the fit, and the others are divided into train and test many times: by
subject, and for HAR also window by window, as the ATD authors do. Six halves, each with several
random states. Printed are means with 60 and with all labels, the reconstruction error against
CPD's of the same tensors, and the difference to the first variant of the same halves and states,
with its standard error. Variants with labels in the graph are fitted for every draw of labels; a
run with one of them probes all its variants on the first divisions only, one draw each.

Results go to ``benchmarks/results/draws-NAME.json`` (``draws-NAME-labels.json`` with such a
variant), beside those of other variants with as many halves and states. Needs the recordings named
by TENSORCONTRAST_DATA, but for ``--data watch``: those are embedded, and no goal is set on them, so
that all their subjects take part.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import RESULTS, environment
from benchmarks.study import development, neighbours
from benchmarks.variants import RANK, VARIANTS
from tensorcontrast import CPD, Recordings, _beside, _steady, augment
from tensorcontrast._shapes import WINDOWS
from tensorcontrast.datasets import load_watch
from tensorcontrast.evaluate.protocol import label_budget, linear_probe

CHOSEN = (
    "default, unit length, graphs in turns",
    "default, cpd",
    "levels",
    "levels, cpd",
    "levels, 2",
    "levels, 6",
)
HALVES, SUBJECT_DRAWS, WINDOW_DRAWS, LABEL_DRAWS = 6, 8, 3, 3
Parts = list[tuple[np.ndarray, np.ndarray]]


def parts(rec: Recordings, seed: int, mixed: bool) -> tuple[np.ndarray, dict[str, Parts]]:
    """Choose samples for the fit, and divide the others into train and test."""
    assert rec.groups is not None
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.unique(rec.groups))
    half = -(-len(names) // 2)
    fitted = np.flatnonzero(np.isin(rec.groups, names[half:]))
    others = np.flatnonzero(np.isin(rec.groups, names[:half]))
    out: dict[str, Parts] = {"by subject": []}
    for _ in range(SUBJECT_DRAWS):
        inside = np.isin(rec.groups[others], rng.permutation(names[:half])[: -(-half // 2)])
        out["by subject"].append((others[inside], others[~inside]))
    if mixed:
        out["by window"] = []
        for _ in range(WINDOW_DRAWS):
            order = rng.permutation(others)
            out["by window"].append(
                (np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :]))
            )
    return fitted, out


def scores(
    W: np.ndarray, y: np.ndarray, divided: dict[str, Parts], n_draws: int = 2
) -> list[float]:
    """Accuracy with 60 and with all labels, for each way to divide."""
    out = []
    for pairs in divided.values():
        few, full = [], []
        for k, (train, test) in enumerate(pairs):
            for draw in range(2 * k, 2 * k + n_draws):
                at = train[label_budget(y[train], 60, seed=draw)]
                few.append(linear_probe(W[at], y[at], W[test], y[test]).accuracy)
            full.append(linear_probe(W[train], y[train], W[test], y[test]).accuracy)
        out += [float(np.mean(few)), float(np.mean(full))]
    return out


def with_labels(
    model: Any,
    tensors: tuple[np.ndarray, np.ndarray, np.ndarray],
    y: np.ndarray,
    fitted: np.ndarray,
    extra: dict[str, Any],
    at: np.ndarray,
) -> Any:
    """Fit on the fitted samples and those with labels; views of all are the last of the tensors."""
    T, view, views = tensors
    known = np.concatenate([np.full(len(fitted), -1), y[at]])
    both = np.concatenate([view, views[at]])
    return model.fit(T[np.concatenate([fitted, at])], known, view=both, **extra)


def labelled_scores(
    fit: Callable[[np.ndarray], Any],
    T: np.ndarray,
    y: np.ndarray,
    divided: dict[str, Parts],
    start: float,
) -> list[float]:
    """Accuracy as in :func:`scores`, of a fit for each draw of labels; the error at the end."""
    out, errors = [], []
    for pairs in divided.values():
        found: dict[str, list[float]] = {"few": [], "full": []}
        for k, (train, test) in enumerate(pairs):
            few = train[label_budget(y[train], 60, seed=2 * k)]
            for key, at in (("few", few), ("full", train)):
                model = fit(at)
                W = [model.transform(T[rows]) for rows in (at, test)]
                found[key].append(linear_probe(W[0], y[at], W[1], y[test]).accuracy)
                errors.append(model.reconstruction_error_ / start - 1)
        out += [float(np.mean(found["few"])), float(np.mean(found["full"]))]
    return [*out, float(np.mean(errors))]


def changes_of(kind: str, tensorize: Any) -> list[Any]:
    """List the changes that a kind of noise has beside what changes within windows."""
    placed = (_steady.placement, _steady.PLACEMENT_SHARE)
    ways = _steady.changes(tensorize)
    named = {
        "within": [],
        "tempo": [way for way in ways if way[0] is _steady.tempo],
        "placement": [way for way in ways if way[0] is _steady.placement],
        "placement always": [*(way for way in ways if way[0] is _steady.tempo), placed],
        "all": ways,
    }
    return named[kind]


def half(name: str, variants: list[str], seed: int, states: int) -> list[list[list[float]]]:
    """Scores and errors (state, variant) of one half of the subjects."""
    rec = load_watch() if name == "watch" else development(name)
    assert rec.y is not None and rec.fs is not None
    fitted, divided = parts(rec, seed, name == "har")
    n_draws = 2
    if any(VARIANTS[label].labels for label in variants):
        n_draws, divided = 1, {way: pairs[:LABEL_DRAWS] for way, pairs in divided.items()}
    signals = rec.X[fitted]
    gentle = augment.gentle(n_times=rec.n_times)
    changed = gentle(signals, np.random.default_rng(seed))
    tensors: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    makers: dict[str, Any] = {}
    noises: dict[str, np.ndarray] = {}
    others: dict[str, np.ndarray] = {}
    out = []
    for state in range(seed, seed + 1000 * states, 1000):
        row, starts = [], {}
        for label in variants:
            variant = VARIANTS[label]
            made_by = variant.maker.__name__
            key = repr([*sorted(variant.spectrogram.items()), variant.shapes, made_by])
            if key not in tensors:
                made: Any = variant.maker(rec.fs, **variant.spectrogram).fit(signals)
                if variant.shapes is not None:
                    some = signals[:: -(-len(signals) // WINDOWS)]
                    made = _beside.learn(some, made, variant.shapes)
                tensors[key] = made.transform(rec.X), made.transform(changed)
                makers[key] = made
            T, view = tensors[key]
            common: dict[str, Any] = {
                "random_state": state,
                "beside": getattr(makers[key], "n_slices", 0),
            }
            extra = {}
            if variant.steady:
                which = key + variant.steady
                if which not in noises:
                    by = makers[key].tensorize
                    ways = changes_of(variant.steady, by)
                    noises[which] = _steady.differences(signals, makers[key], by.n_fft_, ways)
                extra["noise"] = noises[which]
            if variant.sequence:
                ids = neighbours(rec)
                if ids is None:
                    raise SystemExit(f"{label}: the windows of {name} have no order")
                extra["sequence"] = ids[fitted]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                if key not in starts:
                    starts[key] = CPD(RANK, **common).fit(T[fitted])
                model = start = starts[key]
                own = variant.estimator(RANK, init=start.factors_, **common, **variant.settings)
                if variant.labels:
                    if key not in others:
                        moved = gentle(rec.X, np.random.default_rng(seed + 1))
                        others[key] = makers[key].transform(moved)
                    fit = partial(with_labels, own, (T, view, others[key]), rec.y, fitted, extra)
                    error = start.reconstruction_error_
                    row.append(labelled_scores(fit, T, rec.y, divided, error))
                    continue
                if not variant.cpd:
                    model = own.fit(T[fitted], view=view, **extra)
                W = model.transform(T)
                W = W if variant.after is None else variant.after(model, W)
                error = model.reconstruction_error_ / start.reconstruction_error_ - 1
                row.append([*scores(W, rec.y, divided, n_draws), float(error)])
        out.append(row)
    return out


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.draws", description=__doc__)
    parser.add_argument("variants", nargs="*", default=list(CHOSEN), help="names of variants")
    parser.add_argument("--data", default="har", choices=("har", "sleep-edf", "ptb-xl", "watch"))
    parser.add_argument("--states", type=int, default=2)
    parser.add_argument("--halves", type=int, default=HALVES)
    parser.add_argument("--jobs", type=int, default=-1)
    arguments = parser.parse_args()
    unknown = [v for v in arguments.variants if v not in VARIANTS]
    if unknown or arguments.states * arguments.halves < 2:
        parser.error(f"no variants: {unknown}" if unknown else "two fits at least")
    found = np.array(
        Parallel(arguments.jobs, inner_max_num_threads=1)(
            delayed(half)(arguments.data, arguments.variants, seed, arguments.states)
            for seed in range(arguments.halves)
        )
    ).reshape(-1, len(arguments.variants), 5 if arguments.data == "har" else 3)
    ways = ["by subject", "by window"] if arguments.data == "har" else ["by subject"]
    table = Table("variant", *(f"{w}: 60, all" for w in ways), "error", title=arguments.data)
    for k, variant in enumerate(arguments.variants):
        apart = found[:, k] - found[:, 0]
        error = apart.std(axis=0, ddof=1) / np.sqrt(len(apart))
        means, gains = found[:, k].mean(axis=0), apart.mean(axis=0)
        texts = [
            f"{m:.3f} ({g:+.3f} ± {e:.3f})" for m, g, e in zip(means, gains, error, strict=True)
        ]
        pairs = [", ".join(texts[i : i + 2]) for i in range(0, 2 * len(ways), 2)]
        table.add_row(variant, *pairs, f"{means[-1]:+.1%}")
    Console(width=160).print(table)
    labels = any(VARIANTS[v].labels for v in arguments.variants)
    path = RESULTS / f"draws-{arguments.data}{'-labels' if labels else ''}.json"
    size = {"halves": arguments.halves, "states": arguments.states}
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    kept = before["cells"] if before and size == {k: before.get(k) for k in size} else {}
    result = {
        "environment": environment(),
        **size,
        "columns": [f"{w}, {b}" for w in ways for b in ("60 labels", "all labels")] + ["error"],
        "cells": kept | {v: found[:, k].tolist() for k, v in enumerate(arguments.variants)},
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

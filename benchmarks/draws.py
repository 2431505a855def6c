"""The same with less chance: ``python -m benchmarks.draws [--data har] [variant …]``.

Few development subjects are left to train and test a probe on when most are for the fit, so that
which of them are which decides more than what is compared. Here half of the development subjects of
``benchmarks.study`` are for the fit, and the others are divided into train and test many times: by
subject, and for HAR also window by window, as the ATD authors do. Six halves, each with several
random states. Printed are means with 60 and with all labels, the reconstruction error against
CPD's of the same tensors, and the difference to the first variant of the same halves and states,
with its standard error.

Results go to ``benchmarks/results/draws-NAME.json``, beside those of other variants with as many
halves and states. Needs the recordings named by
TENSORCONTRAST_DATA.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import RESULTS, environment
from benchmarks.study import development
from benchmarks.variants import RANK, VARIANTS
from tensorcontrast import CPD, PLC, Recordings, SpectrogramTensor, _beside, augment
from tensorcontrast._shapes import WINDOWS
from tensorcontrast.evaluate.protocol import label_budget, linear_probe

CHOSEN = (
    "default, unit length, graphs in turns",
    "default, cpd",
    "levels",
    "levels, cpd",
    "levels, 2",
    "levels, 6",
)
HALVES, SUBJECT_DRAWS, WINDOW_DRAWS = 6, 8, 3
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


def scores(W: np.ndarray, y: np.ndarray, divided: dict[str, Parts]) -> list[float]:
    """Accuracy with 60 and with all labels, for each way to divide."""
    out = []
    for pairs in divided.values():
        few, full = [], []
        for k, (train, test) in enumerate(pairs):
            for draw in (2 * k, 2 * k + 1):
                at = train[label_budget(y[train], 60, seed=draw)]
                few.append(linear_probe(W[at], y[at], W[test], y[test]).accuracy)
            full.append(linear_probe(W[train], y[train], W[test], y[test]).accuracy)
        out += [float(np.mean(few)), float(np.mean(full))]
    return out


def half(name: str, variants: list[str], seed: int, states: int) -> list[list[list[float]]]:
    """Scores and errors (state, variant) of one half of the subjects."""
    rec = development(name)
    assert rec.y is not None and rec.fs is not None
    fitted, divided = parts(rec, seed, name == "har")
    signals = rec.X[fitted]
    changed = augment.gentle(n_times=rec.n_times)(signals, np.random.default_rng(seed))
    tensors: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    slices: dict[str, int] = {}
    out = []
    for state in range(seed, seed + 1000 * states, 1000):
        row, starts = [], {}
        for label in variants:
            variant = VARIANTS[label]
            key = repr([*sorted(variant.spectrogram.items()), variant.shapes])
            if key not in tensors:
                made: Any = SpectrogramTensor(rec.fs, **variant.spectrogram).fit(signals)
                if variant.shapes is not None:
                    some = signals[:: -(-len(signals) // WINDOWS)]
                    made = _beside.learn(some, made, variant.shapes)
                tensors[key] = made.transform(rec.X), made.transform(changed)
                slices[key] = getattr(made, "n_slices", 0)
            T, view = tensors[key]
            common: dict[str, Any] = {"random_state": state, "beside": slices[key]}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                if key not in starts:
                    starts[key] = CPD(RANK, **common).fit(T[fitted])
                model = start = starts[key]
                if not variant.cpd:
                    model = PLC(RANK, init=start.factors_, **common, **variant.settings)
                    model.fit(T[fitted], view=view)
                W = model.transform(T)
                W = W if variant.after is None else variant.after(model, W)
                error = model.reconstruction_error_ / start.reconstruction_error_ - 1
                row.append([*scores(W, rec.y, divided), float(error)])
        out.append(row)
    return out


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.draws", description=__doc__)
    parser.add_argument("variants", nargs="*", default=list(CHOSEN), help="names of variants")
    parser.add_argument("--data", default="har", choices=("har", "sleep-edf", "ptb-xl"))
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
    path = RESULTS / f"draws-{arguments.data}.json"
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

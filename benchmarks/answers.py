"""Answers of ``ContrastiveClassifier`` over the archive: ``python -m benchmarks.answers``.

The protocol is that of ``python -m benchmarks.archive``: the same splits and the same draws of
labels. The features are fitted once per set and seed, on the unlabelled windows and one draw of
labelled ones; each draw trains a classifier on them (``refit``). Printed are, for each label
budget, the accuracy, the difference to the peers that a run of the archive has already
(``--peers FOLDER``), and the expected calibration error with and without temperature scaling.

``--smooth`` prints what ``smooth="viterbi"`` gains with 60 labels, on sets whose windows follow
each other (HAR, Sleep-EDF).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from tensorcontrast import ContrastiveClassifier, ContrastiveFeatures
from tensorcontrast.classify.calibration import expected_calibration_error
from tensorcontrast.errors import TensorContrastWarning
from tensorcontrast.evaluate import data
from tensorcontrast.evaluate.archive import BUDGETS, HALVES, archive_config, require
from tensorcontrast.evaluate.config import BenchConfig, DatasetConfig
from tensorcontrast.evaluate.scoring import Task, draws_of
from tensorcontrast.recordings import Recordings

PEERS = ("MiniRocket + ridge", "MultiRocket-Hydra", "QUANT + trees")


def judged(
    config: BenchConfig, dataset: DatasetConfig, seed: int, most: int, *, smooth: bool
) -> Iterator[dict[str, Any]]:
    """Scores of every draw of one set and seed."""
    rec = data.load(dataset)
    parts = data.splits(rec, dataset, config, seed)
    task = Task(config, dataset, config.methods[0], seed, config.budgets)
    unlabelled = parts[0].unlabelled
    if len(unlabelled) > most:
        chosen = np.random.default_rng(seed).choice(unlabelled, most, replace=False)
        unlabelled = np.sort(chosen)
    model: ContrastiveClassifier | None = None
    budgets = (60,) if smooth else config.budgets
    for budget in budgets:
        for draw in draws_of(rec, task, parts, budget):
            rows = draw.labelled
            if model is None:
                features = ContrastiveFeatures(rec.fs, rec.channels)
                model = ContrastiveClassifier(features, random_state=seed)
                model.fit(*_with_labels(rec, np.union1d(unlabelled, rows), rows))
            if smooth:  # all windows of the labelled people, to know how far labels are apart
                rows = np.sort(draw.split.train)
            X, y = _with_labels(rec, rows, draw.labelled)
            groups = None if rec.groups is None else rec.groups[rows]
            order = _sequence(rec)
            model.set_params(smooth=None)
            model.refit(X, y, groups=groups, recording=order[rows] if smooth else None)
            yield {"budget": budget, **_scores(model, rec, np.sort(draw.split.test), order, smooth)}


def _with_labels(
    rec: Recordings, rows: NDArray[np.int64], labelled: NDArray[np.int64]
) -> tuple[Any, NDArray[np.int64]]:
    assert rec.y is not None
    return rec.X[rows], np.where(np.isin(rows, labelled), rec.y[rows], -1)


def _sequence(rec: Recordings) -> NDArray[np.str_]:
    """Name the recording of each window: its column, else subject and night."""
    columns = [rec.columns[name] for name in ("recording", "night") if name in rec.columns]
    groups = np.zeros(len(rec)) if rec.groups is None else rec.groups
    return np.array([" ".join(map(str, row)) for row in zip(groups, *columns, strict=True)])


def _scores(
    model: ContrastiveClassifier,
    rec: Recordings,
    test: NDArray[np.int64],
    order: NDArray[np.str_],
    smooth: bool,
) -> dict[str, float]:
    assert rec.y is not None
    truth = rec.y[test]
    test, truth = test[truth >= 0], truth[truth >= 0]
    scores = model._scores(rec.X[test])
    answers = model.classes_[scores.argmax(axis=1)]
    out = {"accuracy": float((answers == truth).mean())}
    for name, temperature in (("raw", 1.0), ("calibrated", model.temperature_)):
        sure = softmax(scores / temperature, axis=1).max(axis=1)
        out[name] = expected_calibration_error(sure, answers == truth)
    if smooth:
        model.set_params(smooth="viterbi")
        found = model.predict(rec.X[test], recording=order[test])
        out["smoothed"] = float((found == truth).mean())
        out["stay"] = float(model.stay_ or 0)
    return out


def peers_of(folder: str | None, seeds: Sequence[int]) -> dict[tuple[str, str, str], float]:
    """Mean accuracy of the peers over these seeds: by set, method and budget."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    if folder is not None:
        for line in Path(folder, "cells.jsonl").read_text(encoding="utf-8").splitlines():
            cell = json.loads(line)
            if cell["status"] == "ok" and cell["method"] in PEERS and cell["seed"] in seeds:
                key = (cell["dataset"], cell["method"], str(cell["budget"]))
                found[key].append(cell["accuracy"])
    return {key: float(np.mean(values)) for key, values in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", help="names, separated by commas; all by default")
    parser.add_argument("--half", choices=HALVES, default="all")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--peers", metavar="FOLDER", help="a run of the archive with the peers")
    parser.add_argument("--most", type=int, default=8000, help="unlabelled windows, at most")
    parser.add_argument("--smooth", action="store_true", help="HAR and Sleep-EDF, smoothed")
    given = parser.parse_args(arguments)
    names = given.sets.split(",") if given.sets else None
    if given.smooth and names is None:
        names = ["HAR", "Sleep-EDF"]
    config = archive_config(sets=names, half=given.half, seeds=given.seeds)
    require(config.datasets)
    seeds = range(given.seeds)
    peers = peers_of(given.peers, seeds)
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for dataset in config.datasets:
        begin = time.perf_counter()
        for seed in seeds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TensorContrastWarning)
                for row in judged(config, dataset, seed, given.most, smooth=given.smooth):
                    found[dataset.label, str(row["budget"])].append(row)
        _print_set(dataset.label, found, given.smooth, time.perf_counter() - begin)
    if not given.smooth:
        _print_means([d.label for d in config.datasets], found, peers)


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def _print_set(name: str, found: Any, smooth: bool, seconds: float) -> None:
    if smooth:
        rows = found[name, "60"]
        gains = [row["smoothed"] - row["accuracy"] for row in rows]
        error = np.std(gains, ddof=1) / np.sqrt(len(gains))
        print(
            f"{name}: 60 labels, {len(rows)} draws: {_mean(rows, 'accuracy'):.3f}, smoothed "
            f"{_mean(rows, 'smoothed'):.3f}, gain {100 * np.mean(gains):+.1f} ± {100 * error:.1f} "
            f"points; keeps its class with {_mean(rows, 'stay'):.3f}",
            flush=True,
        )
        return
    cells = [f"{_mean(found[name, str(b)], 'accuracy'):.3f}" for b in BUDGETS]
    errors = [f"{_mean(found[name, str(b)], 'calibrated'):.3f}" for b in BUDGETS]
    print(
        f"{name:22} accuracy {' / '.join(cells)}, calibration error {' / '.join(errors)} "
        f"({seconds:.0f} s)",
        flush=True,
    )


def _print_means(
    names: Sequence[str], found: Any, peers: dict[tuple[str, str, str], float]
) -> None:
    print(f"mean of {len(names)} sets; points against peers over the sets that they have:")
    for budget in map(str, BUDGETS):
        own = {name: _mean(found[name, budget], "accuracy") for name in names}
        line = f"{budget:>5} labels: {np.mean(list(own.values())):.3f}"
        for peer in PEERS:
            both = [n for n in names if (n, peer, budget) in peers]
            if both:
                gap = 100 * np.mean([own[n] - peers[n, peer, budget] for n in both])
                line += f", {peer} {gap:+.1f} ({len(both)})"
        best = {
            n: max(peers[n, p, budget] for p in PEERS if (n, p, budget) in peers)
            for n in names
            if any((n, p, budget) in peers for p in PEERS)
        }
        if best:
            gap = 100 * np.mean([own[n] - best[n] for n in best])
            line += f", the best of them on each set {gap:+.1f}"
        errors = [
            np.mean([_mean(found[n, budget], k) for n in names]) for k in ("raw", "calibrated")
        ]
        print(f"{line}; calibration error {errors[0]:.3f} raw, {errors[1]:.3f} calibrated")


if __name__ == "__main__":
    main()

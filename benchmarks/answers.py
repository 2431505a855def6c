"""Answers of ``ContrastiveClassifier`` over the archive: ``python -m benchmarks.answers``.

The protocol is that of ``python -m benchmarks.archive``: the same splits and the same draws of
labels. The features are fitted once per set and seed, on the unlabelled windows and one draw of
labelled ones; each draw trains a classifier on them (``refit``). Scores go to
``results/answers.json``, in which a run replaces the sets that it has computed. Tables are made of
the whole file, next to the scores of the peers in ``results/archive-methods.json`` and
``results/archive-minirocket.json``, and of the features with a probe in ``results/archive.json``.

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

from benchmarks.common import RESULTS, environment
from tensorcontrast import ContrastiveClassifier, ContrastiveFeatures
from tensorcontrast.classify.calibration import expected_calibration_error
from tensorcontrast.errors import TensorContrastWarning
from tensorcontrast.evaluate.archive import (
    BUDGETS,
    HALVES,
    NAMES,
    archive_benchmark,
    of_half,
    require,
)
from tensorcontrast.evaluate.benchmark import Benchmark, Dataset, draws_of
from tensorcontrast.recordings import Recordings

PEERS = ("MiniRocket + ridge", "MultiRocket-Hydra", "QUANT + trees")
PROBE = "PLC"

#: Points above the best peer, mean over sets, that are aimed at for each budget.
GOALS = {"30": 3.0, "60": 2.0, "100%": -0.5}

#: Sets on which 60 labels are to be worth as much as with the features and a probe.
PROBED = ("HAR", "PTB-XL", "Sleep-EDF", "Smartwatch")

ANSWERS = RESULTS / "answers.json"


def judged(
    benchmark: Benchmark, dataset: Dataset, seed: int, most: int, *, smooth: bool
) -> Iterator[dict[str, Any]]:
    """Scores of every draw of one set and seed."""
    rec = dataset.load()
    parts = dataset.splits(rec, seed, benchmark.draws)
    unlabelled = parts[0].unlabelled
    if len(unlabelled) > most:
        chosen = np.random.default_rng(seed).choice(unlabelled, most, replace=False)
        unlabelled = np.sort(chosen)
    model: ContrastiveClassifier | None = None
    budgets = (60,) if smooth else benchmark.budgets
    for budget in budgets:
        for draw in draws_of(rec, parts, budget, seed, benchmark):
            rows = draw.labelled
            if model is None:
                features = ContrastiveFeatures(rec.fs, rec.channels)
                model = ContrastiveClassifier(features, random_state=seed)
                model.fit(*_with_labels(rec, np.union1d(unlabelled, rows), rows))
            if smooth:  # all windows of the labelled people, to know how far labels are apart
                rows = np.sort(draw.split.train)
            _, y = _with_labels(rec, rows, draw.labelled)
            groups = None if rec.groups is None else rec.groups[rows]
            order = _sequence(rec)
            model.set_params(smooth=None)
            model.refit(_in_order(rec, rows, order), y, groups=groups)
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


def _in_order(rec: Recordings, rows: NDArray[np.int64], order: NDArray[np.str_]) -> Recordings:
    columns = {"recording": order[rows]}
    return Recordings(rec.X[rows], fs=rec.fs, channels=rec.channels, columns=columns)


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
    probability = np.maximum(model.predict_proba(rec.X[test]), 1e-300)
    scores = model.temperature_ * np.log(probability)
    answers = model.classes_[scores.argmax(axis=1)]
    out = {"accuracy": float((answers == truth).mean()), "temperature": model.temperature_}
    for name, temperature in (("raw", 1.0), ("calibrated", model.temperature_)):
        sure = softmax(scores / temperature, axis=1).max(axis=1)
        out[name] = expected_calibration_error(sure, answers == truth)
    if smooth:
        model.set_params(smooth="viterbi")
        found = model.predict(_in_order(rec, test, order))
        out["smoothed"] = float((found == truth).mean())
        out["stay"] = float(model.stay_ or 0)
    return out


def mean_scores(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Means over the draws of one set and budget; of smoothing also the standard error."""
    names = [name for name in rows[0] if name != "budget"]
    out = {name: float(np.mean([row[name] for row in rows])) for name in names}
    if "smoothed" in out:
        gains = [row["smoothed"] - row["accuracy"] for row in rows]
        out["gain_error"] = float(np.std(gains, ddof=1) / np.sqrt(len(gains)))
    return {name: round(value, 5) for name, value in out.items()} | {"draws": len(rows)}


def published() -> dict[str, dict[str, dict[str, float]]]:
    """Accuracies that the archive has: by set, method and budget."""
    out: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for name in ("archive", "archive-minirocket", "archive-methods"):
        found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for score in found["scores"]:
            out[score["dataset"]][score["method"]][str(score["budget"])] = score["accuracy"]
    return out


def goal_rows(
    scores: dict[str, Any], others: dict[str, dict[str, dict[str, float]]]
) -> list[dict[str, Any]]:
    """Points above the best peer for each half and budget, over the sets that all peers have."""
    rows = []
    for half in HALVES:
        names = [
            n for n in of_half(NAMES, half) if n in scores and all(p in others[n] for p in PEERS)
        ]
        for budget in map(str, BUDGETS) if names else ():
            own = _mean([scores[n]["budgets"][budget]["accuracy"] for n in names])
            means = {p: _mean([others[n][p][budget] for n in names]) for p in PEERS}
            best = max(means, key=lambda p: means[p])
            gap = 100 * (own - means[best])
            on_each = 100 * (own - _mean([max(others[n][p][budget] for p in PEERS) for n in names]))
            errors = [
                _mean([scores[n]["budgets"][budget][kind] for n in names])
                for kind in ("raw", "calibrated")
            ]
            goal = GOALS.get(budget)
            rows.append(
                {
                    "half": half,
                    "sets": names,
                    "budget": budget,
                    "accuracy": round(own, 4),
                    "best_peer": best,
                    "points": round(gap, 2),
                    "points_above_best_on_each_set": round(on_each, 2),
                    "goal": goal,
                    "met": None if goal is None else gap >= goal,
                    "calibration_error": [round(error, 4) for error in errors],
                }
            )
    return rows


def one_peer(
    scores: dict[str, Any], others: dict[str, dict[str, dict[str, float]]], peer: str
) -> dict[str, Any]:
    """Points above one peer for each budget, over all sets that both have."""
    names = [name for name in NAMES if name in scores and peer in others[name]]
    out: dict[str, Any] = {"peer": peer, "sets": names, "budgets": {}}
    for budget in map(str, BUDGETS) if len(names) > 1 else ():
        gaps = [
            100 * (scores[n]["budgets"][budget]["accuracy"] - others[n][peer][budget])
            for n in names
        ]
        error = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps)))
        out["budgets"][budget] = {
            "points": round(_mean(gaps), 2),
            "standard_error": round(error, 2),
            "wins": sum(gap > 0 for gap in gaps),
            "worst": round(min(gaps), 2),
        }
    return out


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def print_tables(result: dict[str, Any]) -> None:
    """Print the goals by half and budget, then 60 labels against features with a probe."""
    print("half        sets  labels  accuracy  points above the best peer in the mean   goal")
    for row in result["goals"]:
        met = {None: "", True: "  met", False: "  missed"}[row["met"]]
        goal = "" if row["goal"] is None else f"{row['goal']:+.1f}"
        peer = f"{row['points']:+.1f} ({row['best_peer']})"
        raw, calibrated = row["calibration_error"]
        print(
            f"{row['half']:10} {len(row['sets']):5} {row['budget']:>7} {row['accuracy']:9.3f}  "
            f"{peer:38} {goal:>5}{met}; calibration error {raw:.3f} raw, {calibrated:.3f} scaled"
        )
    found = result["one_peer"]
    for budget, row in found["budgets"].items():
        print(
            f"{len(found['sets'])} sets, {budget} labels: {row['points']:+.1f} ± "
            f"{row['standard_error']:.1f} points above {found['peer']}, ahead on {row['wins']}, "
            f"worst {row['worst']:+.1f}"
        )
    for name, row in result["probe"].items():
        print(
            f"{name}: 60 labels: {row['accuracy']:.3f}, features with a probe {row['probe']:.3f}, "
            f"{100 * (row['accuracy'] - row['probe']):+.1f} points"
        )


def print_set(name: str, scores: dict[str, Any]) -> None:
    """Print the scores of one set."""
    row = scores["budgets"]["60"]
    if "smoothed" in row:
        print(
            f"{name}: 60 labels, {row['draws']} draws: {row['accuracy']:.3f}, smoothed "
            f"{row['smoothed']:.3f}, gain {100 * (row['smoothed'] - row['accuracy']):+.1f} ± "
            f"{100 * row['gain_error']:.1f} points; keeps its class with {row['stay']:.3f}",
            flush=True,
        )
        return
    parts = [
        " / ".join(f"{budget[kind]:.3f}" for budget in scores["budgets"].values())
        for kind in ("accuracy", "calibrated")
    ]
    print(
        f"{name:22} accuracy {parts[0]}, calibration error {parts[1]} ({scores['seconds']:.0f} s)",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute scores, write the result file and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", help="names, separated by commas; all by default")
    parser.add_argument("--half", choices=HALVES, default="all")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--most", type=int, default=8000, help="unlabelled windows, at most")
    parser.add_argument("--smooth", action="store_true", help="HAR and Sleep-EDF, smoothed")
    parser.add_argument("--result", type=Path, default=ANSWERS, help="file of results")
    given = parser.parse_args(arguments)
    names = given.sets.split(",") if given.sets else None
    if given.smooth and names is None:
        names = ["HAR", "Sleep-EDF"]
    benchmark = archive_benchmark(sets=names, half=given.half)
    require(benchmark.datasets)
    result: dict[str, Any] = {"scores": {}, "smoothing": {}}
    if given.result.exists():
        result |= json.loads(given.result.read_text(encoding="utf-8"))
    for dataset in benchmark.datasets:
        begin = time.perf_counter()
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for seed in range(given.seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TensorContrastWarning)
                for row in judged(benchmark, dataset, seed, given.most, smooth=given.smooth):
                    found[str(row["budget"])].append(row)
        scores = {
            "seeds": given.seeds,
            "seconds": round(time.perf_counter() - begin, 1),
            "budgets": {budget: mean_scores(rows) for budget, rows in found.items()},
        }
        result["smoothing" if given.smooth else "scores"][dataset.label] = scores
        print_set(dataset.label, scores)
        write(given.result, result)
    if not given.smooth:
        print_tables(result)


def write(path: Path, result: dict[str, Any]) -> None:
    """Write scores and the tables that are made of them."""
    others = published()
    result["environment"] = environment()
    result["goals"] = goal_rows(result["scores"], others)
    result["one_peer"] = one_peer(result["scores"], others, PEERS[0])
    result["probe"] = {
        name: {
            "accuracy": result["scores"][name]["budgets"]["60"]["accuracy"],
            "probe": others[name][PROBE]["60"],
        }
        for name in PROBED
        if name in result["scores"]
    }
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Accuracy of 32 features against the goals: ``python -m benchmarks.accuracy [dataset …]``.

The preset "accuracy" of the runner (``tensorcontrast bench accuracy``), with the goals that the
project has set itself and whether they are met. Features are fitted on the unlabelled part only;
the probe sees the labels of the train part; nobody of the test part is in either. ``har-atd`` is
the split of the ATD authors, in which windows of one subject are in train and test. Needs the
recordings named by TENSORCONTRAST_DATA. A stopped run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.common import RESULTS, Row, environment, show
from tensorcontrast.evaluate.presets import preset
from tensorcontrast.evaluate.run import Run
from tensorcontrast.evaluate.runner import Progress, run
from tensorcontrast.report.tables import run_tables

IN_GRAPH, HIDDEN = "PLC (labels in graph)", "PLC (labels hidden)"
#: Data set, method, budget, least accuracy.
GOALS: tuple[tuple[str, str, int | str, float], ...] = (
    ("har-atd", "PLC", "100%", 0.975),
    ("har-atd", "PLC", 60, 0.88),
    ("har-atd", IN_GRAPH, 60, 0.92),
    ("har-official", "PLC", "100%", 0.95),
    ("sleep-edf", "PLC", 60, 0.55),
    ("ptb-xl", "PLC", 60, 0.47),
)
NAMES = ("har-atd", "har-official", "har", "sleep-edf", "ptb-xl")


def _values(found: Run, data: str, method: str, budget: int | str) -> dict[int, float]:
    """Accuracy by seed."""
    return {
        cell.seed: float(cell.accuracy)
        for cell in found.ok
        if (cell.dataset, cell.method, str(cell.budget)) == (data, method, str(budget))
        and cell.accuracy is not None
    }


def _difference(
    name: str, mine: dict[int, float], theirs: dict[int, float], least: float | None
) -> list[Row]:
    """Row of the mean difference over the seeds of both; none for fewer than two of these.

    It is to exceed its standard error where nothing else is asked of it.
    """
    both = [mine[s] - theirs[s] for s in mine if s in theirs]
    if len(both) < 2:
        return []
    error = float(np.std(both, ddof=1) / np.sqrt(len(both)))
    name = f"{name} (its standard error {error:.3f})"
    return [Row(name, float(np.mean(both)), "accuracy", at_least=error if least is None else least)]


def goals(found: Run) -> list[Row]:
    """Rows of the goals, of PLC against the others, of errors and times."""
    rows: list[Row] = []
    for data, method, budget, lowest in GOALS:
        values = list(_values(found, data, method, budget).values())
        if values:
            name = f"{data}, {method}, {budget} labels"
            rows.append(Row(name, float(np.mean(values)), "accuracy", at_least=lowest))
    for data in dict.fromkeys(cell.dataset for cell in found.ok):
        for budget in (60, "100%"):
            at = f"{data}, {budget} labels:"
            above = 0.02 if (data, budget) == ("ptb-xl", "100%") else None
            by = {m: _values(found, data, m, budget) for m in ("CPD", "ATD", "PCA", "PLC")}
            having, hidden = (_values(found, data, m, budget) for m in (IN_GRAPH, HIDDEN))
            for other in ("CPD", "ATD", "PCA"):
                least = above if other == "CPD" else None
                rows += _difference(f"{at} PLC above {other}", by["PLC"], by[other], least)
            for base, over in ((hidden, "the same windows without"), (by["PLC"], "PLC")):
                rows += _difference(
                    f"{at} gain by labels in the graph over {over}", having, base, 0.0
                )
            if above is not None:
                text = f"{at} PLC with the labels in the graph above CPD"
                rows += _difference(text, having, by["CPD"], above)
        cost = {}
        for method in ("PLC", "CPD"):
            cells = [c for c in found.ok if (c.dataset, c.method) == (data, method)]
            if cells:
                errors = [c.reconstruction_error for c in cells if c.reconstruction_error]
                seconds = [c.fit_seconds for c in cells if c.fit_seconds]
                cost[method] = float(np.mean(errors)), float(np.mean(seconds))
        if len(cost) == 2:
            error = cost["PLC"][0] / cost["CPD"][0] - 1
            rows.append(Row(f"{data}: reconstruction error above CPD's", error, "", at_most=0.05))
            ratio = cost["PLC"][1] / cost["CPD"][1]
            rows.append(Row(f"{data}: time of the fit, PLC / CPD", ratio, at_most=10))
    return rows


def main() -> int:
    """Run what is missing, print the tables and the goals; 1 if one was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("datasets", nargs="*", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--methods", nargs="*", help="labels of methods; all by default")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--folder", type=Path, default=Path("runs/accuracy"))
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument(
        "--beside",
        nargs="*",
        type=Path,
        default=[],
        help="folders of other runs whose methods the goals are to be compared with",
    )
    arguments = parser.parse_args()
    config = preset("accuracy", seeds=arguments.seeds)
    changes: dict[str, Any] = {}
    if arguments.datasets:
        changes["datasets"] = [d for d in config.datasets if d.label in arguments.datasets]
    if arguments.methods:
        changes["methods"] = [m for m in config.methods if m.label in arguments.methods]
    config = config.replace(**changes) if changes else config
    console = Console(width=120)

    def told(progress: Progress) -> None:
        console.print(f"{progress.done} of {progress.total} fits; {progress.text}", style="dim")

    found = run(config, arguments.folder, n_jobs=arguments.jobs, progress=told)
    for table in run_tables(found):
        console.print(table.rich())
    summary = found.summary()
    for folder in arguments.beside:
        known = {(cell.dataset, cell.method) for cell in found.cells}
        others = (c for c in Run.load(folder).cells if (c.dataset, c.method) not in known)
        found.cells = (*found.cells, *others)
    rows = goals(found)
    show("Goals", rows)
    RESULTS.mkdir(exist_ok=True)
    result = {
        "environment": environment(),
        "rows": [{**asdict(row), "passed": bool(row.passed)} for row in rows],
        "cells": [
            {
                "dataset": s.dataset,
                "method": s.method,
                "budget": s.budget,
                "accuracy": s.accuracy,
                "sd": s.accuracy_sd,
                "seeds": s.n_seeds,
                "error": s.reconstruction_error,
            }
            for s in summary
        ],
    }
    (RESULTS / f"{arguments.folder.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(row.passed for row in rows) and not found.failed else 1


if __name__ == "__main__":
    raise SystemExit(main())

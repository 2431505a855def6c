"""Accuracy over an archive of data sets: ``python -m benchmarks.archive``.

Seventeen sets (:mod:`tensorcontrast.evaluate.archive`), or any folder of ``.npz`` and ``.ts``
files (``--folder``); label budgets 10, 30, 60 (one per class at least) and all; four seeds of six
draws each. A stopped run goes on where it stopped, and a run of some sets and methods grows into
one of all. ``tensorcontrast bench archive`` does the same.

Half of the sets are for choosing between methods and settings, the others for reporting. The rule
was written down before the first fit: the names are sorted without regard to case; the first,
third, fifth … are for choosing.

To develop a method, :func:`compare` judges estimators that are not in the list, next to the cells
that a run has already:

>>> from benchmarks.archive import compare  # doctest: +SKIP
>>> compare(  # doctest: +SKIP
...     {"mine": lambda rec, seed: ContrastiveFeatures(rec.fs, random_state=seed)},
...     sets=["Libras", "RacketSports"], seeds=2, run_folder="runs/archive",
... )
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from rich.console import Console
from rich.table import Table

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate import comparison, data
from tensorcontrast.evaluate.archive import BUDGETS, METHODS, archive_config, require
from tensorcontrast.evaluate.cells import Cell
from tensorcontrast.evaluate.config import BenchConfig, DatasetConfig, MethodConfig
from tensorcontrast.evaluate.run import Run
from tensorcontrast.evaluate.runner import run
from tensorcontrast.evaluate.scoring import Task, compute
from tensorcontrast.recordings import Recordings

#: Makes an unfitted estimator for recordings and a seed.
Factory = Callable[[Recordings, int], Any]


@dataclass(frozen=True)
class Compared:
    """What :func:`compare` found: cells of the candidates, and of the methods beside them."""

    cells: tuple[Cell, ...]
    baseline: str

    def accuracy(self, method: str) -> dict[str, dict[int | str, float]]:
        """Return the mean over seeds by data set and budget."""
        budgets = dict.fromkeys(cell.budget for cell in self.cells)
        out: dict[str, dict[int | str, float]] = {}
        for budget in budgets:
            for name, own in comparison.accuracies(self.cells, budget).items():
                if method in own:
                    out.setdefault(name, {})[budget] = float(np.mean(list(own[method].values())))
        return out

    @property
    def failed(self) -> list[str]:
        """Reasons of cells without a result."""
        return [
            f"{c.method} on {c.dataset}, seed {c.seed}, {c.budget} labels: {c.message}"
            for c in self.cells
            if c.status == "failed"
        ]


def compare(
    candidates: Mapping[str, Factory],
    *,
    sets: Sequence[str] | None = None,
    half: str = "choosing",
    seeds: int | Sequence[int] = 4,
    budgets: Sequence[int | str] = BUDGETS,
    baseline: str = "MiniRocket + ridge",
    folder: str | Path | None = None,
    run_folder: str | Path | None = None,
    n_jobs: int = 1,
    console: Console | None = None,
) -> Compared:
    """Judge estimators by the protocol of the archive, and print how they differ from a baseline.

    Parameters
    ----------
    candidates : mapping of str to callable
        From a name to a function of recordings and seed that returns an unfitted estimator.
        ``fit`` gets the signals of the training windows without labels. Features are judged by
        the linear probe, or by what the estimator's ``make_classifier()`` returns.
    sets : sequence of str, optional
        Data sets by name, of any half; by default those of ``half``.
    half : {"choosing", "reporting", "all"}
        Which sets where ``sets`` is not given.
    seeds, budgets : int or sequence, sequence
        As in the benchmark.
    baseline : str
        A candidate or a method of the benchmark, which is computed where it is missing.
    folder : path, optional
        A folder of data sets instead of the seventeen.
    run_folder : path, optional
        A run of the benchmark. Its cells are used, and those of the baseline are added to it.
    n_jobs : int
        Fits at a time.
    console : rich Console, optional
        Where to print to.

    Returns
    -------
    Compared
    """
    known = {str(entry["label"]) for entry in METHODS}
    taken = sorted(known & set(candidates))
    if taken:
        raise InvalidInputError(
            f"{', '.join(taken)}: names of the benchmark's own methods; give candidates others"
        )
    config = archive_config(
        folder,
        sets=sets,
        half="all" if sets is not None else half,
        methods=None if baseline in candidates else [baseline],
        seeds=list(seeds) if isinstance(seeds, Sequence) else seeds,
        budgets=list(budgets),
    )
    require(config.datasets)
    beside = _beside(config, baseline if baseline not in candidates else None, run_folder, n_jobs)
    jobs = [
        joblib.delayed(_judged)(config, dataset, name, make, seed)
        for dataset in config.datasets
        for name, make in candidates.items()
        for seed in config.seeds
    ]
    found = [cell for cells in joblib.Parallel(n_jobs)(jobs) for cell in cells]
    result = Compared((*found, *beside), baseline)
    show(result, list(candidates), console or Console(width=120))
    return result


def _beside(
    config: BenchConfig, baseline: str | None, run_folder: str | Path | None, n_jobs: int
) -> list[Cell]:
    """Return the cells of a run that belong to the comparison, and those of the baseline."""
    where = None if run_folder is None else Path(run_folder).expanduser()
    if where is None:
        if baseline is None:
            return []
        tasks = [
            Task(config, dataset, config.method(baseline), seed, config.budgets)
            for dataset in config.datasets
            for seed in config.seeds
        ]
        return [
            c
            for cells in joblib.Parallel(n_jobs)(map(joblib.delayed(_cells), tasks))
            for c in cells
        ]
    if baseline is not None:
        run(config, where, n_jobs=n_jobs, grow=True, artefacts=False)
    there = Run.load(where)
    sets = {dataset.label: dataset for dataset in config.datasets}
    other = [
        label
        for label, dataset in sets.items()
        if label in there.datasets
        and there.datasets[label].fingerprint != data.fingerprint(data.load(dataset))
    ]
    if other:
        raise InvalidInputError(
            f"{where}: its cells of {', '.join(other)} were computed from other data"
        )
    return [
        cell
        for cell in there.cells
        if cell.dataset in sets and cell.seed in config.seeds and cell.budget in config.budgets
    ]


def _judged(
    config: BenchConfig, dataset: DatasetConfig, name: str, make: Factory, seed: int
) -> list[Cell]:
    method = MethodConfig(name="plc", label=name)
    return _cells(Task(config, dataset, method, seed, config.budgets, make))


def _cells(task: Task) -> list[Cell]:
    return compute(data.load(task.dataset), task)[0]


def show(result: Compared, candidates: Sequence[str], console: Console) -> None:
    """Print standings for each budget, then differences of the candidates on each data set."""
    for budget in dict.fromkeys(cell.budget for cell in result.cells):
        found = comparison.accuracies(result.cells, budget)
        standings = comparison.standings(found, result.baseline)
        table = Table(
            title=f"{_labels(budget)}: {standings[0].n_sets if standings else 0} data sets",
            title_justify="left",
        )
        for column in ("method", "mean", f"against {result.baseline}", "mean rank"):
            table.add_column(column, justify="left" if column == "method" else "right")
        for s in standings:
            same = s.method == result.baseline
            against = "–" if same else f"{s.wins} / {s.ties} / {s.losses}"
            table.add_row(s.method, f"{s.mean:.3f}", against, f"{s.rank:.2f}")
        console.print(table)
        table = Table(
            title=f"{_labels(budget)}: points above {result.baseline} ± standard error",
            title_justify="left",
        )
        table.add_column("data set")
        shown = [name for name in candidates if name != result.baseline]
        columns = {m: comparison.differences(found, m, result.baseline) for m in shown}
        for method in shown:
            table.add_column(method, justify="right")
        for name in found:
            own = [next((d for d in columns[m] if d.dataset == name), None) for m in shown]
            table.add_row(name, *map(_points, own))
        table.add_section()
        table.add_row("mean", *(_points(comparison.mean_difference(columns[m])) for m in shown))
        console.print(table)
    for reason in result.failed:
        console.print(f"no result: {reason}", style="yellow", markup=False)


def _labels(budget: int | str) -> str:
    return "all labels" if budget == "100%" else f"{budget} labels"


def _points(difference: comparison.Difference | None) -> str:
    if difference is None:
        return "–"
    error = "" if np.isnan(difference.error) else f" ± {100 * difference.error:.1f}"
    return f"{100 * difference.mean:+.1f}{error}"

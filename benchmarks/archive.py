"""Accuracy over an archive of data sets: ``python -m benchmarks.archive``.

Seventeen sets (:mod:`tensorcontrast.evaluate.archive`), or any folder of ``.npz`` and ``.ts``
files (``--folder``); label budgets 10, 30, 60 (one per class at least) and all; four seeds of six
draws each. A stopped run goes on where it stopped, and a run of some sets and methods grows into
one of all. ``tensorcontrast bench archive`` does the same.

Half of the sets are for choosing between methods and settings, the others for reporting. The rule
was written down before the first fit: the names are sorted without regard to case; the first,
third, fifth … are for choosing.

``--windows 30`` fits on 30 labelled windows alone, ``--labels`` compares PLC with and without
labels in its graph. ``--ablation`` compares the default with
versions of it that lack or change one part; it goes on where it stopped as well.

To develop a method, :func:`compare` judges estimators that are not in the list, next to the cells
that a run has already:

>>> from benchmarks.archive import compare  # doctest: +SKIP
>>> compare(  # doctest: +SKIP
...     {"mine": lambda rec, seed: ContrastiveFeatures(rec.fs, random_state=seed)},
...     sets=["Libras", "RacketSports"], seeds=2, run_folder="runs/archive",
... )
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from rich.console import Console

from benchmarks.common import RESULTS, environment
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate import comparison, data, methods
from tensorcontrast.evaluate.archive import (
    BASELINE,
    BUDGETS,
    HALVES,
    METHODS,
    archive_config,
    require,
)
from tensorcontrast.evaluate.cells import CELLS, Cell, read_cells, write_cells
from tensorcontrast.evaluate.config import BenchConfig, DatasetConfig, MethodConfig
from tensorcontrast.evaluate.protocol import label_budget, linear_probe
from tensorcontrast.evaluate.run import Run
from tensorcontrast.evaluate.runner import Progress, run
from tensorcontrast.evaluate.scoring import Task, compute
from tensorcontrast.recordings import Recordings
from tensorcontrast.report import write_report
from tensorcontrast.report.comparison import (
    TextTable,
    comparison_data,
    comparison_tables,
    points,
)
from tensorcontrast.report.scores import budget_name

RUNS = Path("runs/archive")

#: The version of :func:`ablations` that the others are compared with.
DEFAULT = "default"

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
        name = budget_name(budget)
        standings = comparison.standings(found, result.baseline)
        rows = [
            [
                s.method,
                f"{s.mean:.3f}",
                "–" if s.method == result.baseline else f"{s.wins} / {s.ties} / {s.losses}",
                f"{s.rank:.2f}",
            ]
            for s in standings
        ]
        head = ["method", "mean", f"wins / ties / losses against {result.baseline}", "mean rank"]
        title = f"{name}: {len(comparison.common_sets(found))} data sets"
        console.print(TextTable(title, head, rows).rich())
        shown = [method for method in candidates if method != result.baseline]
        columns = [comparison.differences(found, m, result.baseline) for m in shown]
        lines = [
            [
                data_set,
                *(points(next((d for d in c if d.dataset == data_set), None)) for c in columns),
            ]
            for data_set in found
        ]
        lines.append(["mean", *(points(comparison.mean_difference(c)) for c in columns)])
        title = f"{name}: points above {result.baseline} ± standard error"
        console.print(TextTable(title, ["data set", *shown], lines).rich())
    for reason in result.failed:
        console.print(f"no result: {reason}", style="yellow", markup=False)


def ablations() -> dict[str, Factory]:
    """Return the default of ``ContrastiveFeatures``, and versions that lack or change one part."""
    from tensorcontrast import PLC, ContrastiveFeatures, ConvolutionFeatures, SpectrogramTensor

    def version(blocks: Sequence[Any] | None = None, **params: Any) -> Factory:
        def make(rec: Recordings, seed: int) -> Any:
            return ContrastiveFeatures(
                rec.fs,
                rec.channels,
                tensorize=None if blocks is None else list(blocks),
                decompose=build(PLC, **params),
                random_state=seed,
            )

        return make

    spectrogram, convolution = SpectrogramTensor(n_quantiles=4), ConvolutionFeatures()
    return {
        DEFAULT: version(),
        "no metric": version(beta=0.0),
        "no augmentation": version(trans_inv=False),
        "no graph": version(gamma=0.0),
        "no convolution": version([spectrogram]),
        "no spectrogram": version([convolution]),
        "DC row": version([SpectrogramTensor(n_quantiles=4, mean_row=True), convolution]),
        "frames in time": version([SpectrogramTensor(), convolution]),
        "octaves, 4 biases": version(
            [spectrogram, ConvolutionFeatures(n_biases=4, dilations="octave")]
        ),
    }


def ablation(
    folder: Path,
    versions: Mapping[str, Factory],
    config: BenchConfig,
    console: Console,
) -> list[Cell]:
    """Judge versions on every set, seed after seed; cells that ``folder`` has are not computed."""
    folder.mkdir(parents=True, exist_ok=True)
    there = {cell.key for cell in read_cells(folder)} if (folder / CELLS).exists() else set()
    for seed in config.seeds:
        for dataset in config.datasets:
            for name, make in versions.items():
                keys = {(dataset.label, name, seed, budget) for budget in config.budgets}
                if keys <= there:
                    continue
                write_cells(folder, _judged(config, dataset, name, make, seed))
                console.print(f"{dataset.label}, seed {seed}: {name}", style="dim")
    wanted = {d.label for d in config.datasets}
    return [
        cell
        for cell in read_cells(folder)
        if cell.dataset in wanted and cell.method in versions and cell.seed in config.seeds
    ]


def ablation_table(cells: Sequence[Cell], versions: Sequence[str]) -> list[dict[str, Any]]:
    """Return the points that each version is above the default, by budget, and per data set."""
    out: list[dict[str, Any]] = []
    for version in versions:
        row: dict[str, Any] = {"version": version}
        for budget in dict.fromkeys(cell.budget for cell in cells):
            found = comparison.accuracies(cells, budget)
            of_sets = comparison.differences(found, version, DEFAULT)
            mean = comparison.mean_difference(of_sets)
            row[str(budget)] = {
                "points": points(mean),
                "sets": {d.dataset: points(d) for d in of_sets},
            }
        out.append(row)
    return out


def show_ablation(table: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print mean differences, then those of each data set at 30 and 60 labels."""
    budgets = [key for key in table[0] if key != "version"]
    head = ["version", *(budget_name(int(b) if b.isdigit() else b) for b in budgets)]
    rows = [[row["version"], *(row[b]["points"] for b in budgets)] for row in table]
    console.print(TextTable("points above the default ± standard error", head, rows).rich())
    for budget in budgets[1:3]:
        names = list(table[0][budget]["sets"])
        lines = [[n, *(row[budget]["sets"].get(n, "–") for row in table)] for n in names]
        title = f"{budget} labels: points above the default"
        console.print(TextTable(title, ["data set", *(r["version"] for r in table)], lines).rich())


def few_windows(config: BenchConfig, count: int, console: Console) -> dict[str, Any]:
    """Fit PLC, CPD and PCA on ``count`` training windows alone, and judge them with their labels.

    Windows are drawn anew for each seed, at least one per class.
    """
    scores: dict[str, dict[str, list[float]]] = {}
    for dataset in config.datasets:
        rec = data.load(dataset)
        for seed in config.seeds:
            split = data.splits(rec, dataset, config, seed)[0]
            some = split.train[label_budget(rec.y[split.train], count, seed=seed)]
            for method in config.methods:
                estimator = methods.build(rec, config, dataset, method, seed).fit(rec.X[some])
                found = linear_probe(
                    estimator.transform(rec.X[some]),
                    rec.y[some],
                    estimator.transform(rec.X[split.test]),
                    rec.y[split.test],
                )
                own = scores.setdefault(dataset.label, {}).setdefault(method.label, [])
                own.append(found.accuracy)
        console.print(f"{dataset.label}, {count} windows", style="dim")
    names = [method.label for method in config.methods]
    means = {d: {m: float(np.mean(v)) for m, v in own.items()} for d, own in scores.items()}
    rows = [[d, *(f"{own[m]:.3f}" for m in names)] for d, own in means.items()]
    rows.append(["mean", *(f"{np.mean([own[m] for own in means.values()]):.3f}" for m in names)])
    title = f"accuracy of fits on {count} windows with their labels"
    console.print(TextTable(title, ["data set", *names], rows).rich())
    return {"windows": count, "seeds": list(config.seeds), "scores": scores}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, print the tables, write report and result file; 1 if a cell failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.archive", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sets", nargs="*", help="data sets; all by default")
    parser.add_argument("--methods", nargs="*", help="labels of methods; all by default")
    parser.add_argument("--budgets", nargs="*", default=[str(b) for b in BUDGETS])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--half", choices=HALVES, default="all")
    parser.add_argument("--folder", type=Path, help="a folder of .npz files or pairs of .ts files")
    parser.add_argument("-o", "--output", type=Path, default=RUNS)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--no-report", action="store_true")
    parser.add_argument("--ablation", action="store_true", help="judge versions of the default")
    parser.add_argument("--labels", action="store_true", help="labels in the graph of PLC or not")
    parser.add_argument("--windows", type=int, help="fit on so many labelled windows alone")
    parser.add_argument("--result", type=Path, help="file of results; by the name of the run")
    given = parser.parse_args(arguments)
    if given.ablation:
        return _ablation(given)
    if given.windows:
        config = archive_config(
            given.folder,
            sets=given.sets,
            half=given.half,
            methods=given.methods or ["PLC", "CPD", "PCA"],
            seeds=given.seeds,
        )
        require(config.datasets)
        result = few_windows(config, given.windows, Console(width=None if os.isatty(1) else 140))
        result = {"environment": environment(), **result}
        path = given.result or RESULTS / f"windows-{given.windows}.json"
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return 0
    config = archive_config(
        given.folder,
        sets=given.sets,
        methods=given.methods,
        half=given.half,
        labels_in_graph=given.labels,
        seeds=given.seeds,
        budgets=[int(b) if b.isdigit() else "100%" if b == "all" else b for b in given.budgets],
    )
    require(config.datasets)
    if given.labels and given.output == RUNS:  # other methods than those of the archive
        given.output = Path("runs/labels-in-graph")
    console = Console(width=None if os.isatty(1) else 140)

    def told(progress: Progress) -> None:
        console.print(f"{progress.done} of {progress.total} fits; {progress.text}", style="dim")

    found = run(
        config,
        given.output,
        n_jobs=given.jobs,
        progress=told,
        grow=True,
        artefacts=False,
        skip=given.folder is not None,
    )
    for table in comparison_tables(found):
        console.print(table.rich())
    for cell in {(c.dataset, c.method): c for c in found.failed}.values():
        console.print(f"no result: {cell.method} on {cell.dataset}: {cell.message}", markup=False)
    if found.ok and not given.no_report:
        console.print(f"report: {write_report(found, found.folder / 'report')}", markup=False)
    path = given.result or RESULTS / f"{given.output.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "environment": environment(),
        "seeds": list(config.seeds),
        "draws": config.draws,
        "choosing": [d.label for d in config.datasets if d.half == "choosing"],
        "reporting": [d.label for d in config.datasets if d.half == "reporting"],
        **comparison_data(found),
    }
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if found.ok and not found.failed else 1


def _ablation(given: argparse.Namespace) -> int:
    config = archive_config(
        given.folder, sets=given.sets, half=given.half, methods=[BASELINE], seeds=given.seeds
    )
    require(config.datasets)
    console = Console(width=None if os.isatty(1) else 170)
    versions = ablations()
    output = Path("runs/ablation") if given.output == RUNS else given.output
    cells = ablation(output, versions, config, console)
    table = ablation_table(cells, [name for name in versions if name != DEFAULT])
    show_ablation(table, console)
    result = {"environment": environment(), "seeds": list(config.seeds), "ablation": table}
    path = given.result or RESULTS / f"{output.name}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if any(cell.status == "failed" for cell in cells) else 0


if __name__ == "__main__":
    raise SystemExit(main())

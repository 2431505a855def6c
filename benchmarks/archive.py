"""Accuracy over an archive of data sets: ``python -m benchmarks.archive``.

Seventeen sets (:mod:`tensorcontrast.evaluate.archive`), or any folder of ``.npz`` and ``.ts``
files (``--folder``); label budgets 10, 30, 60 (one per class at least) and all; four seeds of six
draws each. A stopped run goes on where it stopped, and runs of some sets and methods share the
file of results with those of others.

Half of the sets are for choosing between methods and settings, the others for reporting. The rule
was written down before the first fit: the names are sorted without regard to case; the first,
third, fifth … are for choosing.

``--windows 30`` fits on 30 labelled windows alone, ``--labels`` compares PLC with and without
labels in its graph. ``--ablation`` compares the default with versions of it that lack or change one
part.

To develop a method, :func:`compare` judges estimators that are not in the list, next to the cells
that a run has already:

>>> from benchmarks.archive import compare  # doctest: +SKIP
>>> compare(  # doctest: +SKIP
...     {"mine": lambda rec, seed: ContrastiveFeatures(rec.fs, random_state=seed)},
...     sets=["Libras", "RacketSports"], seeds=2, results="runs/archive.jsonl",
... )
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import comparison
from benchmarks.common import RESULTS, environment
from tensorcontrast import PLC, ContrastiveFeatures, ConvolutionFeatures, SpectrogramTensor
from tensorcontrast.augment import Compose
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate.archive import (
    BASELINE,
    BUDGETS,
    HALVES,
    METHODS,
    archive_benchmark,
    require,
)
from tensorcontrast.evaluate.benchmark import Benchmark, Budget, Cell, Method, run
from tensorcontrast.evaluate.methods import make_estimator
from tensorcontrast.evaluate.protocol import label_budget, linear_probe
from tensorcontrast.recordings import Recordings
from tensorcontrast.report.tables import TextTable, budget_name

RUNS = Path("runs")

#: The version of :func:`ablations` that the others are compared with.
DEFAULT = "default"

#: Makes an unfitted estimator for recordings and a seed.
Factory = Callable[[Recordings, int], Any]

#: Methods that a table of differences has columns for at most.
MAX_COLUMNS = 5

_TITLES = {"choosing": "choosing half", "reporting": "reporting half", "all": "all data sets"}


# ---------------------------------------------------------------------------------- comparing


@dataclass(frozen=True)
class Compared:
    """What :func:`compare` found: cells of the candidates, and of the methods beside them."""

    cells: tuple[Cell, ...]
    baseline: str

    def accuracy(self, method: str) -> dict[str, dict[Budget, float]]:
        """Return the mean over seeds by data set and budget."""
        out: dict[str, dict[Budget, float]] = {}
        for budget in dict.fromkeys(cell.budget for cell in self.cells):
            for name, own in comparison.accuracies(self.cells, budget).items():
                if method in own:
                    out.setdefault(name, {})[budget] = float(np.mean(list(own[method].values())))
        return out

    @property
    def failed(self) -> list[str]:
        """Reasons of cells without a result."""
        return [
            f"{c.method} on {c.dataset}, seed {c.seed}, {c.budget} labels: {c.error}"
            for c in self.cells
            if c.error
        ]


def compare(
    candidates: Mapping[str, Factory],
    *,
    sets: Sequence[str] | None = None,
    half: str = "choosing",
    seeds: int | Sequence[int] = 4,
    budgets: Sequence[Budget] = BUDGETS,
    baseline: str = "MiniRocket + ridge",
    folder: str | Path | None = None,
    results: str | Path = "runs/candidates.jsonl",
    n_jobs: int = 1,
    console: Console | None = None,
) -> Compared:
    """Judge estimators by the protocol of the archive, and print how they differ from a baseline.

    Parameters
    ----------
    candidates : mapping of str to callable
        From a name to a function of recordings and seed that returns an unfitted estimator.
        ``fit`` gets the signals of the training windows without labels. Features are judged by
        the linear probe, or by what the estimator's ``make_classifier()`` returns. They are
        computed anew each time.
    sets : sequence of str, optional
        Data sets by name, of any half; by default those of ``half``.
    half : {"choosing", "reporting", "all"}
        Which sets where ``sets`` is not given.
    seeds, budgets : int or sequence, sequence
        As in the benchmark.
    baseline : str
        A candidate or a method of the benchmark.
    folder : path, optional
        A folder of data sets instead of the seventeen.
    results : path
        File of results, which has those of the baseline, or gets them.
    n_jobs : int
        Fits at a time.
    console : rich Console, optional
        Where to print to.

    Returns
    -------
    Compared
    """
    taken = sorted({method.label for method in METHODS} & set(candidates))
    if taken:
        raise InvalidInputError(
            f"{', '.join(taken)}: names of the benchmark's own methods; give candidates others"
        )
    wanted = archive_benchmark(
        folder,
        sets=sets,
        half="all" if sets is not None else half,
        methods=None if baseline in candidates else [baseline],
        seeds=range(seeds) if isinstance(seeds, int) else seeds,
        budgets=budgets,
    )
    require(wanted.datasets)
    beside = [] if baseline in candidates else run(wanted, results, n_jobs=n_jobs)
    methods = [Method(name, make=make) for name, make in candidates.items()]
    path = Path(results).with_suffix(f".{os.getpid()}.jsonl")
    try:
        found = run(replace(wanted, methods=methods), path, n_jobs=n_jobs)
    finally:
        path.unlink(missing_ok=True)
    result = Compared((*found, *beside), baseline)
    show(result, list(candidates), console or Console(width=120))
    return result


def show(result: Compared, candidates: Sequence[str], console: Console) -> None:
    """Print standings for each budget, then differences of the candidates on each data set."""
    for budget in dict.fromkeys(cell.budget for cell in result.cells):
        for table in standings_tables(result.cells, {"all": result.cells}, budget, result.baseline):
            console.print(table.rich())
        shown = [method for method in candidates if method != result.baseline]
        scopes = {"all": list(result.cells)}
        for table in difference_tables(result.cells, scopes, shown, budget, result.baseline):
            console.print(table.rich())
    for reason in result.failed:
        console.print(f"no result: {reason}", style="yellow", markup=False)


# ------------------------------------------------------------------------------------- tables


def halves(benchmark: Benchmark, cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Return the cells of each half that has data sets, and of all."""
    half = {dataset.label: dataset.half for dataset in benchmark.datasets}
    found = {
        scope: [cell for cell in cells if scope in ("all", half.get(cell.dataset))]
        for scope in HALVES
    }
    if found["choosing"] and found["reporting"]:
        return found
    return {scope: found[scope] for scope in ("choosing", "reporting") if found[scope]}


def tables(benchmark: Benchmark, cells: Sequence[Cell], baseline: str) -> list[TextTable]:
    """Return standings for each half and all, differences on each data set, times."""
    scopes = halves(benchmark, cells)
    others = [m.label for m in benchmark.methods if m.label != baseline]
    out = []
    for budget in benchmark.budgets:
        out += standings_tables(cells, scopes, budget, baseline)
    for budget in benchmark.budgets:
        out += difference_tables(cells, scopes, others, budget, baseline)
    rows = [[t.method, _seconds(t.fit), _seconds(t.transform)] for t in comparison.times(cells)]
    head = ["method", "fit, s", "transform of 1,000 windows, s"]
    return [*out, TextTable("Time, median over data sets and seeds", head, rows)]


def standings_tables(
    cells: Sequence[Cell],
    scopes: Mapping[str, Sequence[Cell]],
    budget: Budget,
    baseline: str,
) -> list[TextTable]:
    """Return mean accuracy, wins against the baseline and mean rank of each method."""
    out = []
    for scope, own in scopes.items():
        found = comparison.accuracies(own, budget)
        common = comparison.common_sets(found)
        rows = [
            [
                s.method,
                f"{s.mean:.3f}" + ("" if math.isnan(s.sd) else f" ± {s.sd:.3f}"),
                "–" if s.method == baseline else f"{s.wins} / {s.ties} / {s.losses}",
                f"{s.rank:.2f}",
            ]
            for s in comparison.standings(found, baseline)
        ]
        head = ["method", "mean accuracy", f"wins / ties / losses against {baseline}", "mean rank"]
        left_out = [name for name in found if name not in common]
        notes = [f"Without results of every method: {', '.join(left_out)}."] if left_out else []
        title = f"{budget_name(budget)}, {_TITLES[scope]} ({len(common)})"
        if rows:
            out.append(TextTable(title, head, rows, notes))
    return out


def difference_tables(
    cells: Sequence[Cell],
    scopes: Mapping[str, Sequence[Cell]],
    methods: Sequence[str],
    budget: Budget,
    baseline: str,
) -> list[TextTable]:
    """Return points above the baseline on each data set, and their means."""
    found = comparison.accuracies(cells, budget)
    base = {name: own[baseline] for name, own in found.items() if baseline in own}
    present = {method for own in found.values() for method in own}
    methods = [method for method in methods if method in present]
    out = []
    for at in range(0, len(methods) if base else 0, MAX_COLUMNS):
        shown = methods[at : at + MAX_COLUMNS]
        columns = [
            {d.dataset: d for d in comparison.differences(found, method, baseline)}
            for method in shown
        ]
        rows = []
        for scope, some in scopes.items():
            sets = [name for name in found if name in {cell.dataset for cell in some}]
            for name in sets if scope != "all" or len(scopes) == 1 else ():
                mean = f"{np.mean(list(base[name].values())):.3f}" if name in base else "–"
                rows.append([name, mean, *(points(column.get(name)) for column in columns)])
            own = [[column[name] for name in sets if name in column] for column in columns]
            means = map(comparison.mean_difference, own)
            rows.append([f"mean, {_TITLES[scope]}", "", *map(points, means)])
        title = f"{budget_name(budget)}: points above {baseline} ± standard error"
        notes = ["Errors are over seeds, those of means over data sets."]
        out.append(TextTable(title, ["data set", baseline, *shown], rows, notes))
    return out


def points(difference: comparison.Difference | None) -> str:
    """Return a difference in percentage points with its standard error."""
    if difference is None:
        return "–"
    error = "" if math.isnan(difference.error) else f" ± {100 * difference.error:.1f}"
    return f"{100 * difference.mean:+.1f}{error}"


def _seconds(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"


def numbers(benchmark: Benchmark, cells: Sequence[Cell], baseline: str) -> dict[str, Any]:
    """Return all numbers of the tables as plain data, for a result file."""
    others = [m.label for m in benchmark.methods if m.label != baseline]
    scopes = halves(benchmark, cells)
    standings, differences, scores = [], [], []
    for budget in benchmark.budgets:
        for scope, own in scopes.items():
            found = comparison.accuracies(own, budget)
            for s in comparison.standings(found, baseline):
                standings.append({"half": scope, "budget": budget, **vars(s)})
            for method in others:
                of_sets = comparison.differences(found, method, baseline)
                mean = comparison.mean_difference(of_sets)
                wanted = [*of_sets, mean] if scope == "all" or len(scopes) == 1 else [mean]
                differences += [
                    {"half": scope, "budget": budget, **vars(d)} for d in wanted if d is not None
                ]
        for name, own_scores in comparison.accuracies(cells, budget).items():
            for method, by_seed in own_scores.items():
                values = list(by_seed.values())
                spread = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
                scores.append(
                    {
                        "dataset": name,
                        "method": method,
                        "budget": budget,
                        "accuracy": float(np.mean(values)),
                        "sd": spread,
                        "seeds": len(values),
                    }
                )
    return _plain(
        {
            "baseline": baseline,
            "standings": standings,
            "differences": differences,
            "times": [vars(t) for t in comparison.times(cells)],
            "scores": scores,
            "failed": sorted({f"{c.method} on {c.dataset}: {c.error}" for c in cells if c.error}),
        }
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 5)
    return value


# ----------------------------------------------------------------------------------- ablation


def ablations() -> dict[str, Factory]:
    """Return the default of ``ContrastiveFeatures``, and versions that lack or change one part."""

    def version(blocks: Sequence[Any] | None = None, augment: Any = None, **params: Any) -> Factory:
        def make(rec: Recordings, seed: int) -> Any:
            return ContrastiveFeatures(
                rec.fs,
                rec.channels,
                tensorize=None if blocks is None else list(blocks),
                augment=augment,
                decompose=PLC(**params),
                random_state=seed,
            )

        return make

    spectrogram, convolution = SpectrogramTensor(n_quantiles=4), ConvolutionFeatures()
    return {
        DEFAULT: version(),
        "no metric": version(epsilon=1e-12),
        "no augmentation": version(augment=Compose(())),
        "no graph": version(gamma=0.0),
        "no convolution": version([spectrogram]),
        "no spectrogram": version([convolution]),
        "frames in time": version([SpectrogramTensor(), convolution]),
    }


def ablation_table(cells: Sequence[Cell], versions: Sequence[str]) -> list[dict[str, Any]]:
    """Return the points that each version is above the default, by budget, and per data set."""
    out: list[dict[str, Any]] = []
    for version in versions:
        row: dict[str, Any] = {"version": version}
        for budget in dict.fromkeys(cell.budget for cell in cells):
            found = comparison.accuracies(cells, budget)
            of_sets = comparison.differences(found, version, DEFAULT)
            row[str(budget)] = {
                "points": points(comparison.mean_difference(of_sets)),
                "sets": {d.dataset: points(d) for d in of_sets},
            }
        out.append(row)
    return out


def few_windows(benchmark: Benchmark, count: int, console: Console) -> dict[str, Any]:
    """Fit PLC, CPD and PCA on ``count`` training windows alone, and judge them with their labels.

    Windows are drawn anew for each seed, at least one per class.
    """
    scores: dict[str, dict[str, list[float]]] = {}
    for dataset in benchmark.datasets:
        rec = dataset.load()
        for seed in benchmark.seeds:
            split = dataset.splits(rec, seed, benchmark.draws)[0]
            some = split.train[label_budget(rec.y[split.train], count, seed=seed)]
            for method in benchmark.methods:
                estimator = make_estimator(
                    rec, method, rank=benchmark.rank, seed=seed, paper_set=dataset.name
                ).fit(rec.X[some])
                found = linear_probe(
                    estimator.transform(rec.X[some]),
                    rec.y[some],
                    estimator.transform(rec.X[split.test]),
                    rec.y[split.test],
                )
                own = scores.setdefault(dataset.label, {}).setdefault(method.label, [])
                own.append(found.accuracy)
        console.print(f"{dataset.label}, {count} windows", style="dim")
    names = [method.label for method in benchmark.methods]
    means = {d: {m: float(np.mean(v)) for m, v in own.items()} for d, own in scores.items()}
    rows = [[d, *(f"{own[m]:.3f}" for m in names)] for d, own in means.items()]
    rows.append(["mean", *(f"{np.mean([own[m] for own in means.values()]):.3f}" for m in names)])
    title = f"accuracy of fits on {count} windows with their labels"
    console.print(TextTable(title, ["data set", *names], rows).rich())
    return {"windows": count, "seeds": list(benchmark.seeds), "scores": scores}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, print the tables, write the result file; 1 if a cell failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.archive", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sets", nargs="*", help="data sets; all by default")
    parser.add_argument("--methods", nargs="*", help="labels of methods; all by default")
    parser.add_argument("--budgets", nargs="*", default=[str(b) for b in BUDGETS])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--half", choices=HALVES, default="all")
    parser.add_argument("--folder", type=Path, help="a folder of .npz files or pairs of .ts files")
    parser.add_argument("-o", "--output", type=Path, help="JSON lines; by default in runs/")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--ablation", action="store_true", help="judge versions of the default")
    parser.add_argument("--labels", action="store_true", help="labels in the graph of PLC or not")
    parser.add_argument("--windows", type=int, help="fit on so many labelled windows alone")
    parser.add_argument("--result", type=Path, help="file of results; by the name of the run")
    given = parser.parse_args(arguments)
    benchmark = archive_benchmark(
        given.folder,
        sets=given.sets,
        methods=given.methods or (["PLC", "CPD", "PCA"] if given.windows else None),
        half=given.half,
        labels_in_graph=given.labels,
        seeds=range(given.seeds),
        budgets=[int(b) if b.isdigit() else "100%" if b == "all" else b for b in given.budgets],
    )
    require(benchmark.datasets)
    console = Console(width=None if os.isatty(1) else 140)
    if given.windows:
        result = few_windows(benchmark, given.windows, console)
        _write(given.result or RESULTS / f"windows-{given.windows}.json", result)
        return 0
    name = "ablation" if given.ablation else "labels-in-graph" if given.labels else "archive"
    if given.ablation:
        versions = [Method(label, make=make) for label, make in ablations().items()]
        benchmark = replace(benchmark, methods=versions)

    def told(done: int, total: int, text: str) -> None:
        console.print(f"{done} of {total} fits; {text}", style="dim", markup=False)

    output = given.output or RUNS / f"{name}.jsonl"
    cells = run(benchmark, output, n_jobs=given.jobs, progress=told)
    labels = [method.label for method in benchmark.methods]
    baseline = next((b for b in (BASELINE, DEFAULT) if b in labels), labels[0])
    for table in tables(benchmark, cells, baseline):
        console.print(table.rich())
    failed = {(c.dataset, c.method): c for c in cells if c.error}
    for cell in failed.values():
        console.print(f"no result: {cell.method} on {cell.dataset}: {cell.error}", markup=False)
    result: dict[str, Any] = {"seeds": list(benchmark.seeds), "draws": benchmark.draws}
    if given.ablation:
        rest = [label for label in labels if label != DEFAULT]
        result["ablation"] = ablation_table(cells, rest)
    else:
        for half in ("choosing", "reporting"):
            result[half] = [d.label for d in benchmark.datasets if d.half == half]
        result |= numbers(benchmark, cells, baseline)
    _write(given.result or RESULTS / f"{output.stem}.json", result)
    return 1 if failed else 0


def _write(path: Path, result: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"environment": environment(), **result}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())

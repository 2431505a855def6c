"""The demonstration behind ``make demo``: features of real recordings with few labels.

Smartwatch recordings of seven exercises by ten people (synthetic recordings where those are not
installed) are split by subject; features are learned without labels from seven people, a logistic
classifier is trained on a few labelled windows of others, and tested on people never seen.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast import ATD, CPD, PLC, Recordings, SpectrogramTensor, augment
from tensorcontrast.datasets import load_watch, make_synthetic
from tensorcontrast.errors import DataNotFoundError
from tensorcontrast.evaluate.protocol import label_budget, linear_probe, subject_split

Array = NDArray[Any]
SEEDS = range(4)
BUDGETS: tuple[int | str, ...] = (30, 60, "100%")
RANK = 32


@dataclass(frozen=True)
class Cell:
    """Accuracy of a method at a label budget, over seeds."""

    method: str
    budget: int | str
    accuracies: tuple[float, ...]
    seconds: float

    @property
    def text(self) -> str:
        """Mean ± standard deviation over the seeds."""
        return f"{np.mean(self.accuracies):.3f} ± {np.std(self.accuracies, ddof=1):.3f}"


def recordings() -> Recordings:
    """Load the embedded recordings, or synthetic ones where they are not installed."""
    try:
        return load_watch(download=False)
    except DataNotFoundError:
        return make_synthetic(n_samples=1200, n_classes=5, n_subjects=10, random_state=0)


def methods(rank: int, seed: int, n_classes: int) -> dict[str, Callable[[Array, Array], Any]]:
    """Fitters by name: from tensors and their augmented view to something with ``transform``."""

    def pca(X: Array, view: Array) -> Any:
        model = PCA(rank, svd_solver="randomized", random_state=seed).fit(X.reshape(len(X), -1))
        return lambda T: model.transform(T.reshape(len(T), -1))

    def estimator(model: Any, use_view: bool = True) -> Callable[[Array, Array], Any]:
        def fit(X: Array, view: Array) -> Any:
            return model.fit(X, view=view if use_view else None).transform

        return fit

    return {
        "PCA": pca,
        "CPD": estimator(CPD(rank, random_state=seed), use_view=False),
        "ATD": estimator(ATD(rank, random_state=seed)),
        "PLC, paper": estimator(PLC.paper(rank=rank, n_clusters=n_classes, random_state=seed)),
        "PLC": estimator(PLC(rank, random_state=seed)),
    }


def evaluate(rec: Recordings, console: Console) -> list[Cell]:
    """Fit every method on the unlabelled subjects of each split and probe it."""
    assert rec.y is not None
    found: dict[tuple[str, int | str], list[float]] = {}
    seconds: dict[str, list[float]] = {}
    names = list(methods(RANK, 0, rec.n_classes))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("fitting", total=len(SEEDS) * len(names))
        for seed in SEEDS:
            split = subject_split(rec, seed=seed)
            spectrogram = SpectrogramTensor(rec.fs).fit(rec.X)
            tensors = spectrogram.transform(rec.X)
            unlabelled = rec.X[split.unlabelled]
            view = spectrogram.transform(
                augment.gentle(n_times=rec.n_times)(unlabelled, np.random.default_rng(seed))
            )
            for name, fit in methods(RANK, seed, rec.n_classes).items():
                progress.update(task, description=f"{name}, split {seed + 1} of {len(SEEDS)}")
                begin = time.perf_counter()
                transform = fit(tensors[split.unlabelled], view)
                seconds.setdefault(name, []).append(time.perf_counter() - begin)
                train, test = transform(tensors[split.train]), transform(tensors[split.test])
                y_train, y_test = rec.y[split.train], rec.y[split.test]
                for budget in BUDGETS:
                    at = label_budget(y_train, budget, seed=seed)
                    result = linear_probe(train[at], y_train[at], test, y_test)
                    found.setdefault((name, budget), []).append(result.accuracy)
                progress.advance(task)
    return [
        Cell(name, budget, tuple(values), float(np.mean(seconds[name])))
        for (name, budget), values in found.items()
    ]


def main(folder: str | Path = "demo-report") -> int:
    """Run the demonstration; print the table and write the report."""
    console = Console()
    begin = time.perf_counter()
    rec = recordings()
    console.print(f"[bold]{rec!r}[/bold]", highlight=False)
    console.print(
        f"{RANK} features learned without labels, logistic probe, test subjects never seen, "
        f"{len(SEEDS)} splits by subject\n",
        highlight=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        cells = evaluate(rec, console)
        title = "Accuracy on unseen subjects, mean ± sd over splits"
        rows = _rows(cells)
        table = Table(title=title, title_justify="left")
        for column in ("method", *(_budget(b) for b in BUDGETS), "fit"):
            table.add_column(column, justify="left" if column == "method" else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)
        path = _report(Path(folder), rec, rows)
    console.print(
        f"\n{time.perf_counter() - begin:.0f} s. Look at {path} and the figure beside it.",
        highlight=False,
    )
    return 0


def _budget(budget: int | str) -> str:
    return "all labels" if budget == "100%" else f"{budget} labels"


def _rows(cells: list[Cell]) -> list[list[str]]:
    names = list(dict.fromkeys(cell.method for cell in cells))
    rows = []
    for name in names:
        own = [cell for cell in cells if cell.method == name]
        rows.append([name, *(cell.text for cell in own), f"{own[0].seconds:.1f} s"])
    return rows


def _report(folder: Path, rec: Recordings, rows: list[list[str]]) -> Path:
    """Table as Markdown, and a figure of the components of a PLC of all recordings."""
    from tensorcontrast import ContrastiveFeatures
    from tensorcontrast.report.figures import plot_components

    folder.mkdir(parents=True, exist_ok=True)
    model = ContrastiveFeatures(decompose=PLC(RANK), random_state=0).fit(rec)
    figure = plot_components(model, features=model.transform(rec), y=rec.y, classes=rec.classes)
    figure.savefig(folder / "components.png", dpi=150)
    head = ["method", *(_budget(b) for b in BUDGETS), "fit"]
    lines = [
        f"# {RANK} features of {rec.name or 'recordings'}, learned without labels",
        "",
        f"{rec!r}",
        "",
        "Accuracy of a logistic probe on subjects never seen, mean ± standard deviation over "
        f"{len(SEEDS)} splits by subject.",
        "",
        "| " + " | ".join(head) + " |",
        "| " + " | ".join("---" for _ in head) + " |",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        "The components that tell the classes apart best (a row each: channels, frequencies, time, "
        "and the mean of the feature in each class):",
        "",
        "![components](components.png)",
        "",
        f"Data: {rec.citation} Licence: {rec.licence}." if rec.citation else "Synthetic data.",
        "",
    ]
    path = folder / "report.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

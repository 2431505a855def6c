"""Accuracy of 32 features under a logistic probe: ``python -m benchmarks.accuracy [dataset …]``.

Features are fitted on the unlabelled subjects only; the probe sees the labels of train subjects;
test subjects are in neither. ``har-atd`` is the split of the ATD authors, in which windows of one
subject are in train and test. Mean ± standard deviation over seeds; a cell with 60 labels is the
mean of several draws in each seed. Needs the recordings named by TENSORCONTRAST_DATA.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import RESULTS, environment
from tensorcontrast import ATD, CPD, PLC, Recordings, SpectrogramTensor, augment
from tensorcontrast.datasets import load_har, load_ptbxl, load_sleep_edf
from tensorcontrast.evaluate.protocol import (
    Split,
    atd_har_split,
    label_budget,
    linear_probe,
    subject_split,
)

RANK, DRAWS = 32, 6


def _clipped(rec: Recordings) -> Recordings:
    """PTB-XL has a few records with artefacts of up to 30 mV; no heart makes 5 mV."""
    rec.X = np.clip(rec.X, -5, 5)
    return rec


DATASETS: dict[str, tuple[Callable[[], Recordings], Callable[..., Split]]] = {
    "har-atd": (lambda: load_har(download=False), atd_har_split),
    "har": (lambda: load_har(download=False), subject_split),
    "sleep-edf": (lambda: load_sleep_edf(download=False), subject_split),
    "ptb-xl": (lambda: _clipped(load_ptbxl(download=False)), subject_split),
}


class FlatPCA:
    """PCA of flattened tensors behind the interface of the decompositions."""

    def __init__(self, seed: int) -> None:
        self.model = PCA(RANK, svd_solver="randomized", random_state=seed)

    def fit(self, X: np.ndarray, y: Any = None, view: Any = None) -> FlatPCA:
        """Fit on the data alone."""
        self.model.fit(X.reshape(len(X), -1))
        kept = self.model.explained_variance_.sum() / X.reshape(len(X), -1).var(axis=0).sum()
        self.reconstruction_error_ = float(np.sqrt(max(1 - kept, 0)))
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Project."""
        return self.model.transform(X.reshape(len(X), -1))


def methods(seed: int, n_classes: int) -> dict[str, tuple[Any, bool]]:
    """Estimators by name, and whether they get the augmented view."""
    return {
        "PCA": (FlatPCA(seed), False),
        "CPD": (CPD(RANK, random_state=seed), False),
        "ATD": (ATD(RANK, random_state=seed), True),
        "PLC, paper": (PLC.paper(rank=RANK, n_clusters=n_classes, random_state=seed), True),
        "PLC": (PLC(RANK, random_state=seed), True),
    }


def run(name: str, seeds: int, console: Console) -> dict[str, dict[str, list[float]]]:
    """Measure every method on one dataset."""
    load, make_split = DATASETS[name]
    rec = load()
    assert rec.y is not None
    spectrogram = SpectrogramTensor(rec.fs).fit(rec.X)
    tensors = spectrogram.transform(rec.X)
    console.print(f"{name}: {rec!r} as {spectrogram.output_shape_}", highlight=False)
    found: dict[str, dict[str, list[float]]] = {}
    for seed in range(seeds):
        split = make_split(rec, seed=seed)
        y_train, y_test = rec.y[split.train], rec.y[split.test]
        augmented = augment.gentle(n_times=rec.n_times)(
            rec.X[split.unlabelled], np.random.default_rng(seed)
        )
        view = spectrogram.transform(augmented)
        for method, (model, use_view) in methods(seed, rec.n_classes).items():
            begin = time.perf_counter()
            model.fit(tensors[split.unlabelled], view=view if use_view else None)
            seconds = time.perf_counter() - begin
            train, test = (
                model.transform(tensors[split.train]),
                model.transform(tensors[split.test]),
            )
            few = []
            for draw in range(DRAWS):
                at = label_budget(y_train, 60, seed=draw)
                few.append(linear_probe(train[at], y_train[at], test, y_test).accuracy)
            cell = found.setdefault(method, {})
            cell.setdefault("60 labels", []).append(float(np.mean(few)))
            full = linear_probe(train, y_train, test, y_test).accuracy
            cell.setdefault("all labels", []).append(full)
            cell.setdefault("error", []).append(model.reconstruction_error_)
            cell.setdefault("seconds", []).append(seconds)
    return found


def show(name: str, found: dict[str, dict[str, list[float]]], console: Console) -> None:
    """Print one dataset's table."""
    table = Table(title=f"{name}: accuracy, mean ± sd over seeds", title_justify="left")
    for column in ("method", "60 labels", "all labels", "reconstruction error", "fit"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, cell in found.items():
        accuracies = [
            f"{np.mean(cell[key]):.3f} ± {np.std(cell[key], ddof=1):.3f}"
            for key in ("60 labels", "all labels")
        ]
        seconds = f"{np.mean(cell['seconds']):.1f} s"
        table.add_row(method, *accuracies, f"{np.mean(cell['error']):.3f}", seconds)
    console.print(table)


def main() -> int:
    """Measure and print the named datasets, all by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("datasets", nargs="*", choices=[*DATASETS, []], help="all by default")
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    console = Console(width=110)
    RESULTS.mkdir(exist_ok=True)
    for name in arguments.datasets or list(DATASETS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = run(name, max(2, arguments.seeds), console)
        show(name, found, console)
        result = {"environment": environment(), "seeds": arguments.seeds, "cells": found}
        path = RESULTS / f"accuracy-{name}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

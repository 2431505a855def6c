"""The cells of one fit: features of a method, judged at every label budget.

Everything before the last line of :func:`judge` sees the labels of the training subjects at most.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, ParameterGrid

from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.evaluate.cells import ALONE, Cell, Key
from tensorcontrast.evaluate.config import BenchConfig, DatasetConfig, MethodConfig, TuneConfig
from tensorcontrast.evaluate.data import splits
from tensorcontrast.evaluate.methods import Fitted, build, fit
from tensorcontrast.evaluate.protocol import (
    ProbeResult,
    Split,
    fitting_budget,
    label_budget,
    linear_probe,
)
from tensorcontrast.evaluate.selection import information_criteria
from tensorcontrast.recordings import Recordings

__all__ = ["Task", "compute", "draws_of"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Task:
    """One method on one data set with one seed, and the budgets that are asked for.

    ``make`` gives the estimator where it is not that of the configured method, from the
    recordings (of which it may use all but the signals and labels) and the seed.
    """

    config: BenchConfig
    dataset: DatasetConfig
    method: MethodConfig
    seed: int
    budgets: tuple[int | str, ...]
    make: Callable[[Recordings, int], Any] | None = None

    def without(self, done: Set[Key]) -> Task:
        """Return the task with the budgets that are still to do."""
        label, method = self.dataset.label, self.method.label
        left = tuple(b for b in self.budgets if (label, method, self.seed, b) not in done)
        return replace(self, budgets=left)

    def cell(self, budget: int | str, **values: Any) -> Cell:
        """Make a cell of this task."""
        return Cell(self.dataset.label, self.method.label, self.seed, budget, **values)


@dataclass(frozen=True)
class Draw:
    """Which training windows have their label: positions in the recordings."""

    split: Split
    labelled: NDArray[np.int64]


def compute(rec: Recordings, task: Task) -> tuple[list[Cell], Fitted | None]:
    """Fit and judge; what raises an error becomes a failed cell. Gives cells and a fitted model."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            parts = splits(rec, task.dataset, task.config, task.seed)
            _warn_if_alone(rec, parts[0])
            drawn = task.method.fits_draws
            fits = [] if drawn else _candidates(rec, task, parts[0])
            table = _Table.from_fits(rec, parts, fits)
        except Exception as error:
            return [_failed(task, budget, error) for budget in task.budgets], None
    before = _texts(caught)
    cells: list[Cell] = []
    model = fits[0] if fits else None
    for budget in task.budgets:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if drawn:
                    values, model = _judge_drawn(rec, task, parts, budget)
                else:
                    values, model = _judge(rec, task, parts, budget, fits, table)
            except Exception as error:
                cells.append(_failed(task, budget, error))
                continue
        texts = tuple(dict.fromkeys((*before, *_texts(caught))))
        cells.append(task.cell(budget, warnings=texts, **values))
    return cells, model


def _warn_if_alone(rec: Recordings, split: Split) -> None:
    for name in ("train", "test"):
        rows = getattr(split, name)
        if rec.groups is not None and len(np.unique(rec.groups[rows])) == 1:
            warnings.warn(f"{ALONE} {name}", TensorContrastWarning, stacklevel=2)


def _texts(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(warning.message) for warning in caught))


def _failed(task: Task, budget: int | str, error: Exception) -> Cell:
    text = f"{type(error).__name__}: {error}"
    return task.cell(budget, status="failed", message=text[:2000])


# ----------------------------------------------------------------------------------- fitting


def _candidates(rec: Recordings, task: Task, split: Split) -> list[Fitted]:
    """Fit on the unlabelled part: once, or for each point of the grid.

    With "aic" and "bic" the best one is kept; with "cv" all are, as the choice needs labels.
    """
    X = rec.X[split.unlabelled]
    y = None
    if task.method.labels_in_graph == "all":  # the paper's upper bound, never test labels
        assert rec.y is not None
        y = rec.y[split.unlabelled]
    tune = task.method.tune

    def fitted(params: dict[str, Any]) -> Fitted:
        if task.make is not None:
            return fit(task.make(rec, task.seed), X, y, params)
        model = build(rec, task.config, task.dataset, task.method, task.seed, params)
        return fit(model, X, y, params)

    if tune is None:
        return [fitted({})]
    grid = list(ParameterGrid(tune.grid))
    if tune.criterion == "cv":
        return [fitted(params) for params in grid]
    best: Fitted | None = None
    lowest, seconds = np.inf, 0.0
    for params in grid:
        trial = fitted(params)
        seconds += trial.fit_seconds
        tensors = trial.estimator.tensors(X)
        value = getattr(information_criteria(trial.model, tensors), tune.criterion)
        if value < lowest:
            best, lowest = trial, value
    assert best is not None
    best.fit_seconds = seconds  # choosing is part of fitting
    return [best]


# ----------------------------------------------------------------------------------- judging


def draws_of(
    rec: Recordings, task: Task, parts: Sequence[Split], budget: int | str
) -> Iterator[Draw]:
    """Draws of labels for a budget: the same for every method.

    A split is drawn from several times, unless all labels are used; several splits once each.
    """
    assert rec.y is not None
    for number in range(len(parts) if len(parts) > 1 else task.config.draws):
        split = parts[number % len(parts)]
        y = rec.y[split.train]
        wanted = fitting_budget(y, budget) if task.config.fit_budgets else budget
        at = label_budget(y, wanted, seed=1000 * task.seed + number)
        yield Draw(split, split.train[at])
        if wanted == "100%" and len(parts) == 1:
            return


@dataclass(frozen=True)
class _Table:
    """Features of all train and test windows by each fitted model, found by their position."""

    place: NDArray[np.int64]
    features: list[Array]
    seconds: float | None

    @classmethod
    def from_fits(cls, rec: Recordings, parts: Sequence[Split], fits: Sequence[Fitted]) -> _Table:
        rows = np.unique(np.concatenate([part for s in parts for part in (s.train, s.test)]))
        place = np.full(len(rec), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        begin = time.perf_counter()
        features = [model.transform(rec.X[rows]) for model in fits]
        taken = (time.perf_counter() - begin) * 1000 / (len(rows) * len(fits)) if fits else None
        return cls(place, features, taken)

    def rows(self, model: int, positions: NDArray[np.int64]) -> Array:
        return self.features[model][self.place[positions]]


def _judge(
    rec: Recordings,
    task: Task,
    parts: Sequence[Split],
    budget: int | str,
    fits: Sequence[Fitted],
    table: _Table,
) -> tuple[dict[str, Any], Fitted]:
    results: list[ProbeResult] = []
    chosen: list[Fitted] = []
    draws = list(draws_of(rec, task, parts, budget))
    for draw in draws:
        at = 0
        if len(fits) > 1:
            assert task.method.tune is not None
            known = [table.rows(k, draw.labelled) for k in range(len(fits))]
            at = _by_cross_validation(rec, draw.labelled, known, task.method.tune)
        chosen.append(fits[at])
        train, test = table.rows(at, draw.labelled), table.rows(at, draw.split.test)
        results.append(judge(rec, draw, train, test, fits))
    values = _averages(rec, parts[0], draws, results)
    values |= chosen[0].facts()
    values["n_features"] = int(table.rows(fits.index(chosen[0]), parts[0].test[:1]).shape[1])
    values["fit_seconds"] = float(sum(model.fit_seconds for model in fits))
    values["transform_seconds"] = table.seconds
    if task.method.tune is not None:
        same = all(model is chosen[0] for model in chosen)
        values["chosen"] = chosen[0].params if same else {"draws": [m.params for m in chosen]}
    return values, chosen[0]


def _judge_drawn(
    rec: Recordings, task: Task, parts: Sequence[Split], budget: int | str
) -> tuple[dict[str, Any], Fitted]:
    """One fit a draw, over unlabelled and labelled windows, with the drawn labels in the graph.

    Where they are hidden the fit is without them: what those in the graph are to be compared with.
    """
    assert rec.y is not None
    draws, results, fits = list(draws_of(rec, task, parts, budget)), [], []
    for draw in draws:
        rows = np.concatenate([draw.split.unlabelled, draw.labelled])
        y: NDArray[np.int64] | None = None
        if task.method.labels_in_graph == "drawn":
            y = np.full(len(rows), -1)
            y[len(draw.split.unlabelled) :] = rec.y[draw.labelled]
        model = build(rec, task.config, task.dataset, task.method, task.seed)
        fits.append(fit(model, rec.X[rows], y))
        train, test = (fits[-1].transform(rec.X[part]) for part in (draw.labelled, draw.split.test))
        results.append(judge(rec, draw, train, test, fits))
    values = _averages(rec, parts[0], draws, results)
    values |= fits[0].facts() | {"n_features": int(train.shape[1])}
    values["fit_seconds"] = float(np.mean([model.fit_seconds for model in fits]))
    return values, fits[0]


def judge(
    rec: Recordings, draw: Draw, train: Array, test: Array, fits: Sequence[Fitted]
) -> ProbeResult:
    """Train the classifier on the drawn labels and score it on test."""
    assert rec.y is not None
    advised = fits[0].classifier
    return linear_probe(
        train,
        rec.y[draw.labelled],
        test,
        rec.y[draw.split.test],
        classifier=advised,
        standardise=advised is None,
    )


def _averages(
    rec: Recordings, split: Split, draws: Sequence[Draw], results: Sequence[ProbeResult]
) -> dict[str, Any]:
    assert rec.y is not None
    absent = 0
    for draw in draws:
        there = rec.y[draw.split.test]
        missing = np.setdiff1d(there[there >= 0], rec.y[draw.labelled])
        absent = max(absent, len(missing))
    return {
        "accuracy": float(np.mean([r.accuracy for r in results])),
        "balanced_accuracy": float(np.mean([r.balanced_accuracy for r in results])),
        "macro_f1": float(np.mean([r.macro_f1 for r in results])),
        "macro_auc": _mean_area([r.macro_auc for r in results]),
        "draws": tuple(r.accuracy for r in results),
        "n_unlabelled": len(split.unlabelled),
        "n_train": results[0].n_train,
        "n_test": results[0].n_test,
        "absent_classes": absent,
    }


def _mean_area(areas: Sequence[float | None]) -> float | None:
    known = [area for area in areas if area is not None]
    return float(np.mean(known)) if known else None


def _by_cross_validation(
    rec: Recordings, labelled: NDArray[np.int64], features: Sequence[Array], tune: TuneConfig
) -> int:
    """Which features do best on held-out subjects among the labelled training windows."""
    assert rec.y is not None
    y = rec.y[labelled]
    if rec.groups is None:
        raise InvalidInputError(
            "criterion 'cv' divides train by subject, but the recordings have no groups; use 'bic'"
        )
    groups = np.unique(rec.groups[labelled], return_inverse=True)[1]
    if groups.max() < 1:
        raise InvalidInputError(
            "criterion 'cv' divides train by subject, but all labelled windows are of one subject; "
            "use 'bic', a larger share of train, or a larger budget"
        )
    scores = []
    folds = list(GroupKFold(min(tune.folds, int(groups.max()) + 1)).split(y, y, groups))
    usable = [(a, b) for a, b in folds if len(np.unique(y[a])) > 1]
    if not usable:
        raise InvalidInputError(
            "criterion 'cv': no fold of the labelled subjects has two classes to learn from; use "
            "'bic' or a larger budget"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes absent from a fold are no news
        for W in features:
            found = [linear_probe(W[a], y[a], W[b], y[b]) for a, b in usable]
            scores.append(float(np.mean([result.accuracy for result in found])))
    return int(np.argmax(scores))

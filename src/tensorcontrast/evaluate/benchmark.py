"""Benchmarks: data sets × methods × seeds × label budgets, one JSON line per result.

Features are learned from unlabelled windows, a linear probe is trained on a few labelled ones and
scored on windows of other subjects. A stopped run goes on where it stopped: a result that is in the
file is not computed again, as long as the settings behind it are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, ParameterGrid

from tensorcontrast import datasets
from tensorcontrast.errors import DamagedFileError, InvalidInputError
from tensorcontrast.evaluate.methods import Method, make_estimator
from tensorcontrast.evaluate.protocol import (
    ProbeResult,
    Split,
    atd_har_split,
    fitting_budget,
    label_budget,
    linear_probe,
    official_split,
    subject_split,
    train_test_split,
)
from tensorcontrast.readers.ts import TRAIN_SUFFIX, read_ts_pair
from tensorcontrast.recordings import Recordings

__all__ = ["Benchmark", "Cell", "Dataset", "Method", "append_cells", "read_cells", "run"]

Array = NDArray[Any]
Budget = int | str

ALL_LABELS = "100%"


@dataclass(frozen=True)
class Dataset:
    """Recordings, and how they are split.

    Attributes
    ----------
    label : str
        What tables call it.
    name : str
        A public data set or "synthetic", and the key of the paper's tensors.
    path : str, optional
        File of recordings, instead of the data set of that name.
    options : mapping
        Of the loader.
    split : {"subject", "atd-har", "official", "train-test"}
        See :mod:`tensorcontrast.evaluate.protocol`.
    fractions : tuple of float
        Shares of the subjects that are unlabelled, train and test, for "subject".
    half : str, optional
        Half of the archive that it belongs to.
    clip : float, optional
        Largest magnitude of a sample.
    limit : int, optional
        Windows, drawn at random, that are used.
    """

    label: str
    name: str
    path: str | None = field(default=None, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    split: str = "subject"
    fractions: tuple[float, float, float] = (0.70, 0.15, 0.15)
    half: str | None = field(default=None, repr=False)
    clip: float | None = None
    limit: int | None = None

    def load(self) -> Recordings:
        """Read the recordings; nothing is downloaded."""
        options = dict(self.options)
        if self.path is not None and self.path.endswith(TRAIN_SUFFIX):
            rec = read_ts_pair(self.path, **options)
        elif self.path is not None:
            rec = Recordings.read(self.path, **options)
        elif self.name == "synthetic":
            rec = datasets.make_synthetic(**{"random_state": 0, **options})
        else:
            info = datasets.info(self.name)[0]
            rec = getattr(datasets, info.loader)(None, download=False, **options)
        if self.limit is not None and len(rec) > self.limit:
            chosen = np.random.default_rng(0).permutation(len(rec))[: self.limit]
            rec = rec[np.sort(chosen)]
        if self.clip is not None:
            rec = rec._with(X=np.clip(rec.X, -self.clip, self.clip))
        return rec

    def splits(self, rec: Recordings, seed: int, draws: int) -> tuple[Split, ...]:
        """Return the split for a seed: one, or several that share the unlabelled part."""
        if self.split == "subject":
            return (subject_split(rec, *self.fractions, seed=seed),)
        if self.split == "atd-har":
            return (atd_har_split(rec, seed=seed),)
        if self.split == "train-test":
            return (train_test_split(rec),)
        if self.split == "official":
            return tuple(
                official_split(rec, seed=np.random.default_rng([seed, draw]))
                for draw in range(draws)
            )
        raise InvalidInputError(f"no split {self.split!r} of {self.label}")


@dataclass(frozen=True)
class Benchmark:
    """Every method on every data set, for every seed and label budget.

    Attributes
    ----------
    datasets, methods : sequences
    seeds : sequence of int
    budgets : sequence of int or str
        Numbers of labelled training windows, or shares such as "5%".
    draws : int
        Draws of labels per seed.
    rank : int
        Number of features, of methods that let it be chosen.
    fit_budgets : bool
        Raise budgets to one label per class, and lower them to all labels.
    """

    datasets: Sequence[Dataset]
    methods: Sequence[Method]
    seeds: Sequence[int] = (0, 1, 2, 3)
    budgets: Sequence[Budget] = (60, ALL_LABELS)
    draws: int = 6
    rank: int = 32
    fit_budgets: bool = False

    def dataset(self, label: str) -> Dataset:
        """Return the data set of this label."""
        return next(d for d in self.datasets if d.label == label)

    def method(self, label: str) -> Method:
        """Return the method of this label."""
        return next(m for m in self.methods if m.label == label)

    def settings(self, dataset: Dataset, method: Method) -> str:
        """Digest of all that a result depends on but seed and budget."""
        text = repr((dataset, method, self.draws, self.rank, self.fit_budgets))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Cell:
    """What one method reached on one data set with one seed and label budget.

    Scores are means over draws of labels and, for the official split, of test subjects. A failed
    cell has an ``error`` and no scores.
    """

    dataset: str
    method: str
    seed: int
    budget: Budget
    error: str = ""
    accuracy: float | None = None
    balanced_accuracy: float | None = None
    macro_f1: float | None = None
    macro_auc: float | None = None
    n_train: int | None = None
    n_test: int | None = None
    n_features: int | None = None
    n_epochs: int | None = None
    n_parameters: int | None = None
    fit_seconds: float | None = None
    #: Of 1,000 windows.
    transform_seconds: float | None = None
    #: Parameters that were chosen from a grid.
    chosen: Mapping[str, Any] = field(default_factory=dict)
    settings: str = ""

    @property
    def key(self) -> tuple[str, str, int, Budget]:
        """Data set, method, seed and budget."""
        return self.dataset, self.method, self.seed, self.budget


# -------------------------------------------------------------------------------- running


def run(
    benchmark: Benchmark,
    path: str | Path,
    *,
    n_jobs: int = 1,
    progress: Callable[[int, int, str], object] = lambda done, total, text: None,
) -> list[Cell]:
    """Compute what a file of results does not hold yet; return all cells of the benchmark.

    Parameters
    ----------
    benchmark : Benchmark
    path : path
        One JSON line per cell, added as soon as a fit is done. Cells of other benchmarks may be in
        the same file.
    n_jobs : int, default=1
        Fits at a time.
    progress : callable, optional
        Called with the number of fits that are done, their total, and what was done last.

    Examples
    --------
    >>> import tempfile
    >>> from tensorcontrast.evaluate.benchmark import Benchmark, Dataset, Method, run
    >>> planted = Dataset("planted", "synthetic", options={"n_samples": 60, "n_times": 64})
    >>> small = Benchmark([planted], [Method("PCA", "pca")], [0], [6], draws=1, rank=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (cell,) = run(small, f"{folder}/results.jsonl")
    >>> cell.method, cell.budget, cell.n_features
    ('PCA', 6, 3)
    """
    target = Path(path).expanduser()
    target.parent.mkdir(parents=True, exist_ok=True)
    done = {(cell.key, cell.settings) for cell in read_cells(target) if not cell.error}
    jobs = []
    for dataset in benchmark.datasets:
        for seed in benchmark.seeds:
            for method in benchmark.methods:
                settings = benchmark.settings(dataset, method)
                left = [
                    budget
                    for budget in benchmark.budgets
                    if ((dataset.label, method.label, seed, budget), settings) not in done
                ]
                if left:
                    jobs.append((benchmark, dataset, method, seed, left))
    progress(0, len(jobs), "")
    for count, cells in enumerate(_work_off(jobs, n_jobs), start=1):
        append_cells(target, cells)
        progress(count, len(jobs), f"{cells[0].dataset}, {cells[0].method}, seed {cells[0].seed}")
    return cells_of(benchmark, target)


def cells_of(benchmark: Benchmark, path: Path) -> list[Cell]:
    """Return the cells of a benchmark in a file, in its order; a computed one before a failed."""
    found: dict[Any, Cell] = {}
    for cell in read_cells(path):
        if cell.key not in found or found[cell.key].error or not cell.error:
            found[cell.key] = cell
    keys = (
        (dataset.label, method.label, seed, budget)
        for dataset in benchmark.datasets
        for method in benchmark.methods
        for budget in benchmark.budgets
        for seed in benchmark.seeds
    )
    return [found[key] for key in keys if key in found]


def _work_off(jobs: Sequence[Any], n_jobs: int) -> Iterator[list[Cell]]:
    if n_jobs == 1:
        yield from (compute(*job) for job in jobs)
        return
    count = joblib.cpu_count()
    workers = min(n_jobs if n_jobs > 0 else count, max(1, len(jobs)))
    with joblib.parallel_config("loky", inner_max_num_threads=max(1, count // workers)):
        pool = joblib.Parallel(
            workers, return_as="generator_unordered", batch_size=1, pre_dispatch=workers
        )
        yield from pool(joblib.delayed(compute)(*job) for job in jobs)


def read_cells(path: Path) -> list[Cell]:
    """Return the cells of a file, failed and repeated ones included; none where there is no file.

    What a killed process left of a last line is skipped.
    """
    if not path.is_file():
        return []
    known = {f.name for f in fields(Cell)}
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    try:
        records = [json.loads(line) for line in lines]
        return [Cell(**{k: v for k, v in r.items() if k in known}) for r in records]
    except (ValueError, TypeError, AttributeError) as error:
        raise DamagedFileError(f"{path}: has a line that is no result ({error})") from None


def append_cells(path: Path, cells: Iterable[Cell]) -> None:
    """Add lines to a file of cells."""
    text = "".join(json.dumps(asdict(cell)) + "\n" for cell in cells)
    with open(path, "ab+") as stream:
        stream.seek(0)
        whole = stream.read().rfind(b"\n") + 1
        stream.truncate(whole)  # of what a killed process has left
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())


# ------------------------------------------------------------------------- one fit and its cells


@dataclass(frozen=True)
class Draw:
    """Which training windows have their label: positions in the recordings."""

    split: Split
    labelled: NDArray[np.int64]


@dataclass(eq=False)
class Fitted:
    """A fitted estimator, with what it took and the parameters chosen for it."""

    estimator: Any
    seconds: float
    params: Mapping[str, Any]

    @property
    def model(self) -> Any:
        """The decomposition or network itself, without what makes tensors."""
        return getattr(self.estimator, "decompose_", self.estimator)

    def facts(self) -> dict[str, Any]:
        """Return iterations and sizes for a cell; None where there is no such number."""
        count = getattr(self.model, "n_parameters_", None)
        if count is None and hasattr(self.model, "factors_"):
            blocks = [U if isinstance(U, list) else [U] for U in self.model.factors_]
            count = sum(U.size for block in blocks for U in block)
        epochs = len(getattr(self.model, "history_", {}).get("seconds", []))
        return {
            "n_epochs": epochs or None,
            "n_parameters": None if count is None else int(count),
        }


def fit(estimator: Any, X: Array, y: Any = None, params: Mapping[str, Any] | None = None) -> Fitted:
    """Fit on signals, and on labels where they go into the graph."""
    begin = time.perf_counter()
    estimator.fit(X) if y is None else estimator.fit(X, y)
    return Fitted(estimator, time.perf_counter() - begin, dict(params or {}))


#: The recordings that this process has read last.
_LAST: list[tuple[Dataset, Recordings]] = []


def compute(
    benchmark: Benchmark,
    dataset: Dataset,
    method: Method,
    seed: int,
    budgets: Sequence[Budget],
) -> list[Cell]:
    """Fit and judge; what raises an error becomes a failed cell."""
    settings = benchmark.settings(dataset, method)

    def cell(budget: Budget, **values: Any) -> Cell:
        return Cell(dataset.label, method.label, seed, budget, settings=settings, **values)

    def failed(budget: Budget, error: Exception) -> Cell:
        return cell(budget, error=f"{type(error).__name__}: {error}"[:2000])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if not _LAST or _LAST[0][0] != dataset:
                _LAST[:] = []  # never two data sets at a time
                _LAST[:] = [(dataset, dataset.load())]
            rec = _LAST[0][1]
            parts = dataset.splits(rec, seed, benchmark.draws)
            fits = [] if method.fits_draws else _fits(rec, benchmark, dataset, method, seed, parts)
            table = _Table.from_fits(rec, parts, fits)
        except Exception as error:
            return [failed(budget, error) for budget in budgets]
        cells = []
        for budget in budgets:
            try:
                drawn = list(draws_of(rec, parts, budget, seed, benchmark))
                if method.fits_draws:
                    values = _judge_drawn(rec, benchmark, dataset, method, seed, drawn)
                else:
                    values = _judge(rec, method, drawn, fits, table)
                cells.append(cell(budget, **values))
            except Exception as error:
                cells.append(failed(budget, error))
    return cells


def _fits(
    rec: Recordings,
    benchmark: Benchmark,
    dataset: Dataset,
    method: Method,
    seed: int,
    parts: Sequence[Split],
) -> list[Fitted]:
    """Fit on the unlabelled part: once, or for each point of the grid."""
    X, y = rec.X[parts[0].unlabelled], None
    if method.labels_in_graph == "all":  # an upper bound; test labels are never among them
        y = _labels(rec)[parts[0].unlabelled]
    more: dict[str, Any] = {"rank": benchmark.rank, "seed": seed, "paper_set": dataset.name}
    grid = list(ParameterGrid(dict(method.grid))) if method.grid else [{}]
    return [
        fit(make_estimator(rec, method, params=params, **more), X, y, params) for params in grid
    ]


def draws_of(
    rec: Recordings, parts: Sequence[Split], budget: Budget, seed: int, benchmark: Benchmark
) -> Iterator[Draw]:
    """Draws of labels for a budget: the same for every method.

    A split is drawn from several times, unless all labels are used; several splits once each.
    """
    for number in range(len(parts) if len(parts) > 1 else benchmark.draws):
        split = parts[number % len(parts)]
        y = _labels(rec)[split.train]
        wanted = fitting_budget(y, budget) if benchmark.fit_budgets else budget
        at = label_budget(y, wanted, seed=1000 * seed + number)
        yield Draw(split, split.train[at])
        if wanted == ALL_LABELS and len(parts) == 1:
            return


def _labels(rec: Recordings) -> NDArray[np.int64]:
    if rec.y is None:
        raise InvalidInputError(f"{rec.name}: features are judged by labels, and there are none")
    return rec.y


@dataclass(frozen=True)
class _Table:
    """Features of all train and test windows by each fitted model, found by their position."""

    place: NDArray[np.int64]
    features: list[Array]
    #: Of 1,000 windows.
    seconds: float | None

    @classmethod
    def from_fits(cls, rec: Recordings, parts: Sequence[Split], fits: Sequence[Fitted]) -> _Table:
        rows = np.unique(np.concatenate([part for s in parts for part in (s.train, s.test)]))
        place = np.full(len(rec), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        begin = time.perf_counter()
        features = [np.asarray(one.estimator.transform(rec.X[rows])) for one in fits]
        taken = (time.perf_counter() - begin) * 1000 / (len(rows) * len(fits)) if fits else None
        return cls(place, features, taken)

    def rows(self, model: int, positions: NDArray[np.int64]) -> Array:
        return self.features[model][self.place[positions]]


def _judge(
    rec: Recordings, method: Method, draws: Sequence[Draw], fits: Sequence[Fitted], table: _Table
) -> dict[str, Any]:
    results, chosen = [], []
    for draw in draws:
        at = 0
        if len(fits) > 1:
            known = [table.rows(k, draw.labelled) for k in range(len(fits))]
            at = _by_cross_validation(rec, draw.labelled, known)
        chosen.append(fits[at])
        train, test = table.rows(at, draw.labelled), table.rows(at, draw.split.test)
        results.append(judge(rec, draw, train, test, fits[at]))
    params = [dict(one.params) for one in chosen]
    same = all(one == params[0] for one in params)
    return {
        **_means(results),
        **chosen[0].facts(),
        "n_features": int(train.shape[1]),
        "fit_seconds": float(sum(one.seconds for one in fits)),
        "transform_seconds": table.seconds,
        "chosen": params[0] if same else {"draws": params},
    }


def _judge_drawn(
    rec: Recordings,
    benchmark: Benchmark,
    dataset: Dataset,
    method: Method,
    seed: int,
    draws: Sequence[Draw],
) -> dict[str, Any]:
    """One fit per draw, over unlabelled and labelled windows, with the drawn labels in the graph.

    Where they are hidden the fit is without them: what those in the graph are to be compared with.
    """
    results, fits = [], []
    for draw in draws:
        rows = np.concatenate([draw.split.unlabelled, draw.labelled])
        y: NDArray[np.int64] | None = None
        if method.labels_in_graph == "drawn":
            y = np.full(len(rows), -1)
            y[len(draw.split.unlabelled) :] = _labels(rec)[draw.labelled]
        more: dict[str, Any] = {"rank": benchmark.rank, "seed": seed, "paper_set": dataset.name}
        fits.append(fit(make_estimator(rec, method, **more), rec.X[rows], y))
        train, test = (
            np.asarray(fits[-1].estimator.transform(rec.X[part]))
            for part in (draw.labelled, draw.split.test)
        )
        results.append(judge(rec, draw, train, test, fits[-1]))
    return {
        **_means(results),
        **fits[0].facts(),
        "n_features": int(train.shape[1]),
        "fit_seconds": float(np.mean([one.seconds for one in fits])),
    }


def judge(rec: Recordings, draw: Draw, train: Array, test: Array, fitted: Fitted) -> ProbeResult:
    """Train the classifier on the drawn labels and score it on test."""
    make = getattr(fitted.model, "make_classifier", None)  # what the authors of features advise
    return linear_probe(
        train,
        _labels(rec)[draw.labelled],
        test,
        _labels(rec)[draw.split.test],
        classifier=None if make is None else make(),
        standardise=make is None,
    )


def _means(results: Sequence[ProbeResult]) -> dict[str, Any]:
    areas = [r.macro_auc for r in results if r.macro_auc is not None]
    return {
        "accuracy": float(np.mean([r.accuracy for r in results])),
        "balanced_accuracy": float(np.mean([r.balanced_accuracy for r in results])),
        "macro_f1": float(np.mean([r.macro_f1 for r in results])),
        "macro_auc": float(np.mean(areas)) if areas else None,
        "n_train": results[0].n_train,
        "n_test": results[0].n_test,
    }


def _by_cross_validation(
    rec: Recordings, labelled: NDArray[np.int64], features: Sequence[Array], n_folds: int = 3
) -> int:
    """Which features do best on held-out subjects among the labelled training windows."""
    y = _labels(rec)[labelled]
    if rec.groups is None:
        raise InvalidInputError("a grid is searched over subjects, and the recordings have none")
    groups = np.unique(rec.groups[labelled], return_inverse=True)[1]
    folds = GroupKFold(min(n_folds, int(groups.max()) + 1)).split(y, y, groups)
    usable = [(a, b) for a, b in folds if len(np.unique(y[a])) > 1]
    if not usable:
        raise InvalidInputError("no fold of the labelled subjects has two classes to learn from")
    scores = [
        np.mean([linear_probe(W[a], y[a], W[b], y[b]).accuracy for a, b in usable])
        for W in features
    ]
    return int(np.argmax(scores))

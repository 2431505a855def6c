"""A run on disk: its configuration, environment, cells and artefacts, and what they come to."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    ForeignFileError,
    InvalidInputError,
)
from tensorcontrast.evaluate import store
from tensorcontrast.evaluate.cells import ALONE, Cell, DatasetFacts, Key, Summary, read_cells
from tensorcontrast.evaluate.config import BenchConfig, slug
from tensorcontrast.evaluate.kinds import METHODS
from tensorcontrast.evaluate.paper import DIFFERENCES, paper_result
from tensorcontrast.io.atomic import atomic_write

__all__ = ["Cell", "DatasetFacts", "Run", "Summary"]

Array = NDArray[Any]

CONFIG, ENVIRONMENT = "config.json", "environment.json"
DATASETS, ARTEFACTS = "datasets.json", "artefacts"
PROBLEM = ".error.json"  # takes the place of .npz where a piece of evidence failed


class Run:
    """The results of a benchmark in a folder; :meth:`load` reads them.

    Attributes
    ----------
    folder : Path
    config : BenchConfig
    environment : list of dict
        Versions, processor and threads, one entry for each session that added cells.
    datasets : dict of str to DatasetFacts
    cells : tuple of Cell
        The last word on each cell: computed ones, else failed ones, in the order of the config.

    Examples
    --------
    >>> import tempfile
    >>> from tensorcontrast.evaluate import BenchConfig, Run
    >>> from tensorcontrast.evaluate.runner import run
    >>> data = {"name": "synthetic", "options": {"n_samples": 60, "n_channels": 2, "n_times": 32}}
    >>> config = BenchConfig(datasets=[data], methods=["PCA"], seeds=1, budgets=[6], rank=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(config, folder, n_jobs=1)
    ...     found = Run.load(folder)
    >>> found.complete, [(cell.method, cell.budget, cell.n_features) for cell in found.ok]
    (True, [('PCA', 6, 2)])
    """

    def __init__(
        self,
        folder: Path,
        config: BenchConfig,
        environment: list[dict[str, Any]],
        datasets: dict[str, DatasetFacts],
        cells: Iterable[Cell],
    ) -> None:
        self.folder, self.config = folder, config
        self.environment, self.datasets = environment, datasets
        found: dict[Key, Cell] = {}
        for cell in cells:
            before = found.get(cell.key)
            if before is None or cell.status == "ok" or before.status == "failed":
                found[cell.key] = cell
        self.cells: tuple[Cell, ...] = tuple(found[k] for k in self._keys() if k in found)

    def __repr__(self) -> str:
        total = len(self._keys())
        return f"Run({self.folder}: {len(self.ok)} of {total} cells, {len(self.failed)} failed)"

    # --------------------------------------------------------------------------- reading

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """Read a run, finished or not."""
        where = Path(folder).expanduser()
        if not where.is_dir():
            raise DataNotFoundError(f"{where}: no such folder of a run")
        if not (where / CONFIG).is_file():
            raise ForeignFileError(f"{where}: holds no {CONFIG}, so it is not the folder of a run")
        config = read_config(where)
        environment: list[dict[str, Any]] = []
        datasets: dict[str, DatasetFacts] = {}
        try:
            if (where / ENVIRONMENT).is_file():
                environment = list(store.read_json(where / ENVIRONMENT)["sessions"])
            if (where / DATASETS).is_file():
                for record in store.read_json(where / DATASETS)["datasets"]:
                    facts = DatasetFacts.from_record(record)
                    datasets[facts.label] = facts
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedFileError(
                f"{where}: {ENVIRONMENT} or {DATASETS} is incomplete ({error}); delete both and "
                "run again, which keeps the cells"
            ) from None
        return cls(where, config, environment, datasets, read_cells(where))

    def of_config(self, config: BenchConfig) -> Run:
        """Return the part of this run that a configuration asks for."""
        labels = [dataset.label for dataset in config.datasets]
        datasets = {label: self.datasets[label] for label in labels if label in self.datasets}
        return Run(self.folder, config, self.environment, datasets, self.cells)

    def reload(self) -> Run:
        """Read the folder again."""
        return Run.load(self.folder)

    @property
    def problems(self) -> list[str]:
        """Pieces of evidence that could not be computed, with the reason."""
        found = sorted((self.folder / ARTEFACTS).glob(f"*/*/*{PROBLEM}"))
        return [
            f"{path.parent.parent.name}, {path.parent.name}, "
            f"{path.name.removesuffix(PROBLEM)}: {store.read_json(path).get('message')}"
            for path in found
        ]

    # ----------------------------------------------------------------------------- cells

    def _keys(self) -> list[Key]:
        c = self.config
        return [
            (dataset.label, method.label, seed, budget)
            for dataset in c.datasets
            for method in c.methods
            for budget in c.budgets
            for seed in c.seeds
        ]

    @property
    def ok(self) -> tuple[Cell, ...]:
        """Cells that were computed."""
        return tuple(cell for cell in self.cells if cell.status == "ok")

    @property
    def failed(self) -> tuple[Cell, ...]:
        """Cells whose computation raised an error; running again tries them again."""
        return tuple(cell for cell in self.cells if cell.status == "failed")

    @property
    def missing(self) -> list[Key]:
        """Cells that are not there yet, by (data set, method, seed, budget)."""
        there = {cell.key for cell in self.cells}
        return [key for key in self._keys() if key not in there]

    @property
    def complete(self) -> bool:
        """Whether every cell was computed."""
        return len(self.ok) == len(self._keys())

    def summary(self, dataset: str | None = None) -> list[Summary]:
        """Means and standard deviations over seeds, in the order of the configuration."""
        if dataset is not None:
            self.config.dataset(dataset)
        groups: dict[tuple[str, str, int | str], list[Cell]] = {}
        for cell in self.cells:
            if dataset in (None, cell.dataset):
                groups.setdefault((cell.dataset, cell.method, cell.budget), []).append(cell)
        return [self._summary(cells) for cells in groups.values()]

    def _summary(self, cells: list[Cell]) -> Summary:
        first, good = cells[0], [cell for cell in cells if cell.status == "ok"]
        method, dataset = self.config.method(first.method), self.config.dataset(first.dataset)

        def mean(name: str) -> float | None:
            values = [getattr(c, name) for c in good if getattr(c, name) is not None]
            return float(np.mean(values)) if values else None

        def spread(name: str) -> tuple[float, float]:
            values = [float(getattr(cell, name)) for cell in good]
            sd = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
            return (float(np.mean(values)) if values else float("nan")), sd

        def whole(name: str) -> int | None:
            value = mean(name)
            return None if value is None else round(value)

        accuracy, balanced, f1 = map(spread, ("accuracy", "balanced_accuracy", "macro_f1"))
        return Summary(
            dataset=first.dataset,
            method=first.method,
            budget=first.budget,
            accuracy=accuracy[0],
            accuracy_sd=accuracy[1],
            balanced_accuracy=balanced[0],
            balanced_accuracy_sd=balanced[1],
            macro_f1=f1[0],
            macro_f1_sd=f1[1],
            macro_auc=mean("macro_auc"),
            n_seeds=len(good),
            n_failed=len(cells) - len(good),
            fit_seconds=mean("fit_seconds"),
            epoch_seconds=mean("epoch_seconds"),
            n_epochs=mean("n_epochs"),
            n_parameters=whole("n_parameters"),
            n_features=whole("n_features"),
            reconstruction_error=mean("reconstruction_error"),
            note=method.note,
            paper=paper_result(dataset.name, method.name) if first.budget == "100%" else None,
        )

    def notes(self, dataset: str) -> list[str]:
        """Where data or protocol differ from the paper's, and what a reader must know."""
        given = self.config.dataset(dataset)
        out = [f"{m.label}: {m.note}" for m in self.config.methods if m.note]
        if any(METHODS[m.name].paper_row for m in self.config.methods):
            out += DIFFERENCES.get(given.name, ())
        split = self.config.split_of(given)
        if split == "atd-har":
            out.append(
                "The split of the ATD authors has windows of one subject, which overlap by half, "
                "in train and test: accuracies are higher than on subjects never seen."
            )
        facts = self.datasets.get(dataset)
        if facts is not None and facts.n_groups == 0 and split != "train-test":
            out.append("The recordings have no groups: one subject's windows are in all parts.")
        cells = [cell for cell in self.ok if cell.dataset == dataset]
        for part in ("train", "test"):
            text = f"{ALONE} {part}"
            seeds = sorted({cell.seed for cell in cells if text in cell.warnings})
            if seeds:
                listed = ", ".join(map(str, seeds))
                out.append(
                    f"With seed {listed} {text}: what differs between seeds is also who it is."
                )
        absent = max((c.absent_classes for c in cells), default=0)
        if absent:
            out.append(
                f"Up to {absent} classes of the test windows had no label in a draw, so that they "
                "could not be predicted."
            )
        return out

    # ------------------------------------------------------------------------- artefacts

    def path(self, dataset: str, method: str | None, name: str) -> Path:
        """Where an artefact is or would be."""
        self.config.dataset(dataset)
        if method is not None:
            self.config.method(method)
        return artefact(self.folder, dataset, method, name)

    def model(self, dataset: str, method: str) -> Any:
        """Return the model of the first seed, a fitted ``ContrastiveFeatures``, if there is one."""
        from tensorcontrast.io.model_files import load_model

        path = self.path(dataset, method, "model.tcm")
        return load_model(path) if path.is_file() else None

    def history(self, dataset: str, method: str) -> dict[str, list[float]] | None:
        """Return the terms of each iteration of the first seed's fit; null became NaN."""
        path = self.path(dataset, method, "history.json")
        if not path.is_file():
            return None
        columns = store.read_json(path)["history"]
        return {k: [float("nan") if v is None else v for v in c] for k, c in columns.items()}

    def windows(self, dataset: str) -> dict[str, Array] | None:
        """Return a window of the recordings, the same for all methods: see the runner."""
        return read_npz(self.path(dataset, None, "windows.npz"))

    def features(self, dataset: str, method: str) -> Array | None:
        """Features of :meth:`windows` by the model of the first seed, (m, r)."""
        found = read_npz(self.path(dataset, method, "features.npz"))
        return None if found is None else found["features"]

    def evidence(
        self, dataset: str, piece: str, method: str | None = None
    ) -> dict[str, Array] | None:
        """Return the arrays behind a figure: "stages" or "seeds", of the first method that has."""
        if piece not in ("stages", "seeds"):
            raise InvalidInputError(f"no evidence {piece!r}; there are 'stages' and 'seeds'")
        for label in [m.label for m in self.config.methods] if method is None else [method]:
            found = read_npz(self.path(dataset, label, f"{piece}.npz"))
            if found is not None:
                return found
        return None


def artefact(folder: Path, dataset: str, method: str | None, name: str) -> Path:
    """Return the place of an artefact of a data set, or of a method on it."""
    where = folder / ARTEFACTS / slug(dataset)
    return (where if method is None else where / slug(method)) / name


def read_config(folder: Path) -> BenchConfig:
    """Return the configuration that a run was started with."""
    data = store.read_json(folder / CONFIG)
    config = BenchConfig.from_data(data.get("config"), str(folder / CONFIG))
    if config.hash != data.get("hash"):
        raise DamagedFileError(
            f"{folder / CONFIG}: was changed after the run began, so that its cells may belong to "
            "another configuration; use another folder, or start this one afresh"
        )
    return config


def read_npz(path: Path) -> dict[str, Array] | None:
    """Arrays of a file; None where there is none."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DamagedFileError(
            f"{path}: cannot be read ({error}); delete it and run again"
        ) from None


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays in one piece."""
    with atomic_write(path) as stream:
        np.savez_compressed(
            stream, allow_pickle=False, **{k: np.asarray(v) for k, v in arrays.items()}
        )

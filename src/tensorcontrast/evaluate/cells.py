"""What a run is made of: cells, their means over seeds, and facts of the recordings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

from tensorcontrast.errors import DamagedFileError
from tensorcontrast.evaluate import store
from tensorcontrast.evaluate.paper import PaperResult

__all__ = ["ALONE", "CELLS", "Cell", "DatasetFacts", "Key", "Summary", "read_cells", "write_cells"]

Key = tuple[str, str, int, int | str]

CELLS = "cells.jsonl"

#: Start of the warning that a part of the split is one subject.
ALONE = "one subject makes up all of"


@dataclass(frozen=True)
class Cell:
    """What one method reached on one data set with one seed and label budget.

    Accuracies are means over ``draws``, the accuracies of the single draws of labels (and, for the
    official split, of subjects). Times are in seconds, that of ``transform`` per 1,000 windows;
    numbers that a method does not have are None. ``absent_classes`` is the most classes of test
    that a draw had no label of.
    """

    dataset: str
    method: str
    seed: int
    budget: int | str
    status: Literal["ok", "failed"] = "ok"
    accuracy: float | None = None
    balanced_accuracy: float | None = None
    macro_f1: float | None = None
    macro_auc: float | None = None
    draws: tuple[float, ...] = ()
    n_unlabelled: int = 0
    n_train: int = 0
    n_test: int = 0
    absent_classes: int = 0
    fit_seconds: float | None = None
    transform_seconds: float | None = None
    epoch_seconds: float | None = None
    n_epochs: int | None = None
    n_parameters: int | None = None
    n_features: int | None = None
    reconstruction_error: float | None = None
    chosen: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    message: str = ""
    session: int = 0

    @property
    def key(self) -> Key:
        """Data set, method, seed and budget."""
        return (self.dataset, self.method, self.seed, self.budget)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Make a cell from a record of the file."""
        known = {f.name for f in fields(cls)}
        data = {key: value for key, value in record.items() if key in known}
        for name in ("draws", "warnings"):
            data[name] = tuple(data.get(name, ()))
        cell = cls(**data)
        numbers = (cell.accuracy, cell.balanced_accuracy, cell.macro_f1)
        good = cell.status == "failed" or all(isinstance(n, float | int) for n in numbers)
        if not good or not isinstance(cell.budget, int | str) or not isinstance(cell.seed, int):
            raise TypeError(f"{cell.key} with accuracy {cell.accuracy!r}")
        if not isinstance(cell.dataset, str) or not isinstance(cell.method, str):
            raise TypeError(f"{cell.dataset!r} and {cell.method!r} are no labels")
        return cell


@dataclass(frozen=True)
class Summary:
    """Cells of one data set, method and budget: means over seeds, and standard deviations."""

    dataset: str
    method: str
    budget: int | str
    accuracy: float
    accuracy_sd: float
    balanced_accuracy: float
    balanced_accuracy_sd: float
    macro_f1: float
    macro_f1_sd: float
    macro_auc: float | None
    n_seeds: int
    n_failed: int
    fit_seconds: float | None
    epoch_seconds: float | None
    n_epochs: float | None
    n_parameters: int | None
    n_features: int | None
    reconstruction_error: float | None
    note: str
    paper: PaperResult | None


@dataclass(frozen=True)
class DatasetFacts:
    """What is known of the recordings of a run; ``fingerprint`` is a digest of their contents."""

    label: str
    name: str
    n_samples: int
    n_channels: int
    n_times: int
    fs: float | None
    channels: tuple[str, ...]
    classes: tuple[str, ...]
    class_counts: tuple[int, ...]
    n_groups: int
    units: str | tuple[str, ...] | None
    citation: str
    licence: str
    split: str
    fingerprint: str

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Make facts from a record of the file."""
        data: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in record.items()
        }
        return cls(**data)


def read_cells(folder: Path) -> list[Cell]:
    """Return all cells in the order of their writing, failed and repeated ones included."""
    out = []
    for number, record in enumerate(store.read(folder / CELLS), start=1):
        try:
            out.append(Cell.from_record(record))
        except TypeError as error:
            raise DamagedFileError(
                f"{folder / CELLS} line {number}: is not a cell ({error}); delete the line and run "
                "again"
            ) from None
    return out


def write_cells(folder: Path, cells: Iterable[Cell]) -> None:
    """Add cells to a run: all of them or none."""
    store.append(folder / CELLS, [asdict(cell) for cell in cells])

"""The results behind the claims in one file: enough to write the page again without any run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensorcontrast.errors import DamagedFileError
from tensorcontrast.evaluate import evidence as pieces
from tensorcontrast.evaluate import store
from tensorcontrast.evaluate.cells import Cell
from tensorcontrast.evaluate.claims import PARTS, THEORY
from tensorcontrast.evaluate.run import Run
from tensorcontrast.evaluate.verdicts import Evidence

__all__ = ["RESULTS", "gather", "merged", "read_results", "write_results"]

#: Name of the file in the folder of the runs.
RESULTS = "claims.json"

#: What is kept of a cell, in this order.
_COLUMNS = (
    "dataset", "method", "seed", "budget", "accuracy", "macro_f1", "macro_auc", "n_train",
    "n_epochs", "fit_seconds", "chosen",
)  # fmt: skip
_FACTS = ("n_samples", "n_channels", "n_times", "fs", "n_groups", "split", "fingerprint")
_MACHINE = ("tensorcontrast", "python", "processor", "processors", "packages")

#: Windows of a t-SNE that are kept.
TSNE_WINDOWS = 500


def gather(folder: Path) -> Evidence:
    """Read what the runs in a folder have found so far."""
    runs = {name: Run.load(folder / name) for name in PARTS if (folder / name).is_dir()}
    arrays = {}
    for run in runs.values():
        for dataset, method, piece in pieces.pieces_of(run.config):
            found = run.evidence(dataset, piece, method)
            if found is not None:
                arrays[piece, dataset, method] = found
    sessions = [session for run in runs.values() for session in run.environment]
    measured = folder / f"{THEORY}.json"
    return Evidence(
        {name: run.ok for name, run in runs.items()},
        store.read_json(measured) if measured.is_file() else {},
        arrays,
        {
            label: {key: getattr(facts, key) for key in _FACTS}
            for run in runs.values()
            for label, facts in run.datasets.items()
        },
        {key: sessions[-1].get(key) for key in _MACHINE} if sessions else {},
    )


def merged(before: Evidence, new: Evidence) -> Evidence:
    """Return the results of two runs; where both have a cell or an array, the new one counts."""
    cells = {
        part: list(
            {
                cell.key: cell for cell in (*before.cells.get(part, ()), *new.cells.get(part, ()))
            }.values()
        )
        for part in PARTS
        if part in before.cells or part in new.cells
    }
    return Evidence(
        cells,
        {**before.theory, **new.theory},
        {**before.arrays, **new.arrays},
        {**before.datasets, **new.datasets},
        new.environment or before.environment,
    )


def write_results(evidence: Evidence, path: Path) -> None:
    """Write a file that :func:`read_results` reads; numbers are rounded."""
    cells = {
        part: [[_short(getattr(cell, name)) for name in _COLUMNS] for cell in found]
        for part, found in evidence.cells.items()
    }
    arrays = [
        {"piece": piece, "dataset": dataset, "method": method, "arrays": _shorter(found)}
        for (piece, dataset, method), found in evidence.arrays.items()
    ]
    store.write_json(
        path,
        {
            "environment": dict(evidence.environment),
            "datasets": {label: dict(facts) for label, facts in evidence.datasets.items()},
            "columns": list(_COLUMNS),
            "cells": cells,
            "theory": _short(evidence.theory),
            "arrays": arrays,
        },
        indent=None,
    )


def read_results(path: Path) -> Evidence:
    """Read a file of :func:`write_results`."""
    data = store.read_json(path)
    try:
        columns = data["columns"]
        cells = {
            part: [Cell(**dict(zip(columns, row, strict=True))) for row in rows]
            for part, rows in data["cells"].items()
        }
        arrays = {
            (one["piece"], one["dataset"], one["method"]): {
                name: np.array(values) for name, values in one["arrays"].items()
            }
            for one in data["arrays"]
        }
        return Evidence(cells, data["theory"], arrays, data["datasets"], data["environment"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFileError(
            f"{path}: is not a file of results of the claims ({error}); bench claims writes one"
        ) from None


def _short(value: Any) -> Any:
    """Return plain data with five digits per number."""
    if isinstance(value, Mapping):
        return {str(key): _short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _shorter(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays as lists: fewer points of a t-SNE, and short numbers."""
    out: dict[str, Any] = {}
    for name, values in arrays.items():
        kept = np.asarray(values)
        if name.startswith("tsne"):
            kept = kept[:TSNE_WINDOWS]
            kept = kept if name == "tsne_y" else kept.astype(np.float64).round(1)
        out[name] = _short(kept.tolist())
    return out

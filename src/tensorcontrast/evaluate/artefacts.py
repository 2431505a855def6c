"""What a run keeps of its first seed: models, histories, a window of windows and features."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import FileError
from tensorcontrast.evaluate import kinds, store
from tensorcontrast.evaluate.data import splits
from tensorcontrast.evaluate.methods import Fitted
from tensorcontrast.evaluate.run import artefact, write_npz
from tensorcontrast.evaluate.scoring import Task
from tensorcontrast.recordings import Recordings

__all__ = ["keep", "make_folder"]

#: Windows of each part (unlabelled, train, test) that are kept.
PER_PART = 200

#: Points in time of a kept window at most; longer ones are thinned for drawing.
MAX_POINTS = 500

#: Features of a window at most that are kept.
MAX_FEATURES = 256


def keep(folder: Path, rec: Recordings, task: Task, fitted: Fitted) -> None:
    """Write the artefacts of a fit of the first seed."""
    label, method = task.dataset.label, task.method.label
    sample = artefact(folder, label, None, "windows.npz")
    make_folder(artefact(folder, label, method, "x").parent)
    chosen, part = _sample(rec, task)
    if not sample.is_file():
        write_npz(sample, _windows(rec, chosen, part))
    store.write_json(artefact(folder, label, method, "history.json"), {"history": fitted.history})
    features = fitted.transform(rec.X[chosen])
    if features.shape[1] <= MAX_FEATURES:
        path = artefact(folder, label, method, "features.npz")
        write_npz(path, {"features": features, "index": chosen})
    if kinds.METHODS[task.method.name].tensor:
        fitted.estimator.save(artefact(folder, label, method, "model.tcm"))


def make_folder(folder: Path) -> None:
    """Make a folder and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot be made: {error}") from error


def _sample(rec: Recordings, task: Task) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Sorted positions of windows from all parts, and the names of these."""
    split = splits(rec, task.dataset, task.config, task.config.seeds[0])[0]
    rng = np.random.default_rng(0)
    rows, names = [], []
    for name in ("unlabelled", "train", "test"):
        part = getattr(split, name)
        drawn = rng.permutation(part)[:PER_PART]
        rows.append(drawn)
        names += [name] * len(drawn)
    chosen = np.concatenate(rows)
    order = np.argsort(chosen, kind="stable")
    return chosen[order], np.array(names)[order]


def _windows(rec: Recordings, chosen: NDArray[np.int64], part: NDArray[Any]) -> dict[str, Any]:
    """Arrays of ``windows.npz``; text is kept as text, never pickled."""
    step = math.ceil(rec.n_times / MAX_POINTS)
    y = np.full(len(chosen), -1) if rec.y is None else rec.y[chosen]
    units = rec.units or ""
    return {
        "index": chosen,
        "y": y,
        "groups": np.full(len(chosen), "") if rec.groups is None else rec.groups[chosen],
        "part": part,
        "X": rec.X[chosen][:, :, ::step].astype(np.float32),
        "times": np.arange(0, rec.n_times, step) / (rec.fs or 1.0),
        "channels": np.array(rec.channels or [str(c) for c in range(rec.n_channels)]),
        "classes": np.array(rec.classes or [str(c) for c in range(rec.n_classes)]),
        "units": np.array([units] * rec.n_channels if isinstance(units, str) else units),
    }

"""Freeze what the default does, or compare: ``python -m tests.frozen.freeze``.

A rewrite of the engine must not change features, probabilities, answers, suggestions or
explanations. Without an option this prints the largest differences from ``behaviour.npz`` in
units of the length of a row; ``--write`` replaces the file, for a change that is meant. Fits in
float64 say whether the method is the same; those in float32, which round, whether users see the
same.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tensorcontrast import PLC, ContrastiveClassifier, ContrastiveFeatures
from tensorcontrast.datasets import load_watch, make_synthetic
from tensorcontrast.explain import explain_features
from tensorcontrast.recordings import Recordings

FILE = Path(__file__).parent / "behaviour.npz"
#: Windows whose results are kept.
N_KEPT = 24


def recordings() -> Iterator[tuple[str, Recordings]]:
    """Yield the data: planted and embedded, and real ones where the data folder is there."""
    yield (
        "planted",
        make_synthetic(n_samples=240, n_channels=4, n_times=128, n_classes=3, random_state=0),
    )
    watch = load_watch()
    yield "watch", watch[:: max(1, len(watch) // 600)]
    folder = Path(os.environ.get("TENSORCONTRAST_DATA", ""))
    files = {
        "HAR": folder / "har.npz",
        "Epilepsy": folder / "archive" / "Epilepsy.npz",
        "wisdm": folder / "archive" / "wisdm_watch.npz",
    }
    for name, path in files.items():
        if os.environ.get("TENSORCONTRAST_DATA") and path.is_file():
            yield name, _read(path, 1500)


def _read(path: Path, most: int) -> Recordings:
    with np.load(path, allow_pickle=False) as file:
        X = file["X"][:most].astype(np.float32)
        if "scale" in file:
            X = X * np.float32(file["scale"])
        return Recordings(X, file["y"][:most], fs=float(file["fs"]), groups=file["groups"][:most])


def few_labels(y: np.ndarray) -> np.ndarray:
    """Labels of ten windows of each class; the others are unknown."""
    out = np.full(len(y), -1)
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        out[own[np.linspace(0, len(own) - 1, 10).astype(int)]] = label
    return out


def behaviour() -> dict[str, np.ndarray]:
    """Return what the default does with each of the recordings, by name."""
    out = {}
    for name, rec in recordings():
        some = np.linspace(0, len(rec) - 1, N_KEPT).astype(int)
        exact = ContrastiveFeatures(decompose=PLC(dtype="float64"), random_state=0).fit(rec)
        out[f"{name}/features64"] = exact.transform(rec.X[some])
        labels = few_labels(rec.y)
        model = ContrastiveClassifier(random_state=0).fit(rec, labels)
        out[f"{name}/features"] = model.extractor_.transform(rec.X[some])
        out[f"{name}/probabilities"] = model.predict_proba(rec.X[some])
        out[f"{name}/predictions"] = model.predict(rec.X[some])
        out[f"{name}/suggestions"] = model.suggest(rec, 8, labels, random_state=0)
        found = explain_features(model, rec, only=[0])[0]
        out[f"{name}/explanation"] = np.concatenate(
            [np.ravel(found.channel_share), np.ravel(found.frequency_share)]
        )
    out |= on_dask()
    return out


def on_dask() -> dict[str, np.ndarray]:
    """Return features of planted windows that are a Dask array."""
    import dask.array as da

    rec = make_synthetic(n_samples=1600, n_channels=2, n_times=64, n_classes=3, random_state=0)
    model = ContrastiveFeatures(
        fs=rec.fs, decompose=PLC(rank=8, dtype="float64"), random_state=0
    ).fit(da.from_array(rec.X, chunks=(400, -1, -1)))
    return {"dask/features64": model.transform(rec.X[:N_KEPT])}


def differences(found: dict[str, np.ndarray], frozen: dict[str, np.ndarray]) -> dict[str, float]:
    """Largest difference of each array: of a row, in units of the row's length; of counts, one."""
    out = {}
    for name, now in found.items():
        before = frozen[name]
        if now.shape != before.shape:
            out[name] = float("inf")
        elif now.dtype.kind in "iuU":
            out[name] = float(np.mean(now != before))
        else:
            rows = np.atleast_2d(before)
            apart = np.linalg.norm(np.atleast_2d(now) - rows, axis=1)
            out[name] = float((apart / np.maximum(np.linalg.norm(rows, axis=1), 1e-30)).max())
    return out


def main() -> None:
    """Print differences, or write the file."""
    parser = argparse.ArgumentParser(description="compare the default with what was frozen")
    parser.add_argument("--write", action="store_true", help="freeze what the default does now")
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = behaviour()
    if given.write:
        np.savez_compressed(FILE, **found)
        print(f"{FILE.stat().st_size:,} bytes, {len(found)} arrays")
        return
    with np.load(FILE, allow_pickle=False) as file:
        frozen = {name: file[name] for name in file.files}
    for name, value in differences(found, frozen).items():
        print(f"{name:28} {value:.2e}")


if __name__ == "__main__":
    main()

"""Do features come back when only rounding differs: ``python -m benchmarks.rounding``.

The default is fitted again to signals in another unit (× 1.1, × 1,000), and with another number of
threads. Features are compared column by column, without
matching: the correlation over all windows, and the share of windows with the same prediction.
Needs ``TENSORCONTRAST_DATA``; ``--sets`` names sets of the archive.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from rich.console import Console

from tensorcontrast import ContrastiveClassifier, ContrastiveFeatures
from tensorcontrast.evaluate.archive import archive_folder
from tensorcontrast.report.tables import TextTable

SETS = ("Epilepsy", "RacketSports", "UWaveGestureLibrary", "myo_emg", "wisdm_watch")
MAX_WINDOWS = 1500


Array = np.ndarray


def compare(X: Array, y: Array, fs: float | None) -> dict[str, tuple[float, float, float]]:
    """Return the smallest and the median correlation, and the share of equal predictions."""
    few = np.where(np.arange(len(X)) % 10 == 0, y, -1)

    def fit(factor: float = 1.0, n_jobs: int | None = None) -> tuple[Array, Array]:
        signals = (X.astype(np.float64) * factor).astype(np.float32)
        model = ContrastiveClassifier(ContrastiveFeatures(fs=fs, n_jobs=n_jobs), random_state=0)
        model.fit(signals, few)
        return model.extractor_.transform(signals), model.predict(signals)

    W, labels = fit()
    out = {}
    for name, options in {
        "× 1.1": {"factor": 1.1},
        "× 1,000": {"factor": 1000.0},
        "one thread": {"n_jobs": 1},
    }.items():
        V, found = fit(**options)  # type: ignore[arg-type]
        r = [np.corrcoef(w, v)[0, 1] for w, v in zip(W.T, V.T, strict=True)]
        out[name] = (float(np.min(r)), float(np.median(r)), float(np.mean(labels == found)))
    return out


def main() -> None:
    """Print a row per data set and change."""
    parser = argparse.ArgumentParser(description="features under changes that only round")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    rows = []
    warnings.simplefilter("ignore")
    for name in parser.parse_args().sets:
        with np.load(archive_folder() / f"{name}.npz", allow_pickle=False) as file:
            some = slice(None, None, -(-len(file["y"]) // MAX_WINDOWS))
            X = file["X"][some].astype(np.float32) * np.float32(file.get("scale", 1.0))
            y, fs = file["y"][some], float(file["fs"])
        for change, (low, middle, same) in compare(X, y, fs if fs > 0 else None).items():
            rows.append([f"{name}, {change}", f"{low:.4f}", f"{middle:.4f}", f"{100 * same:.1f} %"])
    head = ["data set, change", "smallest r", "median r", "same predictions"]
    Console().print(TextTable("Features and predictions under rounding", head, rows).rich())


if __name__ == "__main__":
    main()

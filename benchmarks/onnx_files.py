"""ONNX files against the library on all data sets: ``python -m benchmarks.onnx_files``.

For each of the seventeen sets of ``python -m benchmarks.archive``: a ``ContrastiveClassifier`` is
fitted on at most 1,000 windows, evenly spaced, and written as an ONNX file, as are its features.
onnxruntime and the library then compute the same windows, those of the fit and others. Printed are
the largest difference of a probability and of a feature, labels that differ, sizes of the files and
the shortest time per window, one window at a time on one thread. Results go to
``results/onnx.json``, in which a run replaces the sets that it has computed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, environment
from tensorcontrast import ContrastiveClassifier, export_onnx
from tensorcontrast.errors import TensorContrastWarning
from tensorcontrast.evaluate.archive import archive_benchmark, require
from tensorcontrast.evaluate.benchmark import Dataset
from tensorcontrast.export import compare_onnx

RESULT = RESULTS / "onnx.json"

#: Largest difference of a probability or a feature that is aimed at.
GOAL = 1e-4


def compared(dataset: Dataset, n_fitted: int, n_compared: int) -> dict[str, Any]:
    """Fit, export and compare the models of one set."""
    rec = dataset.load()

    def some(count: int) -> Any:
        return rec[np.linspace(0, len(rec) - 1, min(len(rec), count)).astype(np.intp)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TensorContrastWarning)
        model = ContrastiveClassifier(random_state=0).fit(some(n_fitted))
    X = some(n_compared).X
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        for name, part in (("classifier", model), ("features", model.extractor_)):
            export_onnx(part, path)
            out[name] = compare_onnx(part, path, X)
    return out


def print_set(name: str, found: dict[str, Any]) -> None:
    """Print one line of the table."""
    answers, features = found["classifier"], found["features"]
    goal = "" if max(answers["max_difference"], features["max_difference"]) <= GOAL else "  MISSED"
    print(
        f"{name:20} {answers['n_windows']:7,} {answers['max_difference']:13.1e} "
        f"{answers['other_labels']:6} {features['max_difference']:9.1e} "
        f"{features['relative_difference']:9.1e} "
        f"{answers['size_bytes'] / 1e6:7.1f} {features['size_bytes'] / 1e6:9.1f} "
        f"{answers['ms_per_window']:7.2f} {features['ms_per_window']:9.2f}{goal}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, write the result file and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", help="names, separated by commas; all by default")
    parser.add_argument("--fitted", type=int, default=1000, help="windows of a fit, at most")
    parser.add_argument("--compared", type=int, default=1000, help="windows compared, at most")
    parser.add_argument("--result", type=Path, default=RESULT, help="file of results")
    given = parser.parse_args(arguments)
    benchmark = archive_benchmark(sets=given.sets.split(",") if given.sets else None)
    require(benchmark.datasets)
    result: dict[str, Any] = {"sets": {}}
    if given.result.exists():
        result |= json.loads(given.result.read_text(encoding="utf-8"))
    print(f"{'':35}largest difference of a              MB              ms per window")
    print(
        f"{'set':20} windows   probability labels   feature  relative answers  features answers "
        " features"
    )
    for dataset in benchmark.datasets:
        found = compared(dataset, given.fitted, given.compared)
        result["sets"][dataset.label] = found
        result["environment"] = environment()
        print_set(dataset.label, found)
        given.result.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

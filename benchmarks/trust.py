"""What missing entries cost: ``python -m benchmarks.trust``; 1 if a goal was missed.

Accuracy of a logistic probe on 32 features of PLC, all labels of the train subjects, features
fitted on the unlabelled subjects: with missing entries of HAR against the same on clean data. Costs
are in points, means over the seeds. Needs the recordings named by TENSORCONTRAST_DATA.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import Row, show, write
from tensorcontrast import PLC, Recordings, SpectrogramTensor, augment
from tensorcontrast.datasets import load_har
from tensorcontrast.evaluate.protocol import Split, linear_probe, subject_split
from tensorcontrast.recordings.signals import without_gaps
from tensorcontrast.utils import threads

RANK = 32
MISSING = 0.3


def probe(model: Any, rec: Recordings, split: Split, train: Any, test: Any) -> float:
    """Accuracy, in percent, of tensors of the train and test subjects."""
    assert rec.y is not None
    with threads.single("blas"):
        found = linear_probe(
            model.transform(train), rec.y[split.train], model.transform(test), rec.y[split.test]
        )
    return 100 * found.accuracy


def view_of(rec: Recordings, X: np.ndarray, spectrogram: Any, seed: int) -> np.ndarray:
    """Spectrograms of the augmented view that the accuracy benchmark uses."""
    made = augment.gentle()(X, np.random.default_rng(seed))
    return np.asarray(spectrogram.transform(made))


def errors(model: Any, tensors: np.ndarray, gaps: np.ndarray) -> tuple[float, float]:
    """Error of what the model, and linear interpolation in time, put into the gaps.

    Relative to the root mean square of the true values about the model's mean; a row without any
    value in time takes the mean in the second case.
    """
    dirty = np.where(gaps, np.float32(np.nan), tensors)
    made = model.inverse_transform(model.transform(dirty))
    flat = dirty.reshape(len(dirty), -1, dirty.shape[-1])
    linear = without_gaps(flat).reshape(dirty.shape)
    empty = np.broadcast_to(np.isnan(dirty).all(axis=-1, keepdims=True), dirty.shape)
    linear = np.where(empty, model.center_, linear)
    size = np.linalg.norm((tensors - model.center_)[gaps])
    return tuple(float(np.linalg.norm((x - tensors)[gaps]) / size) for x in (made, linear))


def har(seeds: int) -> list[Row]:
    """Missing entries of HAR, at random in the tensors of all subjects, then whole channels."""
    rec = load_har(download=False)
    spectrogram = SpectrogramTensor(rec.fs).fit(rec.X)
    tensors = spectrogram.transform(rec.X)
    found: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        split = subject_split(rec, seed=seed)
        parts = [split.unlabelled, split.train, split.test]
        X, train, test = (tensors[at] for at in parts)
        view = view_of(rec, rec.X[split.unlabelled], spectrogram, seed)
        clean = PLC(RANK, random_state=seed).fit(X, nuisance=view - X)
        best = probe(clean, rec, split, train, test)
        add("clean", best)
        hidden = [rng.random(part.shape) < MISSING for part in (X, train, test)]
        dirty = [
            np.where(gaps, np.float32(np.nan), part)
            for gaps, part in zip(hidden, (X, train, test), strict=True)
        ]
        masked = PLC(RANK, random_state=seed, missing="mask")
        masked.fit(dirty[0])
        add("missing", best - probe(masked, rec, split, dirty[1], dirty[2]))
        clean.set_params(missing="mask")
        lost = rng.integers(rec.n_channels, size=len(test))
        gone = test.copy()
        gone[np.arange(len(gone)), lost] = np.nan
        add("channel", best - probe(clean, rec, split, train, gone))
        for name, gaps in (
            ("entries", hidden[2]),
            ("half", np.broadcast_to(_half(test, rng), test.shape)),
            ("whole", np.isnan(gone)),
        ):
            model, linear = errors(masked if name == "entries" else clean, test, gaps)
            add(f"{name} model", model)
            add(f"{name} linear", linear)
    mean = {name: float(np.mean(values)) for name, values in found.items()}
    share = f"{MISSING:.0%} of all entries missing"
    return [
        Row("HAR, clean: accuracy", mean["clean"], "%"),
        Row(f"HAR, {share}: cost", mean["missing"], "points", at_most=2.0),
        Row("HAR, one of 9 channels lost at transform: cost", mean["channel"], "points"),
        Row(f"HAR, {share}: error of the model", mean["entries model"], ""),
        Row(f"HAR, {share}: error of linear interpolation", mean["entries linear"], ""),
        Row("HAR, second half of a channel lost: error of the model", mean["half model"], ""),
        Row("HAR, second half lost: error of linear interpolation", mean["half linear"], ""),
        Row("HAR, a whole channel lost: error of the model", mean["whole model"], "", at_most=1.0),
        Row("HAR, a whole channel lost: error of the mean", mean["whole linear"], ""),
    ]


def _half(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Mark the second half of the frames of one channel of each sample (n, channel, 1, frame)."""
    gaps = np.zeros((*X.shape[:2], 1, X.shape[3]), dtype=bool)
    gaps[np.arange(len(X)), rng.integers(X.shape[1], size=len(X)), :, X.shape[3] // 2 :] = True
    return gaps


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        rows = har(seeds)
    show(f"Trust, HAR, {seeds} seeds", rows)
    write("trust-har", rows)
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())

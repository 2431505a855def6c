"""Whole fits against TensorLy, and growth: what a fit costs, with the error beside each time."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import Row, best_times
from benchmarks.decompose import RANK, plc_iteration, seconds_an_iteration, tensor
from tensorcontrast import CPD, Recordings, SpectrogramTensor
from tensorcontrast.datasets import load_har, make_synthetic
from tensorcontrast.evaluate.protocol import (
    Split,
    atd_har_split,
    label_budget,
    linear_probe,
    subject_split,
)

ITERATIONS = 50


def har() -> tuple[Recordings, Callable[..., Split]]:
    """HAR with the split of the ATD authors where it is at hand, else recordings of its size."""
    if os.environ.get("TENSORCONTRAST_DATA"):
        return load_har(download=False), atd_har_split
    made = make_synthetic(
        10_299, 9, 128, n_classes=6, n_subjects=30, fs=50.0, noise=1.0, random_state=0
    )
    return made, subject_split


def accuracy(
    transform: Callable[[np.ndarray], np.ndarray], T: np.ndarray, y: np.ndarray, split: Split
) -> tuple[float, float]:
    """Accuracy of the probe with 60 labels and with all."""
    train, test = transform(T[split.train]), transform(T[split.test])
    few = []
    for draw in range(4):
        at = label_budget(y[split.train], 60, seed=draw)
        few.append(linear_probe(train[at], y[split.train][at], test, y[split.test]).accuracy)
    return float(np.mean(few)), linear_probe(train, y[split.train], test, y[split.test]).accuracy


def against_tensorly(n: int = 1500) -> list[Row]:
    """Measure a whole fit against ``parafac`` from the same start, a share of it an iteration."""
    import tensorly
    from tensorly.decomposition import parafac

    rec, _ = har()
    T = SpectrogramTensor.paper("har").fit_transform(rec.X[:: max(1, len(rec) // n)][:n])
    X = T - T.mean(axis=0)
    X /= np.sqrt((X.reshape(n, -1) ** 2).sum(axis=1).mean())
    rng = np.random.default_rng(1)
    start = [rng.standard_normal((d, RANK)).astype(np.float32) for d in X.shape[1:]]
    start = [U / np.linalg.norm(U, axis=0) for U in start]
    # Without any ridge, float32 rounding decides about components that cancel each other.
    options: dict[str, Any] = {"alpha": 1e-6, "center": False, "scale": False, "tol": 0}
    options |= {"init": start, "max_iter": ITERATIONS}
    errors, seconds = {}, {}
    for backend in ("numpy", "pytorch"):
        tensorly.set_backend(backend)
        try:
            W = np.ones((n, RANK), dtype=np.float32)
            model = tensorly.cp_tensor.CPTensor((None, [tensorly.tensor(U) for U in [W, *start]]))
            # Its error is asked for once; a few iterations of the other backend tell its time.
            count = ITERATIONS if backend == "numpy" else 5
            begin = time.perf_counter()
            _, path = parafac(
                tensorly.tensor(X),
                RANK,
                n_iter_max=count,
                init=model,
                tol=0,
                return_errors=True,
            )
            seconds[backend] = (time.perf_counter() - begin) / count
            errors[backend] = float(path[-1])
        finally:
            tensorly.set_backend("numpy")
    long = CPD().max_iter
    for key, count in (("brief", ITERATIONS), ("long", long)):
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            fitted = CPD(RANK, **(options | {"max_iter": count})).fit(X)
            times.append((time.perf_counter() - begin) / count)
        seconds[key], errors[key] = min(times), fitted.reconstruction_error_
    name = f"{n}×18×33×33, rank {RANK}"
    return [
        Row(
            f"TensorLy parafac (NumPy) / CPD, an iteration of a fit of {long}, all that the fit "
            f"does included, {name}",
            seconds["numpy"] / seconds["long"],
            at_least=100,
        ),
        Row(
            f"TensorLy parafac (NumPy) / CPD, an iteration of a fit of {ITERATIONS}",
            seconds["numpy"] / seconds["brief"],
        ),
        Row(
            f"TensorLy parafac (PyTorch) / CPD, an iteration of a fit of {long}",
            seconds["pytorch"] / seconds["long"],
            at_least=20,
        ),
        Row(
            f"error of CPD after {ITERATIONS} iterations (TensorLy: {errors['numpy']:.4f})",
            errors["brief"] / errors["numpy"] - 1,
            "relative",
            at_most=0.01,
        ),
    ]


def growth() -> list[Row]:
    """Time of an iteration of Algorithm 1 over tensor size, and of a sweep of CPD over rank."""
    base, larger = (
        seconds_an_iteration(best_times(plc_iteration(7352, dims), repeats=2))
        for dims in ((9, 33, 18), (18, 33, 36))
    )
    small, wide = (_sweep_seconds(rank) for rank in (16, 64))
    return [
        Row("Algorithm 1, tensors of 4 times the size", larger / base, at_least=2, at_most=4.6),
        Row("CPD iteration, rank 64 / rank 16", wide / small, at_most=4.6),
    ]


def _sweep_seconds(rank: int) -> float:
    X = tensor(7352, (9, 33, 18)).reshape(-1, 9, 33, 18)
    fits = {
        name: lambda count=count: CPD(rank, max_iter=count, tol=0, random_state=0).fit(X)
        for name, count in (("few", 1), ("more", 11))
    }
    timed = best_times(fits, repeats=2)
    return (timed["more"] - timed["few"]) / 10


def rows(part: Callable[[], list[Row]]) -> list[Row]:
    """Measure one of the parts; iterations are fixed, so that some fits do not converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return part()


def tensorly_rows() -> list[Row]:
    """Measure whole fits against TensorLy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return against_tensorly()

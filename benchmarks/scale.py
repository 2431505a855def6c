"""Compression and growth: what a fit costs, with the error and accuracy beside each time."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import Row, best_times
from benchmarks.decompose import RANK, plc_iteration, tensor
from tensorcontrast import (
    ALS,
    CPD,
    Recordings,
    SpectrogramTensor,
)
from tensorcontrast.cp import sketch
from tensorcontrast.cp.graph import cluster
from tensorcontrast.datasets import load_har, make_synthetic
from tensorcontrast.decompose.options import build
from tensorcontrast.evaluate.protocol import (
    Split,
    atd_har_split,
    label_budget,
    linear_probe,
    subject_split,
)
from tensorcontrast.solvers import als, gradient
from tensorcontrast.solvers.paper_als import PLCContrast
from tensorcontrast.solvers.tuning import TUNING

ITERATIONS, SEEDS, STARTS = 50, 4, 1


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


def _fit(T: np.ndarray, wanted: str, seed: int) -> tuple[Any, float]:
    """CPD of 50 iterations: "whole", on a "sketch" of the windows, or of their "cores".

    "cores alone" leaves out the two sweeps over whole windows that end a fit on cores.
    """
    model = build(
        CPD,
        rank=RANK,
        compress=None if wanted == "whole" else "auto",
        max_iter=ITERATIONS,
        tol=0,
        random_state=seed,
    )
    # "auto" fits arrays in memory as they are, and cores of what is read block by block.
    parts = np.array_split(T, 8)
    begin = time.perf_counter()
    if wanted == "cores alone":
        model._tuning = replace(TUNING, sketch=replace(TUNING.sketch, final_sweeps=0))
    model.fit((lambda: iter(parts)) if wanted.startswith("cores") else T)
    return model, time.perf_counter() - begin


def compressed_fit(name: str, T: np.ndarray, y: np.ndarray, splits: list[Split]) -> list[Row]:
    """Fits of 50 iterations with and without compression, passes included.

    Several starts a split: the accuracy of fits from different starts differs by more than what
    is asked about.
    """
    kinds = ("whole", "sketch", "cores", "cores alone")
    found: dict[str, list[tuple[float, float, float, float]]] = {kind: [] for kind in kinds}
    core: tuple[int, ...] = ()
    for seed, split in enumerate(splits):
        fitted = T[split.unlabelled]
        if seed == 0:
            _fit(fitted, "whole", 0)  # the first fit touches new memory
        for start in range(STARTS):
            for kind, results in found.items():
                model, seconds = _fit(fitted, kind, seed + SEEDS * start)
                results.append(
                    (seconds, model.reconstruction_error_, *accuracy(model.transform, T, y, split))
                )
                core = model.core_dims_ if kind == "cores" else core
    table = {kind: np.array(results) for kind, results in found.items()}
    whole = table["whole"]
    shape = "×".join(map(str, (len(splits[0].unlabelled), *T.shape[1:])))
    told = {
        "sketch": f"auto: a sketch of {sketch.TUNING.rows_per_rank * RANK} rows",
        "cores": f"cores {'×'.join(map(str, core))} and two sweeps, for data read block by block",
        "cores alone": "cores without these sweeps",
    }
    rows = []
    for kind, text in told.items():
        small, goal = table[kind], kind == "sketch"
        error = small[:, 1].mean() / whole[:, 1].mean() - 1
        differences = (small - whole)[:, 2:]
        spread = differences.std(axis=0, ddof=1) / np.sqrt(len(differences))
        rows += [
            Row(
                f"CPD fit of {ITERATIONS} iterations, whole / {text}; {name}, {shape}",
                whole[:, 0].min() / small[:, 0].min(),
                at_least=5 if goal else None,
            ),
            Row(
                f"reconstruction error against whole ({whole[:, 1].mean():.4f})",
                error,
                "relative",
                at_most=0.01 if goal else None,
            ),
        ]
        for k, (budget, value) in enumerate(
            zip(("60", "all"), differences.mean(axis=0), strict=True)
        ):
            rows.append(
                Row(
                    f"probe against whole ({whole[:, 2 + k].mean():.3f}), {budget} labels, "
                    f"± {spread[k]:.3f}",
                    value,
                    "accuracy",
                    at_least=-0.005 if goal else None,
                )
            )
    return [*rows, Row("CPD fit on a sketch", table["sketch"][:, 0].min(), "s")]


def compression() -> list[Row]:
    """HAR as 18×33×33, and recordings of the size of Sleep-EDF's as 14×129×86."""
    rec, make_split = har()
    assert rec.y is not None
    T = SpectrogramTensor.paper("har").fit_transform(rec.X)
    splits = [make_split(rec, seed=seed) for seed in range(SEEDS)]
    found = compressed_fit("HAR", T, rec.y, splits)
    del T
    sleep = make_synthetic(
        2200, 7, 3000, n_classes=5, n_subjects=20, noise=1.0, fs=100.0, random_state=0
    )
    assert sleep.y is not None
    T = SpectrogramTensor.paper("sleep-edf").fit_transform(sleep.X)
    splits = [subject_split(sleep, seed=seed) for seed in range(SEEDS)]
    return found + compressed_fit("synthetic signals as Sleep-EDF's", T, sleep.y, splits)


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
    default = ALS().max_iter
    for key, wanted, count in (
        ("brief", "auto", ITERATIONS),
        ("whole", None, ITERATIONS),
        ("long", "auto", default),
    ):
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            fitted = build(CPD, rank=RANK, compress=wanted, **(options | {"max_iter": count})).fit(
                X
            )
            times.append((time.perf_counter() - begin) / count)
        seconds[key], errors[key] = min(times), fitted.reconstruction_error_
    name = f"{n}×18×33×33, rank {RANK}"
    return [
        Row(
            f"TensorLy parafac (NumPy) / CPD, an iteration of a fit of {default}, all that the fit "
            f"does included, {name}",
            seconds["numpy"] / seconds["long"],
            at_least=100,
        ),
        Row(
            f"TensorLy parafac (NumPy) / CPD, an iteration of a fit of {ITERATIONS}",
            seconds["numpy"] / seconds["brief"],
        ),
        Row(
            f"TensorLy parafac (PyTorch) / CPD, an iteration of a fit of {default}",
            seconds["pytorch"] / seconds["long"],
            at_least=20,
        ),
        Row(
            "TensorLy parafac (NumPy) / CPD without compression, an iteration",
            seconds["numpy"] / seconds["whole"],
        ),
        Row(
            f"error of CPD after {ITERATIONS} iterations (TensorLy: {errors['numpy']:.4f})",
            errors["brief"] / errors["numpy"] - 1,
            "relative",
            at_most=0.01,
        ),
        Row(
            "error of CPD without compression",
            abs(errors["whole"] / errors["numpy"] - 1),
            "relative",
            at_most=2e-3,
        ),
    ]


def growth() -> list[Row]:
    """Time of a PLC iteration over rank and over tensor size, and the share of the clustering."""
    found = []
    base = plc_iteration(7352, (9, 33, 18))["iteration"]
    larger = plc_iteration(7352, (18, 33, 36))["iteration"]
    seconds = best_times({"base": base, "larger": larger})
    ratio = seconds["larger"] / seconds["base"]
    found.append(Row("PLC iteration, tensors of 4 times the size", ratio, at_least=2, at_most=4.6))
    small, wide = (_als_seconds(rank) for rank in (16, 64))
    found.append(Row("CPD iteration, rank 64 / rank 16", wide / small, at_most=4.6))
    return found + clustering()


def _als_seconds(rank: int) -> float:
    X = tensor(7352, (9, 33, 18))
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((d, rank)).astype(np.float32) for d in (9, 33, 18)]
    views, memory = als.Views.from_arrays(X, None), als.Memory()
    return best_times(
        {"one": lambda: als.sweep(views, factors, als.no_contrast, alpha=1e-3, memory=memory)}
    )["one"]


def clustering(n: int = 100_000) -> list[Row]:
    """Clustering with a warm start, as a share of an iteration or epoch that it is part of."""
    dims = (10, 19, 5)  # the core of HAR's tensors
    X = tensor(n, dims)
    V = X + np.random.default_rng(2).standard_normal(X.shape, dtype=np.float32) * (0.1 * X.std())
    views = als.Views.from_arrays(X, V)
    rng = np.random.default_rng(1)
    factors = [rng.standard_normal((d, RANK)).astype(np.float32) for d in dims]
    factors = [U / np.linalg.norm(U, axis=0) for U in factors]
    found = []
    for count, name in ((6, "iteration of Algorithm 1"), (100, "epoch of the descent")):
        contrast = PLCContrast(beta=0.03, gamma=1.0, n_clusters=count)
        memory = als.Memory()
        W = als.solve_features(views, factors, als.no_contrast, 1e-3, memory)[0].W
        _, centers = cluster(W, count)
        memory.centers = centers
        norms = gradient.squared_norms(views)
        descent = gradient.TiedContrast(contrast)
        memory.W = memory.V = None

        def work(
            count: int = count,
            memory: als.Memory = memory,
            contrast: PLCContrast = contrast,
            descent: gradient.TiedContrast = descent,
            norms: Any = norms,
        ) -> None:
            if count == 6:
                als.sweep(views, factors, contrast, alpha=1e-3, memory=memory)
            else:
                descent.epoch(
                    views,
                    factors,
                    gradient.Adam(0.0, 1),
                    alpha=1e-3,
                    memory=memory,
                    rng=np.random.default_rng(0),
                    norms=norms,
                )

        def again(count: int = count, W: np.ndarray = W, centers: Any = centers) -> None:
            cluster(W, count, centers=centers)

        seconds = best_times({"work": work, "cluster": again}, repeats=2)
        found.append(
            Row(
                f"{count} clusters as a share of an {name}, N = {n:,}",
                seconds["cluster"] / seconds["work"],
                "",
                at_most=0.2,
            )
        )
    return found


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

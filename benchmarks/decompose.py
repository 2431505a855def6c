"""Iterations of CPD and PLC against TensorLy, the bare matrix products, and growth in N."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import tensorly
from tensorly.decomposition import parafac

from benchmarks.common import Row, best_times
from tensorcontrast.cp import kernels
from tensorcontrast.solvers import als
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.solvers.paper_als import PLCContrast

RANK = 32


def tensor(n: int, dims: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random rank-32 rows (n, prod(dims)) with noise, mean squared norm 1, in float32."""
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((d, RANK)).astype(np.float32) for d in dims]
    H = kernels.khatri_rao([U / np.linalg.norm(U, axis=0) for U in factors])
    X = rng.standard_normal((n, RANK), dtype=np.float32) @ H.T
    X += rng.standard_normal(X.shape, dtype=np.float32) * (0.5 * X.std())
    X /= np.sqrt(kernels.row_norms_squared(X).mean()).astype(np.float32)
    return X


def start(dims: tuple[int, ...], seed: int = 1) -> list[np.ndarray]:
    """Random factors with columns of unit length."""
    rng = np.random.default_rng(seed)
    drawn = [rng.standard_normal((d, RANK)).astype(np.float32) for d in dims]
    return [U / np.linalg.norm(U, axis=0) for U in drawn]


def against_tensorly(n: int = 1500, dims: tuple[int, ...] = (18, 33, 33)) -> list[Row]:
    """One ALS iteration from the same start, and the errors after equal iterations."""
    X, factors = tensor(n, dims), start(dims)
    iterations = 3

    def ours(count: int) -> float:
        monitor = Monitor("CPD", max_iter=count, tol=0.0)
        als.run(
            als.Views.from_arrays(X, None),
            factors,
            als.no_contrast,
            alpha=0.0,
            warm_up=0,
            monitor=monitor,
            batch_size=None,
            step_size=1.0,
            rng=np.random.default_rng(0),
            memory=als.Memory(),
        )
        return monitor.history["reconstruction_error"][-1]

    def theirs(count: int) -> float:
        W = np.ones((n, RANK), dtype=np.float32)  # replaced by the first update
        model = tensorly.cp_tensor.CPTensor((None, [W, *factors]))
        _, errors = parafac(
            X.reshape(n, *dims), RANK, n_iter_max=count, init=model, tol=0, return_errors=True
        )
        return float(errors[-1])

    begin = time.perf_counter()
    error_theirs = theirs(iterations)
    slow = (time.perf_counter() - begin) / iterations
    error_ours = ours(iterations)
    H = kernels.khatri_rao(factors)
    W = X @ H
    seconds = best_times(
        {
            "one": lambda: ours(1),
            "many": lambda: ours(11),
            "products": lambda: (X @ H, W.T @ X),
        }
    )
    fast = (seconds["many"] - seconds["one"]) / 10
    name = f"{n}×{'×'.join(map(str, dims))}, rank {RANK}"
    return [
        Row(f"TensorLy parafac / one exact sweep of CPD, {name}", slow / fast),
        Row(
            "the most that can be: TensorLy parafac / the two matrix products of an iteration",
            slow / seconds["products"],
        ),
        Row("CPD, an iteration / its two matrix products", fast / seconds["products"]),
        Row(f"CPD, an iteration, {name}", fast, "s"),
        Row(f"TensorLy parafac, an iteration, {name}", slow, "s"),
        Row(
            f"difference of their errors after {iterations} iterations (error {error_ours:.4f})",
            abs(error_ours - error_theirs) / error_theirs,
            "relative",
            at_most=1e-3,
        ),
    ]


def plc_iteration(
    n: int, dims: tuple[int, ...], n_clusters: int = 6
) -> dict[str, Callable[[], None]]:
    """Return a whole PLC iteration and its four matrix products alone, ready to be timed."""
    X, factors = tensor(n, dims), start(dims)
    noise = np.random.default_rng(2).standard_normal(X.shape, dtype=np.float32)
    V = X + noise * (0.1 * X.std())
    views, memory = als.Views.from_arrays(X, V), als.Memory()
    contrast = PLCContrast(beta=0.03, gamma=1.0, n_clusters=n_clusters)
    state = {"factors": factors}
    H = kernels.khatri_rao(factors)
    W = np.ascontiguousarray(X @ H)

    def iteration() -> None:
        state["factors"] = als.sweep(views, state["factors"], contrast, alpha=1e-3, memory=memory)[
            0
        ]

    def products() -> None:
        X @ H
        V @ H
        W.T @ X
        W.T @ V

    for _ in range(3):
        iteration()  # first clustering without a warm start, first touch of memory
    return {"iteration": iteration, "products": products}


def against_products(n: int = 7352, dims: tuple[int, ...] = (18, 33, 33)) -> list[Row]:
    """Measure a whole PLC iteration against its four matrix products."""
    seconds = best_times(plc_iteration(n, dims))
    name = f"{n}×{'×'.join(map(str, dims))}"
    return [
        Row(
            f"PLC iteration / its four matrix products, {name}",
            seconds["iteration"] / seconds["products"],
            at_most=1.5,
        ),
        Row(f"PLC iteration, {name}", seconds["iteration"], "s"),
    ]


def growth(dims: tuple[int, ...] = (9, 33, 9)) -> list[Row]:
    """Time of a PLC iteration at 4N against N, for N from 5,000 to 80,000."""
    # All sizes take turns: what slows the machine for a while slows each of them.
    timed = {n: plc_iteration(n, dims)["iteration"] for n in (5_000, 20_000, 80_000)}
    seconds = best_times({str(n): task for n, task in timed.items()}, repeats=8)
    times = {n: seconds[str(n)] for n in timed}
    name = "×".join(map(str, dims))
    rows = [Row(f"PLC iteration, {n:,}×{name}", seconds, "s") for n, seconds in times.items()]
    for n in (5_000, 20_000):
        ratio = times[4 * n] / times[n]
        rows.append(
            Row(f"PLC iteration, N = {4 * n:,} / {n:,}, {name}", ratio, at_least=3.4, at_most=4.6)
        )
    return rows


def rows() -> list[Row]:
    """Measure everything."""
    return [*against_tensorly(), *against_products(), *growth()]

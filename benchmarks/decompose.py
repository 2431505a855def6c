"""Iterations of CPD and PLC against TensorLy, the bare matrix products, and growth in N."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import tensorly
from sklearn.exceptions import ConvergenceWarning
from tensorly.decomposition import parafac

from benchmarks.common import Row, best_times
from tensorcontrast import CPD, Algorithm1
from tensorcontrast.cp import kernels

#: Components, and iterations between two fits whose times are compared.
RANK, MORE = 32, 10


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
        model = CPD(
            RANK,
            alpha=1e-6,
            max_iter=count,
            tol=0.0,
            init=factors,
            center=False,
            scale=False,
        )
        return float(model.fit(X.reshape(n, *dims)).reconstruction_error_)

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
    n: int, dims: tuple[int, ...], n_clusters: int = 6, rank: int = RANK
) -> dict[str, Callable[[], None]]:
    """Return fits of Algorithm 1 with few and with more iterations, and their matrix products.

    The difference of the fits is ``MORE`` iterations.
    """
    X = tensor(n, dims)
    noise = np.random.default_rng(2).standard_normal(X.shape, dtype=np.float32)
    V = X + noise * (0.1 * X.std())
    H = kernels.khatri_rao(start(dims))
    W = np.ascontiguousarray(X @ H)

    def fit(count: int) -> None:
        model = Algorithm1(
            rank,
            n_clusters=n_clusters,
            max_iter=count,
            tol=0.0,
            random_state=0,
            warm_up=0,
        )
        model.fit(X.reshape(n, *dims), view=V.reshape(n, *dims))

    def products() -> None:
        X @ H
        V @ H
        W.T @ X
        W.T @ V

    return {"few": lambda: fit(1), "more": lambda: fit(1 + MORE), "products": products}


def seconds_an_iteration(timed: dict[str, float]) -> float:
    """Return the seconds of an iteration of what :func:`plc_iteration` gave to be timed."""
    return (timed["more"] - timed["few"]) / MORE


def against_products(n: int = 7352, dims: tuple[int, ...] = (18, 33, 33)) -> list[Row]:
    """Measure an iteration of Algorithm 1 against its four matrix products."""
    timed = best_times(plc_iteration(n, dims), repeats=2)
    seconds = seconds_an_iteration(timed)
    name = f"{n}×{'×'.join(map(str, dims))}"
    return [
        Row(
            f"iteration of Algorithm 1 / its four matrix products, {name}",
            seconds / timed["products"],
            at_most=1.5,
        ),
        Row(f"iteration of Algorithm 1, {name}", seconds, "s"),
    ]


def growth(dims: tuple[int, ...] = (9, 33, 9)) -> list[Row]:
    """Time of an iteration of Algorithm 1 at 4N against N, for N from 5,000 to 80,000."""
    times = {
        n: seconds_an_iteration(best_times(plc_iteration(n, dims), repeats=2))
        for n in (5_000, 20_000, 80_000)
    }
    name = "×".join(map(str, dims))
    rows = [
        Row(f"iteration of Algorithm 1, {n:,}×{name}", seconds, "s") for n, seconds in times.items()
    ]
    for n in (5_000, 20_000):
        ratio = times[4 * n] / times[n]
        rows.append(
            Row(f"the same, N = {4 * n:,} / {n:,}, {name}", ratio, at_least=3.4, at_most=4.6)
        )
    return rows


def rows() -> list[Row]:
    """Measure everything; iterations are fixed, so that some fits do not converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [*against_tensorly(), *against_products(), *growth()]

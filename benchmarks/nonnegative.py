"""Non-negative factors: ``python -m benchmarks.nonnegative [tensorly] [accuracy]``.

"tensorly" fits the same tensors from the same start with ``CPD(nonnegative=True)`` and with
TensorLy's ``non_negative_parafac_hals``, in one process: time per iteration as a ratio, and errors
after equal iterations and after equal time. "accuracy" judges what non-negative factors cost, by
the protocol of ``benchmarks.archive`` on its small sets: PLC and CPD with and without them, on
spectrograms alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning

from benchmarks import comparison
from benchmarks.archive import Factory, compare
from benchmarks.common import Row, show, write
from tensorcontrast import CPD, PLC, ContrastiveFeatures, Recordings, SpectrogramTensor
from tensorcontrast.cp import kernels
from tensorcontrast.datasets import make_cp_tensor

#: Sets of which a fit takes seconds.
SETS = ("BasicMotions", "Epilepsy", "GunPoint", "ItalyPowerDemand", "Libras", "RacketSports")
BASELINE = "PLC, both signs"


def tensorly_rows(n: int = 600, dims: tuple[int, ...] = (9, 33, 17), rank: int = 16) -> list[Row]:
    """Compare with TensorLy from the same start, without a ridge."""
    import tensorly
    from tensorly.decomposition import non_negative_parafac_hals

    X = make_cp_tensor(
        n, dims, rank, noise=0.5, nonnegative=True, dtype=np.float32, random_state=0
    )[0]
    X = np.maximum(X, 0)
    rng = np.random.default_rng(1)
    start = [np.abs(rng.standard_normal((d, rank))).astype(np.float32) for d in dims]
    features = np.abs(rng.standard_normal((n, rank))).astype(np.float32)
    size = float(np.linalg.norm(X))

    def ours(count: int) -> float:
        model = CPD(rank, alpha=0.0, max_iter=count, tol=0, init=start, nonnegative=True).fit(X)
        return float(model.reconstruction_error_)

    def theirs(count: int) -> float:
        init = tensorly.cp_tensor.CPTensor((None, [features, *(U.copy() for U in start)]))
        _, factors = non_negative_parafac_hals(X, rank, n_iter_max=count, init=init, tol=0)
        made = kernels.cp_to_flat(factors[0], factors[1:])
        return float(np.linalg.norm(X.reshape(n, -1) - made)) / size

    seconds = {"ours": [], "theirs": []}
    errors = {}
    for _ in range(2):  # in turns, so that load hits both
        for name, fit in (("ours", ours), ("theirs", theirs)):
            for count in (2, 12):
                begin = time.perf_counter()
                errors[name, count] = fit(count)
                seconds[name].append((count, time.perf_counter() - begin))
    step = {
        name: (min(s for c, s in found if c == 12) - min(s for c, s in found if c == 2)) / 10
        for name, found in seconds.items()
    }
    ratio = step["theirs"] / step["ours"]
    equal = ours(max(12, round(12 * ratio)))
    name = f"{n}×{'×'.join(map(str, dims))}, rank {rank}"
    return [
        Row(f"TensorLy / CPD(nonnegative=True), one iteration, {name}", ratio, at_least=1.0),
        Row("CPD, error after 12 iterations", errors["ours", 12], ""),
        Row("TensorLy, error after 12 iterations", errors["theirs", 12], ""),
        Row(
            "CPD / TensorLy, error after the time of 12 iterations of TensorLy",
            equal / errors["theirs", 12],
            at_most=1.001,
        ),
    ]


def candidates() -> dict[str, Factory]:
    """Return the estimators that are compared, all on spectrograms alone."""

    def make(decompose: Any, rec: Recordings, seed: int) -> ContrastiveFeatures:
        return ContrastiveFeatures(
            rec.fs,
            rec.channels,
            tensorize=SpectrogramTensor(n_quantiles=4),
            decompose=decompose,
            random_state=seed,
        )

    return {
        BASELINE: partial(make, PLC()),
        "CPD, both signs": partial(make, CPD()),
        "CPD, non-negative": partial(make, CPD(nonnegative=True)),
    }


def accuracy_rows(seeds: int, sets: list[str]) -> list[Row]:
    """Measure what non-negative factors cost, in points, mean over sets and seeds."""
    budgets = (30, "100%")
    found = compare(
        candidates(), sets=sets, seeds=seeds, budgets=budgets, baseline=BASELINE, console=Console()
    )
    rows = []
    for budget in budgets:
        accuracy = comparison.accuracies(found.cells, budget)
        for one, other in (("CPD, both signs", "CPD, non-negative"),):
            means = {
                name: np.mean([np.mean(list(own[name].values())) for own in accuracy.values()])
                for name in (one, other)
            }
            labels = "all labels" if budget == "100%" else f"{budget} labels"
            rows.append(Row(f"{one}: accuracy, {labels}", 100 * float(means[one]), "%"))
            cost = 100 * float(means[one] - means[other])
            rows.append(Row(f"{other}: cost, {labels}", cost, "points"))
    return rows


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nonnegative", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["tensorly", "accuracy", []])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    arguments = parser.parse_args()
    parts = arguments.parts or ["tensorly", "accuracy"]
    passed = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for part in parts:
            rows = (
                tensorly_rows()
                if part == "tensorly"
                else accuracy_rows(arguments.seeds, arguments.sets)
            )
            show(f"Non-negative factors, {part}", rows)
            write(f"nonnegative-{part}", rows)
            passed &= all(row.passed for row in rows)
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())

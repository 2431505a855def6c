"""The paper's propositions, measured on tensors of real windows: E13, E14, E17 and the cost.

Each function takes tensors of windows and of their augmented view, and returns plain numbers;
:func:`epoch_costs` takes the runs of the claims.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast import augment
from tensorcontrast.cp import kernels, losses, updates
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.cp.graph import SignedGraph
from tensorcontrast.cp.kmeans import cluster
from tensorcontrast.datasets import load_har
from tensorcontrast.decompose import CPD, PLC, Algorithm1
from tensorcontrast.errors import TensorContrastWarning
from tensorcontrast.evaluate.claims import ECG, HAR, claim_runs
from tensorcontrast.evaluate.methods import make_estimator
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor

__all__ = [
    "block_inequality",
    "contraction",
    "cost_exponent",
    "epoch_costs",
    "epsilon_region",
    "measure",
]

Array = NDArray[Any]

#: Iterations of the feature update over which the contraction is measured.
N_STEPS = 40
#: Change below which float64 shows rounding and no contraction.
ROUNDING = 1e-11


def contraction(
    X: Array, view: Array, *, rank: int, n_clusters: int, beta: float, gamma: float
) -> dict[str, float]:
    """Measure how fast the feature update converges, next to the bound of Proposition 1.

    The factors are those of a CPD. Each window has a bound of its own; it says something where it
    is below 1. Equation E13.

    Returns
    -------
    dict
        ``bounded``: share of windows whose bound is below 1; ``within``: share of these whose
        every step shrank the distance to the limit by the bound at least; ``measured`` and
        ``bound``: medians over these; ``converged``: share of all windows whose change shrank.
    """
    X, view = _scaled(X, view)
    factors = [np.asarray(U, np.float64) for U in _quietly(CPD(rank=rank), X).factors_]
    H = kernels.khatri_rao(factors)
    encoder = Encoder.from_factors(factors, 1e-3)
    P, V = X.reshape(len(X), -1) @ H, encoder(view.reshape(len(view), -1) @ H)
    W = encoder(P)
    graph = SignedGraph(cluster(W, n_clusters)[0])
    h = losses.plc_pull(losses.unit_rows(V)[0], graph, gamma)
    path = [W]
    for _ in range(N_STEPS):
        path.append(updates.fixed_point(path[-1], P, encoder, h, beta))
    norms = np.linalg.norm(path, axis=2)
    low, high = norms.min(axis=0), norms.max(axis=0)
    inverse = np.linalg.norm(np.linalg.inv(encoder.K), 2)
    bound = beta * (2 * low + high) * np.linalg.norm(h, axis=1) * inverse / low**3
    distance = np.linalg.norm(np.array(path[:-1]) - path[-1], axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(distance[:-1] > ROUNDING, distance[1:] / distance[:-1], 0.0)
    small = bound < 1
    inside = (ratio <= bound * (1 + 1e-6)).all(axis=0)
    steps = np.linalg.norm(np.diff(path, axis=0), axis=2)
    return {
        "n_windows": len(X),
        "beta": beta,
        "bounded": float(small.mean()),
        "within": float(inside[small].mean()) if small.any() else float("nan"),
        "measured": float(np.median(ratio[0][small])) if small.any() else float("nan"),
        "bound": float(np.median(bound[small])) if small.any() else float("nan"),
        "converged": float((steps[-1] < 1e-3 * steps[0]).mean()),
    }


def epsilon_region(
    X: Array, view: Array, *, rank: int, n_clusters: int, epsilon: float
) -> dict[str, float]:
    """Find the largest β whose error stays within (1 + ε) of the fit without contrast. E14."""
    plain, model = (
        _quietly(_algorithm1(rank, n_clusters, beta, epsilon), X, view) for beta in (0.0, "auto")
    )
    return {
        "epsilon": epsilon,
        "beta": float(model.beta_),
        "error_ratio": float(model.reconstruction_error_ / plain.reconstruction_error_),
    }


def block_inequality(X: Array, view: Array, *, rank: int, n_clusters: int) -> dict[str, float]:
    """Share of windows for which the block contrast is bounded by the pairwise one. E17.

    Returns
    -------
    dict
        ``holds``: that share; ``condition``: share of windows with P ≥ 0; ``equal``: share for
        which the inequality holds exactly where P ≥ 0.
    """
    model = _quietly(_algorithm1(rank, n_clusters), X, view)
    W, V = (np.asarray(model.transform(part), np.float64) for part in (X, view))
    graph = SignedGraph(np.asarray(model.labels_))
    block, pairwise = losses.block_contrast(W, V, graph)
    holds, positive = block <= pairwise, pairwise - block >= 0  # P + Q − (−P + Q) = 2P
    return {
        "holds": float(holds.mean()),
        "condition": float(positive.mean()),
        "equal": float((holds == positive).mean()),
    }


def _algorithm1(
    rank: int, n_clusters: int, beta: float | str = 0.03, epsilon: float = 0.05
) -> Algorithm1:
    return Algorithm1(
        rank=rank,
        n_clusters=n_clusters,
        beta=beta,
        epsilon=epsilon,
        max_iter=60,
        random_state=0,
    )


def cost_exponent(X: Array, view: Array, *, rank: int, n_clusters: int) -> dict[str, Any]:
    """Measure how the time of an iteration of Algorithm 1 grows with the number of windows."""
    counts: list[int] = []
    seconds: list[float] = []
    count = len(X)
    while count >= 200 and len(counts) < 4:
        model = PLC.paper(rank=rank, n_clusters=n_clusters, max_iter=6, tol=0.0)
        took = []
        for _ in range(2):
            begin = time.perf_counter()
            fitted = _quietly(model, X[:count], view[:count])
            took.append(float(np.min(fitted.history_["seconds"])))
            if time.perf_counter() - begin > 60:
                break
        counts.append(count)
        seconds.append(min(took))
        count //= 2
    slope = float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])
    return {"exponent": slope, "windows": counts, "seconds": seconds}


#: Methods whose epochs are timed, by the run that has their settings.
TIMED = (
    ("table", "CPD (mini-batch)"),
    ("table", "ATD (mini-batch)"),
    ("table", "PLC (mini-batch)"),
    ("table", "PLC (paper)"),
    ("deep", "SimCLR"),
    ("deep", "BYOL"),
    ("deep", "DeepTensor"),
)
#: Windows and epochs over which an epoch is timed.
TIMED_WINDOWS, TIMED_EPOCHS = 384, 3


def epoch_costs(sets: Sequence[str] = (HAR, ECG)) -> dict[str, Any]:
    """Measure processor seconds per epoch over the same windows, by data set and method.

    The time of the processor does not depend on what else the machine does. The first epoch, with
    what is set up once, does not count; of the others the fastest does.
    """
    runs = claim_runs(["table", "deep"])
    seconds: dict[str, dict[str, float]] = {}
    for label in sets:
        rec = runs["deep"].dataset(label).load()
        rows = np.random.default_rng(0).permutation(len(rec))[:TIMED_WINDOWS]
        for part, name in TIMED:
            benchmark = runs[part]
            marks: list[float] = []

            def mark(terms: dict[str, float], marks: list[float] = marks) -> None:
                marks.append(time.process_time())

            estimator = make_estimator(
                rec,
                benchmark.method(name),
                rank=benchmark.rank,
                seed=0,
                paper_set=benchmark.dataset(label).name,
                params={"max_iter": TIMED_EPOCHS},
            ).set_params(decompose__callback=mark)
            _quietly(estimator, rec.X[rows])
            seconds.setdefault(label, {})[name] = float(np.diff(marks).min())
    return {"windows": TIMED_WINDOWS, "seconds": seconds}


def _scaled(X: Array, view: Array) -> tuple[Array, Array]:
    """Both, centred and scaled to a mean squared norm of 1 per window."""
    mean = X.mean(axis=0, dtype=np.float64)
    X, view = X - mean, view - mean
    size = np.sqrt((X**2).sum() / len(X))
    return X / size, view / size


def _quietly(model: Any, *data: Array) -> Any:
    """Fit without the warning that the last iteration was reached."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TensorContrastWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(data[0], view=data[1]) if len(data) > 1 else model.fit(data[0])


# --------------------------------------------------------------------------- measured once


#: Windows of HAR that the propositions are measured on.
N_WINDOWS = 1000
#: Weights of the contrast, as sums over windows, at which the contraction is measured.
BETAS = (1e-4, 1e-3, 1e-2)
#: What :func:`measure` measures, in this order.
MEASURED = ("contraction", "region", "blocks", "cost", "epochs")


def measure(path: Path, progress: Callable[[str], object] | None = None) -> dict[str, Any]:
    """Return the measurements on HAR, read from a file or computed and kept there one by one."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    todo = [name for name in MEASURED if name not in found]
    if not todo:
        return found
    X, view = _paper_tensors()
    given: dict[str, Any] = {"rank": 32, "n_clusters": 6}
    makers: dict[str, Callable[[], Any]] = {
        "contraction": lambda: {
            "rows": [contraction(X, view, beta=beta, gamma=1.0, **given) for beta in BETAS]
        },
        "region": lambda: epsilon_region(X, view, epsilon=0.05, **given),
        "blocks": lambda: block_inequality(X, view, **given),
        "cost": lambda: cost_exponent(X, view, **given),
        "epochs": epoch_costs,
    }
    for name in todo:
        if progress is not None:
            progress(name)
        found[name] = makers[name]()
        with atomic_write(path) as stream:
            stream.write(json.dumps(found).encode())
    return found


def _paper_tensors() -> tuple[Array, Array]:
    """Tensors of some windows of HAR and of their augmented view, both as in the paper."""
    rec = load_har(download=False)
    rows = np.random.default_rng(0).permutation(len(rec))[:N_WINDOWS]
    signals = rec.X[np.sort(rows)]
    tensorize = SpectrogramTensor.paper("har", fs=rec.fs).fit(signals)
    changed = augment.paper("har", fs=rec.fs, channels=rec.channels)(
        signals, np.random.default_rng(0)
    )
    return np.asarray(tensorize.transform(signals)), np.asarray(tensorize.transform(changed))

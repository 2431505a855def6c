"""What the paper's figures show next to accuracies: a fit's stages, and graphs of several seeds.

A fit ends when its callback says so, and everything in it is seeded. So a stage is the same fit,
ended after fewer iterations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from tensorcontrast.cp.kmeans import cluster
from tensorcontrast.evaluate.benchmark import Benchmark, Dataset, Fitted, fit
from tensorcontrast.evaluate.methods import Method, make_estimator
from tensorcontrast.evaluate.protocol import linear_probe
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils import threads

__all__ = ["PIECES", "collect"]

Array = NDArray[Any]
IntArray = NDArray[np.int64]

#: Windows of a drawn graph, and of a t-SNE.
GRAPH_WINDOWS, TSNE_WINDOWS = 180, 500

#: Seeds of the decomposition whose graphs are compared.
GRAPH_SEEDS = (0, 1, 2, 3)


def collect(benchmark: Benchmark, dataset: Dataset, method: Method, piece: str) -> dict[str, Any]:
    """Compute arrays for the figures: "stages" or "seeds" of PLC on a data set."""
    rec = dataset.load()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays = PIECES[piece](rec, benchmark, dataset, method)
    arrays["classes"] = np.array(rec.classes or [str(c) for c in range(rec.n_classes)])
    return arrays


def _fit(
    rec: Recordings,
    benchmark: Benchmark,
    dataset: Dataset,
    method: Method,
    rows: IntArray,
    seed: int,
    callback: Callable[[dict[str, float]], object] | None = None,
) -> Fitted:
    estimator = make_estimator(
        rec, method, rank=benchmark.rank, seed=seed, paper_set=dataset.name
    ).set_params(decompose__callback=callback)
    return fit(estimator, rec.X[rows])


def _pseudo(fitted: Fitted, W: Array, count: int) -> IntArray:
    """Pseudo classes of the fitted windows; a stage before the contrast is clustered likewise."""
    if len(fitted.model.labels_) == len(W):
        return np.asarray(fitted.model.labels_, dtype=np.int64)
    return np.asarray(cluster(W, count)[0], dtype=np.int64)


def _graph_rows(y: IntArray, seed: int = 0) -> IntArray:
    """Positions of a few labelled windows, the same share of every class, ordered by class."""
    labelled = np.flatnonzero(y >= 0)
    drawn = np.random.default_rng(seed).permutation(labelled)[:GRAPH_WINDOWS]
    return drawn[np.argsort(y[drawn], kind="stable")]


def _ari(y: IntArray, pseudo: IntArray) -> float:
    known = y >= 0
    return float(adjusted_rand_score(y[known], pseudo[known]))


def _stages(
    rec: Recordings, benchmark: Benchmark, dataset: Dataset, method: Method
) -> dict[str, Any]:
    """Accuracy, error and pseudo graph over the iterations of the first seed's fit."""
    assert rec.y is not None
    seed = benchmark.seeds[0]
    split = dataset.splits(rec, seed, benchmark.draws)[0]
    y, X = rec.y[split.unlabelled], rec.X[split.unlabelled]
    about = rec, benchmark, dataset, method, split.unlabelled, seed
    whole = _fit(*about)
    history = whole.model.history_
    count = int(whole.model.labels_.max()) + 1
    contrast = np.isfinite(history.get("contrast", [np.nan] * len(history["iteration"])))
    chosen = _chosen_iterations(contrast)
    rows = _graph_rows(y)
    out: dict[str, list[Any]] = {k: [] for k in ("error", "accuracy", "pseudo", "ari")}
    features = []
    for iteration in chosen:
        stage = whole
        if iteration < len(contrast):
            stage = _fit(*about, _stop_after(iteration))
        features.append(np.asarray(stage.estimator.transform(X)))
        pseudo = _pseudo(stage, features[-1], count)
        train, test = (stage.estimator.transform(rec.X[at]) for at in (split.train, split.test))
        result = linear_probe(train, rec.y[split.train], test, rec.y[split.test])
        out["error"].append(stage.model.reconstruction_error_)
        out["accuracy"].append(result.accuracy)
        out["pseudo"].append(pseudo[rows])
        out["ari"].append(_ari(y, pseudo))
    shown = np.sort(np.random.default_rng(0).permutation(len(y))[:TSNE_WINDOWS])
    return {
        "iteration": chosen,
        "phase": np.where(contrast[np.array(chosen) - 1], "contrast", "cpd"),
        "reconstruction_error": out["error"],
        "accuracy": out["accuracy"],
        "ari": out["ari"],
        "curve_iteration": history["iteration"],
        "curve_error": history["reconstruction_error"],
        "y": y[rows],
        "pseudo": np.array(out["pseudo"]),
        "tsne_start": _tsne(features[0][shown]),
        "tsne_end": _tsne(features[-1][shown]),
        "tsne_y": y[shown],
    }


def _chosen_iterations(contrast: NDArray[np.bool_]) -> list[int]:
    """Which iterations to look at: ever more apart, in each phase, and the last of each.

    Examples
    --------
    >>> _chosen_iterations(np.array([False] * 9 + [True] * 6))
    [1, 2, 4, 9, 10, 11, 15]
    """
    total = len(contrast)
    before = int(np.flatnonzero(contrast)[0]) if contrast.any() else total
    picked = set()
    for begin, end in ((0, before), (before, total)):
        step = 1
        while begin + step < end - step // 2:
            picked.add(begin + step)
            step *= 2
        if end > begin:
            picked.add(end)
    return sorted(picked)


def _stop_after(iteration: int) -> Callable[[dict[str, float]], bool]:
    def stop(terms: dict[str, float]) -> bool:
        return terms["iteration"] >= iteration

    return stop


def _tsne(features: Array) -> NDArray[np.float32]:
    scaled = StandardScaler().fit_transform(features)
    perplexity = min(30.0, max(1.0, (len(scaled) - 1) / 3))
    model = TSNE(2, perplexity=perplexity, init="pca", random_state=0)
    with threads.single("openmp"):  # repeatable, and no threads that wait for each other
        return np.asarray(model.fit_transform(scaled), dtype=np.float32)


def _seeds(
    rec: Recordings, benchmark: Benchmark, dataset: Dataset, method: Method
) -> dict[str, Any]:
    """Pseudo graphs of the same windows under other seeds of the decomposition."""
    assert rec.y is not None
    split = dataset.splits(rec, benchmark.seeds[0], benchmark.draws)[0]
    y = rec.y[split.unlabelled]
    rows = _graph_rows(y)
    about = rec, benchmark, dataset, method, split.unlabelled
    found = [np.asarray(_fit(*about, seed).model.labels_) for seed in GRAPH_SEEDS]
    return {
        "seeds": np.array(GRAPH_SEEDS),
        "y": y[rows],
        "pseudo": np.array([labels[rows] for labels in found]),
        "ari": np.array([[adjusted_rand_score(a, b) for b in found] for a in found]),
        "ari_true": np.array([_ari(y, labels) for labels in found]),
    }


PIECES: dict[str, Callable[..., dict[str, Any]]] = {"stages": _stages, "seeds": _seeds}

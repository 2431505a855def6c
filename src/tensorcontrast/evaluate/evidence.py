"""What the paper's figures show next to accuracies: a fit's stages, and graphs of several seeds.

A fit ends when its callback says so, and everything in it is seeded. So a stage is the same fit,
ended after fewer iterations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from tensorcontrast.cp.graph import cluster
from tensorcontrast.evaluate import store
from tensorcontrast.evaluate.artefacts import make_folder
from tensorcontrast.evaluate.config import BenchConfig, MethodConfig
from tensorcontrast.evaluate.data import splits
from tensorcontrast.evaluate.methods import Fitted, build, fit
from tensorcontrast.evaluate.protocol import Split, linear_probe
from tensorcontrast.evaluate.run import PROBLEM, artefact, write_npz
from tensorcontrast.evaluate.scoring import Task
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils import threads
from tensorcontrast.utils.estimators import changed

__all__ = ["PIECES", "collect", "has_stages"]

Array = NDArray[Any]
IntArray = NDArray[np.int64]

#: Windows of a drawn graph, and of a t-SNE.
GRAPH_WINDOWS, TSNE_WINDOWS = 180, 1000

#: Seeds of the decomposition whose graphs are compared.
GRAPH_SEEDS = (0, 1, 2, 3)


def has_stages(method: MethodConfig) -> bool:
    """Whether a method's own graph is of interest: PLC as it is, without labels or changes."""
    plain = method.labels_in_graph == "no" and not method.params and method.tune is None
    return method.name in ("plc", "plc-paper") and plain


def collect(rec: Recordings, task: Task, piece: str, folder: Path) -> bool:
    """Compute a piece of evidence and write it to its file; true where that failed.

    An error is written next to, and the next run tries again.
    """
    path = artefact(folder, task.dataset.label, task.method.label, f"{piece}.npz")
    problem = path.with_suffix(PROBLEM)
    make_folder(path.parent)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays = PIECES[piece](rec, task)
    except Exception as error:
        store.write_json(problem, {"message": f"{type(error).__name__}: {error}"[:2000]})
        return True
    arrays["classes"] = np.array(rec.classes or [str(c) for c in range(rec.n_classes)])
    write_npz(path, arrays)
    problem.unlink(missing_ok=True)
    return False


def _split(rec: Recordings, task: Task) -> Split:
    return splits(rec, task.dataset, task.config, task.config.seeds[0])[0]


def _fit(
    rec: Recordings,
    task: Task,
    rows: IntArray,
    seed: int,
    callback: Callable[[dict[str, float]], object] | None = None,
) -> Fitted:
    estimator = build(rec, task.config, task.dataset, task.method, seed)
    if callback is not None:
        estimator.decompose = changed(estimator.decompose, callback=callback)
    return fit(estimator, rec.X[rows])


def _pseudo(fitted: Fitted, count: int) -> IntArray:
    """Pseudo classes of the fitted windows; a stage before the contrast is clustered likewise."""
    model = fitted.model
    if model.solver == "gls":  # its contrast comes after the last iteration
        begun = model.n_clusters_ > 0
    else:
        contrast = model.history_.get("contrast", [])
        begun = bool(contrast) and bool(np.isfinite(contrast[-1]))
    if begun:
        return np.asarray(model.labels_, dtype=np.int64)
    return np.asarray(cluster(model.features_, count, seed=0)[0], dtype=np.int64)


def _graph_rows(y: IntArray, seed: int = 0) -> IntArray:
    """Positions of a few labelled windows, the same share of every class, ordered by class."""
    labelled = np.flatnonzero(y >= 0)
    drawn = np.random.default_rng(seed).permutation(labelled)[:GRAPH_WINDOWS]
    return drawn[np.argsort(y[drawn], kind="stable")]


def _ari(y: IntArray, pseudo: IntArray) -> float:
    known = y >= 0
    return float(adjusted_rand_score(y[known], pseudo[known]))


# ------------------------------------------------------------------------------------ stages


def _stages(rec: Recordings, task: Task) -> dict[str, Any]:
    """Accuracy, error and pseudo graph over the iterations of the first seed's fit."""
    assert rec.y is not None
    split, seed = _split(rec, task), task.config.seeds[0]
    y = rec.y[split.unlabelled]
    whole = _fit(rec, task, split.unlabelled, seed)
    history = whole.history
    count = int(whole.model.labels_.max()) + 1
    contrast = np.isfinite(history.get("contrast", [np.nan] * len(history["iteration"])))
    chosen = _chosen_iterations(contrast)
    rows = _graph_rows(y)
    out: dict[str, list[Any]] = {k: [] for k in ("error", "accuracy", "pseudo", "ari")}
    first: Fitted | None = None
    for iteration in chosen:
        stage = whole
        if iteration < len(contrast):
            stage = _fit(rec, task, split.unlabelled, seed, _stop_after(iteration))
        first = first or stage
        pseudo = _pseudo(stage, count)
        train, test = (stage.transform(rec.X[part]) for part in (split.train, split.test))
        result = linear_probe(train, rec.y[split.train], test, rec.y[split.test])
        out["error"].append(stage.model.reconstruction_error_)
        out["accuracy"].append(result.accuracy)
        out["pseudo"].append(pseudo[rows])
        out["ari"].append(_ari(y, pseudo))
    assert first is not None
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
        "tsne_start": _tsne(first.model.features_[shown]),
        "tsne_end": _tsne(whole.model.features_[shown]),
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
    from sklearn.manifold import TSNE
    from sklearn.preprocessing import StandardScaler

    scaled = StandardScaler().fit_transform(features)
    perplexity = min(30.0, max(1.0, (len(scaled) - 1) / 3))
    model = TSNE(2, perplexity=perplexity, init="pca", random_state=0)
    with threads.single("openmp"):  # repeatable, and no threads that wait for each other
        return np.asarray(model.fit_transform(scaled), dtype=np.float32)


# ------------------------------------------------------------------------------------- seeds


def _seeds(rec: Recordings, task: Task) -> dict[str, Any]:
    """Pseudo graphs of the same windows under other seeds of the decomposition."""
    assert rec.y is not None
    split = _split(rec, task)
    y = rec.y[split.unlabelled]
    rows = _graph_rows(y)
    found = [
        np.asarray(_fit(rec, task, split.unlabelled, seed).model.labels_) for seed in GRAPH_SEEDS
    ]
    return {
        "seeds": np.array(GRAPH_SEEDS),
        "y": y[rows],
        "pseudo": np.array([labels[rows] for labels in found]),
        "ari": np.array([[adjusted_rand_score(a, b) for b in found] for a in found]),
        "ari_true": np.array([_ari(y, labels) for labels in found]),
    }


#: What can be computed, by the name in configurations.
PIECES: dict[str, Callable[[Recordings, Task], dict[str, Any]]] = {
    "stages": _stages,
    "seeds": _seeds,
}


def pieces_of(config: BenchConfig) -> list[tuple[str, str, str]]:
    """Return all evidence that a run asks for, by (data set, method, piece)."""
    return [
        (dataset.label, method.label, piece)
        for dataset in config.datasets
        for method in config.methods
        for piece in config.evidence
        if has_stages(method)
    ]

"""A few labels in the pseudo graph: what class each sample is likely to be of, and how surely.

Class means with a shared, shrunk covariance give posteriors of all samples from the few that
have a label; a temperature chosen by cross-validation among these makes the posteriors honest;
the samples of a cluster share what they are held for. Whoever is sure enough counts as known, with
its certainty as weight, and everybody else is joined by cluster alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf

from tensorcontrast import checks, labels
from tensorcontrast.decompose.graph import class_sums, cluster_space
from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]
IntArray = NDArray[np.intp]

#: Certainty from which a sample counts as one of its class.
SURE = 0.8
#: Temperatures that cross-validation chooses from.
TEMPERATURES = np.array([1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0])
_FOLDS = 5
#: Share of the samples that have labels from which there are many.
MANY = 0.1


def many(known: IntArray | None) -> bool:
    """Whether many of the samples have labels, −1 for none."""
    return known is not None and float((known >= 0).mean()) >= MANY


def given_labels(
    y: Any, n_samples: int, *, needed: bool, streaming: bool = False
) -> IntArray | None:
    """Labels y of ``fit`` that take part in the graph, −1 for unknown; None for none.

    Where the graph is made of labels they are ``needed``. Otherwise labels take part where some
    are unknown; without any unknown they are for somebody else, such as the classifier at the end
    of a pipeline, and whoever calls ``fit`` with them is told.
    """
    labels.check_length(y, n_samples)
    if y is None:
        if not needed:
            return None
        raise InvalidInputError(
            "PLC(graph='true') makes its graph from labels: call fit(X, y), with "
            f"{labels.UNKNOWN} for unknown, or use graph='pseudo'"
        )
    if not needed and labels.is_target(y):
        labels.warn_unused("PLC does not use y, which holds numbers that are not classes; fit(X)")
        return None
    read = labels.read_labels(y, n_samples)
    if not streaming:
        read.check_signs()
    if needed and not len(read.classes):
        raise InvalidInputError(
            "PLC(graph='true') got only unknown labels: pass some, or graph='pseudo'"
        )
    if needed or (read.n_unknown and len(read.classes)):
        return read.codes
    if read.n_unknown:
        if not streaming:
            checks.warn("y holds no known label; the features are learned without labels")
        return None
    shown = ", ".join(repr(c)[:20] for c in read.classes[:4].tolist())
    labels.warn_unused(
        f"PLC does not use y: every window has a label ({shown}{', …' * (len(read.classes) > 4)}), "
        f"and labels take part where some are unknown ({labels.UNKNOWN}). Pass graph='true' to "
        "use all of them, or call fit(X)"
    )
    return None


def log_likelihoods(Z: Array, seeds: Array, classes: IntArray, n_classes: int) -> Array:
    """Log density (n, c) of each row of Z in each class, up to a constant a row.

    Classes are normal with means of the ``seeds`` (m, r) of that class and a common covariance,
    shrunk after Ledoit and Wolf. Classes without a seed have −inf.
    """
    counts = np.bincount(classes, minlength=n_classes)
    means = class_sums(classes, seeds, n_classes) / np.maximum(counts, 1)[:, None]
    within = (seeds - means[classes]).astype(np.float64)
    if len(seeds) > len(np.unique(classes)):
        covariance, _ = ledoit_wolf(within, assume_centered=True)
    else:  # one seed a class tells nothing of the spread: features have unit variance
        covariance = np.eye(Z.shape[1])
    size = np.trace(covariance) / len(covariance)
    covariance[np.diag_indices_from(covariance)] += 1e-3 * max(float(size), 1e-6)
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    rows, centres = Z @ root.T, means @ root.T
    out = rows @ centres.T - 0.5 * np.einsum("ij,ij->i", centres, centres)
    out[:, counts == 0] = -np.inf
    return np.asarray(out, dtype=np.float64)


def _log_softmax(scores: Array) -> Array:
    peak = scores.max(axis=1, keepdims=True)
    return scores - peak - np.log(np.exp(scores - peak).sum(axis=1, keepdims=True))


def honest_temperature(seeds: Array, classes: IntArray, n_classes: int) -> float:
    """Temperature at which seeds left out of the estimate are predicted with the best likelihood.

    Seeds are left out in folds, each class spread over all of them.
    """
    order = np.argsort(classes, kind="stable")
    fold = np.empty(len(seeds), dtype=np.intp)
    fold[order] = np.arange(len(seeds)) % _FOLDS
    score = np.zeros(len(TEMPERATURES))
    for k in range(_FOLDS):
        rest, out = fold != k, fold == k
        known = np.isin(classes[out], classes[rest])
        if not known.any() or not rest.any():
            continue
        raw = log_likelihoods(seeds[out][known], seeds[rest], classes[rest], n_classes)
        truth = classes[out][known]
        for t, temperature in enumerate(TEMPERATURES):
            score[t] += _log_softmax(raw / temperature)[np.arange(len(truth)), truth].sum()
    return float(TEMPERATURES[int(np.argmax(score))]) if score.any() else float(TEMPERATURES[-1])


def beliefs(W: Array, clusters: IntArray, known: IntArray) -> tuple[IntArray, Array]:
    """Class of each sample, −1 where it is not sure, and the certainty of it (n,).

    Parameters
    ----------
    W : (n, r) array
        Features.
    clusters : (n,) int array
        Cluster of each sample.
    known : (n,) int array
        Labels, −1 for unknown.

    Returns
    -------
    classes : (n,) int array
        The label where there is one; else the likely class, or −1.
    weights : (n,) array
        1 where there is a label, 0 where the class is −1.
    """
    at = np.flatnonzero(known >= 0)
    n_classes = int(known.max()) + 1
    if len(np.unique(known[at])) < 2:  # one class tells nothing of the others
        return known.copy(), (known >= 0).astype(W.dtype)
    Z = cluster_space(W)
    temperature = honest_temperature(Z[at], known[at], n_classes)
    raw = log_likelihoods(Z, Z[at], known[at], n_classes)
    there = np.bincount(known[at], minlength=n_classes) > 0
    own = _log_softmax(raw[:, there] / temperature)
    count = int(clusters.max()) + 1
    sizes = np.maximum(np.bincount(clusters, minlength=count), 1)[:, None]
    shared = class_sums(clusters, own, count) / sizes
    posterior = np.exp(_log_softmax(0.5 * (own + shared[clusters])))
    best = posterior.argmax(axis=1)
    certainty = posterior[np.arange(len(Z)), best]
    sure = certainty >= SURE
    classes = np.where(sure, np.flatnonzero(there)[best], -1).astype(np.intp)
    classes[at] = known[at]
    weights = np.where(sure, certainty, 0.0).astype(W.dtype)
    weights[at] = 1.0
    return classes, weights

"""A few labels in the pseudo graph: the windows whose class is known, or nearly certain.

A linear discriminant analysis with a shrunken covariance is fitted to the labelled windows. A
window whose posterior probability is high counts as one of its class, with that probability as its
weight; all others are joined by their cluster alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf

from tensorcontrast.cp.kmeans import class_sums, cluster_space
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks, labels

Array = NDArray[Any]
IntArray = NDArray[np.intp]

MIN_POSTERIOR = 0.95
"""Posterior probability from which a window counts as one of its class."""


def given_labels(y: Any, n_samples: int, *, needed: bool) -> IntArray | None:
    """Labels y of ``fit`` that take part in the graph, −1 for unknown; None for none.

    Where the graph is made of labels they are ``needed``. Otherwise labels take part where some
    are unknown; without any unknown they are for somebody else, such as the classifier at the end
    of a pipeline, and a warning says that they are not used.
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
    read.check_signs()
    if needed and not len(read.classes):
        raise InvalidInputError(
            "PLC(graph='true') got only unknown labels: pass some, or graph='pseudo'"
        )
    if needed or (read.n_unknown and len(read.classes)):
        return read.codes
    if read.n_unknown:
        checks.warn("y holds no known label; the features are learned without labels")
        return None
    shown = ", ".join(repr(c)[:20] for c in read.classes[:4].tolist())
    labels.warn_unused(
        f"PLC does not use y: every window has a label ({shown}{', …' * (len(read.classes) > 4)}), "
        f"and labels take part where some are unknown ({labels.UNKNOWN}). Pass graph='true' to "
        "use all of them, or call fit(X)"
    )
    return None


def lda_posteriors(Z: Array, labelled: Array, classes: IntArray) -> Array:
    """Posterior probabilities (n, c) of each row of Z (n, r) in each class.

    Classes are normal, with the means of their labelled rows and a common covariance that is pooled
    over the classes and shrunken after Ledoit and Wolf. All are as likely as each other: how many
    labels a class has says little about the windows. A class of few labels has an uncertain mean,
    which widens its distribution: the squared distance to the mean of m rows is divided by 1 + 1/m.
    """
    count = int(classes.max()) + 1
    sizes = np.bincount(classes, minlength=count)
    means = class_sums(classes, Z[labelled], count) / sizes[:, None]
    covariance, _ = ledoit_wolf(Z[labelled] - means[classes], assume_centered=True)
    covariance *= len(classes) / max(len(classes) - count, 1)  # means were estimated as well
    covariance[np.diag_indices_from(covariance)] += 1e-3
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    rows, centres = Z @ root.T, means @ root.T
    squared = ((rows[:, None] - centres) ** 2).sum(axis=2) / (1 + 1 / sizes)
    scores = -0.5 * squared - 0.5 * Z.shape[1] * np.log1p(1 / sizes)
    scores -= scores.max(axis=1, keepdims=True)
    likelihood = np.exp(scores)
    return np.asarray(likelihood / likelihood.sum(axis=1, keepdims=True))


def likely_classes(W: Array, known: IntArray) -> tuple[IntArray, Array]:
    """Class of each window, −1 where it is uncertain, and the certainty of it (n,).

    Parameters
    ----------
    W : (n, r) array
        Features.
    known : (n,) int array
        Labels, −1 for unknown.

    Returns
    -------
    classes : (n,) int array
        The label where there is one; else the class of the highest posterior, or −1.
    weights : (n,) array
        1 where there is a label, the posterior where the class is inferred, 0 elsewhere.
    """
    labelled = known >= 0
    n_labels, n_classes = np.count_nonzero(labelled), len(np.unique(known[labelled]))
    if n_classes < 2 or n_labels <= n_classes:  # no spread within classes to learn from
        return known.copy(), labelled.astype(W.dtype)
    names, codes = np.unique(known[labelled], return_inverse=True)
    posterior = lda_posteriors(np.asarray(cluster_space(W), dtype=np.float64), labelled, codes)
    best = posterior.argmax(axis=1)
    certainty = posterior[np.arange(len(W)), best]
    sure = certainty >= MIN_POSTERIOR
    classes = np.where(sure, names[best], -1).astype(np.intp)
    weights = np.where(sure, certainty, 0.0).astype(W.dtype)
    classes[labelled], weights[labelled] = known[labelled], 1.0
    return classes, weights

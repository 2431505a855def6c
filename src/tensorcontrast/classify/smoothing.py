"""Neighbouring windows of a recording: a hidden Markov model of their classes.

From window to window a recording keeps its class with probability a, and otherwise draws one from
the class shares π: P(j | i) = a·[i = j] + (1 − a)·π_j. This one number is learned from labels that
are any number of windows apart, so that a few scattered ones are enough. Where labelled windows
follow each other directly, their counts correct this matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

__all__ = [
    "dwell_matrix",
    "learn_transitions",
    "posterior",
    "runs_of",
    "transition_matrix",
    "viterbi",
]

Array = NDArray[Any]

#: Probabilities of keeping the class that are tried.
STAYS = 1 - np.geomspace(0.5, 1e-3, 60)
#: Pairs of neighbouring windows, per class, that the matrix of one number counts as.
PRIOR_PAIRS = 20.0


def runs_of(
    recording: Array, start: Array | None, n_times: int | None = None
) -> Iterator[NDArray[np.intp]]:
    """Positions of windows that follow each other, one array per unbroken run.

    Parameters
    ----------
    recording : (n,) array
        Recording of each window.
    start : (n,) array, optional
        First sample of each window; without it, windows are in the order of time.
    n_times : int, optional
        Samples of a window. A later window that begins after the end of the one before starts a
        new run.

    Examples
    --------
    >>> start = np.array([0, 10, 40, 0])
    >>> [run.tolist() for run in runs_of(np.array(["a", "a", "a", "b"]), start, 10)]
    [[0, 1], [2], [3]]
    """
    names, code = np.unique(recording, return_inverse=True)
    for k in range(len(names)):
        at = np.flatnonzero(code == k)
        if start is None:
            yield at
            continue
        at = at[np.argsort(start[at], kind="stable")]
        breaks = np.flatnonzero(np.diff(start[at]) > (n_times or np.inf)) + 1
        yield from np.split(at, breaks)


def transition_matrix(stay: float, prior: Array) -> Array:
    """P(j | i) of classes i, j of neighbouring windows, (k, k)."""
    return np.asarray(stay * np.eye(len(prior)) + (1 - stay) * prior)


def dwell_matrix(dwell: float, prior: Array) -> Array:
    """P(j | i) (k, k) with which every class lasts ``dwell`` windows in the mean.

    The next class is another one, by the shares of the others.

    Examples
    --------
    >>> dwell_matrix(4.0, np.array([0.5, 0.25, 0.25]))[0].tolist()
    [0.75, 0.125, 0.125]
    """
    out = np.outer(1 / (1 - prior), prior) / dwell
    np.fill_diagonal(out, 1 - 1 / dwell)
    return out


def learn_transitions(
    runs: list[NDArray[np.intp]], codes: Array, prior: Array
) -> tuple[float | None, Array | None]:
    """Probability of keeping the class, and P(j | i) (k, k), from the labels of windows.

    The first is that of maximum likelihood for neighbouring labels of a run, however many windows
    apart: the class has been kept over m windows with probability a^m + (1 − a^m)·π. With P its
    :func:`transition_matrix` and N the counts of labelled windows that follow each other directly,
    row i of the second is N_i + 20·P_i, divided by its sum: the mean of a Dirichlet posterior. Both
    are None where no run has two labels.

    Parameters
    ----------
    runs : list of int arrays
        Windows that follow each other; see :func:`runs_of`.
    codes : (n,) int array
        Class of each window, −1 for unknown.
    prior : (k,) array
        Share π of each class.
    """
    pairs = [
        (b - a, codes[run[a]], codes[run[b]])
        for run in runs
        for a, b in pairwise(np.flatnonzero(codes[run] >= 0).tolist())
    ]
    if not pairs:
        return None, None
    m, i, j = np.array(pairs, dtype=np.intp).T
    kept = STAYS[:, None] ** m  # tried, pairs
    likelihood = kept * (i == j) + (1 - kept) * prior[j]
    stay = float(STAYS[np.log(likelihood).sum(axis=1).argmax()])
    counts = PRIOR_PAIRS * transition_matrix(stay, prior)
    np.add.at(counts, (i[m == 1], j[m == 1]), 1)
    return stay, np.asarray(counts / counts.sum(axis=1, keepdims=True))


def viterbi(log_likelihood: Array, transitions: Array, prior: Array) -> NDArray[np.intp]:
    """Most likely classes of a run of windows.

    Parameters
    ----------
    log_likelihood : (n, k) array
        Of each window under each class, up to a constant per window.
    transitions : (k, k) array
        P(j | i) of classes i, j of neighbouring windows.
    prior : (k,) array
        Share of each class.
    """
    transitions = np.log(transitions)
    n, k = log_likelihood.shape
    best = np.log(prior) + log_likelihood[0]
    origin = np.zeros((n, k), dtype=np.intp)
    for t in range(1, n):
        paths = best[:, None] + transitions  # from, to
        origin[t] = paths.argmax(axis=0)
        best = paths.max(axis=0) + log_likelihood[t]
    path = np.empty(n, dtype=np.intp)
    path[-1] = best.argmax()
    for t in range(n - 1, 0, -1):
        path[t - 1] = origin[t, path[t]]
    return path


def posterior(log_likelihood: Array, transitions: Array, prior: Array) -> Array:
    """Probability of each class of each window of a run given all of its windows, (n, k).

    The forward–backward algorithm; parameters as in :func:`viterbi`.
    """
    transitions = np.log(transitions)
    n, _ = log_likelihood.shape
    forward, backward = np.empty_like(log_likelihood), np.zeros_like(log_likelihood)
    forward[0] = np.log(prior) + log_likelihood[0]
    for t in range(1, n):
        forward[t] = logsumexp(forward[t - 1][:, None] + transitions, axis=0) + log_likelihood[t]
    for t in range(n - 2, -1, -1):
        backward[t] = logsumexp(transitions + log_likelihood[t + 1] + backward[t + 1], axis=1)
    both = forward + backward
    return np.asarray(np.exp(both - logsumexp(both, axis=1, keepdims=True)))

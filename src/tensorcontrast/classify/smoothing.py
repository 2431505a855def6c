"""Neighbouring windows of a recording: a hidden Markov model that stays or changes class.

From window to window a recording keeps its class with probability a, and otherwise draws one from
the class shares π: P(j | i) = a·[i = j] + (1 − a)·π_j. One number is learned, so that a few
scattered labels are enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

__all__ = ["learn_stay", "posterior", "runs_of", "transition_matrix", "viterbi"]

Array = NDArray[Any]

#: Probabilities of keeping the class that are tried.
STAYS = 1 - np.geomspace(0.5, 1e-3, 60)


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


def learn_stay(runs: list[NDArray[np.intp]], codes: Array, prior: Array) -> float | None:
    """Probability of keeping the class from window to window, by maximum likelihood.

    Uses neighbouring labels of a run, however many windows apart: the class has been kept over m
    windows with probability a^m + (1 − a^m)·π. Returns None where no run has two labels.

    Parameters
    ----------
    runs : list of int arrays
        Windows that follow each other; see :func:`runs_of`.
    codes : (n,) int array
        Class of each window, −1 for unknown.
    prior : (k,) array
        Share π of each class.
    """
    apart: list[int] = []
    before: list[int] = []
    after: list[int] = []
    for run in runs:
        labelled = np.flatnonzero(codes[run] >= 0)
        for a, b in pairwise(labelled.tolist()):
            apart.append(b - a)
            before.append(int(codes[run[a]]))
            after.append(int(codes[run[b]]))
    if not apart:
        return None
    m, i, j = (np.array(values) for values in (apart, before, after))
    kept = STAYS[:, None] ** m  # tried, pairs
    likelihood = kept * (i == j) + (1 - kept) * prior[j]
    return float(STAYS[np.log(likelihood).sum(axis=1).argmax()])


def transition_matrix(stay: float, prior: Array) -> Array:
    """P(j | i) of classes i, j of neighbouring windows, (k, k)."""
    return np.asarray(stay * np.eye(len(prior)) + (1 - stay) * prior)


def viterbi(log_likelihood: Array, stay: float, prior: Array) -> NDArray[np.intp]:
    """Most likely classes of a run of windows.

    Parameters
    ----------
    log_likelihood : (n, k) array
        Of each window under each class, up to a constant per window.
    stay : float
        Probability of keeping the class.
    prior : (k,) array
        Share of each class.
    """
    transitions = np.log(transition_matrix(stay, prior))
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


def posterior(log_likelihood: Array, stay: float, prior: Array) -> Array:
    """Probability of each class of each window of a run given all of its windows, (n, k).

    The forward–backward algorithm; parameters as in :func:`viterbi`.
    """
    transitions = np.log(transition_matrix(stay, prior))
    n, _ = log_likelihood.shape
    forward, backward = np.empty_like(log_likelihood), np.zeros_like(log_likelihood)
    forward[0] = np.log(prior) + log_likelihood[0]
    for t in range(1, n):
        forward[t] = logsumexp(forward[t - 1][:, None] + transitions, axis=0) + log_likelihood[t]
    for t in range(n - 2, -1, -1):
        backward[t] = logsumexp(transitions + log_likelihood[t + 1] + backward[t + 1], axis=1)
    both = forward + backward
    return np.asarray(np.exp(both - logsumexp(both, axis=1, keepdims=True)))

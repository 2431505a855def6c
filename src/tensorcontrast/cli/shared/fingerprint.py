"""Telling recordings again: hashes of windows, kept with a model in bounded size."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["fitted_on", "hashes", "known_share", "share_among", "sketch"]

#: Most hashes that are kept: the smallest ones, a random choice of windows.
KEPT = 2048
#: Groups that a model file names, at most.
MAX_GROUPS = 10_000


def hashes(X: NDArray[Any]) -> NDArray[np.int64]:
    """Sorted hashes of distinct windows."""
    found = {
        int.from_bytes(hashlib.blake2b(window, digest_size=8).digest(), "little", signed=True)
        for window in np.ascontiguousarray(X, dtype="<f4")
    }
    return np.array(sorted(found), dtype=np.int64)


def sketch(X: NDArray[Any]) -> NDArray[np.int64]:
    """Smallest hashes of the windows X [n, channel, time]."""
    return hashes(X)[:KEPT]


def known_share(X: NDArray[Any], kept: NDArray[np.int64]) -> float:
    """Share of the windows X that were among those of a sketch, as far as it reaches.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2, 8))
    >>> known_share(X[20:], sketch(X[:30])), known_share(rng.normal(size=(5, 2, 8)), sketch(X))
    (0.5, 0.0)
    """
    return share_among(hashes(X), kept)


def share_among(found: NDArray[np.int64], kept: NDArray[np.int64]) -> float:
    """Share of windows, by their hashes, that were among those of a sketch."""
    if len(kept) >= KEPT:  # beyond its largest hash a full sketch says nothing
        found = found[found <= kept[-1]]
    return float(np.isin(found, kept).mean()) if len(found) else 0.0


def fitted_on(rec: Any, *, groups: bool = False) -> dict[str, Any]:
    """Return what a model file says about the windows of a fit, their ``groups`` where asked."""
    from tensorcontrast.cli.shared.cluster import lazy_sketch

    step = None
    start, source = rec.columns.get("start"), rec.columns.get("recording")
    if start is not None and source is not None and len(rec) > 1 and source[0] == source[1]:
        step = int(start[1] - start[0])
    found = {
        "name": rec.name,
        "samples": len(rec),
        "step": step if step is not None and 0 < step <= rec.n_times else None,
        "sketch": sketch(rec.X) if isinstance(rec.X, np.ndarray) else lazy_sketch(rec.X),
    }
    if groups:
        names = [] if rec.groups is None else np.unique(rec.groups.astype(np.str_)).tolist()
        found["groups"] = names[:MAX_GROUPS]
    return found

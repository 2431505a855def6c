"""Recordings for a fitted model, in memory or in a Zarr store, and their features block by block.

Of a store only the windows of one block are in memory: here, or on the workers of a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared import windows as cutting
from tensorcontrast.cli.shared.cluster import Cluster, open_data
from tensorcontrast.cli.shared.failures import UsageFailure
from tensorcontrast.cli.shared.fingerprint import hashes, share_among
from tensorcontrast.cli.shared.session import Session
from tensorcontrast.errors import InvalidInputError, TensorContrastError

if TYPE_CHECKING:
    from tensorcontrast.distributed.store import StoredRecordings
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.recordings import Recordings

__all__ = [
    "feature_blocks",
    "features_of",
    "hashes_of",
    "known_share",
    "opened",
    "sampled",
    "selected",
    "taken",
    "window_blocks",
]

Array = NDArray[Any]


@dataclass(frozen=True)
class StoreTuning:
    """Tuning numbers of work on the windows of a store."""

    #: Windows whose features are made at a time, and their bytes.
    max_block_windows: int = 2000
    max_block_bytes: int = 64 * 2**20
    #: Windows that a report shows, and their bytes.
    max_shown_windows: int = 5000
    max_shown_bytes: int = 256 * 2**20


TUNING = StoreTuning()


def opened(
    session: Session,
    data: str,
    options: recordings.Reading,
    cluster: Cluster,
    *,
    model: ContrastiveFeatures,
) -> Any:
    """Read DATA in the form that a model was fitted on; of a store no signal is read yet.

    The channels of the model are picked by name, and longer signals are cut, with a note.
    """
    stored = open_data(data, options, cluster)
    if stored is None:
        return recordings.read(session, data, options, model=model)
    from tensorcontrast.decompose.base import CPEstimator

    if cluster.wanted and not isinstance(model.decompose_, CPEstimator):
        raise UsageFailure(
            f"clusters are for CPD, ATD and PLC, not for {type(model.decompose_).__name__}; leave "
            "--scheduler, --workers and --memory-limit out"
        )
    if cluster.wanted and model.missing == "mask":
        raise UsageFailure(
            "this model leaves missing values out (--missing mask), which is done in one process; "
            "leave --scheduler, --workers and --memory-limit out"
        )
    rec = _with_channels(stored, recordings.channels_for(session, stored, model))
    windows = cutting.of_model(model, None)
    if rec.n_times > windows.length:
        rec = _cut(session, rec, windows)
    recordings.check_rate(rec, data, model)
    session.detail(f"{data}: {len(rec):,} windows in {rec.X.numblocks[0]:,} blocks")
    return rec


def _with_channels(rec: StoredRecordings, names: tuple[str, ...] | None) -> StoredRecordings:
    if names is None:
        return rec
    index = [(rec.channels or ()).index(name) for name in names]
    units = tuple(rec.units[i] for i in index) if isinstance(rec.units, tuple) else rec.units
    return replace(rec, X=rec.X[:, index], channels=names, units=units)


def _cut(session: Session, rec: StoredRecordings, windows: cutting.Windows) -> StoredRecordings:
    """Cut every signal of a store into windows when its block is read."""
    length, overlap = windows.sizes(rec.fs)
    starts = np.arange(0, rec.n_times - length + 1, max(1, round(length * (1 - overlap))))
    X = rec.X.rechunk({1: -1, 2: -1})
    sizes = tuple(size * len(starts) for size in X.chunks[0])
    new = X.map_blocks(
        _windows_of,
        starts=starts,
        length=length,
        dtype=X.dtype,
        meta=np.empty((0, 0, 0), dtype=X.dtype),
        chunks=(sizes, X.chunks[1], (length,)),
    )
    source = np.repeat(np.arange(len(rec)), len(starts))
    columns = {name: values[source] for name, values in rec.columns.items()}
    columns.setdefault("recording", source)
    columns["start"] = columns.get("start", 0) + np.tile(starts, len(rec))
    cutting.tell(session, len(rec), len(source), length, rec.fs)
    return replace(
        rec,
        X=new,
        y=None if rec.y is None else rec.y[source],
        groups=None if rec.groups is None else rec.groups[source],
        columns=columns,
    )


def _windows_of(X: Array, starts: Array, length: int) -> Array:
    """Windows (m · k, channel, length) of m signals, one signal after the other."""
    views = np.lib.stride_tricks.sliding_window_view(X, length, axis=2)[:, :, starts]
    return np.ascontiguousarray(views.swapaxes(1, 2)).reshape(-1, X.shape[1], length)


# ---------------------------------------------------------------------------- features


def features_of(
    session: Session,
    model: ContrastiveFeatures,
    rec: Any,
    *,
    cluster: Cluster | None = None,
    only: Array | None = None,
) -> Array:
    """Features (n, rank), of the windows of the mask ``only`` where it is given, with progress."""
    parts, at = [], 0
    with session.progress("features", total=len(rec)) as update:
        for block in feature_blocks(model, rec, spread=cluster is not None and cluster.wanted):
            parts.append(block if only is None else block[only[at : at + len(block)]])
            at += len(block)
            update(done=at)
    return np.concatenate(parts)


def feature_blocks(
    model: ContrastiveFeatures, rec: Any, *, spread: bool = False, tuning: StoreTuning = TUNING
) -> Iterator[Array]:
    """Features of some windows after the other, in their order; ``spread``: by a cluster."""
    if spread and not isinstance(rec.X, np.ndarray):
        yield from _by_workers(model, rec)
    else:
        for block in window_blocks(rec, gaps=model.missing == "mask", tuning=tuning):
            yield model.transform(block)


def window_blocks(
    rec: Any, *, gaps: bool, most: int | None = None, tuning: StoreTuning = TUNING
) -> Iterator[Recordings]:
    """Give some windows after the other, in their order.

    Parameters
    ----------
    gaps : bool
        Whether signals of a store may have missing values.
    most : int, optional
        Windows of a block of recordings in memory, at most. Default: that of a store.
    tuning : StoreTuning
        Limits of the blocks of a store.
    """
    if isinstance(rec.X, np.ndarray):
        most = tuning.max_block_windows if most is None else most
        for start in range(0, len(rec), most):
            yield rec[start : start + most]
    else:
        for start, X in _signals(rec.X, tuning):
            yield _checked(X, np.arange(start, start + len(X)), rec, gaps=gaps)


def _signals(X: Any, tuning: StoreTuning = TUNING) -> Iterator[tuple[int, Array]]:
    """Blocks of signals of a Dask array with their first window; no chunk is read twice."""
    X = X.rechunk({1: -1, 2: -1})
    row = max(1, int(np.prod(X.shape[1:])) * X.dtype.itemsize)
    most = max(1, min(tuning.max_block_windows, tuning.max_block_bytes // row))
    edges = [0]
    ends = np.cumsum(X.chunks[0]).tolist()
    for end, after in zip(ends, [*ends[1:], ends[-1] + most + 1], strict=True):
        if after - edges[-1] > most and end > edges[-1]:
            edges.append(end)
    for a, b in pairwise(edges):
        block = np.asarray(X[a:b].compute())
        for start in range(a, b, most):
            yield start, block[start - a : start - a + most]


def _checked(X: Array, numbers: Array, rec: StoredRecordings, *, gaps: bool) -> Recordings:
    """Make recordings of a block; a fault is reported with the number of its window."""
    from tensorcontrast.recordings import Recordings

    block = Recordings(X, fs=rec.fs, channels=rec.channels, allow_nan=True)
    if not gaps and not np.isfinite(block.X.sum(dtype=np.float64)):
        bad = np.argwhere(~np.isfinite(block.X))
        if len(bad):
            n, channel, _ = bad[0].tolist()
            raise InvalidInputError(
                f"{rec.name}: window {numbers[n]} has missing or infinite values in channel "
                f"{_name(rec, channel)}; convert again with --drop-nan, or fill them in"
            )
    return block


def _name(rec: StoredRecordings, channel: int) -> str:
    return str(channel) if rec.channels is None else repr(rec.channels[channel])


def _by_workers(model: ContrastiveFeatures, rec: StoredRecordings) -> Iterator[Array]:
    """Features made by a running cluster, so many blocks ahead as it has threads, twice."""
    from tensorcontrast.distributed import blocks
    from tensorcontrast.distributed.extra import package

    client = package("distributed").get_client()
    ahead = 2 * max(1, sum(client.nthreads().values()))
    tasks = model.transform(rec).to_delayed().ravel().tolist()  # type: ignore[attr-defined]
    waiting: deque[Any] = deque()
    try:
        with blocks.cluster_errors():
            for task in tasks:
                waiting.append(client.compute(task))
                if len(waiting) > ahead:
                    yield np.asarray(waiting.popleft().result())
            while waiting:
                yield np.asarray(waiting.popleft().result())
    except TensorContrastError as error:
        if "scheduler was lost" in str(error):  # the way out that is reported there is that of fits
            raise TensorContrastError(
                "the Dask scheduler was lost; nothing was written: run the command again"
            ) from error
        raise


# ------------------------------------------------------------------------ other looks


def known_share(rec: Any, kept: NDArray[np.int64]) -> float:
    """Share of the windows that were among those of a sketch, as far as it reaches."""
    return share_among(hashes_of(rec), kept)


def hashes_of(rec: Any) -> NDArray[np.int64]:
    """Sorted hashes of the distinct windows of recordings in memory or in a store."""
    if isinstance(rec.X, np.ndarray):
        return hashes(rec.X)
    from tensorcontrast.distributed import blocks

    X = rec.X.rechunk({1: -1, 2: -1})
    found = blocks.computed(blocks.each(hashes, X.to_delayed().ravel().tolist()))
    return np.unique(np.concatenate(found))


def sampled(
    session: Session, rec: Any, model: ContrastiveFeatures, tuning: StoreTuning = TUNING
) -> Recordings:
    """Take recordings into memory; of a large store as many as can be shown, from all of it."""
    if isinstance(rec.X, np.ndarray):
        read: Recordings = rec
        return read
    row = max(1, rec.n_channels * rec.n_times * rec.X.dtype.itemsize)
    most = max(1, min(tuning.max_shown_windows, tuning.max_shown_bytes // row))
    chosen = np.arange(len(rec))
    if most < len(rec):
        chosen = np.linspace(0, len(rec) - 1, most).round().astype(np.int64)
        session.note(f"{most:,} of {len(rec):,} windows are shown")
    return taken(rec, chosen, gaps=model.missing == "mask")


def selected(rec: Any, index: NDArray[np.intp]) -> Any:
    """Choose windows of recordings in memory or in a store, by their sorted numbers."""
    if isinstance(rec.X, np.ndarray):
        return rec[index]
    return replace(
        rec,
        X=rec.X[index],
        y=None if rec.y is None else rec.y[index],
        groups=None if rec.groups is None else rec.groups[index],
        columns={name: values[index] for name, values in rec.columns.items()},
    )


def taken(rec: Any, chosen: NDArray[np.int64], *, gaps: bool = False) -> Recordings:
    """Take windows of recordings in memory or in a store, by their sorted numbers."""
    if isinstance(rec.X, np.ndarray):
        found: Recordings = rec[chosen]
        return found
    from tensorcontrast.recordings import Recordings

    parts = []
    for start, X in _signals(rec.X):
        inside = np.searchsorted(chosen, (start, start + len(X)))
        if inside[0] < inside[1]:
            numbers = chosen[slice(*inside)]
            parts.append(_checked(X[numbers - start], numbers, rec, gaps=gaps).X)
    return Recordings(
        np.concatenate(parts),
        None if rec.y is None else rec.y[chosen],
        groups=None if rec.groups is None else rec.groups[chosen],
        fs=rec.fs,
        channels=rec.channels,
        classes=rec.classes,
        units=rec.units,
        columns={name: values[chosen] for name, values in rec.columns.items()},
        name=rec.name,
        allow_nan=gaps,
    )

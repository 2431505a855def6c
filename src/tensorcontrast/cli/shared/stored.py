"""Recordings of several files, in memory or in a Zarr store, block by block or on a cluster.

Of a store only the windows of one block are in memory: here, or on the workers of a cluster.
"""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.options import DATASETS, complete_data
from tensorcontrast.cli.shared.session import Session, UsageFailure
from tensorcontrast.errors import FileError, InvalidInputError, TensorContrastError
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.distributed.store import StoredRecordings
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.readers.label_table import LabelRow
    from tensorcontrast.recordings import Recordings

__all__ = [
    "Cluster",
    "ManyData",
    "feature_blocks",
    "features_of",
    "fitted_on",
    "hashes_of",
    "known_share",
    "open_data",
    "opened",
    "read_all",
    "sampled",
    "selected",
    "taken",
    "window_blocks",
]

Array = NDArray[Any]

PANEL = "Dask, for DATA.zarr"


def _option(*names: str, metavar: str, help: str, **more: Any) -> Any:
    return typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel=PANEL, show_default=False, **more
    )


@dataclass(frozen=True)
class Cluster:
    """Where the sums of a fit are taken."""

    scheduler: Annotated[
        str | None,
        _option(
            "--scheduler",
            metavar="ADDRESS",
            help="Scheduler of a cluster, such as tcp://host:8786, or local.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        _option("--workers", metavar="N", help="Processes of a local cluster.", min=1),
    ] = None
    memory_limit: Annotated[
        str | None,
        _option("--memory-limit", metavar="SIZE", help="Memory of each of these, such as 4GB."),
    ] = None

    @property
    def wanted(self) -> bool:
        """Whether any of the options was given."""
        return self != Cluster()

    @contextmanager
    def running(self, session: Session) -> Iterator[None]:
        """Connect to the scheduler, or start a cluster here, while the block runs."""
        if not self.wanted:
            yield
            return
        from tensorcontrast.utils.optional import optional

        distributed = optional("distributed", "dask")
        log = logging.getLogger("distributed")
        level = log.level
        if not session.debug:
            log.setLevel(logging.CRITICAL)
        try:
            if self.scheduler in (None, "local"):
                with self._local(distributed) as cluster, distributed.Client(cluster) as client:
                    _tell_cluster(session, client)
                    yield
            else:
                with _connected(distributed, str(self.scheduler)) as client:
                    _tell_cluster(session, client)
                    yield
        finally:
            log.setLevel(level)

    def _local(self, distributed: Any) -> Any:
        limit: dict[str, Any] = {}
        if self.memory_limit is not None:
            from tensorcontrast.utils.optional import optional

            try:
                limit["memory_limit"] = optional("dask.utils", "dask").parse_bytes(
                    self.memory_limit
                )
            except (ValueError, KeyError) as error:
                raise UsageFailure(
                    f"--memory-limit {self.memory_limit!r} is no size; write 4GB or 500MiB"
                ) from error
        return distributed.LocalCluster(
            n_workers=self.workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0" if find_spec("bokeh") else None,
            **limit,
        )


def _connected(distributed: Any, address: str) -> Any:
    if "://" not in address:
        raise UsageFailure(
            f"--scheduler {address!r} is no address; write tcp://host:8786, or local"
        )
    try:
        return distributed.Client(address, timeout="20s")
    except (OSError, TimeoutError, ValueError) as error:
        raise InvalidInputError(
            f"no scheduler answers at {address} ({error}); start one with: dask scheduler"
        ) from error


def _tell_cluster(session: Session, client: Any) -> None:
    count = len(client.scheduler_info(n_workers=-1)["workers"])
    where = "; without bokeh there is no dashboard"
    if find_spec("bokeh"):
        where = f"; dashboard: {client.dashboard_link}"
    session.note(f"cluster of {count} {'worker' if count == 1 else 'workers'}{where}")


def open_data(data: str, options: recordings.Reading, cluster: Cluster) -> StoredRecordings | None:
    """Open DATA as a store; None where it is none, and no cluster is asked for."""
    from tensorcontrast.distributed.store import is_store, open_store

    if not is_store(data):
        if cluster.wanted:
            raise UsageFailure(
                "--scheduler, --workers and --memory-limit are for Zarr stores; make one with: "
                f"tensorcontrast convert {data} -o data.zarr"
            )
        return None
    if cluster.scheduler not in (None, "local") and (cluster.workers or cluster.memory_limit):
        raise UsageFailure("--workers and --memory-limit are for --scheduler local")
    names = ("labels", "groups", "sample", "time", "where", "drop_nan")
    windows = ("window", "step", "resample")
    labelling = ("annotations", "inside_annotations", "label_share", "drop_unlabelled")
    for name in (*names, *windows, *labelling):
        if getattr(options, name):
            option = name.replace("_", "-")
            raise UsageFailure(
                f"--{option} is not for stores; tensorcontrast convert cuts windows, drops gaps "
                "and takes --groups"
            )
    rec = open_store(data)
    if options.fs is not None:
        if rec.fs is not None and rec.fs != options.fs:
            raise InvalidInputError(
                f"{data} has {rec.fs:g} samples per second, not --fs {options.fs:g}"
            )
        rec = replace(rec, fs=float(options.fs))
    return _with_channels(rec, options.channel_names, data)


def _with_channels(
    rec: StoredRecordings, names: Sequence[str] | None, data: str
) -> StoredRecordings:
    if names is None:
        return rec
    there = rec.channels or ()
    missing = [name for name in names if name not in there]
    if missing:
        raise FileError(f"{data}: no channel {listed(missing)}; there are {listed(there)}")
    index = [there.index(name) for name in names]
    units = rec.units
    return replace(
        rec,
        X=rec.X[:, index],
        channels=tuple(names),
        units=tuple(units[i] for i in index) if isinstance(units, tuple) else units,
    )


# ------------------------------------------------------------------ several DATA

ManyData = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help="One or more of: npz, CSV, Parquet, EDF/BDF, WFDB, .ts, a folder, a pattern such as "
        f"'data/*.csv', a built-in dataset ({', '.join(DATASETS)}); or one Zarr store.",
        autocompletion=complete_data,
        show_default=False,
    ),
]


def read_all(
    session: Session,
    data: list[str],
    options: recordings.Reading,
    *,
    model: ContrastiveFeatures | None = None,
    gaps: bool = False,
) -> Any:
    """Read every DATA as one data set, with the labels of ``--labels FILE`` where that is given.

    Of a Zarr store no signals are read; its labels are.
    """
    from tensorcontrast.distributed.store import is_store
    from tensorcontrast.readers.label_table import (
        is_label_table,
        label_recordings,
        read_label_table,
    )
    from tensorcontrast.recordings import Recordings

    table = options.labels if is_label_table(options.labels) else None
    rows = None
    if table is not None:
        rows = read_label_table(table)
        options = replace(options, labels=None)
    if model is not None and model.fs_ is not None and options.step is not None:
        options = replace(options, step=_step_in_samples(options.step, model.fs_))
    stores = [name for name in data if is_store(name)]
    if stores and len(data) > 1:
        raise UsageFailure(
            f"{stores[0]} is a store, which is a data set of its own; name it alone, or convert "
            "all recordings into one store"
        )
    if stores:
        return _open_store(session, stores[0], options, model, table, rows)
    recs = [recordings.read(session, name, options, model=model, gaps=gaps) for name in data]
    for name, rec in zip(data, recs, strict=True):
        _check_alike(rec, recs[0], name, data[0])
    rec = recs[0] if len(recs) == 1 else Recordings.concat(recs)
    if rows is None:
        return rec
    share = {} if options.label_share is None else {"min_share": options.label_share}
    return label_recordings(rec, rows, where=str(table), **share)


def _open_store(
    session: Session,
    name: str,
    options: recordings.Reading,
    model: ContrastiveFeatures | None,
    table: str | None,
    rows: list[LabelRow] | None,
) -> StoredRecordings:
    """Open a store, for a model in the form that it was fitted on, with the labels of a table."""
    from tensorcontrast.readers.label_table import labels_by_time

    share = {} if options.label_share is None else {"min_share": options.label_share}
    if rows is not None:
        options = replace(options, label_share=None)
    rec: Any
    if model is None:
        rec = open_data(name, options, Cluster())
    else:
        rec = opened(session, name, options, Cluster(), model=model)
    if rows is not None:
        y, classes = labels_by_time(rec, rows, where=str(table), **share)
        rec = replace(rec, y=y, classes=classes)
    found: StoredRecordings = rec
    return found


def _step_in_samples(step: str, fs: float) -> str:
    """Step in samples, as the windows of a model are; what is no number is reported later."""
    try:
        seconds = float(step.removesuffix("s"))
    except ValueError:
        return step
    return f"{max(1, round(seconds * fs))}pt" if 0 < seconds < 1e9 else step


def _check_alike(rec: Recordings, first: Recordings, name: str, first_name: str) -> None:
    if rec.fs != first.fs:
        rates = ["an unknown rate" if r.fs is None else f"{r.fs:g} Hz" for r in (rec, first)]
        raise InvalidInputError(
            f"{name} has {rates[0]}, but {first_name} has {rates[1]}; bring both to one "
            "rate with --resample HZ, pass --fs where the rate is unknown, or leave one out"
        )
    if rec.n_times != first.n_times:
        raise InvalidInputError(
            f"{name} has windows of {rec.n_times} samples, but {first_name} of {first.n_times}; "
            "cut both with --window"
        )


# ---------------------------------------------------------------------- stores


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
    rec = _with_channels(stored, recordings.channels_for(session, stored, model), data)
    windows = recordings.windows_of_model(model, None)
    if rec.n_times > windows.length:
        rec = _cut(session, rec, windows)
    recordings.check_rate(rec, data, model)
    session.detail(f"{data}: {len(rec):,} windows in {rec.X.numblocks[0]:,} blocks")
    return rec


def _cut(session: Session, rec: StoredRecordings, windows: recordings.Windows) -> StoredRecordings:
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
    recordings.tell_cut(session, len(rec), len(source), length, rec.fs)
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
    from tensorcontrast.solvers import dask_windows as graph
    from tensorcontrast.utils.optional import optional

    client = optional("distributed", "dask").get_client()
    ahead = 2 * max(1, sum(client.nthreads().values()))
    tasks = model.transform(rec).to_delayed().ravel().tolist()  # type: ignore[attr-defined]
    waiting: deque[Any] = deque()
    try:
        with graph.cluster_errors():
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


def hashes_of(rec: Any, most: int | None = None) -> NDArray[np.int64]:
    """Sorted hashes of the distinct windows of recordings in memory or in a store.

    With ``most`` the smallest ones alone.
    """
    if isinstance(rec.X, np.ndarray):
        return hashes(rec.X)[:most]
    from tensorcontrast.solvers import dask_windows as graph

    X = rec.X.rechunk({1: -1, 2: -1})
    tasks = graph.each(partial(_smallest_hashes, most=most), X.to_delayed().ravel().tolist())
    return np.unique(np.concatenate(graph.computed(tasks)))[:most]


def _smallest_hashes(X: NDArray[Any], most: int | None) -> NDArray[np.int64]:
    return hashes(X)[:most]


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


# -------------------------------------------------------- windows that are known

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


def share_among(found: NDArray[np.int64], kept: NDArray[np.int64]) -> float:
    """Share of windows, by their hashes, that were among those of a sketch."""
    if len(kept) >= KEPT:  # beyond its largest hash a full sketch says nothing
        found = found[found <= kept[-1]]
    return float(np.isin(found, kept).mean()) if len(found) else 0.0


def fitted_on(rec: Any, *, groups: bool = False) -> dict[str, Any]:
    """Return what a model file says about the windows of a fit, their ``groups`` where asked."""
    step = None
    start, source = rec.columns.get("start"), rec.columns.get("recording")
    if start is not None and source is not None and len(rec) > 1 and source[0] == source[1]:
        step = int(start[1] - start[0])
    found = {
        "name": rec.name,
        "samples": len(rec),
        "step": step if step is not None and 0 < step <= rec.n_times else None,
        "sketch": hashes_of(rec, KEPT),
    }
    if groups:
        names = [] if rec.groups is None else np.unique(rec.groups.astype(np.str_)).tolist()
        found["groups"] = names[:MAX_GROUPS]
    return found

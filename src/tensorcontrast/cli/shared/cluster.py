"""``fit`` on a cluster: the options, the stores that it reads, the dashboard."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tensorcontrast.cli.shared.failures import UsageFailure
from tensorcontrast.cli.shared.fingerprint import KEPT, sketch
from tensorcontrast.cli.shared.session import Session
from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.cli.shared.data import Reading
    from tensorcontrast.distributed.store import StoredRecordings

__all__ = ["Cluster", "lazy_sketch", "open_data"]

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
        from tensorcontrast.distributed.extra import package

        distributed = package("distributed")
        log = logging.getLogger("distributed")
        level = log.level
        if not session.debug:
            log.setLevel(logging.CRITICAL)
        try:
            if self.scheduler in (None, "local"):
                with self._local(distributed) as cluster, distributed.Client(cluster) as client:
                    _tell(session, client)
                    yield
            else:
                with _connected(distributed, str(self.scheduler)) as client:
                    _tell(session, client)
                    yield
        finally:
            log.setLevel(level)

    def _local(self, distributed: Any) -> Any:
        limit: dict[str, Any] = {}
        if self.memory_limit is not None:
            from tensorcontrast.distributed.extra import package

            try:
                limit["memory_limit"] = package("dask.utils").parse_bytes(self.memory_limit)
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


def _tell(session: Session, client: Any) -> None:
    count = len(client.scheduler_info(n_workers=-1)["workers"])
    where = "; without bokeh there is no dashboard"
    if find_spec("bokeh"):
        where = f"; dashboard: {client.dashboard_link}"
    session.note(f"cluster of {count} {'worker' if count == 1 else 'workers'}{where}")


def open_data(data: str, options: Reading, cluster: Cluster) -> StoredRecordings | None:
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


def _with_channels(rec: StoredRecordings, names: list[str] | None, data: str) -> StoredRecordings:
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


def lazy_sketch(X: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Sketch of the windows of a Dask array, block by block."""
    from tensorcontrast.distributed import blocks

    X = X.rechunk({1: -1, 2: -1})
    parts = blocks.computed(blocks.each(sketch, X.to_delayed().ravel().tolist()))
    return np.unique(np.concatenate(parts))[:KEPT]
